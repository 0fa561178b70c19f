/* What a worker does: take the stream with the earliest deadline, bring it one network step (or one
 * finalize, or its end) further, deliver what came of it, put it back if there is more. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "pool/internal.h"

/* What the stream needs next. */
enum job { JOB_NONE, JOB_AUDIO, JOB_FINALIZE, JOB_END, JOB_CANCEL };

bool steno_pool_has_work(const steno_pool_stream *ps)
{
    if (ps->done)
        return false;
    return ps->cancel || ps->end || ps->n_finalize ||
           (ps->ring.len && (ps->ring.len >= ps->missing || ps->want_room));
}

/* ---- notes --------------------------------------------------------------------------------- */

static void stamp(struct steno_pool_worker *w)
{
    atomic_store_explicit(&w->since_ns, steno_now_ns(), memory_order_relaxed);
}

/* Call back unless the stream is being closed. */
static void tell(steno_pool_stream *ps, struct steno_pool_note *note)
{
    bool closed;
    pthread_mutex_lock(&ps->lock);
    closed = ps->closed;
    note->stats = ps->stats;
    pthread_mutex_unlock(&ps->lock);
    if (!closed && ps->fn)
        ps->fn(ps->user, ps, note);
}

/* Seconds since the audio of this event had arrived. */
static double latency_of(steno_pool_stream *ps, const struct steno_event *ev)
{
    int64_t at = (int64_t)ceil(ev->time * ps->rate - 0.5), ns = 0;
    size_t i = 0;
    pthread_mutex_lock(&ps->lock);
    while (i + 1 < ps->n_marks && ps->marks[i].end < at)
        i++;
    if (ps->n_marks)
        ns = ps->marks[i].ns;
    pthread_mutex_unlock(&ps->lock);
    return ns ? (double)(steno_now_ns() - ns) * 1e-9 : 0;
}

static bool is_cancelled(steno_pool_stream *ps)
{
    bool cancel;
    pthread_mutex_lock(&ps->lock);
    cancel = ps->cancel;
    pthread_mutex_unlock(&ps->lock);
    return cancel;
}

static void deliver(struct steno_pool_worker *w, steno_pool_stream *ps)
{
    struct steno_event ev;
    while (!is_cancelled(ps) && ps->pool->ops->next(ps->rec, &ev)) {
        struct steno_pool_note note = {
            .kind = STENO_POOL_EVENT, .event = &ev, .latency = latency_of(ps, &ev)};
        stamp(w);
        tell(ps, &note);
    }
}

void steno_pool_finish(steno_pool_stream *ps, steno_status st, const steno_err *err)
{
    struct steno_pool_note note = {.kind = STENO_POOL_DONE, .status = st, .err = err};
    bool again;
    pthread_mutex_lock(&ps->lock);
    again = ps->done;
    ps->done = true;
    pthread_mutex_unlock(&ps->lock);
    if (again)
        return;
    ps->pool->ops->close(ps->rec); /* its memory goes now, its place when the owner closes */
    ps->rec = NULL;
    tell(ps, &note);
}

/* ---- one turn ------------------------------------------------------------------------------ */

/* Copy out audio up to the next finalize, or find what else is due. */
static enum job next_job(steno_pool_stream *ps, float *block, size_t *n)
{
    enum job job = JOB_NONE;
    size_t most = STENO_POOL_BLOCK;
    pthread_mutex_lock(&ps->lock);
    if (ps->n_finalize && (int64_t)most > ps->finalize_at[0] - ps->consumed)
        most = (size_t)(ps->finalize_at[0] - ps->consumed);
    *n = 0;
    if (ps->cancel)
        job = JOB_CANCEL;
    else if (most && ps->ring.len) {
        *n = steno_ring_peek(&ps->ring, block, most);
        job = JOB_AUDIO;
    } else if (ps->n_finalize)
        job = JOB_FINALIZE;
    else if (ps->end)
        job = JOB_END;
    pthread_mutex_unlock(&ps->lock);
    return job;
}

static void forget_marks(steno_pool_stream *ps)
{
    size_t old = 0;
    while (old + 1 < ps->n_marks && ps->marks[old + 1].end <= ps->consumed - ps->rate)
        old++; /* what came a second ago is past: results lag by less than that */
    if (old) {
        memmove(ps->marks, ps->marks + old, (ps->n_marks - old) * sizeof *ps->marks);
        ps->n_marks -= old;
    }
}

static void consume(steno_pool_stream *ps, size_t used)
{
    pthread_mutex_lock(&ps->lock);
    steno_ring_drop(&ps->ring, used);
    ps->consumed += (int64_t)used;
    forget_marks(ps);
    pthread_mutex_unlock(&ps->lock);
}

