/* ldflags: -Wl,--wrap=steno_streams_step */
/* What a stream knows is told as a final before the error that ends it: of the tone network, whose
 * steps fail from some step on, and of streams that are open when their pool closes. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/pool/pool.h"
#include "speech/recognizer/batcher.h"
#include "tests/support/test.h"

enum { RATE = 8000, N = 4 * RATE };

static int left; /* steps until all fail */

void __real_steno_streams_step(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *st,
                               steno_err *err);
void __wrap_steno_streams_step(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *st,
                               steno_err *err);

void __wrap_steno_streams_step(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *st,
                               steno_err *err)
{
    if (left-- > 0)
        __real_steno_streams_step(b, s, n, st, err);
    else
        for (size_t i = 0; i < n; i++)
            st[i] = steno_fail(&err[i], STENO_ERR_INTERNAL, "the network broke");
}

static steno_model *model;

static int open_model(void **state)
{
    (void)state;
    return steno_model_open(&model, "tests/data/models/tones", NULL, NULL) ? -1 : 0;
}

static int close_model(void **state)
{
    (void)state;
    steno_model_close(model);
    return 0;
}

/* What a client was told. */
static struct told {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char text[400], partial[400]; /* of all finals; of the last partial behind them */
    int finals, done;
    size_t words;
    enum steno_final_reason reason; /* of the last final */
    steno_status st;
} told = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *n)
{
    const struct steno_event *ev = n->event;
    (void)user;
    (void)ps;
    pthread_mutex_lock(&told.lock);
    if (n->kind == STENO_POOL_EVENT && ev->kind == STENO_PARTIAL)
        snprintf(told.partial, sizeof told.partial, "%s", ev->text);
    if (n->kind == STENO_POOL_EVENT && ev->kind == STENO_FINAL) {
        const size_t at = strlen(told.text);
        snprintf(told.text + at, sizeof told.text - at, "%s%s", at ? " " : "", ev->text);
        told.partial[0] = '\0';
        told.finals++;
        told.words = ev->n_words;
        told.reason = ev->reason;
    }
    if (n->kind == STENO_POOL_DONE) {
        told.done = 1;
        told.st = n->status;
    }
    pthread_cond_broadcast(&told.changed);
    pthread_mutex_unlock(&told.lock);
}

static steno_pool_stream *begin(steno_pool **p, bool partials, int steps)
{
    static const struct steno_pool_costs costs = {.step = {0.01, 0.02, 0.04, 0.08, 0.16, 0.32}};
    const struct steno_pool_options po = {.workers = 1, .costs = &costs};
    const struct steno_pool_stream_options o = {.stream = {.no_partials = !partials}};
    float pcm[N];
    steno_pool_stream *ps;
    size_t taken;
    told.text[0] = told.partial[0] = '\0';
    told.finals = told.done = 0;
    told.reason = STENO_FINAL_ENDPOINT;
    left = steps;
    for (int i = 0; i < N; i++) {
        const int hz = i / (RATE / 4) % 3 == 2 ? 0 : i / RATE % 2 ? 500 : 1000;
        pcm[i] = hz ? 0.3f * (float)sin(6.283185307179586 * hz * (double)i / RATE) : 0.0f;
    }
    assert_int_equal(steno_pool_open(p, model, &po, NULL), STENO_OK);
    assert_int_equal(steno_pool_stream_open(&ps, *p, &o, on_note, NULL, NULL), STENO_OK);
    assert_int_equal(steno_pool_stream_push(ps, pcm, N, &taken, NULL), STENO_OK);
    assert_int_equal(taken, N);
    return ps;
}

static void wait_for(const int *what)
{
    pthread_mutex_lock(&told.lock);
    while (!*what)
        pthread_cond_wait(&told.changed, &told.lock);
    pthread_mutex_unlock(&told.lock);
}

/* The text so far of a stream without failure, by the number of steps. */
static void known_after(int steps, char *out, size_t size)
{
    steno_pool *p;
    steno_pool_stream *ps = begin(&p, true, steps);
    wait_for(&told.done);
    snprintf(out, size, "%s", told.text);
    steno_pool_stream_close(ps);
    steno_pool_close(p);
}

/* With partials the final says what the last of them said; without, the same is known. */
static void a_step_that_fails_loses_no_text(void **state)
{
    char with[400];
    size_t longest = 0;
    (void)state;
    for (int steps = 0; steps < 40; steps += 3) {
        steno_pool *p;
        steno_pool_stream *ps;
        known_after(steps, with, sizeof with);
        assert_int_equal(told.st, STENO_ERR_INTERNAL);
        assert_string_equal(told.partial, ""); /* it became a final */
        ps = begin(&p, false, steps);
        wait_for(&told.done);
        assert_int_equal(told.st, STENO_ERR_INTERNAL);
        assert_string_equal(told.text, with);
        assert_true(!told.finals || told.words);
        assert_true(strlen(with) >= longest); /* more steps, more text */
        longest = strlen(with);
        steno_pool_stream_close(ps);
        steno_pool_close(p);
    }
    assert_true(longest > 10);
}

static void a_pool_that_closes_loses_no_text(void **state)
{
    steno_pool *p;
    steno_pool_stream *ps = begin(&p, true, 1000);
    (void)state;
    pthread_mutex_lock(&told.lock);
    while (strlen(told.partial) < 3)
        pthread_cond_wait(&told.changed, &told.lock);
    pthread_mutex_unlock(&told.lock);
    steno_pool_close(p);
    assert_int_equal(told.st, STENO_ERR_CANCELLED);
    assert_true(told.finals && told.words);
    assert_int_equal(told.reason, STENO_FINAL_END);
    assert_string_equal(told.partial, "");
    steno_pool_stream_close(ps);
}

static void a_client_that_cancels_is_told_nothing(void **state)
{
    steno_pool *p;
    steno_pool_stream *ps = begin(&p, true, 1000);
    (void)state;
    pthread_mutex_lock(&told.lock);
    while (!told.partial[0])
        pthread_cond_wait(&told.changed, &told.lock);
    steno_pool_stream_cancel(ps);
    pthread_mutex_unlock(&told.lock);
    wait_for(&told.done);
    assert_int_equal(told.st, STENO_ERR_CANCELLED);
    assert_int_not_equal(told.reason, STENO_FINAL_END);
    steno_pool_stream_close(ps);
    steno_pool_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_that_fails_loses_no_text),
                                       cmocka_unit_test(a_pool_that_closes_loses_no_text),
                                       cmocka_unit_test(a_client_that_cancels_is_told_nothing)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
