/* Chooses the next streams and their batch.
 *
 * Ready streams wait in a heap by deadline: the time when they became ready, plus the slack of
 * their class, plus, for an upload, its audio so far (up to OLD). So an upload with little audio
 * goes first, and a short one never waits for a long one. One step's time is added for every stream
 * of the same owner that already waits, so owners are served round robin however many streams each
 * has. A live stream whose result takes several steps keeps its deadline: if results took turns
 * step by step, all of them would come late. Once, it goes behind those that wait: after a step
 * that it took alone, if its next ones can be shared. Theirs can then be shared soon, too. A final
 * that is begun before its endpoint has the time until then as slack (steno_stream_slack). Its
 * stream listens meanwhile: audio that comes is fed as soon as that of others, since sound drops
 * the final. A client that asks for it (finalize, end) takes the slack away.
 *
 * A worker takes up to a batch of them. With little to do it takes what is there at once, and
 * leaves some to idle workers. If live steps alone would keep most workers busy (the demand of
 * capacity.c), one worker at a time waits for a larger batch, at most wait_ns after the first
 * stream became ready. A larger batch costs less per stream, and the time saved is free for
 * everything else on the machine. Uploads never wait: their next step is ready as soon as the last
 * one is done.
 *
 * Streams of some models say what part of a step their next one takes (steno_stream_share). They
 * share steps by that, and without waiting. */
#include "base/clock.h"
#include "base/threads.h"
#include "speech/pool/internal.h"

#define SECOND INT64_C(1000000000)
#define NEAR SECOND /* between deadlines of streams that share a step by their parts */
#define OLD 29      /* s; an upload of this age still goes before a job */

static const int64_t slack_ns[STENO_POOL_CLASSES] = {0, SECOND, 60 * SECOND};

static bool before(const steno_pool_stream *a, const steno_pool_stream *b)
{
    if (a->deadline_ns != b->deadline_ns)
        return a->deadline_ns < b->deadline_ns;
    return a->ticket < b->ticket;
}

/* Put the stream at place i of the heap, or nearer to the top. */
static void heap_raise(steno_pool *p, steno_pool_stream *ps, int i)
{
    while (i > 0 && before(ps, p->heap[(i - 1) / 2])) {
        p->heap[i] = p->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    p->heap[i] = ps;
}

static void heap_push(steno_pool *p, steno_pool_stream *ps)
{
    heap_raise(p, ps, p->n_ready++);
    p->n_ready_live += ps->class == STENO_POOL_LIVE;
    p->owners[ps->owner]++;
}

static steno_pool_stream *heap_pop(steno_pool *p)
{
    steno_pool_stream *top = p->heap[0], *last = p->heap[--p->n_ready];
    int i = 0;
    for (;;) {
        int k = 2 * i + 1;
        if (k >= p->n_ready)
            break;
        if (k + 1 < p->n_ready && before(p->heap[k + 1], p->heap[k]))
            k++;
        if (!before(p->heap[k], last))
            break;
        p->heap[i] = p->heap[k];
        i = k;
    }
    p->heap[i] = last;
    p->n_ready_live -= top->class == STENO_POOL_LIVE;
    p->owners[top->owner]--;
    return top;
}

static int64_t owner_delay_ns(const steno_pool *p, const steno_pool_stream *ps)
{
    if (!ps->owner)
        return 0;
    return (int64_t)(p->owners[ps->owner] * p->load.costs.step[0] * 1e9);
}

/* Audio that an upload has had, up to OLD. The caller holds ps->lock. */
static int64_t had_ns(const steno_pool_stream *ps)
{
    int64_t seconds = ps->consumed / ps->rate;
    return ps->class == STENO_POOL_UPLOAD ? (seconds < OLD ? seconds : OLD) * SECOND : 0;
}

/* None if a worker is to look at the stream first: audio has come, which may drop the result, or a
 * client asks for it. The caller holds ps->lock. */
static double slack_of(const steno_pool_stream *ps)
{
    const struct steno_pool_ops *ops = ps->pool->ops;
    const bool changed = ps->ring.len || ps->n_finalize || ps->end;
    return ops->slack && !changed ? ops->slack(ps->rec) : 0;
}

void steno_pool_hurry(steno_pool_stream *ps)
{
    steno_pool *p = ps->pool;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; ps->early && i < p->n_ready; i++)
        if (p->heap[i] == ps) {
            ps->early = false;
            ps->deadline_ns = steno_now_ns() + owner_delay_ns(p, ps);
            ps->ticket = p->tickets++;
            heap_raise(p, ps, i);
        }
    pthread_mutex_unlock(&p->lock);
}

