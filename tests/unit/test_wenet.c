/* Family wenet, whole segments, on a network made here: every fourth feature frame goes through one
 * matrix, so that a low tone is the piece "low", a high one "high", and all else the blank.
 * Streaming networks are compared with recorded rows in test_nemo_zoo.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "steno.h"
#include "tests/support/onnx_make.h"

#define RATE 16000
#define BINS 80
enum { BLANK, UNKNOWN, LOW, HIGH, EOS, VOCAB };

static const char tokens[] =
    "<blank> 0\n<unk> 1\n\xE2\x96\x81low 2\n\xE2\x96\x81high 3\n<sos/eos> 4\n";

/* A directory with the network and a list of tokens; subsampling: of its metadata. */
static char *make_model(const char *subsampling, const char *list)
{
    static char type[] = "wenet_ctc", vocab[] = "5", factor[8];
    static char key_type[] = "model_type", key_vocab[] = "vocab_size",
                key_factor[] = "subsampling_factor";
    static float w[BINS * VOCAB];
    const float bias[VOCAB] = {30, -1000, 0, 0, -1000};
    const int64_t from = 0, to = INT64_MAX, axis = 1, step = 4;
    Onnx__StringStringEntry e[3], *entries[3] = {&e[0], &e[1], &e[2]};
    char *keys[] = {key_type, key_vocab, key_factor}, *values[] = {type, vocab, factor};
    struct mk_graph *g = mk_new(13);
    char *path, *file;
    FILE *f;
    size_t n = 0;
    snprintf(factor, sizeof factor, "%s", subsampling);
    for (size_t i = 0; i < 3; i++) {
        onnx__string_string_entry__init(&e[i]);
        e[i].key = keys[i];
        e[i].value = values[i];
        n += *values[i] != '\0';
    }
    /* bins of 500 Hz and of 3000 Hz: (1127 ln(1 + f/700) - 31.7) / 34.7 - 1 */
    memset(w, 0, sizeof w);
    w[15 * VOCAB + LOW] = w[16 * VOCAB + LOW] = 1;
    w[52 * VOCAB + HIGH] = w[53 * VOCAB + HIGH] = 1;
    mk_input(g, "x", STENO_F32, "N,T,80");
    mk_input(g, "x_lens", STENO_I64, "N");
    mk_i64(g, "from", "1", &from, 1);
    mk_i64(g, "to", "1", &to, 1);
    mk_i64(g, "axis", "1", &axis, 1);
    mk_i64(g, "step", "1", &step, 1);
    mk_f32(g, "w", "80,5", w, BINS * VOCAB);
    mk_f32(g, "b", "5", bias, VOCAB);
    mk_node(g, "Slice", "x,from,to,axis,step", "fewer");
    mk_node(g, "MatMul", "fewer,w", "product");
    mk_node(g, "Add", "product,b", "logits");
    mk_node(g, "LogSoftmax", "logits", "log_probs");
    mk_attr_int(g, "axis", -1);
    mk_node(g, "Identity", "x_lens", "log_probs_lens");
    mk_output(g, "log_probs", STENO_F32, "N,?,5");
    mk_output(g, "log_probs_lens", STENO_I64, "N");
    mk_message(g)->metadata_props = entries;
    mk_message(g)->n_metadata_props = n;
    path = mk_file(g);
    mk_message(g)->metadata_props = NULL;
    mk_message(g)->n_metadata_props = 0;
    mk_free(g);
    *strrchr(path, '/') = '\0';
    file = malloc(strlen(path) + 16);
    assert_non_null(file);
    sprintf(file, "%s/tokens.txt", path);
    f = fopen(file, "w");
    assert_non_null(f);
    fputs(list, f);
    fclose(f);
    free(file);
    return path;
}

static void drop_model(char *dir)
{
    static const char *const files[] = {"model.onnx", "tokens.txt"};
    char path[256];
    for (size_t i = 0; i < 2; i++) {
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

static void a_segment_is_recognized_in_any_pieces(void **state)
{
    static float x[SAMPLES];
    static const size_t pieces[] = {SAMPLES, 160, 1000, 7777};
    char *dir = make_model("4", tokens);
    steno_model *m;
    steno_err err;
    (void)state;
    tone(x, 500, 0.5, 0.9);
    tone(x, 3000, 1.2, 1.6);
    assert_string_equal(steno_model_family(dir), "wenet");
    if (steno_model_open(&m, dir, NULL, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct result r;
        decode(m, x, pieces[i], &r);
        assert_string_equal(r.text, "low high");
        assert_int_equal(r.n, 2);
        assert_true(fabs(r.start[0] - 0.5) < 0.05);
        assert_true(fabs(r.start[1] - 1.2) < 0.05);
    }
    steno_model_close(m);
    drop_model(dir);
}

static void contradictions_are_named(void **state)
{
    static const struct {
        const char *subsampling, *tokens, *message;
    } cases[] = {
        {"", tokens, "metadata subsampling_factor is missing"},
        {"x", tokens, "metadata subsampling_factor is 'x', expected 1 to 64"},
        {"4", "<blank> 0\na 1\n", "2 tokens, expected 5: metadata vocab_size of model.onnx"},
        {"4", "a 0\nb 1\nc 2\nd 3\ne 4\n", "there is no <blank>"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = make_model(cases[i].subsampling, cases[i].tokens);
        steno_model *m = NULL;
        steno_err err;
        assert_int_equal(steno_model_open(&m, dir, NULL, &err), STENO_ERR_FORMAT);
        if (!strstr(err.msg, cases[i].message))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].message);
        drop_model(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_is_recognized_in_any_pieces),
        cmocka_unit_test(contradictions_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
