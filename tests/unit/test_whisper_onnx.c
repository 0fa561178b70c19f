/* Whisper's weights in exported networks: the toy as sherpa-onnx and optimum would export it, the
 * export of a real program with random weights, and real models where they are there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <unistd.h>

#include "speech/families/whisper/weights_internal.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"
#include "tests/support/whisper_models.h"
#include "tests/support/whisper_run.h"
#include "tests/support/whisper_toy_onnx.h"

struct pair {
    struct steno_buf b[2];
};

static struct pair toy(enum whisper_toy_onnx kind)
{
    struct pair p;
    for (int i = 0; i < 2; i++)
        steno_buf_init(&p.b[i], 1 << 22);
    whisper_toy_onnx_write(kind, &p.b[0], &p.b[1]);
    return p;
}

static void drop(struct pair *p)
{
    steno_buf_free(&p->b[0]);
    steno_buf_free(&p->b[1]);
}

static steno_status parse(const struct pair *p, steno_whisper_weights **w, steno_err *err)
{
    const void *const data[2] = {p->b[0].data, p->b[1].data};
    const size_t n[2] = {p->b[0].len, p->b[1].len};
    return steno_whisper_parse_onnx(w, data, n, "toy", err);
}

/* Largest error of an element, with the step of its scale. */
static float tolerance(enum whisper_toy_onnx kind, const char *name)
{
    const bool matrix = !strstr(name, "bias") && !strstr(name, "ln") && !strstr(name, "positional");
    if (!matrix)
        return 0;
    if (kind == WHISPER_TOY_SHERPA_I8)
        return 0.5f / 254;
    return kind == WHISPER_TOY_Q4 && strstr(name, "blocks") ? 0.5f / 14 : 0;
}

static void check_tensor(const struct steno_whisper_tensor *t, enum whisper_toy_onnx kind)
{
    const size_t n = steno_whisper_row_length(t), rows = steno_whisper_row_count(t);
    float *x = malloc((rows * n + 1) * sizeof *x);
    assert_non_null(x);
    steno_whisper_rows(t, 0, rows, x);
    for (size_t i = 0; i < rows * n; i++)
        if (fabsf(x[i] - whisper_toy_element(t->name, i)) > tolerance(kind, t->name) * 1.0001f)
            fail_msg("kind %d: %s[%zu] is %g, expected %g", (int)kind, t->name, i, (double)x[i],
                     (double)whisper_toy_element(t->name, i));
    free(x);
}

static void every_export_gives_the_same_view(void **state)
{
    (void)state;
    for (int k = 0; k < WHISPER_TOY_ONNX_KINDS; k++) {
        struct pair p = toy((enum whisper_toy_onnx)k);
        steno_whisper_weights *w = NULL;
        steno_err err = {0};
        if (parse(&p, &w, &err))
            fail_msg("kind %d: %s", k, err.msg);
        whisper_toy_check_dims(w);
        assert_string_equal(steno_whisper_weights_format(w), "onnx");
        for (size_t i = 0; i < w->n; i++)
            check_tensor(&w->tensor[i], (enum whisper_toy_onnx)k);
        steno_whisper_weights_close(w);
        drop(&p);
    }
}

