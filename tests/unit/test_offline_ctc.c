/* CTC networks of whole segments in the layouts of WeNet and NeMo, made here: every fourth or
 * eighth feature frame goes through one matrix, so that a low tone is the piece "low", a high one
 * "high", and all else the blank. Streaming networks are compared with recorded rows in
 * test_nemo_zoo.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "steno.h"
#include "tests/support/pass_check.h"
#include "tests/support/test.h"

#define RATE 16000
#define BINS 80
#define VOCAB 5

/* One layout; the file's network takes [N,T,80], or [N,80,T] if `bins_first`. */
struct layout {
    const char *family, *vocabulary; /* name of the list of tokens */
    const char *audio, *length, *scores;
    bool bins_first;
    int64_t subsampling;
    int low, high; /* first of two bins with a tone of 500 Hz, 3000 Hz */
    float blank;   /* score of the blank */
    int blank_at, low_at, high_at;
    const char *tokens, *config; /* config.json; NULL: none */
    const char *meta[8];         /* keys and values */
};

static const char wenet_tokens[] =
    "<blank> 0\n<unk> 1\n\xE2\x96\x81low 2\n\xE2\x96\x81high 3\n<sos/eos> 4\n";
static const char nemo_tokens[] = "<unk> 0\n\xE2\x96\x81low 1\n\xE2\x96\x81high 2\nx 3\n<blk> 4\n";

/* Bins: HTK, (1127 ln(1 + f/700) - 31.7) / 34.7 - 1; Slaney, (mel f) / 0.5586 - 1. */
static const struct layout wenet = {
    .family = "wenet",
    .vocabulary = "tokens.txt",
    .audio = "x",
    .length = "x_lens",
    .scores = "log_probs",
    .subsampling = 4,
    .low = 15,
    .high = 52,
    .blank = 30,
    .blank_at = 0,
    .low_at = 2,
    .high_at = 3,
    .tokens = wenet_tokens,
    .meta = {"model_type", "wenet_ctc", "vocab_size", "5", "subsampling_factor", "4"}};
static const struct layout nemo = {.family = "nemo",
                                   .vocabulary = "tokens.txt",
                                   .audio = "audio_signal",
                                   .length = "length",
                                   .scores = "logprobs",
                                   .bins_first = true,
                                   .subsampling = 8,
                                   .low = 12,
                                   .high = 54,
                                   .blank = -8,
                                   .blank_at = 4,
                                   .low_at = 1,
                                   .high_at = 2,
                                   .tokens = nemo_tokens,
                                   .meta = {"vocab_size", "4", "subsampling_factor", "8",
                                            "normalize_type", "NA", "model_type",
                                            "EncDecCTCModelBPE"}};

