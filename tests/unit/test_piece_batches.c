/* Models that recognize a piece of audio at once: streams whose pieces share runs of the encoder
 * get the events that they get alone, partials too, for every number of streams, every family and
 * every precision. Needs ../shared/zoo/tiny. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/audio/file.h"
#include "base/buf.h"
#include "speech/recognizer/batcher.h"
#include "speech/recognizer/stream.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"
#include "tests/support/zoo.h"

#define STREAMS 8
#ifdef STENO_SANITIZE /* the fewest and the most; the plain build compares all */
#define MORE (STREAMS - 2)
#else
#define MORE 1
#endif
#define RATE 16000

struct model {
    const char *dir;
    enum steno_precision precision;
    int beam;
    const char *hotwords;
    bool batches; /* its pieces share runs: their frames do not change with the others */
};

struct recording {
    float *pcm;
    size_t n;
};

static struct recording cut(const float *pcm, size_t from, size_t n)
{
    struct recording r = {malloc(n * sizeof(float)), n};
    assert_non_null(r.pcm);
    memcpy(r.pcm, pcm + from, n * sizeof *pcm);
    return r;
}

/* Recordings of different lengths; false: ../shared is not there. */
static bool read_recordings(struct recording r[STREAMS])
{
    static const double seconds[STREAMS] = {2.1, 3.3, 0.7, 3.3, 1.2, 5, 0.05, 2.7};
    const struct steno_audio_options first = {.channel = 1};
    steno_audio *file = NULL;
    size_t bytes, got, n = 0, cap = 30 * RATE;
    void *data = steno_test_shared("audio/speech/two_cities_16k.wav", &bytes);
    float *pcm = malloc(cap * sizeof *pcm);
    assert_non_null(pcm);
    if (data) {
        assert_int_equal(steno_audio_open_mem(&file, data, bytes, &first, NULL), STENO_OK);
        do {
            assert_int_equal(steno_audio_read(file, pcm + n, cap - n, &got, NULL), STENO_OK);
            n += got;
        } while (got && n < cap);
        steno_audio_close(file);
        for (size_t i = 0; i < STREAMS; i++)
            r[i] = cut(pcm, i * 2 * RATE, (size_t)(seconds[i] * RATE));
    }
    free(data);
    free(pcm);
    return data != NULL;
}

static steno_stream *open_stream(steno_model *m, const struct model *o)
{
    const struct steno_stream_options so = {.sample_rate = RATE,
                                            .no_endpointing = true,
                                            .beam = o->beam,
                                            .hints = {.hotwords = o->hotwords}};
    steno_stream *s = NULL;
    steno_err err = {0};
    if (steno_stream_open(&s, m, &so, &err))
        fail_msg("%s: %s", o->dir, err.msg);
    return s;
}

static void note(struct steno_buf *log, steno_stream *s)
{
    struct steno_event e;
    while (steno_stream_next(s, &e)) {
        assert_int_equal(steno_buf_printf(log, "%d '%s'", (int)e.kind, e.text ? e.text : ""),
                         STENO_OK);
        for (size_t i = 0; i < e.n_tokens; i++)
            assert_int_equal(
                steno_buf_printf(log, " %d@%.2f", (int)e.tokens[i].id, e.tokens[i].start),
                STENO_OK);
        assert_int_equal(steno_buf_puts(log, "\n"), STENO_OK);
    }
}

/* Feed n streams at once, and step those that are ready as batches. */
static void decode(steno_model *m, const struct model *o, steno_batcher *b,
                   const struct recording *r, size_t n, struct steno_buf *log)
{
    steno_stream *s[STREAMS], *ready[STREAMS];
    steno_status st[STREAMS];
    steno_err err[STREAMS] = {{0}};
    size_t at[STREAMS] = {0}, left = n;
    bool done[STREAMS] = {false};
    for (size_t i = 0; i < n; i++)
        s[i] = open_stream(m, o);
    while (left) {
        size_t k = 0;
        for (size_t i = 0; i < n; i++) {
            size_t used = 0;
            if (at[i] < r[i].n)
                assert_int_equal(
                    steno_stream_feed(s[i], r[i].pcm + at[i], r[i].n - at[i], &used, NULL),
                    STENO_OK);
            at[i] += used;
            if (at[i] == r[i].n && !done[i] && !steno_stream_ready(s[i])) {
                assert_int_equal(steno_stream_flush(s[i], true, &done[i], NULL), STENO_OK);
                left -= done[i];
            }
            if (steno_stream_ready(s[i]))
                ready[k++] = s[i];
        }
        steno_streams_step(b, ready, k, st, err);
        for (size_t i = 0; i < k; i++)
            if (st[i])
                fail_msg("%s: %s", o->dir, err[i].msg);
        for (size_t i = 0; i < n; i++)
            note(&log[i], s[i]);
    }
    for (size_t i = 0; i < n; i++)
        steno_stream_close(s[i]);
}

