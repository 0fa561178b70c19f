/* A run is in one phase, which the runner's thread moves on, once a second and whenever something
 * wakes it:
 *
 *     FETCHING -> WAITING (for its model, or for a place) -> RUNNING -> STORING -> IDLE
 *
 * A recording on its way takes no worker's place, however slowly it comes: up to FETCHES more runs
 * than workers may be FETCHING. Those that have their recording wait for a place.
 *
 * A store that is away keeps a run in STORING, or in GIVING_UP, until it takes the result or the
 * job back.
 *
 * Other threads (the fetch's, the pool's) only append segments and set flags, under the lock. What
 * fails for good ends the job; what may succeed later, or elsewhere, gives the run up: it is queued
 * again with a delay, and after STENO_JOB_TRIES it has failed. */
#include "server/jobs/job_runner_internal.h"

#include "base/clock.h"
#include "base/threads.h"
#include "server/base/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define TICK (SECOND / 4)
#define BEAT (2 * SECOND)           /* between two writes of progress */
#define SWEEP (2 * SECOND)          /* between two looks for what is due */
#define FETCHES (STENO_FETCHES - 2) /* requests fetch too */

/* ---- places ---------------------------------------------------------------------------------- */

static int count_in(const struct steno_job_runner *r, enum steno_job_phase phase)
{
    int n = 0;
    for (int i = 0; i < r->n; i++)
        n += r->runs[i].phase == phase;
    return n;
}

/* Runs that take, or wait for, a worker's place. */
static int count_busy(const struct steno_job_runner *r)
{
    return r->n - count_in(r, IDLE) - count_in(r, FETCHING);
}

/* ---- what other threads do ------------------------------------------------------------------- */

static void wake_runner(steno_job_runner *r)
{
    r->woken = true;
    pthread_cond_signal(&r->wake);
}

/* Lock held. Without memory the segment is not shown; the result has it. */
static void keep_segment(struct steno_job_run *x, double start, double end, const char *text)
{
    text += strspn(text, " ");
    if (!*text)
        return;
    if (x->n_segments == x->room) {
        const size_t room = x->room ? 2 * x->room : 16;
        struct steno_job_segment_text *more = realloc(x->segments, room * sizeof *more);
        if (!more)
            return;
        x->segments = more;
        x->room = room;
    }
    x->segments[x->n_segments] = (struct steno_job_segment_text){start, end, x->texts.len};
    if (!steno_buf_add(&x->texts, text, strlen(text) + 1))
        x->n_segments++;
}

static void on_event(void *user, unsigned channel, const struct steno_event *ev)
{
    struct steno_job_run *x = user;
    if (ev->kind == STENO_SPEECH_START)
        return;
    pthread_mutex_lock(&x->r->lock);
    if (ev->segment != x->cutting || channel != x->channel) {
        x->channel = channel;
        x->cutting = ev->segment;
        x->sent_sections = 0;
    }
    for (; x->sent_sections < ev->n_sections; x->sent_sections++) {
        const struct steno_section *s = &ev->sections[x->sent_sections];
        keep_segment(x, s->start, s->end, s->text);
    }
    if (ev->kind == STENO_FINAL && !ev->n_sections)
        keep_segment(x, ev->start, ev->end, ev->text);
    pthread_mutex_unlock(&x->r->lock);
}

static void on_done(void *user, steno_transcription *work)
{
    struct steno_job_run *x = user;
    (void)work;
    pthread_mutex_lock(&x->r->lock);
    x->over = true;
    wake_runner(x->r);
    pthread_mutex_unlock(&x->r->lock);
}

static steno_status on_fetched_data(void *user, const void *p, size_t n, steno_err *err)
{
    return steno_spool_write(((struct steno_job_run *)user)->file, p, n, err);
}

static bool is_unwanted(void *user)
{
    struct steno_job_run *x = user;
    bool unwanted;
    pthread_mutex_lock(&x->r->lock);
    unwanted = x->removed || x->r->stop;
    pthread_mutex_unlock(&x->r->lock);
    return unwanted;
}

static void on_fetched(void *user, struct steno_fetched *got)
{
    struct steno_job_run *x = user;
    pthread_mutex_lock(&x->r->lock);
    x->over = true;
    x->fetch_err = got->err;
    wake_runner(x->r);
    pthread_mutex_unlock(&x->r->lock);
}

