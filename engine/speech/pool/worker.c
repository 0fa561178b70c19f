/* One round of a worker: take the streams with the earliest deadlines, feed each until its window
 * is full (or do a finalize or its end), run the network for the full ones as one batch, deliver
 * the results, and put back streams with more to do. */
#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/threads.h"
#include "speech/pool/internal.h"

/* What the stream needs next. */
enum job { JOB_NONE, JOB_AUDIO, JOB_FINALIZE, JOB_END, JOB_CANCEL };

bool steno_pool_has_work(const steno_pool_stream *ps)
{
    if (ps->done)
        return false;
    return ps->cancel || ps->end || ps->n_finalize || !ps->missing ||
           (ps->ring.len && (ps->ring.len >= ps->missing || ps->want_room));
}

/* ---- notes --------------------------------------------------------------------------------- */

static void stamp(struct steno_pool_worker *w)
{
    atomic_store_explicit(&w->since_ns, steno_now_ns(), memory_order_relaxed);
}

/* Call back, unless the stream is being closed. */
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

/* Return the seconds since the audio of this event arrived. */
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

/* w: the worker whose heart beats; NULL: none. */
static void deliver(struct steno_pool_worker *w, steno_pool_stream *ps)
{
    struct steno_event ev;
    while (!is_cancelled(ps) && ps->pool->ops->next(ps->rec, &ev)) {
        struct steno_pool_note note = {
            .kind = STENO_POOL_EVENT, .event = &ev, .latency = latency_of(ps, &ev)};
        if (w)
            stamp(w);
        tell(ps, &note);
    }
}

/* What the stream knows comes before its error. */
static void tell_what_is_known(steno_pool_stream *ps)
{
    const struct steno_pool_ops *ops = ps->pool->ops;
    if (is_cancelled(ps))
        return;
    if (ops->rescue)
        ops->rescue(ps->rec);
    deliver(NULL, ps);
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
    if (st)
        tell_what_is_known(ps);
    ps->pool->ops->close(ps->rec); /* memory is freed now, the place when the owner closes */
    ps->rec = NULL;
    tell(ps, &note);
}

/* ---- one round ---------------------------------------------------------------------------- */

/* Hold audio up to the next finalize, or find what else is due. */
static enum job next_job(steno_pool_stream *ps, const float **pcm, size_t *n)
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
        most = most < ps->ring.len ? most : ps->ring.len;
        if (ps->pool->ops->set_waiting)
            ps->pool->ops->set_waiting(ps->rec, ps->ring.len - most);
        *n = most;
        *pcm = steno_ring_hold(&ps->ring, n);
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
    /* marks older than a second are not needed: results lag less */
    while (old + 1 < ps->n_marks && ps->marks[old + 1].end <= ps->consumed - ps->rate)
        old++;
    if (old) {
        memmove(ps->marks, ps->marks + old, (ps->n_marks - old) * sizeof *ps->marks);
        ps->n_marks -= old;
    }
}

/* What the stream itself counts. */
static void take_counts(steno_pool_stream *ps)
{
    const struct steno_pool_ops *ops = ps->pool->ops;
    if (ops->skipped)
        ps->stats.skipped_seconds = ops->skipped(ps->rec);
    if (ops->turn_stats) {
        const struct steno_turn_stats t = ops->turn_stats(ps->rec);
        ps->stats.turn_answers = t.answers;
        ps->stats.turn_ends = t.ends;
        ps->stats.turn_seconds = t.seconds;
    }
}

