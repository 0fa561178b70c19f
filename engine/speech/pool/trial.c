/* Measures the cost of a stream beside its network, or its whole cost if the network is the
 * stream's own. Some streams of a few seconds of sound each run to their end, with the options of
 * live ones (search, beam). Meanwhile the other workers do the same, because they share memory and
 * caches. The first stream makes plans and buffers and does not count. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/threads.h"
#include "speech/pool/internal.h"

#define SECONDS 3.0 /* of sound per stream */
#define WARMING 0.7 /* of sound for the first stream: a window of every network */
/* s, assumed length of a live stream, over which the cost of its end is spread. */
#define TYPICAL 10.0
#define BLOCK 1024       /* samples per feed */
#define TRIALS 5         /* streams; their median counts */
#define MOST 0.6         /* s of processor time after which no further stream starts */
#define OTHER_WORKERS 63 /* limit of other workers that run at the same time */

struct trial {
    const steno_pool *p;
    steno_batcher *batcher;
    const _Atomic bool *over; /* set: give up; relaxed, since no data depends on it */
};

static bool is_over(const struct trial *t)
{
    return atomic_load_explicit(t->over, memory_order_relaxed);
}

/* Write a sound like speech, in [-0.5, 0.5]: pulses at 120 Hz through a resonance that moves four
 * times a second, a little noise, and every fourth syllable silent. n samples from sample `from`
 * on; state: of the resonance. */
static void sound(float *pcm, size_t n, size_t from, int rate, float state[2])
{
    static const float hz[] = {300, 700, 500, 1200, 400, 900};
    size_t syllable = (size_t)rate / 4, period = (size_t)rate / 120;
    for (size_t i = 0; i < n; i++) {
        size_t at = from + i, number = at / syllable;
        float angle = 6.2831853f * hz[number % 6] / (float)rate;
        uint32_t noise = (uint32_t)at * 2654435761u; /* Knuth's multiplicative hash */
        float in = (float)(int32_t)(noise ^ noise << 13) * 0x1p-38f, y;
        if (number % 4 != 3 && at % period == 0)
            in += 0.1f;
        y = in + 1.94f * cosf(angle) * state[0] - 0.94f * state[1];
        state[1] = state[0];
        state[0] = y;
        pcm[i] = fminf(fmaxf(y, -0.5f), 0.5f);
    }
}

static void drain(const struct steno_pool_ops *ops, steno_stream *s)
{
    struct steno_event ev;
    while (ops->next(s, &ev))
        ;
}

/* Processor time of this thread so far, without the network's. */
static double without_network(const struct trial *t)
{
    return steno_pool_thread_cpu() - (double)t->p->ops->network_cpu(t->batcher) * 1e-9;
}

/* Feed `seconds` of sound through s and flush. *speech_seconds: without_network after all sound was
 * fed. */
static steno_status feed_speech(const struct trial *t, steno_stream *s, double seconds,
                                double *speech_seconds, steno_err *err)
{
    const struct steno_pool_ops *ops = t->p->ops;
    int rate = ops->rate(t->p->model);
    size_t at = 0, n = 0, used = 0, total = (size_t)(seconds * rate);
    float pcm[BLOCK], state[2] = {0};
    bool done = false, ending = false;
    steno_status st = STENO_OK;
    while (!st && !done && !is_over(t)) {
        if (ops->ready(s)) {
            ops->step(t->batcher, &s, 1, &st, err);
        } else if (at < total || used < n) {
            if (used == n) {
                n = total - at < BLOCK ? total - at : BLOCK;
                sound(pcm, n, at, rate, state);
                at += n;
                used = 0;
            }
            size_t k = 0;
            st = ops->feed(s, pcm + used, n - used, &k, err);
            used += k;
        } else {
            *speech_seconds = ending ? *speech_seconds : without_network(t);
            ending = true;
            st = ops->flush(s, true, &done, err);
        }
        drain(ops, s);
    }
    return st;
}

/* Open a stream with the pool's trial options; with default options if the model does not support
 * those. */
static steno_status open_stream(const struct trial *t, steno_stream **s, steno_err *err)
{
    const struct steno_stream_options plain = {0};
    const struct steno_pool_ops *ops = t->p->ops;
    steno_status st = ops->open(s, t->p->model, &t->p->opt.trial, NULL, err);
    return st == STENO_ERR_INVAL || st == STENO_ERR_UNSUPPORTED
               ? ops->open(s, t->p->model, &plain, NULL, err)
               : st;
}

