/* Life of pool and streams. schedule.c chooses streams, worker.c does the work. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/processors.h"
#include "base/threads.h"
#include "speech/recognizer/stream.h"
#include "speech/pool/internal.h"

#define DEFAULT_STREAMS 256
#define MAX_STREAMS 1000000 /* limits.sessions, limits.uploads and a canary together */
#define DEFAULT_BUFFER 4.0
#define DEFAULT_WAIT 0.02
#define DEFAULT_RUN 0.1
#define MAX_WORKERS 1024
/* A reserved place is kept at least this long, at most twice. */
#define PROMISE_NS ((int64_t)(2e9 * STENO_POOL_LOOK_SECONDS))

static int model_rate(const steno_model *m)
{
    struct steno_model_info info;
    steno_model_get_info(m, &info);
    return info.sample_rate;
}

static double model_chunk(const steno_model *m)
{
    struct steno_model_info info;
    steno_model_get_info(m, &info);
    return info.chunk_seconds;
}

static const struct steno_pool_ops recogniser = {
    .open = steno_stream_open_knowing,
    .rate = model_rate,
    .close = steno_stream_close,
    .feed = steno_stream_feed,
    .slack = steno_stream_slack,
    .set_early = steno_stream_set_early,
    .set_turn = steno_stream_set_turn,
    .set_filters = steno_stream_set_filters,
    .turn_due = steno_stream_turn_due,
    .turn_stats = steno_stream_turn_stats,
    .set_waiting = steno_stream_set_waiting,
    .set_queued = steno_stream_set_queued,
    .ready = steno_stream_ready,
    .missing = steno_stream_missing,
    .share = steno_stream_share,
    .flush = steno_stream_flush,
    .rescue = steno_stream_rescue,
    .next = steno_stream_next,
    .skipped = steno_stream_skipped,
    .heard = steno_stream_heard,
    .batcher_open = steno_batcher_open,
    .batcher_close = steno_batcher_close,
    .batcher_max = steno_batcher_max,
    .batcher_shares = steno_batcher_shares,
    .set_costs = steno_batcher_set_costs,
    .step = steno_streams_step,
    .measure = steno_batcher_measure,
    .network_ns = steno_batcher_network_ns,
    .network_cpu = steno_batcher_network_cpu,
    .chunk_seconds = model_chunk,
    .cpu_free = steno_cpu_free,
};

/* Queue the stream for the workers if there is something to do. ps->lock is held. */
static void wake(steno_pool_stream *ps)
{
    if (ps->held || !steno_pool_has_work(ps))
        return;
    ps->held = true;
    steno_pool_enqueue(ps, true, false);
}

/* ---- pool ---------------------------------------------------------------------------------- */

static void pool_unref(steno_pool *p)
{
    bool last;
    pthread_mutex_lock(&p->lock);
    last = --p->refs == 0;
    pthread_mutex_unlock(&p->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->batch_full);
    for (int i = 0; p->workers && i < p->n_workers; i++)
        p->ops->batcher_close(p->workers[i].batcher);
    free(p->heap);
    free(p->workers);
    free(p);
}

static steno_status check_options(struct steno_pool_options *o, steno_err *err)
{
    if (o->workers == 0)
        o->workers = (int)fmin(fmin(steno_cpu_count(), ceil(steno_cpu_quota())), MAX_WORKERS);
    if (o->max_streams == 0)
        o->max_streams = DEFAULT_STREAMS;
    if (o->buffer_seconds == 0) /* exactly 0: not set */
        o->buffer_seconds = DEFAULT_BUFFER;
    if (o->batch_wait == 0)
        o->batch_wait = DEFAULT_WAIT;
    if (o->batch_run == 0)
        o->batch_run = DEFAULT_RUN;
    if (o->workers < 0 || o->workers > MAX_WORKERS || o->max_streams < 0 ||
        o->max_streams > MAX_STREAMS || !(o->buffer_seconds >= 0.1 && o->buffer_seconds <= 3600))
        return steno_fail(err, STENO_ERR_INVAL,
                          "pool: %d workers (to %d), %d streams (to %d), %g s buffer (0.1 to 3600)",
                          o->workers, MAX_WORKERS, o->max_streams, MAX_STREAMS, o->buffer_seconds);
    if (o->batch < 0 || o->batch > STENO_BATCH_MAX || !(o->batch_wait <= 10) ||
        !(o->batch_run >= 0 && o->batch_run <= 10))
        return steno_fail(err, STENO_ERR_INVAL,
                          "pool: batches of %d (to %d), waiting %g s (to 10), running %g s (to 10)",
                          o->batch, STENO_BATCH_MAX, o->batch_wait, o->batch_run);
    return STENO_OK;
}

