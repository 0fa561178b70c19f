/* config.yaml of espnet_onnx: which settings are used, and how the message names each fault. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/zip.h"
#include "speech/families/espnet/conf.h"
#include "formats/yaml.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

static const char good[] = "weights: {decoder: 0.7, ctc: 0.3, length_bonus: 0.0, lm: 0.6}\n"
                           "beam_search: {beam_size: 5, pre_beam_ratio: 1.4,\n"
                           "  pre_beam_score_key: full, maxlenratio: 0.0, minlenratio: 0.0}\n"
                           "transducer: {use_transducer_decoder: false}\n"
                           "token: {sos: 3, eos: 3, blank: 0, list: ['<blank>', a, b, '<eos>']}\n"
                           "tokenizer: {token_type: char}\n"
                           "encoder:\n"
                           "  enc_type: DefaultEncoder\n"
                           "  model_path: /elsewhere/m/full/default_encoder.onnx\n"
                           "  frontend:\n"
                           "    frontend_type: default\n"
                           "    stft: {n_fft: 512, win_length: 512, hop_length: 160}\n"
                           "    logmel: {sr: 16000, n_fft: 512, n_mels: 80, fmin: 0, fmax: null}\n"
                           "  do_normalize: false\n"
                           "decoder: {dec_type: XformerDecoder, model_path: gone.onnx,\n"
                           "  n_layers: 2, odim: 32}\n"
                           "ctc: {model_path: full/ctc.onnx}\n"
                           "lm: {use_lm: false}\n";

static const char *const files[] = {"full/default_encoder.onnx", "full/ctc.onnx",
                                    "full/xformer_decoder_renamed.onnx"};

struct box {
    char dir[64], path[128];
};

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state)
{
    struct box *b = calloc(1, sizeof *b);
    char path[192];
    snprintf(b->dir, sizeof b->dir, "/tmp/steno-espnet-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->path, sizeof b->path, "%s/config.yaml", b->dir);
    snprintf(path, sizeof path, "%s/full", b->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", b->dir, files[i]);
        put(path, "x");
    }
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct box *b = *state;
    char path[192];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", b->dir, files[i]);
        unlink(path);
    }
    unlink(b->path);
    snprintf(path, sizeof path, "%s/full", b->dir);
    rmdir(path);
    rmdir(b->dir);
    free(b);
    return 0;
}

static void files_are_found_by_key_by_name_and_by_role(void **state)
{
    struct box *b = *state;
    struct steno_espnet_conf c;
    char want[192];
    steno_err err = {0};
    put(b->path, good);
    if (steno_espnet_conf_open(&c, b->dir, &err))
        fail_msg("%s", err.msg);
    /* a path on another machine */
    snprintf(want, sizeof want, "%s/full/default_encoder.onnx", b->dir);
    assert_string_equal(c.encoder.full, want);
    snprintf(want, sizeof want, "%s/full/xformer_decoder_renamed.onnx", b->dir);
    assert_string_equal(c.decoder.full, want);
    assert_int_equal(c.vocab, 4);
    assert_string_equal(c.tokens[1], "a");
    assert_int_equal(c.beam, 5);
    assert_true(c.fmax <= 0 && c.pre_beam_full && c.decoder_kind == STENO_ESPNET_XFORMER);
    steno_espnet_conf_close(&c);
}