/* Run one stream. *each: this thread's processor time without the network's, in seconds per second
 * of audio of a stream of TYPICAL seconds. *all: processor time of the whole run, in seconds. */
static steno_status try_one(const struct trial *t, double seconds, double *each, double *all,
                            steno_err *err)
{
    steno_stream *s = NULL;
    double begun = without_network(t), cpu = steno_pool_thread_cpu(), speech_seconds = begun;
    steno_status st = open_stream(t, &s, err);
    if (!st)
        st = feed_speech(t, s, seconds, &speech_seconds, err);
    if (s)
        t->p->ops->close(s);
    *all = steno_pool_thread_cpu() - cpu;
    *each = (speech_seconds - begun) / seconds + (without_network(t) - speech_seconds) / TYPICAL;
    return st;
}

struct other_worker {
    const steno_pool *p;
    pthread_t thread;
    bool started;
    _Atomic bool *over;
};

static void *run_beside(void *arg)
{
    struct other_worker *c = arg;
    struct trial t = {.p = c->p, .over = c->over};
    double each, all;
    steno_status st = c->p->ops->batcher_open(&t.batcher, c->p->model, 1, NULL);
    while (!st && !is_over(&t))
        st = try_one(&t, SECONDS, &each, &all, NULL);
    c->p->ops->batcher_close(t.batcher);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of some streams (of two, the lesser); fewer streams if they take long. */
static steno_status measure_host(const struct trial *t, double *host, steno_err *err)
{
    double each[TRIALS], spent = 0, all;
    steno_status st = try_one(t, WARMING, each, &all, err);
    size_t n = 0;
    for (; n < TRIALS && !st && spent < MOST && !is_over(t); n++, spent += all)
        st = try_one(t, SECONDS, &each[n], &all, err);
    if (st)
        return st;
    if (is_over(t))
        return steno_fail(err, STENO_ERR_CANCELLED, "pool closed");
    qsort(each, n, sizeof *each, by_size);
    *host = fmax(each[(n - 1) / 2], 0);
    return STENO_OK;
}

steno_status steno_pool_try(const steno_pool *p, steno_batcher *batcher, double *host,
                            steno_err *err)
{
    const struct trial t = {p, batcher, &p->give_up};
    struct other_worker others[OTHER_WORKERS] = {{0}};
    int n = p->n_workers - 1 < OTHER_WORKERS ? p->n_workers - 1 : OTHER_WORKERS;
    _Atomic bool over = false;
    steno_status st;
    for (int i = 0; i < n; i++) {
        others[i].p = p;
        others[i].over = &over;
        others[i].started = !pthread_create(&others[i].thread, NULL, run_beside, &others[i]);
    }
    st = measure_host(&t, host, err);
    atomic_store_explicit(&over, true, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        if (others[i].started)
            pthread_join(others[i].thread, NULL);
    return st;
}

/* ---- while the pool serves ---------------------------------------------------------------- */

static void *try_later(void *pool)
{
    steno_pool *p = pool;
    struct steno_pool_costs costs;
    steno_batcher *batcher = NULL;
    struct steno_pool_watch w;
    double host = 0, each;
    steno_err err = {0};
    steno_status st;
    steno_pool_watch_begin(&w);
    st = p->ops->batcher_open(&batcher, p->model, 1, &err);
    if (!st)
        st = steno_pool_try(p, batcher, &host, &err);
    p->ops->batcher_close(batcher);
    pthread_mutex_lock(&p->lock);
    p->load.measuring = false;
    if (!st)
        p->load.costs.host = host;
    costs = p->load.costs;
    each = steno_pool_each(p);
    pthread_mutex_unlock(&p->lock);
    if (st != STENO_ERR_CANCELLED && p->opt.on_measured)
        p->opt.on_measured(p->opt.measured_user, st ? NULL : &costs, steno_pool_watch_end(&w),
                           each);
    return NULL;
}

steno_status steno_pool_try_later(steno_pool *p, steno_err *err)
{
    steno_status st = steno_thread_start(&p->trier, "calibrate", try_later, p, err);
    p->trying = !st;
    return st;
}