static bool room_note_due(steno_pool_stream *ps)
{
    bool due;
    pthread_mutex_lock(&ps->lock);
    due = ps->want_room && !ps->end && !ps->cancel && ps->ring.len <= ps->ring.max / 2;
    if (due)
        ps->want_room = false;
    pthread_mutex_unlock(&ps->lock);
    return due;
}

static steno_status finalize(struct steno_pool_worker *w, steno_pool_stream *ps, steno_err *err)
{
    struct steno_pool_note note = {.kind = STENO_POOL_FINALIZED};
    steno_status st = ps->pool->ops->finalize(ps->rec, err);
    if (st)
        return st;
    pthread_mutex_lock(&ps->lock);
    ps->n_finalize--;
    memmove(ps->finalize_at, ps->finalize_at + 1, ps->n_finalize * sizeof *ps->finalize_at);
    pthread_mutex_unlock(&ps->lock);
    deliver(w, ps);
    if (!is_cancelled(ps))
        tell(ps, &note);
    return STENO_OK;
}

/* Feed until a window is full, then one step; or what else is due. */
static steno_status turn(struct steno_pool_worker *w, steno_pool_stream *ps, steno_err *err)
{
    const struct steno_pool_ops *ops = ps->pool->ops;
    steno_status st = STENO_OK;
    while (!st) {
        size_t n, used = 0;
        if (ops->ready(ps->rec) && !is_cancelled(ps)) {
            ops->step(&ps->rec, 1, &st, err);
            if (!st)
                deliver(w, ps);
            return st;
        }
        switch (next_job(ps, w->block, &n)) {
        case JOB_AUDIO:
            st = ops->feed(ps->rec, w->block, n, &used, err);
            consume(ps, used);
            if (!st && used == 0 && !ops->ready(ps->rec))
                st = steno_fail(err, STENO_ERR_INTERNAL, "stream takes no audio");
            break;
        case JOB_FINALIZE:
            return finalize(w, ps, err);
        case JOB_END:
            st = ops->end(ps->rec, err);
            if (!st) {
                deliver(w, ps);
                steno_pool_finish(ps, is_cancelled(ps) ? STENO_ERR_CANCELLED : STENO_OK, NULL);
            }
            return st;
        case JOB_CANCEL:
            steno_pool_finish(ps, STENO_ERR_CANCELLED, NULL);
            return STENO_OK;
        case JOB_NONE:
            return STENO_OK;
        }
    }
    return st;
}

/* Give the stream back: to the heap if it has more to do, else to whoever pushes next. */
static void put_back(steno_pool_stream *ps)
{
    bool closed;
    pthread_mutex_lock(&ps->lock);
    ps->with_worker = false;
    ps->missing = ps->done ? 0 : ps->pool->ops->missing(ps->rec);
    closed = ps->closed;
    if (!closed && steno_pool_has_work(ps)) {
        steno_pool_enqueue(ps);
    } else {
        ps->held = false;
        pthread_cond_broadcast(&ps->idle);
    }
    pthread_mutex_unlock(&ps->lock);
}

static void serve(struct steno_pool_worker *w, steno_pool_stream *ps, int64_t waited_ns)
{
    steno_err err = {0};
    int64_t start = steno_now_ns();
    steno_pool *p = ps->pool;
    double wait = (double)waited_ns * 1e-9, took;
    steno_status st;
    bool mine; /* closed from its own callback: nobody else will free it */
    pthread_mutex_lock(&ps->lock);
    ps->worker = pthread_self();
    ps->with_worker = true;
    ps->stats.steps++;
    ps->stats.queue_wait_seconds += wait;
    if (wait > ps->stats.queue_wait_max)
        ps->stats.queue_wait_max = wait;
    pthread_mutex_unlock(&ps->lock);
    st = turn(w, ps, &err);
    if (st)
        steno_pool_finish(ps, st, &err);
    else if (room_note_due(ps))
        tell(ps, &(struct steno_pool_note){.kind = STENO_POOL_ROOM});
    took = (double)(steno_now_ns() - start) * 1e-9;
    pthread_mutex_lock(&ps->lock);
    ps->stats.inference_seconds += took;
    mine = ps->closed && ps->free_after;
    pthread_mutex_unlock(&ps->lock);
    pthread_mutex_lock(&p->lock);
    p->stats.inference_seconds += took;
    p->stats.queue_wait_seconds += wait;
    p->stats.steps++;
    pthread_mutex_unlock(&p->lock);
    if (mine)
        steno_pool_stream_free(ps);
    else
        put_back(ps);
}

void *steno_pool_work(void *worker)
{
    struct steno_pool_worker *w = worker;
    steno_pool_stream *ps;
    int64_t waited;
    while ((ps = steno_pool_take(w->pool, &waited))) {
        stamp(w);
        atomic_store_explicit(&w->busy, true, memory_order_relaxed);
        serve(w, ps, waited);
        stamp(w);
        atomic_store_explicit(&w->busy, false, memory_order_relaxed);
    }
    return NULL;
}