static void every_fault_is_named(void **state)
{
    static const struct {
        const char *from, *to, *message;
        steno_status st;
    } cases[] = {
        {"n_fft: 512, win", "n_fft: many, win", "n_fft is 'many', expected a whole number",
         STENO_ERR_FORMAT},
        {"n_mels: 80", "n_mels: 0", "n_mels is '0'", STENO_ERR_FORMAT},
        {"n_mels: 80, ", "", "n_mels is missing", STENO_ERR_FORMAT},
        {"ctc: 0.3", "ctc: 1.3", "weights.ctc is '1.3'", STENO_ERR_FORMAT},
        {"ctc: 0.3", "ctc: .nan", "weights.ctc is '.nan'", STENO_ERR_FORMAT},
        {"XformerDecoder", "SlidingDecoder", "'SlidingDecoder' is not supported",
         STENO_ERR_UNSUPPORTED},
        {"weights: {", "ngram: {use_ngram: true}\nweights: {ngram: 0.4, ",
         "put the ARPA file or KenLM binary beside", STENO_ERR_IO},
        {"weights: {", "ngram: {use_ngram: true, scorer: half}\nweights: {ngram: 0.4, ",
         "ngram.scorer 'half' is not", STENO_ERR_UNSUPPORTED},
        {"dec_type: XformerDecoder",
         "dec_type: RNNDecoder, rnn_type: sru, dlayers: 1, dunits: 8, "
         "decoder_length: 1, predecoder: [{att_type: dot}]",
         "decoder.rnn_type 'sru' is not", STENO_ERR_UNSUPPORTED},
        {"dec_type: XformerDecoder",
         "dec_type: RNNDecoder, dlayers: 1, dunits: 8, "
         "decoder_length: 1, predecoder: [{att_type: location2d}]",
         "'location2d' is not", STENO_ERR_UNSUPPORTED},
        {"dec_type: XformerDecoder",
         "dec_type: RNNDecoder, dlayers: 1, dunits: 8, "
         "decoder_length: 1, predecoder: []",
         "predecoder has 0 entries", STENO_ERR_UNSUPPORTED},
        {"dec_type: XformerDecoder",
         "dec_type: RNNDecoder, dlayers: 1, dunits: 8, "
         "decoder_length: 1, predecoder: [[dot]]",
         "predecoder holds no keys", STENO_ERR_FORMAT},
        {"frontend_type: default", "frontend_type: hubert", "'hubert' is not supported",
         STENO_ERR_UNSUPPORTED},
        {"token_type: char", "token_type: runes", "'runes' is not supported",
         STENO_ERR_UNSUPPORTED},
        {"win_length: 512", "center: false, win_length: 400", "win_length is 400, n_fft 512",
         STENO_ERR_UNSUPPORTED},
        {"full/ctc.onnx", "full/[ctc.onnx", "config.yaml: line 17", STENO_ERR_FORMAT},
        {"eos: 3", "eos: 4", "token.eos is '4'", STENO_ERR_FORMAT},
        {"list: ['<blank>', a, b, '<eos>']", "list: none", "token.list is missing",
         STENO_ERR_FORMAT},
        {"sos: 3", "sos: 3, sos: 3", "this key was given before", STENO_ERR_FORMAT},
        {"token_type: char", "token_type: &a char, again: *a", "aliases", STENO_ERR_UNSUPPORTED},
        {"use_transducer_decoder: false", "use_transducer_decoder: true", "disagree",
         STENO_ERR_FORMAT},
        {"do_normalize: false", "do_normalize: true", "encoder.normalize.type is missing",
         STENO_ERR_FORMAT},
        {"encoder:\n", "coder:\n", "no encoder section", STENO_ERR_FORMAT},
    };
    struct box *b = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *at = strstr(good, cases[i].from);
        char text[4096];
        struct steno_espnet_conf c;
        steno_err err = {0};
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, cases[i].to,
                 at + strlen(cases[i].from));
        put(b->path, text);
        assert_int_equal(steno_espnet_conf_open(&c, b->dir, &err), cases[i].st);
        if (!strstr(err.msg, cases[i].message))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].message);
        steno_espnet_conf_close(&c);
    }
}

static struct steno_espnet_conf replace_and_open(struct box *b, const char *from, const char *to)
{
    const char *at = strstr(good, from);
    char text[4096];
    struct steno_espnet_conf c;
    steno_err err = {0};
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    put(b->path, text);
    if (steno_espnet_conf_open(&c, b->dir, &err))
        fail_msg("%s", err.msg);
    return c;
}

