/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc */
/* ldflags: -Wl,--wrap=strdup,--wrap=pthread_create */
/* The 1st, 2nd, ... nth allocation fails while a model is opened, a recording is recognized and
 * its results are stored. Each time there is an error and no leak (AddressSanitizer's build
 * checks), and at last the scenario passes. The same for the pool's threads. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "speech/pool/pool.h"
#include "protocol/result_json.h"
#include "protocol/subtitle.h"
#include "steno.h"
#include "tests/support/alloc_fail.h"
#include "tests/support/test.h"

#define TONES "tests/data/models/tones"

static int threads_left = -1;

char *__real_strdup(const char *s);
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
char *__wrap_strdup(const char *s);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

char *__wrap_strdup(const char *s)
{
    return alloc_fails() ? NULL : __real_strdup(s);
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    if (threads_left == 0)
        return EAGAIN;
    threads_left -= threads_left > 0;
    return __real_pthread_create(t, a, fn, arg);
}

static steno_status keep(steno_stream *s, steno_transcript *t, steno_err *err)
{
    struct steno_event ev;
    steno_status st = STENO_OK;
    while (!st && steno_stream_next(s, &ev))
        st = steno_transcript_add(t, &ev, err);
    return st;
}

static steno_status write_results(steno_transcript *t)
{
    struct steno_buf b;
    steno_status st;
    steno_buf_init(&b, 1 << 20);
    st = steno_result_json_write(&b, t, NULL);
    if (!st)
        st = steno_subtitle_write(&b, t, STENO_VTT, NULL);
    steno_buf_free(&b);
    return st;
}

/* "one", pause, "two" through a resampler and a beam. text [64] gets the result. */
static steno_status recognise(steno_model *m, char *text, steno_err *err)
{
    static float pcm[16000 * 2];
    struct steno_stream_options o = {.sample_rate = 16000, .beam = 4, .n_best = 2};
    steno_stream *s = NULL;
    steno_transcript *t = steno_transcript_new(0);
    steno_status st = t ? steno_stream_open(&s, m, &o, err) : STENO_ERR_NOMEM;
    for (int i = 0; i < 16000 * 2; i++) {
        int hz = i < 6400 ? 500 : i > 22400 && i < 28800 ? 1000 : 0;
        pcm[i] = hz ? 0.3f * (float)sin(6.283185307179586 * hz * i / 16000.0) : 0;
    }
    if (!st)
        st = steno_stream_push(s, pcm, 16000 * 2, err);
    if (!st)
        st = keep(s, t, err);
    if (!st)
        st = steno_stream_end(s, err);
    if (!st)
        st = keep(s, t, err);
    if (!st)
        st = write_results(t);
    if (!st)
        strncpy(text, steno_transcript_text(t), 63);
    steno_stream_close(s);
    steno_transcript_free(t);
    return st;
}

static void opening_a_model_survives_every_failed_allocation(void **state)
{
    (void)state;
    long n = 0;
    for (;; n++) {
        steno_model *m = NULL;
        steno_err err = {0};
        steno_status st;
        alloc_left = n;
        st = steno_model_open(&m, TONES, NULL, &err);
        if (!st && alloc_left >= 0) { /* no allocation was left to fail */
            alloc_left = -1;
            steno_model_close(m);
            break;
        }
        alloc_left = -1;
        if (st) {
            assert_null(m);
            assert_true(err.msg[0] != '\0');
        } else {
            steno_model_close(m); /* the failed allocation was not essential */
        }
        assert_true(n < 100000);
    }
    assert_true(n > 20);
}

static void a_recording_survives_every_failed_allocation(void **state)
{
    (void)state;
    steno_model *m = NULL;
    long n = 0;
    assert_int_equal(steno_model_open(&m, TONES, NULL, NULL), STENO_OK);
    for (;; n++) {
        char text[64] = "";
        steno_err err = {0};
        steno_status st;
        bool all;
        alloc_left = n;
        st = recognise(m, text, &err);
        all = alloc_left >= 0;
        alloc_left = -1;
        if (!st)
            assert_string_equal(text, "one two");
        if (all) {
            assert_int_equal(st, STENO_OK);
            break;
        }
        assert_true(n < 100000);
    }
    assert_true(n > 20);
    steno_model_close(m);
}

static void a_pool_survives_every_failed_allocation_and_thread(void **state)
{
    (void)state;
    steno_model *m = NULL;
    assert_int_equal(steno_model_open(&m, TONES, NULL, NULL), STENO_OK);
    for (int n = 0; n < 3; n++) {
        steno_pool *p = NULL;
        steno_err err = {0};
        threads_left = n;
        assert_int_equal(steno_pool_open(&p, m, &(struct steno_pool_options){.workers = 3}, &err),
                         STENO_ERR_NOMEM);
        threads_left = -1;
        assert_null(p);
        assert_true(err.msg[0]);
    }
    for (long n = 0;; n++) {
        steno_pool *p = NULL;
        steno_pool_stream *ps = NULL;
        struct steno_pool_stats ps_stats;
        steno_status st;
        bool all;
        alloc_left = n;
        st = steno_pool_open(&p, m, &(struct steno_pool_options){.workers = 1, .max_streams = 1},
                             NULL);
        if (!st)
            st = steno_pool_stream_open(&ps, p, NULL, NULL, NULL, NULL);
        all = alloc_left >= 0;
        alloc_left = -1;
        if (p && st) { /* the place was released */
            steno_pool_get_stats(p, &ps_stats);
            assert_int_equal(ps_stats.active, 0);
        }
        steno_pool_stream_close(ps);
        steno_pool_close(p);
        if (all)
            break;
        assert_true(n < 100000);
    }
    steno_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_a_model_survives_every_failed_allocation),
        cmocka_unit_test(a_recording_survives_every_failed_allocation),
        cmocka_unit_test(a_pool_survives_every_failed_allocation_and_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