static steno_status start_worker(steno_pool *p, struct steno_pool_worker *w, unsigned number,
                                 steno_err *err)
{
    struct steno_step_costs c;
    char name[16];
    steno_status st = p->ops->batcher_open(&w->batcher, p->model, p->batch_max, err);
    if (st)
        return st;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        c.seconds[i] = p->load.costs.step[i];
    p->ops->set_costs(w->batcher, &c);
    w->pool = p;
    atomic_init(&w->busy, false);
    atomic_init(&w->since_ns, steno_now_ns());
    snprintf(name, sizeof name, "worker-%u", number % 10000);
    st = steno_thread_start(&w->thread, name, steno_pool_work, w, err);
    w->started = !st;
    return st;
}

static steno_status start(steno_pool *p, const struct steno_pool_costs *costs, steno_err *err)
{
    steno_status st = steno_pool_calibrate(p, costs, err);
    for (int i = 0; i < p->n_workers && !st; i++)
        st = start_worker(p, &p->workers[i], (unsigned)i, err);
    return st || !p->load.measuring ? st : steno_pool_try_later(p, err);
}

static void init_locks(steno_pool *p)
{
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    steno_cond_init(&p->batch_full);
}

steno_status steno_pool_open_with(steno_pool **out, const struct steno_pool_ops *ops,
                                  steno_model *model, const struct steno_pool_options *opt,
                                  steno_err *err)
{
    struct steno_pool_options o = {0};
    steno_pool *p;
    steno_status st;
    if (opt)
        o = *opt;
    st = check_options(&o, err);
    if (st)
        return st;
    p = calloc(1, sizeof *p);
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "pool: out of memory");
    p->ops = ops;
    p->model = model;
    p->opt = o;
    p->opt.costs = NULL;
    p->wait_ns = o.batch_wait > 0 ? (int64_t)(o.batch_wait * 1e9) : 0;
    p->refs = 1;
    init_locks(p);
    p->heap = calloc((size_t)o.max_streams, sizeof *p->heap);
    p->workers = calloc((size_t)o.workers, sizeof *p->workers);
    p->n_workers = p->workers ? o.workers : 0;
    st = p->heap && p->workers ? start(p, o.costs, err)
                               : steno_fail(err, STENO_ERR_NOMEM, "pool: out of memory");
    if (st) {
        steno_pool_close(p);
        return st;
    }
    *out = p;
    return STENO_OK;
}

steno_status steno_pool_open(steno_pool **out, steno_model *m, const struct steno_pool_options *opt,
                             steno_err *err)
{
    return steno_pool_open_with(out, &recogniser, m, opt, err);
}

/* No worker runs any more: tell every stream that it is over. A callback may close its stream, so
 * the walk starts at the list's head each time. */
