/* Measures what a live stream takes, when a pool opens. The network is timed on noise for every
 * batch size; everything around it (features, search, the end of a stream), or all of it where
 * streams run networks of their own, by a stream of sound that runs to its end with the options of
 * live ones (search, beam). Meanwhile the other workers do the same, because they share memory and
 * caches. A short stream before it makes plans and buffers. Streams with networks of their own may
 * take seconds, so the pool serves meanwhile. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/processors.h"
#include "base/threads.h"
#include "speech/pool/internal.h"

#define WORTH 0.97       /* a larger batch must cost less than this per stream, relatively */
#define BLOCK 1024       /* samples per feed */
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

/* Feed `seconds` of sound through s and flush. */
static steno_status feed_speech(const struct trial *t, steno_stream *s, double seconds,
                                steno_err *err)
{
    const struct steno_pool_ops *ops = t->p->ops;
    int rate = ops->rate(t->p->model);
    size_t at = 0, n = 0, used = 0, total = (size_t)(seconds * rate);
    float pcm[BLOCK], state[2] = {0};
    bool done = false;
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
            st = ops->flush(s, true, &done, err);
        }
        drain(ops, s);
    }
    return st;
}

/* Open a stream with the pool's trial options; with default options if the model does not support
 * those. It does as on a machine with many streams, which has no time for steps that may be
 * dropped. */
static steno_status open_stream(const struct trial *t, steno_stream **s, steno_err *err)
{
    const struct steno_stream_options plain = {0};
    const struct steno_pool_ops *ops = t->p->ops;
    steno_status st = ops->open(s, t->p->model, &t->p->opt.trial, NULL, err);
    if (st == STENO_ERR_INVAL || st == STENO_ERR_UNSUPPORTED)
        st = ops->open(s, t->p->model, &plain, NULL, err);
    if (!st)
        ops->set_early(*s, false);
    return st;
}

/* Run a stream of `seconds`. *host: this thread's processor time without the network's, in seconds
 * per second of audio. */
static steno_status try_one(const struct trial *t, double seconds, double *host, steno_err *err)
{
    steno_stream *s = NULL;
    const double begun = without_network(t);
    steno_status st = open_stream(t, &s, err);
    if (!st)
        st = feed_speech(t, s, seconds, err);
    if (s)
        t->p->ops->close(s);
    *host = fmax(without_network(t) - begun, 0) / seconds;
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
    double host;
    steno_status st = c->p->ops->batcher_open(&t.batcher, c->p->model, 1, NULL);
    while (!st && !is_over(&t))
        st = try_one(&t, STENO_POOL_STREAM_SECONDS, &host, NULL);
    c->p->ops->batcher_close(t.batcher);
    return NULL;
}

static steno_status try_streams(const steno_pool *p, steno_batcher *batcher, double *host,
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
    st = try_one(&t, STENO_POOL_STREAM_SECONDS / 10, host, err);
    if (!st)
        st = try_one(&t, STENO_POOL_STREAM_SECONDS, host, err);
    if (!st && is_over(&t))
        st = steno_fail(err, STENO_ERR_CANCELLED, "pool closed");
    atomic_store_explicit(&over, true, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        if (others[i].started)
            pthread_join(others[i].thread, NULL);
    return st;
}

/* ---- before the pool serves --------------------------------------------------------------- */

/* Whether a measurement can be kept: the thread had a processor for most of its time. */
struct watch {
    int64_t wall_ns;
    double cpu;
};

static struct watch watch_begin(void)
{
    return (struct watch){steno_now_ns(), steno_pool_thread_cpu()};
}

static bool was_quiet(const struct watch *w)
{
    return steno_pool_thread_cpu() - w->cpu >=
           STENO_POOL_BUSY * 1e-9 * (double)(steno_now_ns() - w->wall_ns);
}

/* Return the largest batch size that is worth it: each larger size must cost less per stream by
 * WORTH. Larger sizes are marked unused. */
static int best_batch(struct steno_pool_costs *c, int limit)
{
    double best = c->step[0];
    int at = 0;
    for (int i = 1; i < STENO_BATCH_SIZES && 1 << i <= limit; i++) {
        double each = c->step[i] / (1 << i);
        if (each < WORTH * best) {
            best = each;
            at = i;
        }
    }
    for (int i = at + 1; i < STENO_BATCH_SIZES; i++)
        c->step[i] = INFINITY;
    return 1 << at;
}

/* *whole: nothing is left to measure later. */
static steno_status measure(steno_pool *p, steno_batcher *s, bool *whole, steno_err *err)
{
    struct steno_step_costs c = {0};
    steno_status st = p->ops->measure(s, p->opt.batch_run, &c, err);
    if (st)
        return st;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        p->load.costs.step[i] = c.seconds[i];
    *whole = !c.more;
    if (*whole)
        return try_streams(p, s, &p->load.costs.host, err);
    p->load.measuring = !p->opt.capacity;
    return STENO_OK;
}

steno_status steno_pool_calibrate(steno_pool *p, const struct steno_pool_costs *known,
                                  steno_err *err)
{
    struct steno_pool_load *l = &p->load;
    int limit = p->opt.batch ? p->opt.batch : STENO_BATCH_MAX;
    const struct watch w = watch_begin();
    steno_batcher *s = NULL;
    bool whole = false;
    steno_status st = p->ops->batcher_open(&s, p->model, limit, err);
    if (st)
        return st;
    limit = p->ops->batcher_max(s);
    l->chunk = p->ops->chunk_seconds(p->model);
    /* A model without chunks takes whole recordings: all it does counts as host. */
    if (!(l->chunk > 0))
        l->chunk = 1;
    if (known)
        l->costs = *known;
    else
        st = measure(p, s, &whole, err);
    p->batch_max = best_batch(&l->costs, limit);
    l->capacity = (struct steno_capacity){
        .workers = p->n_workers,
        .cpus = steno_cpu_count(),
        .quota = steno_cpu_quota(),
        .parts = p->ops->batcher_shares && p->ops->batcher_shares(s),
    };
    if (l->capacity.parts)
        p->batch_max = limit; /* the streams' parts limit it */
    p->ops->batcher_close(s);
    steno_pool_plan(p);
    if (!st && whole && p->opt.on_measured)
        p->opt.on_measured(p->opt.measured_user, &l->costs, was_quiet(&w), 0);
    return st;
}

/* ---- while the pool serves ---------------------------------------------------------------- */

static void *try_later(void *pool)
{
    steno_pool *p = pool;
    struct steno_pool_costs costs;
    steno_batcher *batcher = NULL;
    const struct watch w = watch_begin();
    double host = 0, each;
    steno_err err = {0};
    steno_status st;
    st = p->ops->batcher_open(&batcher, p->model, 1, &err);
    if (!st)
        st = try_streams(p, batcher, &host, &err);
    p->ops->batcher_close(batcher);
    pthread_mutex_lock(&p->lock);
    p->load.measuring = false;
    if (!st)
        p->load.costs.host = host;
    steno_pool_plan(p);
    costs = p->load.costs;
    each = steno_pool_each(p);
    pthread_mutex_unlock(&p->lock);
    if (st != STENO_ERR_CANCELLED && p->opt.on_measured)
        p->opt.on_measured(p->opt.measured_user, st ? NULL : &costs, was_quiet(&w), each);
    return NULL;
}

steno_status steno_pool_try_later(steno_pool *p, steno_err *err)
{
    steno_status st = steno_thread_start(&p->trier, "calibrate", try_later, p, err);
    p->trying = !st;
    return st;
}