void steno_pool_enqueue(steno_pool_stream *ps, bool wake, bool goes_on)
{
    steno_pool *p = ps->pool;
    const double share = p->ops->share ? p->ops->share(ps->rec) : 0;
    const double slack = slack_of(ps);
    const bool early = slack > 0;
    bool stays = goes_on && ps->class == STENO_POOL_LIVE;
    pthread_mutex_lock(&p->lock);
    stays = stays && early == ps->early &&
            (early || !(p->batch_max > 1 && ps->share >= 1 && share < 1));
    ps->share = share;
    ps->early = early;
    ps->ready_ns = steno_now_ns();
    if (!stays)
        ps->deadline_ns = ps->ready_ns + slack_ns[ps->class] + (int64_t)(slack * 1e9) + had_ns(ps) +
                          owner_delay_ns(p, ps);
    ps->ticket = p->tickets++;
    heap_push(p, ps);
    if (!p->collecting && wake)
        pthread_cond_signal(&p->work);
    else if (p->collecting && (p->n_ready >= p->batch_max || p->n_ready > p->n_ready_live))
        pthread_cond_signal(&p->batch_full);
    pthread_mutex_unlock(&p->lock);
}

/* Until when the first stream of the heap should wait for a larger batch; not after now: it should
 * not wait. */
static int64_t batch_deadline(const steno_pool *p)
{
    if (p->n_ready >= p->batch_max || p->n_ready > p->n_ready_live || !steno_pool_crowded(p))
        return 0;
    return p->heap[0]->ready_ns + p->wait_ns;
}

static void wait_for_batch(steno_pool *p, int64_t until)
{
    p->collecting = true;
    (void)steno_cond_wait_until(&p->batch_full, &p->lock, until);
    p->collecting = false;
}

static void wait_for_work(steno_pool *p)
{
    p->idle++;
    pthread_cond_wait(&p->work, &p->lock);
    p->idle--;
}

/* Number of streams to take: up to a batch, but leave what idle workers could begin now. */
static int streams_to_take(const steno_pool *p)
{
    int n = (p->n_ready + p->idle) / (p->idle + 1);
    return n < p->batch_max ? n : p->batch_max;
}

static void add_item(struct steno_pool_worker *w, steno_pool_stream *ps, int64_t now)
{
    struct steno_pool_item *t = &w->items[w->n++];
    t->ps = ps;
    t->waited_ns = now - ps->ready_ns;
    t->spent_ns = t->network_ns = 0;
    t->audio = 0;
    t->live = ps->class == STENO_POOL_LIVE;
    t->early = ps->early;
    t->steps = false;
    t->st = STENO_OK;
    t->err.msg[0] = '\0';
}

/* Take the first stream, and of those behind it that say what part of a step they take as many as
 * fit. They may wait about as long as the first one: one that may wait longer would only make the
 * step longer. Streams are divided evenly among all workers, even those that are busy now. */
static void fill_by_parts(struct steno_pool_worker *w, steno_pool_stream *first, int64_t now)
{
    steno_pool *p = w->pool;
    steno_pool_stream *near[STENO_BATCH_MAX];
    double taken = first->share;
    int n = 0, sharing = 1, most;
    while (p->n_ready && n < STENO_BATCH_MAX &&
           p->heap[0]->deadline_ns - first->deadline_ns <= NEAR)
        near[n++] = heap_pop(p);
    for (int i = 0; i < n; i++)
        sharing += near[i]->share < 1;
    most = (sharing + p->n_workers - 1) / p->n_workers;
    most = most < p->batch_max ? most : p->batch_max;
    for (int i = 0; i < n; i++) {
        if ((int)w->n < most && taken + near[i]->share <= 1) {
            taken += near[i]->share;
            add_item(w, near[i], now);
        } else {
            heap_push(p, near[i]);
        }
    }
}

static void fill_items(struct steno_pool_worker *w)
{
    steno_pool *p = w->pool;
    const int64_t now = steno_now_ns();
    const int n = streams_to_take(p);
    steno_pool_stream *first = heap_pop(p);
    w->n = 0;
    add_item(w, first, now);
    if (first->share > 0 && first->share < 1 && n > 1)
        fill_by_parts(w, first, now);
    while (first->share <= 0 && (int)w->n < n)
        add_item(w, heap_pop(p), now);
}

bool steno_pool_take(struct steno_pool_worker *w)
{
    steno_pool *p = w->pool;
    bool stop;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        int64_t until;
        if (!p->n_ready || p->collecting) {
            wait_for_work(p);
            continue;
        }
        until = batch_deadline(p);
        if (until <= steno_now_ns())
            break;
        wait_for_batch(p, until);
    }
    stop = p->stop;
    if (!stop)
        fill_items(w);
    if (p->n_ready && p->idle)
        pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
    return !stop;
}