/* Write what came since the last beat. */
static void beat(struct steno_job_run *x)
{
    steno_job_runner *r = x->r;
    struct steno_job_segment *seg = NULL;
    struct steno_job_segment_text *from;
    struct steno_buf texts;
    struct steno_job_progress p = {.bytes = x->rec.bytes};
    size_t n;
    steno_status st;
    steno_err err;
    if (x->work)
        steno_transcription_progress(x->work, &p.position, &p.duration);
    pthread_mutex_lock(&r->lock);
    texts = x->texts;
    from = x->segments;
    n = x->n_segments;
    x->segments = NULL;
    x->n_segments = x->room = 0;
    steno_buf_init(&x->texts, STENO_JOB_SEGMENTS_MAX);
    pthread_mutex_unlock(&r->lock);
    if (n)
        seg = calloc(n, sizeof *seg);
    for (size_t i = 0; i < n && seg; i++)
        seg[i] = (struct steno_job_segment){from[i].start, from[i].end, texts.data + from[i].at};
    p.segments = seg;
    p.n = seg ? n : 0;
    st = r->q->ops->progress(r->q, x->rec.id, x->rec.attempts, &p, &err);
    if (!st)
        st = r->q->ops->heartbeat(r->q, x->rec.id, x->rec.attempts,
                                  steno_job_now() + steno_job_runner_lease_ms(r), &err);
    if (st == STENO_ERR_CANCELLED) {
        pthread_mutex_lock(&r->lock);
        x->removed = true;
        pthread_mutex_unlock(&r->lock);
    } else if (st)
        steno_job_runner_complain(r, err.msg);
    free(seg);
    free(from);
    steno_buf_free(&texts);
}

