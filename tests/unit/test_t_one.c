/* T-one of ../shared/zoo/tiny against what onnx-asr 0.12.0 and sherpa-onnx 2.0.1 recorded. The
 * network has random weights and computes in half precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/json.h"
#include "speech/audio/file.h"
#include "speech/recognizer/batcher.h"
#include "speech/recognizer/stream.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define RATE 8000
#define CHUNK 0.3 /* s of a step */
#define FRAME 0.03
#define MAX_TOKENS 256
#define SPEAKERS 3

static const char *const speakers[SPEAKERS] = {"george", "jackson", "lucas"};

struct result {
    char text[1024];
    int32_t ids[MAX_TOKENS];
    double starts[MAX_TOKENS];
    size_t n;
};

struct recording {
    float *pcm;
    size_t n;
};

/* The first take of all digits of a speaker, without gaps; pcm NULL: ../shared is not there. */
static struct recording read_digits(const char *speaker)
{
    struct recording r = {malloc(20 * RATE * sizeof(float)), 0};
    assert_non_null(r.pcm);
    for (int d = 0; d < 10; d++) {
        char path[64];
        steno_audio *a = NULL;
        size_t bytes, got = 1;
        void *file;
        snprintf(path, sizeof path, "audio/fsdd/%d_%s_0.wav", d, speaker);
        file = steno_test_shared(path, &bytes);
        if (!file) {
            free(r.pcm);
            return (struct recording){NULL, 0};
        }
        assert_int_equal(steno_audio_open_mem(&a, file, bytes, NULL, NULL), STENO_OK);
        while (got) {
            assert_int_equal(steno_audio_read(a, r.pcm + r.n, 20 * RATE - r.n, &got, NULL),
                             STENO_OK);
            r.n += got;
        }
        steno_audio_close(a);
        free(file);
    }
    return r;
}

static const char *directory(void)
{
    static char path[1024];
    const char *base = getenv("STENO_SHARED");
    snprintf(path, sizeof path, "%s/zoo/tiny/t-one", base ? base : "../shared");
    return path;
}

static steno_model *open_model(const char *dir)
{
    const struct steno_model_options o = {.threads = 1, .precision = STENO_FP32};
    steno_model *m = NULL;
    steno_err err;
    if (steno_model_open(&m, dir, &o, &err))
        fail_msg("%s", err.msg);
    return m;
}

static steno_stream *open_stream(steno_model *m)
{
    const struct steno_stream_options o = {
        .sample_rate = RATE, .no_endpointing = true, .no_partials = true};
    steno_stream *s = NULL;
    assert_int_equal(steno_stream_open(&s, m, &o, NULL), STENO_OK);
    return s;
}

static void take(steno_stream *s, struct result *r)
{
    struct steno_event ev;
    while (steno_stream_next(s, &ev)) {
        if (ev.kind != STENO_FINAL)
            continue;
        snprintf(r->text, sizeof r->text, "%s", ev.text);
        for (size_t i = 0; i < ev.n_tokens && r->n < MAX_TOKENS; i++, r->n++) {
            r->ids[r->n] = ev.tokens[i].id;
            r->starts[r->n] = ev.tokens[i].start;
        }
    }
}

static void decode(steno_model *m, const struct recording *a, size_t piece, struct result *r)
{
    steno_stream *s = open_stream(m);
    memset(r, 0, sizeof *r);
    for (size_t at = 0; at < a->n; at += piece)
        assert_int_equal(
            steno_stream_push(s, a->pcm + at, a->n - at < piece ? a->n - at : piece, NULL),
            STENO_OK);
    assert_int_equal(steno_stream_end(s, NULL), STENO_OK);
    take(s, r);
    steno_stream_close(s);
}

/* ---- recorded rows --------------------------------------------------------------------------- */

/* The tokens of a row from `from` s on against those of a result before `end` s. */
static void compare(const steno_tokens *t, const struct result *r,
                    const struct steno_json_node *row, double from, double end)
{
    const struct steno_json_node *e = steno_json_get(row, "tokens")->first;
    const struct steno_json_node *time = steno_json_get(row, "timestamps")->first;
    size_t n = 0;
    for (; e; e = e->next, time = time->next) {
        const double at = strtod(time->text, NULL) - from;
        if (at < -1e-6)
            continue;
        assert_true(n < r->n);
        assert_string_equal(steno_tokens_piece(t, r->ids[n]), e->text);
        assert_true(fabs(r->starts[n] - at) < FRAME + 1e-3);
        n++;
    }
    assert_true(n == r->n || r->starts[n] > end - 1e-6);
    assert_true(n > 30);
}