/* Rows of a transposed matrix do not depend on how many are asked for. */
static void rows_are_the_same_one_by_one(void **state)
{
    struct pair p = toy(WHISPER_TOY_SHERPA_I8);
    steno_whisper_weights *w = NULL;
    const struct steno_whisper_tensor *t;
    float all[WHISPER_TOY_STATE * WHISPER_TOY_STATE], one[WHISPER_TOY_STATE];
    (void)state;
    assert_int_equal(parse(&p, &w, NULL), STENO_OK);
    t = steno_whisper_weights_find(w, "decoder.blocks.0.mlp.2.weight");
    assert_true(t->transposed);
    steno_whisper_rows(t, 0, WHISPER_TOY_STATE, all);
    for (size_t r = 0; r < WHISPER_TOY_STATE; r++) {
        steno_whisper_rows(t, r, 1, one);
        assert_memory_equal(one, all + r * WHISPER_TOY_STATE, sizeof one);
    }
    steno_whisper_weights_close(w);
    drop(&p);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pair p = toy(WHISPER_TOY_SHERPA);
        const size_t n = p.b[i].len;
        for (size_t cut = 0; cut < n; cut += 1 + n / 300) {
            steno_whisper_weights *w = NULL;
            steno_err err = {0};
            p.b[i].len = cut;
            if (!parse(&p, &w, &err))
                fail_msg("cut at %zu of %zu", cut, n);
            assert_null(w);
            assert_non_null(strstr(err.msg, "toy"));
        }
        drop(&p);
    }
}

static void fails(const struct pair *p, const char *what)
{
    steno_whisper_weights *w = NULL;
    steno_err err = {0};
    assert_int_not_equal(parse(p, &w, &err), STENO_OK);
    if (!strstr(err.msg, what))
        fail_msg("'%s' does not say '%s'", err.msg, what);
}

static void put_in(struct pair *p, int i, const char *from, const char *to)
{
    for (size_t at = 0; at + strlen(from) <= p->b[i].len; at++)
        if (!memcmp(p->b[i].data + at, from, strlen(from)))
            memcpy(p->b[i].data + at, to, strlen(from));
}

static void errors_name_what_was_expected(void **state)
{
    struct pair p = toy(WHISPER_TOY_OPTIMUM), q = toy(WHISPER_TOY_Q4), swapped;
    (void)state;
    swapped = (struct pair){{p.b[1], p.b[0]}};
    fails(&swapped, "toy: 0 convolutions, expected the encoder's 2");
    put_in(&q, 1, "MatMulNBits", "QLinearConv");
    fails(&q, "weights of the operator QLinearConv are not read");
    put_in(&p, 1, "Softmax", "Sigmoid");
    fails(&p, "toy: 11 matrices besides keys and values, expected 0 for 0 layers of the decoder");
    drop(&p);
    drop(&q);
}

/* ---- a folder ------------------------------------------------------------------------------ */

static char dir[64];