static void consume(steno_pool_stream *ps, size_t used)
{
    pthread_mutex_lock(&ps->lock);
    steno_ring_drop(&ps->ring, used);
    take_counts(ps);
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

static void finalized(struct steno_pool_worker *w, steno_pool_stream *ps)
{
    struct steno_pool_note note = {.kind = STENO_POOL_FINALIZED};
    pthread_mutex_lock(&ps->lock);
    ps->n_finalize--;
    memmove(ps->finalize_at, ps->finalize_at + 1, ps->n_finalize * sizeof *ps->finalize_at);
    pthread_mutex_unlock(&ps->lock);
    deliver(w, ps);
    if (!is_cancelled(ps))
        tell(ps, &note);
}

static void ended(struct steno_pool_worker *w, steno_pool_stream *ps)
{
    deliver(w, ps);
    steno_pool_finish(ps, is_cancelled(ps) ? STENO_ERR_CANCELLED : STENO_OK, NULL);
}

/* The result of the step that is due is not needed yet. Audio is fed before it, since sound may
 * drop it. */
static bool has_slack(const steno_pool_stream *ps)
{
    const struct steno_pool_ops *ops = ps->pool->ops;
    return ops->slack && ops->slack(ps->rec) > 0;
}

/* The recognizer breaks steno_stream_feed's word: it would be fed for ever. */
static steno_status refuses(const steno_pool_stream *ps, size_t n, steno_err *err)
{
    const struct steno_pool_ops *ops = ps->pool->ops;
    return steno_fail(err, STENO_ERR_INTERNAL,
                      "stream takes none of %zu samples at %.3f s, though %s", n,
                      (double)ps->consumed / ps->rate,
                      ops->ready(ps->rec) ? "the step that is due may wait" : "no step is due");
}

/* Feed until a window is full (t->steps = true), or do what else is due. */
static steno_status advance(struct steno_pool_worker *w, struct steno_pool_item *t)
{
    steno_pool_stream *ps = t->ps;
    steno_err *err = &t->err;
    const struct steno_pool_ops *ops = ps->pool->ops;
    steno_status st = STENO_OK;
    if (ops->set_queued)
        ops->set_queued(ps->rec, ps->stats.queue_wait_seconds);
    while (!st) {
        size_t n, used = 0;
        const float *pcm = NULL;
        bool done = false;
        enum job job;
        const bool due = ops->ready(ps->rec) && !is_cancelled(ps);
        t->steps = due && !has_slack(ps);
        if (t->steps)
            return STENO_OK;
        job = next_job(ps, &pcm, &n);
        switch (job) {
        case JOB_AUDIO:
            st = ops->feed(ps->rec, pcm, n, &used, err);
            consume(ps, used);
            t->audio += (double)used / ps->rate;
            if (!st && used == 0 && (!ops->ready(ps->rec) || has_slack(ps)))
                st = refuses(ps, n, err);
            break;
        case JOB_FINALIZE:
        case JOB_END:
            st = ops->flush(ps->rec, job == JOB_END, &done, err);
            consume(ps, 0);
            if (st || !done)
                break;
            if (job == JOB_END)
                ended(w, ps);
            else
                finalized(w, ps);
            return STENO_OK;
        case JOB_CANCEL:
            steno_pool_finish(ps, STENO_ERR_CANCELLED, NULL);
            return STENO_OK;
        case JOB_NONE:
            t->steps = due;
            return STENO_OK;
        }
    }
    return st;
}

/* Return the stream to the heap if it has more to do, else to the next push. last: the last one of
 * this round; this worker takes streams next, and wakes others for the rest. goes_on: its result
 * needs another step. */
static void put_back(steno_pool_stream *ps, bool last, bool goes_on)
{
    bool closed;
    pthread_mutex_lock(&ps->lock);
    ps->with_worker = false;
    ps->missing = ps->done ? 0 : ps->pool->ops->missing(ps->rec);
    closed = ps->closed;
    if (!closed && steno_pool_has_work(ps)) {
        steno_pool_enqueue(ps, !last, goes_on);
    } else {
        ps->held = false;
        pthread_cond_broadcast(&ps->idle);
    }
    pthread_mutex_unlock(&ps->lock);
}

static void begin(struct steno_pool_item *t)
{
    steno_pool_stream *ps = t->ps;
    double wait = (double)t->waited_ns * 1e-9;
    pthread_mutex_lock(&ps->lock);
    ps->worker = pthread_self();
    ps->with_worker = true;
    ps->stats.steps++;
    ps->stats.queue_wait_seconds += wait;
    if (!ps->stats.first_step_ns)
        ps->stats.first_step_ns = ps->ready_ns + t->waited_ns;
    if (wait > ps->stats.queue_wait_max)
        ps->stats.queue_wait_max = wait;
    pthread_mutex_unlock(&ps->lock);
}

/* Run the network for the streams whose windows are full; each is charged its share of the time.
 * Returns how many took a step of the model. */
static size_t run_steps(struct steno_pool_worker *w)
{
    const struct steno_pool_ops *ops = w->pool->ops;
    size_t n = 0, k = 0, answers = 0;
    int64_t start = steno_now_ns(), network = ops->network_ns(w->batcher), each;
    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].steps) {
            w->err[n].msg[0] = '\0';
            w->rec[n] = w->items[i].ps->rec;
            w->items[i].answer = ops->turn_due && ops->turn_due(w->rec[n]);
            n++;
            answers += w->items[i].answer;
        }
    if (!n)
        return 0;
    stamp(w);
    ops->step(w->batcher, w->rec, n, w->st, w->err);
    each = (steno_now_ns() - start) / (int64_t)n;
    network = (ops->network_ns(w->batcher) - network) / (int64_t)n;
    if (w->pool->opt.on_batch && n > answers)
        w->pool->opt.on_batch(w->pool->opt.user, n - answers);
    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].steps) {
            w->items[i].st = w->st[k];
            w->items[i].err = w->err[k++];
            w->items[i].spent_ns += each;
            w->items[i].network_ns = network;
        }
    return n - answers;
}