/* The n-gram file that no key names: the only *.arpa, else the only *gram.bin. None if its
 * weight is zero. */
static void an_ngram_model_is_found_beside_the_configuration(void **state)
{
    static const char *const names[] = {"words.arpa", "4gram.bin"};
    struct box *b = *state;
    struct steno_espnet_conf c;
    for (size_t i = 0; i < 2; i++) {
        char path[192];
        snprintf(path, sizeof path, "%s/%s", b->dir, names[i]);
        put(path, "x");
        c = replace_and_open(b, "weights: {", "ngram: {use_ngram: true}\nweights: {ngram: 0.4, ");
        assert_string_equal(c.ngram, path);
        assert_true(c.weight_ngram == 0.4 && !c.ngram_partial);
        steno_espnet_conf_close(&c);
        c = replace_and_open(b, "weights: {", "ngram: {use_ngram: true}\nweights: {ngram: 0, ");
        assert_null(c.ngram);
        steno_espnet_conf_close(&c);
        unlink(path);
    }
}

/* <unk>, <s>, then two pieces. ESPnet's recipes put them between <blank>, <unk> and <sos/eos>. */
static void a_missing_token_list_is_made_of_the_pieces(void **state)
{
    static const char model[] = "\n\011\n\005<unk>\030\002\n\007\n\003<s>\030\003"
                                "\n\010\n\004\342\226\201a\030\001\n\005\n\001b\030\001";
    struct box *b = *state;
    struct steno_espnet_conf c;
    char path[192];
    FILE *f;
    snprintf(path, sizeof path, "%s/bpe.model", b->dir);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(model, 1, sizeof model - 1, f), sizeof model - 1);
    fclose(f);
    c = replace_and_open(b,
                         "token: {sos: 3, eos: 3, blank: 0, list: ['<blank>', a, b, '<eos>']}\n"
                         "tokenizer: {token_type: char}",
                         "token: {blank: 0}\ntokenizer: {bpemodel: /gone/bpe.model}");
    assert_int_equal(c.vocab, 5);
    assert_string_equal(c.tokens[1], "<unk>");
    assert_string_equal(c.tokens[2], "\xE2\x96\x81"
                                     "a");
    assert_string_equal(c.tokens[4], "<sos/eos>");
    assert_string_equal(c.token_type, "bpe");
    assert_true(c.eos == 4 && c.sos == 4 && c.tokens_from_sentencepiece);
    steno_espnet_conf_close(&c);
    unlink(path);
}

static void a_missing_network_is_named(void **state)
{
    struct box *b = *state;
    struct steno_espnet_conf c;
    char path[192];
    steno_err err = {0};
    put(b->path, good);
    snprintf(path, sizeof path, "%s/full/ctc.onnx", b->dir);
    unlink(path);
    assert_int_equal(steno_espnet_conf_open(&c, b->dir, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "ctc.model_path is 'full/ctc.onnx'"));
    steno_espnet_conf_close(&c);
}