static void check_rows(const char *dir)
{
    char path[1100];
    steno_json *j;
    steno_tokens *t;
    steno_model *m = open_model(dir);
    snprintf(path, sizeof path, "%s/decode.json", directory());
    assert_int_equal(steno_json_open(&j, path, NULL), STENO_OK);
    snprintf(path, sizeof path, "%s/tokens.txt", directory());
    assert_int_equal(steno_tokens_open(&t, path, NULL), STENO_OK);
    for (size_t i = 0; i < SPEAKERS; i++) {
        const struct steno_json_node *sets = steno_json_get(steno_json_root(j), "sets"), *row;
        struct recording a = read_digits(speakers[i]);
        static struct result r;
        assert_non_null(a.pcm);
        snprintf(path, sizeof path, "fsdd %s digits 0..9, take 0", speakers[i]);
        decode(m, &a, a.n, &r);
        row = steno_json_get(steno_json_get(sets, "onnx_asr"), path);
        compare(t, &r, row, 0, 1e9);
        assert_string_equal(r.text, steno_json_get(row, "text")->text);
        /* the caller of sherpa-onnx puts a chunk of zeros before the recording, and it leaves the
         * last chunk out */
        compare(t, &r, steno_json_get(steno_json_get(sets, "sherpa greedy_search"), path), CHUNK,
                floor((double)(a.n + 2400) / 2400) * CHUNK);
        free(a.pcm);
    }
    steno_tokens_close(t);
    steno_json_close(j);
    steno_model_close(m);
}

static void rows_are_as_recorded(void **state)
{
    (void)state;
    if (access(directory(), R_OK))
        skip();
    check_rows(directory());
}

/* onnx-asr has the vocabulary in config.json. */
static void the_vocabulary_of_onnx_asr_is_read(void **state)
{
    static const char *const files[] = {"model.onnx", "config.json"};
    char dir[] = "/tmp/steno-t-one-XXXXXX", from[1100], to[1100];
    (void)state;
    if (access(directory(), R_OK))
        skip();
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < 2; i++) {
        char *real;
        snprintf(from, sizeof from, "%s/%s", directory(), files[i]);
        snprintf(to, sizeof to, "%s/%s", dir, files[i]);
        real = realpath(from, NULL);
        assert_int_equal(symlink(real, to), 0);
        free(real);
    }
    check_rows(dir);
    for (size_t i = 0; i < 2; i++) {
        snprintf(to, sizeof to, "%s/%s", dir, files[i]);
        assert_int_equal(unlink(to), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* ---- pieces and batches ---------------------------------------------------------------------- */

static void expect_same(const struct result *a, const struct result *b)
{
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->ids, b->ids, a->n * sizeof *a->ids);
    assert_memory_equal(a->starts, b->starts, a->n * sizeof *a->starts);
}

/* Different recordings in pieces of other lengths, in common steps. */
static void decode_together(steno_model *m, const struct recording a[SPEAKERS],
                            struct result r[SPEAKERS])
{
    steno_stream *s[SPEAKERS], *ready[SPEAKERS];
    size_t at[SPEAKERS] = {0}, left = SPEAKERS;
    bool done[SPEAKERS] = {false};
    steno_batcher *b;
    assert_int_equal(steno_batcher_open(&b, m, SPEAKERS, NULL), STENO_OK);
    for (size_t i = 0; i < SPEAKERS; i++)
        s[i] = open_stream(m);
    while (left) {
        steno_status st[SPEAKERS];
        size_t n = 0, used;
        for (size_t i = 0; i < SPEAKERS; i++) {
            const size_t piece = 500 + 400 * i, rest = a[i].n - at[i];
            if (rest) {
                assert_int_equal(steno_stream_feed(s[i], a[i].pcm + at[i],
                                                   rest < piece ? rest : piece, &used, NULL),
                                 STENO_OK);
                at[i] += used;
            } else if (!done[i] && !steno_stream_ready(s[i])) {
                assert_int_equal(steno_stream_flush(s[i], true, &done[i], NULL), STENO_OK);
                left -= done[i];
            }
            if (steno_stream_ready(s[i]))
                ready[n++] = s[i];
        }
        steno_streams_step(b, ready, n, st, NULL);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(st[i], STENO_OK);
    }
    for (size_t i = 0; i < SPEAKERS; i++) {
        memset(&r[i], 0, sizeof r[i]);
        take(s[i], &r[i]);
        steno_stream_close(s[i]);
    }
    steno_batcher_close(b);
}

static void any_pieces_and_any_company_give_the_same(void **state)
{
    static struct result whole[SPEAKERS], r, many[SPEAKERS];
    static const size_t pieces[] = {80, 333, 2400, 5000};
    struct recording a[SPEAKERS];
    steno_model *m;
    (void)state;
    if (access(directory(), R_OK))
        skip();
    m = open_model(directory());
    for (size_t i = 0; i < SPEAKERS; i++) {
        a[i] = read_digits(speakers[i]);
        decode(m, &a[i], a[i].n, &whole[i]);
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
            decode(m, &a[i], pieces[k], &r);
            expect_same(&whole[i], &r);
        }
    }
    decode_together(m, a, many);
    for (size_t i = 0; i < SPEAKERS; i++) {
        expect_same(&whole[i], &many[i]);
        free(a[i].pcm);
    }
    steno_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_as_recorded),
        cmocka_unit_test(the_vocabulary_of_onnx_asr_is_read),
        cmocka_unit_test(any_pieces_and_any_company_give_the_same),
    };
    return cmocka_run_group_tests_name("t_one", tests, NULL, NULL);
}