static void conclude(struct steno_pool_worker *w, struct steno_pool_item *t)
{
    const int64_t start = steno_now_ns();
    int64_t now;
    steno_pool_stream *ps = t->ps;
    bool mine; /* closed in a callback of this round: only we free it */
    bool goes_on = false;
    if (!t->st && ps->rec)
        deliver(w, ps);
    if (t->st)
        steno_pool_finish(ps, t->st, &t->err);
    else if (ps->progress && ps->rec && !is_cancelled(ps))
        tell(ps, &(struct steno_pool_note){.kind = STENO_POOL_PROGRESS,
                                           .heard = ps->pool->ops->heard(ps->rec)});
    if (!t->st && room_note_due(ps))
        tell(ps, &(struct steno_pool_note){.kind = STENO_POOL_ROOM});
    if (t->steps && ps->rec)
        goes_on = ps->pool->ops->ready(ps->rec);
    now = steno_now_ns();
    t->spent_ns += now - start;
    pthread_mutex_lock(&ps->lock);
    ps->stats.inference_seconds += (double)t->spent_ns * 1e-9;
    ps->stats.network_seconds += (double)t->network_ns * 1e-9;
    ps->stats.last_step_ns = now;
    mine = ps->closed && ps->free_after;
    pthread_mutex_unlock(&ps->lock);
    if (mine)
        steno_pool_stream_free(ps);
    else
        put_back(ps, t == &w->items[w->n - 1], goes_on);
}

/* Returns true if a look at the machine is due. */
static bool account(struct steno_pool_worker *w, struct steno_pool_work *work, double live_part,
                    double wait)
{
    steno_pool *p = w->pool;
    const double cpu = steno_pool_thread_cpu();
    int size = 0;
    bool due;
    while (size < STENO_POOL_BATCH_SIZES - 1 && (size_t)1 << size < work->steps)
        size++;
    work->live_cpu = (cpu - w->cpu) * live_part;
    w->cpu = cpu;
    pthread_mutex_lock(&p->lock);
    p->stats.inference_seconds += work->host + work->network;
    p->stats.network_seconds += work->network;
    p->stats.queue_wait_seconds += wait;
    p->stats.steps += w->n;
    p->stats.batched += work->steps;
    p->stats.batches[size] += work->steps > 0;
    due = steno_pool_account(p, work);
    pthread_mutex_unlock(&p->lock);
    return due;
}

/* Add the live streams' part of a round, since uploads may cost another amount per second of audio;
 * returns their part of its time. The class is the item's, because the stream may be freed by now.
 */
static double add_live(const struct steno_pool_worker *w, struct steno_pool_work *work)
{
    int64_t live = 0, all = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct steno_pool_item *t = &w->items[i];
        all += t->spent_ns;
        if (!t->live)
            continue;
        live += t->spent_ns;
        work->live_steps += t->steps && !t->answer;
        work->live_audio += t->audio;
    }
    return all > 0 ? (double)live / (double)all : 0;
}

static void serve(struct steno_pool_worker *w)
{
    struct steno_pool_work work = {0};
    const struct steno_pool_ops *ops = w->pool->ops;
    int64_t start = steno_now_ns(), network = ops->network_ns(w->batcher), t = start, now;
    double wait = 0, live;
    for (size_t i = 0; i < w->n; i++) {
        struct steno_pool_item *item = &w->items[i];
        begin(item);
        wait += (double)item->waited_ns * 1e-9;
        item->st = advance(w, item);
        if (item->steps && !item->early && has_slack(item->ps))
            item->steps = false; /* it goes behind what is due */
        now = steno_now_ns();
        item->spent_ns = now - t;
        t = now;
    }
    work.steps = run_steps(w);
    network = ops->network_ns(w->batcher) - network;
    for (size_t i = 0; i < w->n; i++)
        conclude(w, &w->items[i]);
    live = add_live(w, &work);
    work.network = (double)network * 1e-9;
    work.host = (double)(steno_now_ns() - start) * 1e-9 - work.network;
    if (network && work.steps) /* 0 if only searches stepped */
        work.live_planned =
            steno_pool_planned(w->pool, work.steps) * (double)work.live_steps / (double)work.steps;
    if (account(w, &work, live, wait))
        steno_pool_look(w->pool);
}

/* If the whole process is nice, what workers take is free time of the processors already. */
static void find_clock(struct steno_pool_worker *w)
{
    const bool nice = getpriority(PRIO_PROCESS, 0) > 0;
    pthread_mutex_lock(&w->pool->lock);
    w->has_clock = !nice && !pthread_getcpuclockid(pthread_self(), &w->clock);
    pthread_mutex_unlock(&w->pool->lock);
}

void *steno_pool_work(void *worker)
{
    struct steno_pool_worker *w = worker;
    steno_thread_count_beats(&w->beats);
    find_clock(w);
    while (steno_pool_take(w)) {
        stamp(w);
        atomic_store_explicit(&w->busy, true, memory_order_relaxed);
        serve(w);
        stamp(w);
        atomic_store_explicit(&w->busy, false, memory_order_relaxed);
    }
    return NULL;
}