static const char *text_of(struct steno_buf *b)
{
    assert_int_equal(steno_buf_add(b, "", 1), STENO_OK);
    return b->data;
}

static void check_model(const struct model *o, const struct recording *r)
{
    const struct steno_model_options mo = {.threads = 1, .precision = o->precision};
    const char *root = getenv("STENO_SHARED");
    struct steno_buf alone[STREAMS], together[STREAMS];
    steno_batcher *one = NULL, *many = NULL;
    steno_model *m = NULL;
    steno_err err = {0};
    char dir[384];
    snprintf(dir, sizeof dir, "%s/zoo/tiny/%s", root ? root : "../shared", o->dir);
    if (steno_model_open(&m, dir, &mo, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(steno_batcher_open(&one, m, 1, NULL), STENO_OK);
    assert_int_equal(steno_batcher_open(&many, m, STREAMS, NULL), STENO_OK);
    printf("# %s, precision %d: batches of up to %d\n", o->dir, (int)o->precision,
           steno_batcher_max(many));
    assert_int_equal(steno_batcher_max(many), o->batches ? STREAMS : 1);
    for (size_t i = 0; i < STREAMS; i++) {
        steno_buf_init(&alone[i], 1 << 20);
        steno_buf_init(&together[i], 1 << 20);
        decode(m, o, one, &r[i], 1, &alone[i]);
        (void)text_of(&alone[i]);
    }
    for (size_t n = 2; n <= STREAMS; n += MORE) {
        decode(m, o, many, r, n, together);
        for (size_t i = 0; i < n; i++) {
            if (strcmp(alone[i].data, text_of(&together[i])) != 0)
                fail_msg("%s, stream %zu of %zu:\n%s---- alone\n%s", o->dir, i, n, together[i].data,
                         alone[i].data);
            steno_buf_reset(&together[i]);
        }
    }
    for (size_t i = 0; i < STREAMS; i++) {
        steno_buf_free(&alone[i]);
        steno_buf_free(&together[i]);
    }
    steno_batcher_close(one);
    steno_batcher_close(many);
    steno_model_close(m);
}

static void streams_that_share_runs_have_the_events_of_streams_alone(void **state)
{
    static const struct model models[] = {
        {.dir = "sense-voice", .precision = STENO_FP32, .batches = true},
        {.dir = "sense-voice", .precision = STENO_FP32, .beam = 4, .batches = true},
        {.dir = "zipformer2-transducer-offline", .precision = STENO_FP32, .batches = true},
        {.dir = "zipformer2-transducer-offline",
         .precision = STENO_FP32,
         .beam = 4,
         .hotwords = "THE BEST",
         .batches = true},
        {.dir = "zipformer2-ctc-offline", .precision = STENO_FP32, .batches = true},
        {.dir = "nemo-parakeet-tdt", .precision = STENO_FP32, .batches = true},
        {.dir = "nemo-parakeet-tdt", .precision = STENO_FP32, .beam = 4, .batches = true},
        {.dir = "nemo-parakeet-tdt", .precision = STENO_INT8_WEIGHTS, .batches = true},
        {.dir = "nemo-parakeet-tdt", .precision = STENO_INT8_WEIGHTS, .beam = 4, .batches = true},
        {.dir = "sense-voice", .precision = STENO_INT8_WEIGHTS, .batches = true},
        {.dir = "paraformer-offline", .precision = STENO_FP32},
        {.dir = "moonshine-v1", .precision = STENO_FP32},
        {.dir = "nemo-canary", .precision = STENO_FP32, .batches = true},
        {.dir = "nemo-canary", .precision = STENO_INT8_WEIGHTS, .batches = true},
        {.dir = "giga-am-v2-ctc", .precision = STENO_FP32, .batches = true},
        {.dir = "giga-am-v3-rnnt", .precision = STENO_FP32, .batches = true},
        {.dir = "fire-red-asr-ctc", .precision = STENO_FP32, .batches = true},
        {.dir = "fire-red-asr-ctc", .precision = STENO_INT8_WEIGHTS, .batches = true},
        {.dir = "dolphin-ctc", .precision = STENO_FP32, .batches = true},
        {.dir = "medasr-ctc", .precision = STENO_FP32, .batches = true},
        {.dir = "telespeech-ctc", .precision = STENO_FP32},
        {.dir = "fire-red-asr-aed", .precision = STENO_FP32},
        {.dir = "moonshine-streaming", .precision = STENO_FP32},
        {.dir = "omnilingual-ctc", .precision = STENO_FP32},
    };
    struct recording r[STREAMS];
    (void)state;
    if (!read_recordings(r))
        skip();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check_model(&models[i], r);
    for (size_t i = 0; i < STREAMS; i++)
        free(r[i].pcm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_that_share_runs_have_the_events_of_streams_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