static void put(const char *name, const void *bytes, size_t n)
{
    char path[256];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void put_pair(enum whisper_toy_onnx kind, const char *encoder, const char *decoder)
{
    struct pair p = toy(kind);
    put(encoder, p.b[0].data, p.b[0].len);
    put(decoder, p.b[1].data, p.b[1].len);
    drop(&p);
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/steno-whisper-onnx-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    static const char *const names[] = {"t-encoder.onnx",        "t-decoder.onnx",
                                        "t-encoder.int8.onnx",   "t-decoder.int8.onnx",
                                        "t-tokens.txt",          "config.json",
                                        "encoder_model.onnx",    "decoder_model.onnx",
                                        "encoder_model_q4.onnx", "decoder_model_merged_q4.onnx",
                                        "tokenizer.json"};
    char path[256];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

static steno_whisper_weights *open_dir(const char *name)
{
    steno_whisper_weights *w = NULL;
    steno_err err = {0};
    char path[256];
    snprintf(path, sizeof path, "%s%s%s", dir, *name ? "/" : "", name);
    if (!steno_whisper_weights_probe(path))
        fail_msg("%s is not recognised", path);
    if (steno_whisper_weights_open(&w, path, &err))
        fail_msg("%s", err.msg);
    return w;
}

static void refused(const char *what)
{
    steno_whisper_weights *w = NULL;
    steno_err err = {0};
    assert_int_not_equal(steno_whisper_weights_open(&w, dir, &err), STENO_OK);
    if (!strstr(err.msg, what))
        fail_msg("'%s' does not say '%s'", err.msg, what);
}

static void sherpas_folder_opens_with_its_tokens(void **state)
{
    steno_whisper_weights *w;
    (void)state;
    put_pair(WHISPER_TOY_SHERPA_I8, "t-encoder.int8.onnx", "t-decoder.int8.onnx");
    refused(": no vocabulary: none of vocabulary.txt, vocabulary.json, tokenizer.json, vocab.json, "
            "tokens.txt is there");
    put("t-tokens.txt", "YQ== 0\r\nIGI= 1\n= 2\n", 19);
    w = open_dir("");
    assert_non_null(strstr(steno_whisper_weights_file(w), "t-encoder.int8.onnx"));
    assert_int_equal(steno_bpe_count(w->bpe), 3);
    assert_int_equal(steno_bpe_find(w->bpe, " b", 2), 1);
    steno_whisper_weights_close(w);
    put_pair(WHISPER_TOY_SHERPA, "t-encoder.onnx", "t-decoder.onnx");
    w = open_dir(""); /* the exact weights */
    assert_non_null(strstr(steno_whisper_weights_file(w), "t-encoder.onnx"));
    steno_whisper_weights_close(w);
    w = open_dir("t-decoder.int8.onnx");
    assert_non_null(strstr(steno_whisper_weights_file(w), "t-encoder.int8.onnx"));
    steno_whisper_weights_close(w);
    put("t-tokens.txt", "YQ== 0\n?? 1\n", 12);
    refused("t-tokens.txt: line 2: '\?\?' is no base64");
    put("t-tokens.txt", "YQ== 7\n", 7);
    refused("t-tokens.txt: line 1: expected a piece in base64 and a number below 1");
}

static void optimums_folder_needs_its_configuration(void **state)
{
    static const char whisper[] = "{\"model_type\": \"whisper\", \"encoder_attention_heads\": 4}";
    steno_whisper_weights *w;
    (void)state;
    put_pair(WHISPER_TOY_Q4, "encoder_model_q4.onnx", "decoder_model_merged_q4.onnx");
    put("tokenizer.json", "{\"a\": 0}", 8);
    refused("nor Whisper's encoder and decoder as .onnx");
    put("config.json", "{\"model_type\": \"bert\"}", 22);
    refused("nor Whisper's encoder and decoder as .onnx");
    put("config.json", whisper, sizeof whisper - 1);
    w = open_dir("");
    assert_int_equal(steno_whisper_weights_dims(w).audio_heads, 4);
    steno_whisper_weights_close(w);
    put_pair(WHISPER_TOY_OPTIMUM, "encoder_model.onnx", "decoder_model.onnx");
    w = open_dir("");
    assert_non_null(strstr(steno_whisper_weights_file(w), "encoder_model.onnx"));
    steno_whisper_weights_close(w);
}

/* ---- exports of real programs -------------------------------------------------------------- */

/* sherpa-onnx's exporter on random weights, then with all names removed. Its encoder has f16 casts
 * that change nothing; its decoder fills caches of all layers. */
static void the_zoos_export_is_read(void **state)
{
    static const char *const ends[] = {"", ".int8"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pair p;
        steno_whisper_weights *w = NULL;
        steno_err err = {0};
        struct steno_whisper_dims d;
        const char *const sides[] = {"encoder", "decoder"};
        for (int k = 0; k < 2; k++) {
            char rel[100];
            size_t n;
            void *bytes;
            snprintf(rel, sizeof rel, "zoo/tiny/whisper-offline/%s%s.onnx", sides[k], ends[i]);
            bytes = steno_test_shared(rel, &n);
            if (!bytes)
                skip();
            steno_buf_init(&p.b[k], n);
            assert_int_equal(steno_buf_add(&p.b[k], bytes, n), STENO_OK);
            free(bytes);
        }
        if (parse(&p, &w, &err))
            fail_msg("%s: %s", ends[i], err.msg);
        d = steno_whisper_weights_dims(w);
        assert_int_equal(d.audio_state, 32);
        assert_int_equal(d.audio_layers, 2);
        assert_int_equal(d.text_layers, 2);
        assert_int_equal(d.vocab, 128);
        steno_whisper_weights_close(w);
        drop(&p);
    }
}

struct ids {
    int32_t id[2000];
    size_t n;
};

static void take(void *arg, const struct steno_whisper_segment *s)
{
    struct ids *all = arg;
    for (size_t i = 0; i < s->n_ids && all->n < 2000; i++)
        all->id[all->n++] = s->ids[i];
}

static bool run_all(const char *path, struct ids *out)
{
    static const char *const files[] = {"zoo/whisper/audio/jfk_16k.flac",
                                        "audio/librispeech/61-70968-0000.flac"};
    const struct whisper_sink sink = {take, NULL, out};
    struct steno_whisper_recording_options how;
    struct whisper_net net;
    bool heard = false;
    out->n = 0;
    whisper_net_open(&net, path, STENO_FP32);
    how = steno_whisper_recording_default(net.m);
    how.decode.n_temperatures = 1;
    for (size_t i = 0; i < 2; i++) {
        size_t n;
        float probability, *pcm = whisper_recording(files[i], &n);
        int language;
        if (!pcm)
            continue;
        heard = true;
        assert_int_equal(whisper_run(net.r, pcm, n, 0, &how, &sink, &language, &probability, NULL),
                         STENO_OK);
        free(pcm);
    }
    whisper_net_close(&net);
    return heard;
}

static size_t distance(const struct ids *a, const struct ids *b)
{
    size_t row[2001];
    for (size_t j = 0; j <= b->n; j++)
        row[j] = j;
    for (size_t i = 1; i <= a->n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b->n; j++) {
            const size_t change = diagonal + (a->id[i - 1] != b->id[j - 1]);
            const size_t step = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < step ? change : step;
        }
    }
    return row[b->n];
}

/* What tools/whisper_onnx.py of ../shared writes of tiny.en, below $STENO_WHISPER_ONNX: sherpa/ and
 * optimum/. f32 gives CTranslate2's tokens; 8 bits for a whole matrix change some. */
static void exports_of_tiny_en_give_its_tokens(void **state)
{
    static const struct {
        const char *file;
        size_t percent;
    } all[] = {{"sherpa", 0},
               {"optimum", 0},
               {"optimum/onnx/decoder_model_merged.onnx", 0},
               {"sherpa/tiny.en-encoder.int8.onnx", 10},
               {"optimum/onnx/encoder_model_quantized.onnx", 10},
               {"optimum/onnx/decoder_model_merged_quantized.onnx", 10}};
    const char *onnx = getenv("STENO_WHISPER_ONNX"), *model = whisper_model("tiny.en");
    struct ids *want = malloc(2 * sizeof *want), *have = want + 1;
    (void)state;
    assert_non_null(want);
    onnx = onnx && *onnx ? onnx : "build/models/tiny.en-onnx";
    if (access(onnx, R_OK))
        fprintf(stderr,
                "# %s is not there: set STENO_WHISPER_ONNX to what ../shared/tools/"
                "whisper_formats.py --formats sherpa,optimum wrote of tiny.en\n",
                onnx);
    if (access(onnx, R_OK) || !model || !run_all(model, want)) {
        free(want);
        skip();
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char path[1024];
        size_t wrong;
        snprintf(path, sizeof path, "%s/%s", onnx, all[i].file);
        run_all(path, have);
        wrong = distance(want, have);
        print_message("# %s: %zu of %zu tokens differ\n", all[i].file, wrong, want->n);
        assert_true(wrong * 100 <= all[i].percent * want->n);
    }
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_export_gives_the_same_view),
        cmocka_unit_test(rows_are_the_same_one_by_one),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(errors_name_what_was_expected),
        cmocka_unit_test_setup_teardown(sherpas_folder_opens_with_its_tokens, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(optimums_folder_needs_its_configuration, make_dir,
                                        remove_dir),
        cmocka_unit_test(the_zoos_export_is_read),
        cmocka_unit_test(exports_of_tiny_en_give_its_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