/* tag_config.yaml beside the model's directory, as in espnet_onnx's cache. */
static void a_tag_leads_to_its_directory(void **state)
{
    static const struct {
        const char *tags, *message; /* %s: the directory */
        steno_status st;
    } cases[] = {
        {"some/tag: /elsewhere/%s\n", NULL, STENO_OK}, /* written on another machine */
        {"some/tag: %s\nother: /gone\n",
         "2 models: give the directory of one of them (some/tag, other)", STENO_ERR_INVAL},
        {"some/tag: gone\n", "tag some/tag: no directory gone", STENO_ERR_IO},
        {"some/tag: [%s]\n", "tag some/tag has no directory", STENO_ERR_FORMAT},
        {"- %s\n", "no tag: directory pairs", STENO_ERR_FORMAT},
    };
    struct box *b = *state;
    char up[] = "/tmp/steno-espnet-tags-XXXXXX", inside[128], path[160], text[256];
    put(b->path, good);
    assert_non_null(mkdtemp(up));
    snprintf(inside, sizeof inside, "%s/model", up);
    snprintf(path, sizeof path, "%s/tag_config.yaml", up);
    assert_int_equal(rename(b->dir, inside), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_espnet_conf c;
        steno_err err = {0};
        const char *at = strstr(cases[i].tags, "%s");
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at ? at - cases[i].tags : 0), cases[i].tags,
                 at ? "model" : "", at ? at + 2 : cases[i].tags);
        put(path, text);
        assert_int_equal(steno_espnet_conf_open(&c, up, &err), cases[i].st);
        if (cases[i].message && !strstr(err.msg, cases[i].message))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].message);
        if (!cases[i].st)
            assert_string_equal(c.dir, inside);
        steno_espnet_conf_close(&c);
    }
    unlink(path);
    assert_int_equal(rename(inside, b->dir), 0);
    rmdir(up);
}

static void deep_nesting_is_refused(void **state)
{
    char text[200];
    steno_yaml *y = NULL;
    steno_err err = {0};
    (void)state;
    memset(text, '[', sizeof text);
    assert_int_equal(steno_yaml_parse(&y, text, sizeof text, "deep", &err), STENO_ERR_LIMIT);
    assert_non_null(strstr(err.msg, "32 levels"));
}

static void json_is_read_too(void **state)
{
    static const char text[] = "{\"a\": {\"b\": [1, 2.5, \"x\"], \"c\": null, \"d\": true}}";
    steno_yaml *y = NULL;
    bool d = false;
    (void)state;
    assert_int_equal(steno_yaml_parse(&y, text, strlen(text), "json", NULL), 0);
    assert_int_equal(steno_yaml_find(y, "a.b")->n, 3);
    assert_true(steno_yaml_null(steno_yaml_find(y, "a.c")));
    assert_int_equal(steno_yaml_bool(y, "a.d", &d, NULL), 0);
    assert_true(d);
    steno_yaml_close(y);
}

/* ---- archives ------------------------------------------------------------------------------ */

static steno_status read_all(const char *zip, size_t n, size_t max)
{
    struct steno_zip_member m;
    steno_status st = STENO_OK;
    for (size_t i = 0; !st; i++) {
        void *out;
        st = steno_zip_member(zip, n, "zip", i, &m, NULL);
        if (!st && !(st = steno_zip_read(zip, n, "zip", &m, max, &out, NULL)))
            free(out);
    }
    return st;
}

static void damaged_archives_are_refused(void **state)
{
    size_t n;
    char *zip = steno_test_shared("zoo/tiny/espnet-conformer-op13/feats_stats.npz", &n);
    (void)state;
    if (!zip)
        skip();
    assert_int_equal(read_all(zip, n, 1 << 20), STENO_NEED_MORE); /* past the last member */
    assert_int_equal(read_all(zip, n, 100), STENO_ERR_LIMIT);
    for (size_t cut = 0; cut < n; cut++) {
        /* a block of exactly this size, so that reads past it are seen */
        char *part = malloc(cut + 1);
        memcpy(part, zip, cut);
        assert_int_equal(read_all(part, cut, 1 << 20), STENO_ERR_FORMAT);
        free(part);
    }
    /* flip every byte once: an error; none where the byte is part of a time or name */
    for (size_t i = 0; i < n; i++) {
        char was = zip[i];
        zip[i] = (char)~was;
        (void)!read_all(zip, n, 1 << 20);
        zip[i] = was;
    }
    free(zip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_found_by_key_by_name_and_by_role, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(every_fault_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(an_ngram_model_is_found_beside_the_configuration, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_missing_token_list_is_made_of_the_pieces, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_missing_network_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tag_leads_to_its_directory, setup, teardown),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(json_is_read_too),
        cmocka_unit_test(damaged_archives_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