/* The run on the pool is over. */
static void conclude(struct steno_job_run *x, bool removed, bool stopping)
{
    const struct steno_transcription_result *r = steno_transcription_get_result(x->work);
    const char *code = steno_status_info(r->status)->name;
    steno_job_run_observe(x, r);
    if (removed)
        steno_job_run_clear(x);
    else if (!r->status) {
        beat(x); /* the last segments */
        steno_job_run_store_result(x, r);
    } else if (r->status == STENO_ERR_CANCELLED && x->late)
        steno_job_run_try_again(x, "timeout", "it took longer than jobs.timeout");
    else if (r->status == STENO_ERR_CANCELLED || stopping)
        steno_job_run_give_up(x, false, 0, "interrupted", "the server was stopped");
    else if (r->status == STENO_ERR_BUSY)
        steno_job_run_give_up(x, false, 2000, "busy", r->err.msg);
    else if (steno_job_run_is_passing(r->status))
        steno_job_run_try_again(x, code, r->err.msg);
    else
        steno_job_run_fail(x, code, r->err.msg);
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* A recording on its way from the store. */
struct copy {
    steno_job_runner *r;
    steno_spool_file *file;
    int64_t next;     /* beat, in ns */
    bool disk_failed; /* ours, not the store's */
};

/* The copying takes the runner's time, so it says for all runs that they are alive. */
static steno_status add_to_copy(void *user, const void *p, size_t n, steno_err *err)
{
    struct copy *c = user;
    steno_job_runner *r = c->r;
    const int64_t now = steno_now_ns();
    steno_err ignored;
    if (now >= c->next) {
        c->next = now + BEAT;
        for (int i = 0; i < r->n; i++)
            if (r->runs[i].phase != IDLE)
                (void)!r->q->ops->heartbeat(r->q, r->runs[i].rec.id, r->runs[i].rec.attempts,
                                            steno_job_now() + steno_job_runner_lease_ms(r),
                                            &ignored);
    }
    c->disk_failed = steno_spool_write(c->file, p, n, err);
    return c->disk_failed ? STENO_ERR_IO : STENO_OK;
}

/* Copy the recording from a store of several machines into the spool. STENO_ERR_BUSY: the store is
 * away, which is not the recording's fault. */
static steno_status copy_recording(struct steno_job_run *x, steno_err *err)
{
    struct copy c = {.r = x->r};
    steno_status st = steno_spool_begin(&c.file, x->r->spool, x->rec.id, SIZE_MAX, err);
    if (st)
        return st;
    st = x->r->q->ops->get_audio(x->r->q, x->rec.id, add_to_copy, &c, err);
    if (!st)
        return steno_spool_commit(c.file, err);
    steno_spool_discard(c.file);
    return st == STENO_ERR_IO && !c.disk_failed ? STENO_ERR_BUSY : st;
}

/* Open the recording. STENO_NEED_MORE: it is lost; STENO_ERR_BUSY as above. */
static steno_status open_recording(struct steno_job_run *x, steno_err *err)
{
    steno_status st = steno_spool_read(x->r->spool, x->rec.id, &x->fd, err);
    if (!st)
        return STENO_OK;
    if (!x->r->q->ops->get_audio)
        return STENO_NEED_MORE;
    st = copy_recording(x, err);
    if (st == STENO_NEED_MORE)
        (void)steno_fail(err, STENO_ERR_IO, "the stored recording is lost");
    return st ? st : steno_spool_read(x->r->spool, x->rec.id, &x->fd, err);
}

/* Deepgram's answer tells the sum of the recording. */
static bool hash_recording(struct steno_job_run *x)
{
    uint8_t digest[STENO_SHA256_BYTES];
    char block[16384];
    ssize_t n;
    while ((n = read(x->fd, block, sizeof block)) > 0)
        steno_sha256_add(&x->up->in.sum, block, (size_t)n);
    steno_sha256_end(&x->up->in.sum, digest);
    steno_sha256_text(digest, x->up->in.sha256);
    return n == 0 && lseek(x->fd, 0, SEEK_SET) == 0;
}

/* The model is there, or the reason is known why it never will be. */
static void try_start(struct steno_job_run *x)
{
    struct steno_upload_refused why = {0};
    struct steno_transcription_request job;
    steno_err err;
    steno_status st;
    x->next = steno_now_ns() + SECOND;
    if (!steno_upload_choose_model(x->up, &why, &err)) {
        if (why.http == 503) {
            steno_models_release(x->r->sv->srv->models, x->up->served);
            x->up->served = NULL;
            return;
        }
        if (steno_job_run_is_passing(err.code))
            steno_job_run_try_again(x, why.code, err.msg);
        else
            steno_job_run_fail(x, why.code, err.msg);
        return;
    }
    st = open_recording(x, &err);
    if (st == STENO_NEED_MORE) {
        steno_job_run_fail(x, "lost", err.msg);
        return;
    }
    if (st == STENO_ERR_BUSY) {
        steno_job_run_give_up(x, false, 2000, "busy", err.msg);
        return;
    }
    if (st) {
        steno_job_run_try_again(x, "io_error", err.msg);
        return;
    }
    if (x->rec.form == STENO_JOB_DEEPGRAM && !hash_recording(x)) {
        steno_job_run_try_again(x, "io_error", "the stored recording cannot be read");
        return;
    }
    job = steno_upload_transcription(x->up);
    job.fd = x->fd;
    job.background = true;
    job.no_word_times = job.aligned; /* words of a result have times in any case */
    job.partials = x->up->served->info.cuts; /* its segments come with them */
    job.event = on_event;
    job.done = on_done;
    job.user = x;
    x->over = false;
    x->phase = RUNNING;
    x->next = 0;
    x->deadline = steno_now_ns() + (int64_t)(x->r->sv->srv->conf->jobs_timeout * 1e9);
    st = steno_transcription_start(&x->work, x->r->sv->transcriber, &job, &err);
    if (st) {
        x->work = NULL;
        steno_job_run_give_up(x, false, 0, "interrupted", err.msg);
    }
}

static void end_fetch(struct steno_job_run *x)
{
    steno_err err = x->fetch_err;
    x->r->put_off = 0;
    if (!err.code) {
        x->rec.bytes = (int64_t)steno_spool_size(x->file);
        (void)!steno_spool_commit(x->file, &err);
        x->file = NULL;
    }
    if (!err.code) {
        x->phase = WAITING;
        x->next = 0;
        beat(x);
        return;
    }
    if (err.code == STENO_ERR_LIMIT)
        steno_job_run_fail(x, "limit_exceeded", err.msg);
    else
        steno_job_run_try_again(x, "fetch_failed", err.msg);
}

/* Slow servers hold all places to fetch. The job comes back later, and each next one later still,
 * so that jobs behind a thousand of this kind have their turn before the first ones return. */
static void put_off(struct steno_job_run *x, const char *why)
{
    const int64_t delay = 2000 * ++x->r->put_off, most = 60000;
    steno_job_run_give_up(x, false, delay < most ? delay : most, "busy", why);
}

static void start_fetch(struct steno_job_run *x)
{
    static const struct steno_fetch_sink sink = {on_fetched_data, is_unwanted};
    steno_job_runner *r = x->r;
    steno_err err;
    steno_status st;
    if (count_in(r, FETCHING) >= FETCHES) {
        put_off(x, "too many recordings are being fetched");
        return;
    }
    st = steno_spool_begin(&x->file, r->spool, x->rec.id, r->sv->srv->conf->jobs_bytes, &err);
    x->phase = FETCHING;
    x->over = false;
    if (!st)
        st = steno_fetch_into(r->sv->fetcher, x->rec.url, &x->trace, &sink, on_fetched, x, &err);
    if (st == STENO_ERR_BUSY)
        put_off(x, err.msg);
    else if (st == STENO_ERR_CANCELLED)
        steno_job_run_give_up(x, false, 1000, "busy", err.msg);
    else if (st == STENO_ERR_INVAL)
        steno_job_run_fail(x, "fetch_failed", err.msg);
    else if (st)
        steno_job_run_try_again(x, steno_status_info(st)->name, err.msg);
}

/* The job in x->rec was claimed. */
static void begin_run(struct steno_job_run *x)
{
    const bool deepgram = x->rec.form == STENO_JOB_DEEPGRAM;
    steno_err err;
    steno_status st;
    x->began = steno_now_ns();
    steno_trace_begin(x->r->sv->srv->tracer, x->rec.traceparent, x->rec.tracestate, &x->trace);
    if (x->rec.attempts == 1)
        steno_metric_observe(x->r->metrics->wait, (double)(x->rec.started - x->rec.created) / 1000);
    else
        steno_metric_add(x->r->metrics->retried, 1);
    x->up = steno_upload_new(x->r->sv, STENO_SESSION_JOB);
    if (!x->up) {
        steno_job_run_try_again(x, "out_of_memory", "out of memory");
        return;
    }
    x->up->form = deepgram ? STENO_UPLOAD_DEEPGRAM : STENO_UPLOAD_NATIVE;
    x->up->client.id = x->rec.id;
    x->up->background = true;
    (void)steno_trace_id(&x->trace, x->up->trace);
    st = steno_upload_read_target(x->up, x->rec.target, &err);
    if (!st && *x->rec.owner &&
        steno_keys_named(x->r->sv->srv->keys, x->rec.owner, &x->up->key, &err))
        st = steno_fail(&err, STENO_ERR_INVAL, "its API key is no longer valid");
    if (st) {
        steno_job_run_fail(x, steno_status_info(st)->name, err.msg);
        return;
    }
    x->phase = WAITING;
    x->next = 0;
    if (*x->rec.url && steno_spool_read(x->r->spool, x->rec.id, &x->fd, &err))
        start_fetch(x);
    else if (x->fd >= 0) { /* fetched by an earlier run */
        close(x->fd);
        x->fd = -1;
    }
}

/* Move a run on. */
static void step_run(struct steno_job_run *x)
{
    steno_job_runner *r = x->r;
    const int64_t now = steno_now_ns();
    bool over, removed, stop, cancel;
    pthread_mutex_lock(&r->lock);
    over = x->over;
    removed = x->removed;
    stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    switch (x->phase) {
    case IDLE:
        break;
    case FETCHING:
        if (over && removed)
            steno_job_run_clear(x);
        else if (over && stop)
            steno_job_run_give_up(x, false, 0, "interrupted", "the server was stopped");
        else if (over)
            end_fetch(x);
        else if (now >= x->next) {
            x->next = now + BEAT;
            beat(x);
        }
        break;
    case WAITING:
        if (removed)
            steno_job_run_clear(x);
        else if (stop)
            steno_job_run_give_up(x, false, 0, "interrupted", "the server was stopped");
        else if (now >= x->next) {
            x->next = now + SECOND;
            beat(x);
            if (count_in(r, RUNNING) < r->workers)
                try_start(x);
        }
        break;
    case RUNNING:
        x->late |= now >= x->deadline;
        cancel = removed || stop || x->late;
        if (!over && now >= x->next) {
            x->next = now + BEAT;
            beat(x);
        }
        if (over)
            conclude(x, removed, stop);
        else if (cancel)
            steno_transcription_cancel(x->work);
        break;
    case STORING:
        if (removed)
            steno_job_run_clear(x);
        else if (stop || now >= x->next)
            steno_job_run_store_end(x);
        if (stop && x->phase == STORING) /* the next start runs it again */
            steno_job_run_clear(x);
        break;
    case GIVING_UP:
        if (removed)
            steno_job_run_clear(x);
        else if (stop || now >= x->next)
            steno_job_run_release(x);
        if (stop && x->phase == GIVING_UP)
            steno_job_run_clear(x);
        break;
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void on_gone(void *user, const char *id)
{
    steno_job_runner *r = user;
    steno_job_runner_end(r, id);
    steno_spool_remove(r->spool, id);
}

static void sweep_jobs(steno_job_runner *r, int64_t now)
{
    steno_err err;
    if (now < r->next_sweep)
        return;
    r->next_sweep = now + SWEEP;
    if (r->q->ops->sweep(r->q, steno_job_now(), (int64_t)(r->sv->srv->conf->jobs_keep * 1000),
                         on_gone, r, &err))
        steno_job_runner_complain(r, err.msg);
}

/* Claim jobs for the runs that are idle. */
static void claim_run(steno_job_runner *r, int64_t now_ns)
{
    r->next_claim = now_ns + SECOND;
    for (int i = 0; i < r->n && !steno_limits_draining(r->sv->srv->limits); i++) {
        struct steno_job_run *x = &r->runs[i];
        const int64_t now = steno_job_now();
        struct steno_job_record rec;
        steno_err err;
        steno_status st;
        if (x->phase != IDLE)
            continue;
        if (count_busy(r) >= r->workers)
            return;
        st = r->q->ops->claim(r->q, "stenod", now, now + steno_job_runner_lease_ms(r), &rec, &err);
        if (st && st != STENO_NEED_MORE)
            steno_job_runner_complain(r, err.msg);
        if (st)
            return;
        pthread_mutex_lock(&r->lock);
        x->rec = rec;
        pthread_mutex_unlock(&r->lock);
        begin_run(x);
    }
}

static bool any_runs(const steno_job_runner *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->runs[i].phase != IDLE)
            return true;
    return false;
}

static void *run_jobs(void *arg)
{
    steno_job_runner *r = arg;
    bool stop = false, woken = true;
    while (!stop || any_runs(r)) {
        const int64_t now = steno_now_ns();
        int64_t until;
        for (int i = 0; i < r->n; i++)
            step_run(&r->runs[i]);
        if (!stop) {
            sweep_jobs(r, now);
            if (woken || now >= r->next_claim)
                claim_run(r, now);
        }
        until = steno_now_ns() + TICK;
        pthread_mutex_lock(&r->lock);
        while (!r->woken && steno_cond_wait_until(&r->wake, &r->lock, until))
            ;
        woken = r->woken;
        r->woken = false;
        stop = r->stop;
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

steno_status steno_job_runner_open(steno_job_runner **out, const struct steno_job_parts *parts,
                                   int workers, steno_err *err)
{
    const int n = workers + FETCHES;
    steno_job_runner *r = calloc(1, sizeof *r + (size_t)n * sizeof *r->runs);
    steno_status st;
    if (!r)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    r->sv = parts->sv;
    r->q = parts->queue;
    r->spool = parts->spool;
    r->metrics = &parts->metrics;
    r->workers = workers;
    r->n = n;
    for (int i = 0; i < n; i++) {
        r->runs[i] = (struct steno_job_run){.r = r, .fd = -1, .cutting = -1};
        steno_buf_init(&r->runs[i].texts, STENO_JOB_SEGMENTS_MAX);
    }
    pthread_mutex_init(&r->lock, NULL);
    steno_cond_init(&r->wake);
    st = steno_thread_start(&r->thread, "job-runner", run_jobs, r, err);
    if (st) {
        pthread_cond_destroy(&r->wake);
        pthread_mutex_destroy(&r->lock);
        free(r);
        return st;
    }
    *out = r;
    return STENO_OK;
}

void steno_job_runner_stop(steno_job_runner *r)
{
    bool stopped;
    pthread_mutex_lock(&r->lock);
    stopped = r->stop;
    r->stop = true;
    wake_runner(r);
    pthread_mutex_unlock(&r->lock);
    if (!stopped)
        pthread_join(r->thread, NULL);
}

void steno_job_runner_close(steno_job_runner *r)
{
    if (!r)
        return;
    steno_job_runner_stop(r);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void steno_job_runner_wake(steno_job_runner *r)
{
    pthread_mutex_lock(&r->lock);
    wake_runner(r);
    pthread_mutex_unlock(&r->lock);
}

void steno_job_runner_end(steno_job_runner *r, const char *id)
{
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->runs[i].rec.id, id)) {
            r->runs[i].removed = true;
            wake_runner(r);
        }
    pthread_mutex_unlock(&r->lock);
}