static void finish_streams(steno_pool *p)
{
    const steno_err err = {STENO_ERR_CANCELLED, "pool closed"};
    for (;;) {
        steno_pool_stream *ps;
        bool free_it;
        pthread_mutex_lock(&p->lock);
        for (ps = p->streams; ps && ps->swept; ps = ps->next)
            ;
        if (ps)
            ps->swept = true;
        pthread_mutex_unlock(&p->lock);
        if (!ps)
            return;
        pthread_mutex_lock(&ps->lock);
        ps->worker = pthread_self();
        ps->with_worker = true;
        pthread_mutex_unlock(&ps->lock);
        steno_pool_finish(ps, STENO_ERR_CANCELLED, &err);
        pthread_mutex_lock(&ps->lock);
        ps->cancel = true;
        ps->with_worker = ps->held = false;
        free_it = ps->free_after;
        pthread_cond_broadcast(&ps->idle);
        pthread_mutex_unlock(&ps->lock);
        if (free_it)
            steno_pool_stream_free(ps);
    }
}

void steno_pool_close(steno_pool *p)
{
    if (!p)
        return;
    atomic_store_explicit(&p->give_up, true, memory_order_relaxed); /* its thread is joined below */
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_cond_broadcast(&p->batch_full);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_workers; i++)
        if (p->workers[i].started)
            pthread_join(p->workers[i].thread, NULL);
    if (p->trying)
        pthread_join(p->trier, NULL);
    finish_streams(p);
    pool_unref(p);
}

void steno_pool_get_stats(steno_pool *p, struct steno_pool_stats *st)
{
    double slower;
    steno_pool_look(p);
    pthread_mutex_lock(&p->lock);
    *st = p->stats;
    st->ready = p->n_ready;
    st->capacity = steno_pool_capacity_now(p);
    st->measuring = p->load.measuring;
    st->each = st->measuring ? 0 : steno_pool_each(p);
    st->costs = p->load.costs;
    slower = steno_capacity_slower(&p->load.capacity);
    st->costs.host *= slower;
    for (int i = 0; i < STENO_BATCH_SIZES; i++)
        st->costs.step[i] *= slower;
    pthread_mutex_unlock(&p->lock);
    st->workers = p->n_workers;
    st->batch_max = p->batch_max;
    st->places = p->opt.max_streams;
    st->busy = 0;
    for (int i = 0; i < p->n_workers; i++)
        st->busy += atomic_load_explicit(&p->workers[i].busy, memory_order_relaxed);
}

struct steno_pool_heartbeat steno_pool_worker_heartbeat(steno_pool *p, int i)
{
    struct steno_pool_worker *w = &p->workers[i];
    /* relaxed: a watchdog compares values seconds apart */
    const bool busy = atomic_load_explicit(&w->busy, memory_order_relaxed);
    const uint64_t beats = atomic_load_explicit(&w->beats, memory_order_relaxed);
    if (atomic_exchange_explicit(&w->seen, beats, memory_order_relaxed) != beats && busy)
        atomic_store_explicit(&w->since_ns, steno_now_ns(), memory_order_relaxed);
    return (struct steno_pool_heartbeat){
        .busy = busy, .since_ns = atomic_load_explicit(&w->since_ns, memory_order_relaxed)};
}

/* ---- streams ------------------------------------------------------------------------------- */

/* Drop reservations that were not used in time. */
static void forget_promises(steno_pool *p)
{
    int64_t now = steno_now_ns(), past = now - p->promised_ns;
    if (past < PROMISE_NS)
        return;
    p->promised_before = past < 2 * PROMISE_NS ? p->promised : 0;
    p->promised = 0;
    p->promised_ns = now;
}

/* Check for a place; the pool's lock is held. promised: reserved places, which count as taken.
 * sure: a place was reserved for the stream, so the capacity, which may have changed since, does
 * not matter. */
static steno_status find_place(steno_pool *p, bool counted, int promised, bool sure, steno_err *err)
{
    int live = p->stats.live + promised;
    if (p->stop)
        return steno_fail(err, STENO_ERR_CANCELLED, "pool is closing");
    if (p->stats.active >= p->opt.max_streams) {
        p->stats.refused++;
        return steno_fail(err, STENO_ERR_BUSY, "all %d places for streams are taken",
                          p->opt.max_streams);
    }
    if (counted && !sure && live >= steno_pool_capacity_now(p)) {
        p->stats.refused++;
        return steno_fail(err, STENO_ERR_BUSY,
                          "%d live streams run, which is all this machine "
                          "carries at the pace of real time",
                          live);
    }
    return STENO_OK;
}