static struct mk_graph *make_graph(const struct layout *l)
{
    static float w[BINS * VOCAB];
    float bias[VOCAB] = {-1000, -1000, -1000, -1000, -1000};
    const int64_t from = 0, to = INT64_MAX, axis = 1;
    struct mk_graph *g = mk_new(13);
    memset(w, 0, sizeof w);
    for (int i = 0; i < 2; i++) {
        w[(l->low + i) * VOCAB + l->low_at] = 1;
        w[(l->high + i) * VOCAB + l->high_at] = 1;
    }
    bias[l->blank_at] = l->blank;
    bias[l->low_at] = bias[l->high_at] = 0;
    mk_input(g, l->audio, STENO_F32, l->bins_first ? "N,80,T" : "N,T,80");
    mk_input(g, l->length, STENO_I64, "N");
    mk_i64(g, "from", "1", &from, 1);
    mk_i64(g, "to", "1", &to, 1);
    mk_i64(g, "axis", "1", &axis, 1);
    mk_i64(g, "step", "1", &l->subsampling, 1);
    mk_f32(g, "w", "80,5", w, BINS * VOCAB);
    mk_f32(g, "b", "5", bias, VOCAB);
    mk_node(g, l->bins_first ? "Transpose" : "Identity", l->audio, "frames");
    if (l->bins_first)
        mk_attr_ints(g, "perm", (const int64_t[]){0, 2, 1}, 3);
    pc_graph(g, "Slice frames,from,to,axis,step fewer; MatMul fewer,w product; "
                "Add product,b logits");
    mk_node(g, "LogSoftmax", "logits", l->scores);
    mk_attr_int(g, "axis", -1);
    mk_output(g, l->scores, STENO_F32, "N,?,5");
    if (!l->bins_first) {
        mk_node(g, "Identity", l->length, "log_probs_lens");
        mk_output(g, "log_probs_lens", STENO_I64, "N");
    }
    return g;
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char path[256];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A directory of that layout. */
static char *make_model(const struct layout *l)
{
    Onnx__StringStringEntry e[4], *entries[4];
    char text[8][32], *dir;
    struct mk_graph *g = make_graph(l);
    size_t n = 0;
    for (; n < 4 && l->meta[2 * n]; n++) {
        snprintf(text[2 * n], sizeof text[0], "%s", l->meta[2 * n]);
        snprintf(text[2 * n + 1], sizeof text[0], "%s", l->meta[2 * n + 1]);
        onnx__string_string_entry__init(&e[n]);
        e[n].key = text[2 * n];
        e[n].value = text[2 * n + 1];
        entries[n] = &e[n];
    }
    mk_message(g)->metadata_props = entries;
    mk_message(g)->n_metadata_props = n;
    dir = mk_file(g);
    mk_message(g)->metadata_props = NULL;
    mk_message(g)->n_metadata_props = 0;
    mk_free(g);
    *strrchr(dir, '/') = '\0';
    write_text(dir, l->vocabulary, l->tokens);
    if (l->config)
        write_text(dir, "config.json", l->config);
    return dir;
}

static void drop_model(char *dir)
{
    static const char *const files[] = {"model.onnx", "tokens.txt", "vocab.txt", "config.json"};
    char path[256];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
    free(dir);
}

static void tone(float *x, double hz, double from, double to)
{
    for (size_t i = (size_t)(from * RATE); i < (size_t)(to * RATE); i++)
        x[i] = 0.5F * (float)sin(2 * 3.14159265358979 * hz * (double)i / RATE);
}

#define SAMPLES (2 * RATE)

struct result {
    char text[64];
    double start[8];
    size_t n;
};

static void decode(steno_model *m, const float *x, size_t piece, struct result *r)
{
    const struct steno_stream_options o = {.sample_rate = RATE, .no_endpointing = true};
    struct steno_event ev;
    steno_stream *s;
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    for (size_t at = 0; at < SAMPLES; at += piece)
        assert_int_equal(
            steno_stream_push(s, x + at, SAMPLES - at < piece ? SAMPLES - at : piece, NULL),
            STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    memset(r, 0, sizeof *r);
    while (steno_stream_next(s, &ev))
        if (ev.kind == STENO_FINAL) {
            snprintf(r->text, sizeof r->text, "%s", ev.text);
            for (size_t i = 0; i < ev.n_tokens && i < 8; i++)
                r->start[r->n++] = ev.tokens[i].start;
        }
    steno_stream_close(s);
}

static void check_tones(const struct layout *l)
{
    static float x[SAMPLES];
    static const size_t pieces[] = {SAMPLES, 160, 1000, 7777};
    char *dir = make_model(l);
    steno_model *m;
    steno_err err;
    memset(x, 0, sizeof x);
    tone(x, 500, 0.5, 0.9);
    tone(x, 3000, 1.2, 1.6);
    assert_string_equal(steno_model_family(dir), l->family);
    if (steno_model_open(&m, dir, NULL, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct result r;
        decode(m, x, pieces[i], &r);
        assert_string_equal(r.text, "low high");
        assert_int_equal(r.n, 2);
        assert_true(fabs(r.start[0] - 0.5) < 0.085);
        assert_true(fabs(r.start[1] - 1.2) < 0.085);
    }
    steno_model_close(m);
    drop_model(dir);
}

static void segments_of_wenet_are_recognized_in_any_pieces(void **state)
{
    (void)state;
    check_tones(&wenet);
}

static void segments_of_nemo_are_recognized_in_any_pieces(void **state)
{
    struct layout l = nemo;
    (void)state;
    check_tones(&l);
    l.vocabulary = "vocab.txt"; /* as onnx-asr has it */
    l.config = "{\"model_type\": \"nemo-conformer-ctc\", \"features_size\": 80}";
    l.meta[0] = "normalize_type";
    l.meta[1] = "NA";
    l.meta[2] = NULL;
    check_tones(&l);
}

static void expect_refusal(const struct layout *l, const char *message)
{
    char *dir = make_model(l);
    steno_model *m = NULL;
    steno_err err;
    assert_int_equal(steno_model_open(&m, dir, NULL, &err), STENO_ERR_FORMAT);
    if (!strstr(err.msg, message))
        fail_msg("'%s' does not say '%s'", err.msg, message);
    drop_model(dir);
}

static void contradictions_are_named(void **state)
{
    struct layout l = wenet;
    (void)state;
    l.meta[4] = NULL;
    expect_refusal(&l, "model.onnx: metadata subsampling_factor is missing");
    l.meta[4] = "subsampling_factor";
    l.meta[5] = "x";
    expect_refusal(&l, "model.onnx: metadata subsampling_factor is 'x', expected 1 to 64");
    l = wenet;
    l.tokens = "<blank> 0\na 1\n";
    expect_refusal(&l, "tokens.txt: 2 tokens, expected 5: metadata vocab_size of model.onnx");
    l.tokens = "a 0\nb 1\nc 2\nd 3\ne 4\n";
    expect_refusal(&l, "tokens.txt: there is no <blank>");
    l = nemo;
    l.tokens = wenet_tokens;
    expect_refusal(&l, "tokens.txt: the last of 5 tokens is '<sos/eos>', expected <blk>");
    l = nemo;
    l.meta[1] = "9";
    expect_refusal(&l, "5 tokens, expected 10: metadata vocab_size of model.onnx, and <blk>");
    l = nemo;
    l.vocabulary = "vocab.txt";
    l.config = "{\"model_type\": \"nemo-conformer-tdt\"}";
    expect_refusal(&l, "model_type in config.json does not fit model.onnx");
    l.config = "{\"model_type\": \"nemo-conformer-ctc\", \"features_size\": 128}";
    expect_refusal(&l, "audio_signal has 80 bins, expected the 128");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_of_wenet_are_recognized_in_any_pieces),
        cmocka_unit_test(segments_of_nemo_are_recognized_in_any_pieces),
        cmocka_unit_test(contradictions_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