steno_status steno_pool_admit(steno_pool *p, enum steno_pool_class c, steno_err *err)
{
    bool live = c == STENO_POOL_LIVE;
    steno_status st;
    steno_pool_look(p);
    pthread_mutex_lock(&p->lock);
    forget_promises(p);
    st = find_place(p, live, p->promised + p->promised_before, false, err);
    p->promised += !st && live;
    pthread_mutex_unlock(&p->lock);
    return st;
}

static steno_status take_place(steno_pool *p, bool counted, steno_err *err)
{
    steno_status st;
    pthread_mutex_lock(&p->lock);
    forget_promises(p);
    st = find_place(p, counted, 0, p->promised + p->promised_before > 0, err);
    if (!st) {
        p->stats.active++;
        p->stats.live += counted;
        p->refs++;
    }
    if (!st && counted && p->promised_before)
        p->promised_before--;
    else if (!st && counted && p->promised)
        p->promised--;
    pthread_mutex_unlock(&p->lock);
    return st;
}

static void leave_place(steno_pool *p, bool counted)
{
    pthread_mutex_lock(&p->lock);
    p->stats.active--;
    p->stats.live -= counted;
    pthread_mutex_unlock(&p->lock);
    pool_unref(p);
}

/* Slot 0 is for streams without an owner. */
static unsigned owner_slot(uint64_t owner)
{
    return owner ? 1 + (unsigned)(owner * 0x9e3779b97f4a7c15u >> 32) % (STENO_POOL_OWNERS - 1) : 0;
}

static void list_add(steno_pool *p, steno_pool_stream *ps)
{
    pthread_mutex_lock(&p->lock);
    p->stats.opened++;
    ps->next = p->streams;
    if (ps->next)
        ps->next->prev = ps;
    p->streams = ps;
    pthread_mutex_unlock(&p->lock);
}

static void list_remove(steno_pool *p, steno_pool_stream *ps)
{
    pthread_mutex_lock(&p->lock);
    if (ps->prev)
        ps->prev->next = ps->next;
    else
        p->streams = ps->next;
    if (ps->next)
        ps->next->prev = ps->prev;
    pthread_mutex_unlock(&p->lock);
}

steno_status steno_pool_stream_open(steno_pool_stream **out, steno_pool *p,
                                    const struct steno_pool_stream_options *opt, steno_pool_fn fn,
                                    void *user, steno_err *err)
{
    struct steno_pool_stream_options o = {0};
    steno_pool_stream *ps = NULL;
    steno_status st;
    bool counted;
    if (opt)
        o = *opt;
    if ((unsigned)o.priority >= STENO_POOL_CLASSES)
        return steno_fail(err, STENO_ERR_INVAL, "pool: class %d", (int)o.priority);
    counted = o.priority == STENO_POOL_LIVE && !o.always;
    st = take_place(p, counted, err);
    if (st)
        return st;
    ps = calloc(1, sizeof *ps);
    if (!ps) {
        leave_place(p, counted);
        return steno_fail(err, STENO_ERR_NOMEM, "pool: out of memory");
    }
    st = p->ops->open(&ps->rec, p->model, &o.stream,
                      &(struct steno_stream_known){o.vocabulary, o.lines, o.n_lines}, err);
    if (!st && (o.filters.replace || o.filters.redact || o.filters.mask || o.filters.no_fillers))
        st = p->ops->set_filters(ps->rec, &o.filters, err);
    if (!st && o.turn)
        st = p->ops->set_turn(ps->rec, o.turn, o.turn_threshold, o.turn_early, err);
    if (st) {
        if (ps->rec)
            p->ops->close(ps->rec);
        free(ps);
        leave_place(p, counted);
        return st;
    }
    p->ops->set_early(ps->rec, o.priority == STENO_POOL_LIVE);
    ps->pool = p;
    ps->rate = o.stream.sample_rate ? o.stream.sample_rate : p->ops->rate(p->model);
    ps->class = o.priority;
    ps->owner = owner_slot(o.owner);
    ps->counted = counted;
    ps->progress = o.progress;
    ps->fn = fn;
    ps->user = user;
    pthread_mutex_init(&ps->lock, NULL);
    pthread_cond_init(&ps->idle, NULL);
    steno_ring_init(&ps->ring, (size_t)(p->opt.buffer_seconds * ps->rate));
    ps->missing = p->ops->missing(ps->rec);
    ps->stats.opened_ns = steno_now_ns();
    list_add(p, ps);
    *out = ps;
    return STENO_OK;
}

void steno_pool_stream_free(steno_pool_stream *ps)
{
    steno_pool *p = ps->pool;
    bool counted = ps->counted;
    list_remove(p, ps);
    if (ps->rec)
        p->ops->close(ps->rec);
    steno_ring_free(&ps->ring);
    pthread_mutex_destroy(&ps->lock);
    pthread_cond_destroy(&ps->idle);
    free(ps);
    leave_place(p, counted);
}

/* Remember when samples arrived. If the table is full, the last entry is extended, so a latency may
 * be overstated but not understated. */
static void mark(steno_pool_stream *ps)
{
    if (ps->n_marks < STENO_POOL_MARKS)
        ps->marks[ps->n_marks++].ns = steno_now_ns();
    ps->marks[ps->n_marks - 1].end = ps->pushed;
}

/* ps->lock is held. No room: a note will follow when there is some. */
static steno_status reserve_room(steno_pool_stream *ps, size_t least, size_t most, float **to,
                                 size_t *room, steno_err *err)
{
    *room = 0;
    if (ps->done || ps->end || ps->cancel)
        return steno_fail(err, STENO_ERR_CANCELLED, "stream is over");
    if (steno_ring_room(&ps->ring, least, most, to, room))
        return steno_fail(err, STENO_ERR_NOMEM, "pool: out of memory");
    ps->want_room |= !*room;
    return STENO_OK;
}

/* ps->lock is held. */
static void count_pushed(steno_pool_stream *ps, size_t n)
{
    ps->pushed += (int64_t)n;
    ps->stats.audio_seconds = (double)ps->pushed / ps->rate;
    mark(ps);
    pthread_mutex_lock(&ps->pool->lock);
    ps->pool->stats.audio_seconds += (double)n / ps->rate;
    pthread_mutex_unlock(&ps->pool->lock);
    steno_pool_hurry(ps); /* to listen: sound may drop what is not needed yet */
}

steno_status steno_pool_stream_room(steno_pool_stream *ps, size_t least, size_t most, float **to,
                                    size_t *room, steno_err *err)
{
    steno_status st;
    pthread_mutex_lock(&ps->lock);
    st = reserve_room(ps, least, most, to, room, err);
    if (!st && !*room)
        wake(ps);
    pthread_mutex_unlock(&ps->lock);
    return st;
}

void steno_pool_stream_add(steno_pool_stream *ps, size_t n)
{
    pthread_mutex_lock(&ps->lock);
    steno_ring_add(&ps->ring, n);
    if (n) {
        count_pushed(ps, n);
        wake(ps);
    }
    pthread_mutex_unlock(&ps->lock); /* from here on ps may be freed: closed in a callback */
}

steno_status steno_pool_stream_push(steno_pool_stream *ps, const float *pcm, size_t n,
                                    size_t *taken, steno_err *err)
{
    steno_status st = STENO_OK;
    size_t room;
    float *to;
    *taken = 0;
    pthread_mutex_lock(&ps->lock);
    while (*taken < n) {
        st = reserve_room(ps, 1, n - *taken, &to, &room, err);
        if (st || !room)
            break;
        memcpy(to, pcm + *taken, room * sizeof *to);
        steno_ring_add(&ps->ring, room);
        *taken += room;
    }
    if (*taken)
        count_pushed(ps, *taken);
    if (!st)
        wake(ps);
    pthread_mutex_unlock(&ps->lock); /* from here on ps may be freed: closed in a callback */
    return st;
}

steno_status steno_pool_stream_finalize(steno_pool_stream *ps, steno_err *err)
{
    steno_status st = STENO_OK;
    pthread_mutex_lock(&ps->lock);
    if (ps->done || ps->end || ps->cancel)
        st = steno_fail(err, STENO_ERR_CANCELLED, "stream is over");
    else if (ps->n_finalize == STENO_POOL_MAX_FINALIZE)
        st = steno_fail(err, STENO_ERR_BUSY, "%d finalize requests wait already",
                        STENO_POOL_MAX_FINALIZE);
    else
        ps->finalize_at[ps->n_finalize++] = ps->pushed;
    if (!st) {
        steno_pool_hurry(ps);
        wake(ps);
    }
    pthread_mutex_unlock(&ps->lock);
    return st;
}

void steno_pool_stream_end(steno_pool_stream *ps)
{
    pthread_mutex_lock(&ps->lock);
    ps->end = true;
    ps->stats.ended_ns = steno_now_ns();
    steno_pool_hurry(ps);
    wake(ps);
    pthread_mutex_unlock(&ps->lock);
}

void steno_pool_stream_cancel(steno_pool_stream *ps)
{
    pthread_mutex_lock(&ps->lock);
    ps->cancel = true;
    wake(ps);
    pthread_mutex_unlock(&ps->lock);
}

void steno_pool_stream_close(steno_pool_stream *ps)
{
    bool own;
    if (!ps)
        return;
    pthread_mutex_lock(&ps->lock);
    ps->closed = ps->cancel = true;
    own = ps->with_worker && pthread_equal(ps->worker, pthread_self());
    if (own)
        ps->free_after = true;
    while (!own && ps->held)
        pthread_cond_wait(&ps->idle, &ps->lock);
    pthread_mutex_unlock(&ps->lock);
    if (!own)
        steno_pool_stream_free(ps);
}

/* The earlier of two times; 0 is none. */
static int64_t earlier(int64_t a, int64_t b)
{
    return a && (!b || a < b) ? a : b;
}

void steno_pool_stream_stats_add(struct steno_pool_stream_stats *sum,
                                 const struct steno_pool_stream_stats *s)
{
    sum->audio_seconds += s->audio_seconds;
    sum->waiting_seconds += s->waiting_seconds;
    sum->inference_seconds += s->inference_seconds;
    sum->skipped_seconds += s->skipped_seconds;
    sum->queue_wait_seconds += s->queue_wait_seconds;
    if (s->queue_wait_max > sum->queue_wait_max)
        sum->queue_wait_max = s->queue_wait_max;
    sum->steps += s->steps;
    sum->turn_answers += s->turn_answers;
    sum->turn_ends += s->turn_ends;
    sum->turn_seconds += s->turn_seconds;
    sum->network_seconds += s->network_seconds;
    sum->opened_ns = earlier(sum->opened_ns, s->opened_ns);
    sum->first_step_ns = earlier(sum->first_step_ns, s->first_step_ns);
    if (s->ended_ns > sum->ended_ns)
        sum->ended_ns = s->ended_ns;
    if (s->last_step_ns > sum->last_step_ns)
        sum->last_step_ns = s->last_step_ns;
}

void steno_pool_stream_get_stats(steno_pool_stream *ps, struct steno_pool_stream_stats *st)
{
    pthread_mutex_lock(&ps->lock);
    *st = ps->stats;
    st->waiting_seconds = (double)ps->ring.len / ps->rate;
    pthread_mutex_unlock(&ps->lock);
}
