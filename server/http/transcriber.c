/* A job is a small state machine: OPENING -> FEEDING -> FLUSHING -> OVER, moved on by iterations.
 * An iteration runs on one thread, a feeder. `queued`, `running` and `again` ensure that a job
 * never has more than one iteration at a time, and that no wake-up is lost between its last check
 * and its sleep. Start, cancel, and the pool's ROOM and DONE notes wake a job. The last iteration,
 * at DONE, runs on the worker that delivers the note. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/http/transcriber.h"

#include "base/threads.h"
#include "protocol/dialect.h"
#include "server/http/waker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 8192          /* samples decoded at a time */
#define ITERATION_BLOCKS 32 /* then the next job runs */

enum state { OPENING, FEEDING, FLUSHING, OVER };

struct steno_job {
    steno_jobs *jobs;
    struct steno_job_request req;
    struct steno_job_result result;

    /* of the iteration */
    enum state state;
    steno_audio *audio;
    steno_waker_id watch; /* of a decoding process */
    steno_pool_stream *stream;
    float *block; /* [BLOCK], samples [at, have) not yet pushed */
    size_t at, have;
    int rate;
    int64_t decoded; /* samples */
    int64_t before;  /* of them, of the channels before this one */
    /* ms, for steno_job_progress. Relaxed: they order nothing */
    _Atomic int64_t position, length;
    unsigned channel; /* with multichannel: the one that is transcribed, from 0 */
    steno_transcript *transcripts[STENO_JOB_CHANNELS]; /* of those before it */

    /* under jobs->lock */
    steno_job *next;          /* in the queue */
    steno_job *older, *newer; /* in the list of jobs that have not ended */
    bool queued, running, again, cancelled, pool_done;
    steno_status pool_status;
    steno_err pool_err;
};

struct steno_jobs {
    const struct steno_server *srv;
    pthread_mutex_t lock; /* guards the queue, and the fields of every job named above */
    pthread_cond_t work;
    pthread_cond_t none;
    steno_job *first, *last, *newest;
    int alive; /* jobs whose done has not returned */
    bool stop, cancelled;
    pthread_t *threads;
    int n_threads;
};

/* Lock held. */
static void enqueue(steno_job *job)
{
    steno_jobs *jobs = job->jobs;
    if (job->running) {
        job->again = true;
        return;
    }
    if (job->queued || job->state == OVER)
        return;
    job->queued = true;
    job->next = NULL;
    if (jobs->last)
        jobs->last->next = job;
    else
        jobs->first = job;
    jobs->last = job;
    pthread_cond_signal(&jobs->work);
}

static void wake(steno_job *job)
{
    pthread_mutex_lock(&job->jobs->lock);
    enqueue(job);
    pthread_mutex_unlock(&job->jobs->lock);
}

static void run_iterations(steno_job *job);

static void on_event(steno_job *job, const struct steno_event *ev)
{
    steno_err err;
    if (ev->kind == STENO_FINAL && steno_transcript_add(job->result.transcript, ev, &err)) {
        pthread_mutex_lock(&job->jobs->lock);
        if (!job->pool_status) {
            job->pool_status = err.code;
            job->pool_err = err;
        }
        pthread_mutex_unlock(&job->jobs->lock);
        return;
    }
    if (job->req.event)
        job->req.event(job->req.user, job->req.multichannel ? job->channel + 1 : 0, ev);
}

/* The last iteration is short, and waking a feeder for it would cost more, so the worker runs it.
 */
static void on_pool_done(steno_job *job, const struct steno_pool_note *note)
{
    steno_jobs *jobs = job->jobs;
    pthread_mutex_lock(&jobs->lock);
    job->pool_done = true;
    if (note->status && !job->pool_status) {
        job->pool_status = note->status;
        if (note->err)
            job->pool_err = *note->err;
    }
    if (job->running || job->queued || job->state != FLUSHING)
        enqueue(job);
    else
        run_iterations(job); /* may free it */
    pthread_mutex_unlock(&jobs->lock);
}

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *note)
{
    steno_job *job = user;
    (void)ps;
    switch (note->kind) {
    case STENO_POOL_EVENT:
        on_event(job, note->event);
        break;
    case STENO_POOL_ROOM:
        wake(job);
        break;
    case STENO_POOL_FINALIZED:
    case STENO_POOL_PROGRESS:
        break;
    case STENO_POOL_DONE:
        on_pool_done(job, note);
        break;
    }
}

/* ---- an iteration ---------------------------------------------------------------------------- */

static void wake_job(void *job)
{
    wake(job);
}

/* Open the recording. STENO_NEED_MORE: its format is not known yet; the waker wakes the job. */
static steno_status open_audio(steno_job *job, struct steno_audio_info *info, steno_err *err)
{
    const struct steno_server *srv = job->jobs->srv;
    const struct steno_audio_options opt = {.channel = job->req.multichannel ? job->channel + 1
                                                                             : job->req.channel,
                                            .max_seconds = srv->conf->audio_seconds,
                                            .decoders = srv->decoders,
                                            .raw = job->req.raw,
                                            .dont_wait = true};
    steno_status st = STENO_OK;
    if (!job->audio) {
        st = job->req.audio
                 ? steno_audio_open_mem(&job->audio, job->req.audio, job->req.len, &opt, err)
                 : steno_audio_open_fd(&job->audio, job->req.fd, &opt, err);
        if (!st && steno_audio_descriptor(job->audio) >= 0) {
            job->watch = steno_waker_watch(srv->waker, steno_audio_descriptor(job->audio), -1,
                                           wake_job, job);
            if (!job->watch)
                st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
        }
    }
    if (!st)
        st = steno_audio_ready(job->audio, err);
    if (st)
        return st;
    steno_audio_get_info(job->audio, info);
    snprintf(job->result.format, sizeof job->result.format, "%s/%s", info->format, info->codec);
    if (job->channel && info->channels != job->result.channels) /* damage, differently decoded */
        return steno_fail(err, STENO_ERR_FORMAT, "the recording cannot be decoded twice");
    job->result.channels = info->channels;
    if (job->req.multichannel && info->channels > STENO_JOB_CHANNELS)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "multichannel: the recording has %u channels, at most %d are possible",
                          info->channels, STENO_JOB_CHANNELS);
    return STENO_OK;
}

/* Open the recording and its stream. STENO_NEED_MORE as above. */
static steno_status open_stream(steno_job *job, steno_err *err)
{
    const struct steno_server *srv = job->jobs->srv;
    struct steno_pool_stream_options so = {.priority = job->req.background ? STENO_POOL_JOB
                                                                           : STENO_POOL_UPLOAD,
                                           .owner = job->req.owner};
    struct steno_options options = job->req.options;
    struct steno_option_list list;
    struct steno_audio_info info;
    steno_status st = open_audio(job, &info, err);
    if (st)
        return st;
    so.stream.sample_rate = job->rate = info.sample_rate;
    if (info.frames > 0)
        atomic_store_explicit(&job->length, info.frames * 1000 / info.sample_rate,
                              memory_order_relaxed);
    so.stream.no_partials = !job->req.partials;
    so.stream.no_endpointing = job->req.no_endpointing || job->req.served->info.cuts;
    so.stream.no_tail = job->req.served->info.cuts; /* its sections are enough */
    so.stream.hints = job->req.hints;
    so.stream.no_word_times = job->req.no_word_times;
    so.stream.beam = job->req.beam;
    so.stream.n_best = job->req.n_best;
    st = steno_config_search(srv->conf, job->req.served->family, &options, &so.stream, err);
    steno_options_list(&options, STENO_OPTION_OF_STREAM, &list);
    so.stream.options = list.v;
    so.stream.n_options = list.n;
    if (!st)
        st = steno_server_vad(srv, job->req.vad, &so.stream.vad, err);
    so.stream.turn_vad = srv->vad_net;
    if (st)
        return st;
    return steno_pool_stream_open(&job->stream, job->req.served->pool, &so, on_note, job, err);
}

static void close_audio(steno_job *job)
{
    steno_waker_forget(job->jobs->srv->waker, job->watch);
    job->watch = 0;
    steno_audio_close(job->audio);
    job->audio = NULL;
}

static bool is_last_channel(const steno_job *job)
{
    return !job->req.multichannel || job->channel + 1 >= job->result.channels;
}

static void release_audio(steno_job *job)
{
    size_t bytes = job->req.len;
    close_audio(job);
    if (!job->req.audio)
        return;
    free(job->req.audio);
    job->req.audio = NULL;
    if (job->req.released)
        job->req.released(job->req.user, bytes);
}

/* Say that a recording of several channels was mixed: words that are spoken at the same time are
 * lost. */
static void warn_of_mix(steno_job *job)
{
    char *text = job->result.warning;
    const size_t n = strlen(text), room = sizeof job->result.warning - n;
    char mix[STENO_MIX_WARNING];
    if (!job->req.multichannel && !job->req.channel && job->result.channels > 1)
        snprintf(text + n, room, "%s%s", n ? "; " : "",
                 steno_mix_warning(mix, job->result.channels));
}

static void end_of_audio(steno_job *job)
{
    struct steno_audio_info info;
    struct steno_pool_stream_stats stats;
    steno_audio_get_info(job->audio, &info);
    steno_pool_stream_get_stats(job->stream, &stats);
    if (!(job->req.seconds > 0)) /* else it may be short */
        steno_audio_warning(&info, stats.audio_seconds, job->result.warning,
                            sizeof job->result.warning);
    warn_of_mix(job);
    if (is_last_channel(job))
        release_audio(job);
    else
        close_audio(job);
    steno_pool_stream_end(job->stream);
    job->state = FLUSHING;
}

/* Channels that are transcribed one after the other are parts of the whole. */
static void note_position(steno_job *job)
{
    const int64_t parts = job->req.multichannel && job->result.channels ? job->result.channels : 1;
    const int64_t pushed = job->decoded - (int64_t)(job->have - job->at);
    atomic_store_explicit(&job->position, pushed * 1000 / job->rate / parts, memory_order_relaxed);
}

/* Decode a block; none (have is 0) at the end of what is wanted. STENO_NEED_MORE: the waker wakes
 * the job. */
static steno_status decode(steno_job *job, steno_err *err)
{
    size_t max = BLOCK;
    steno_status st;
    if (job->req.seconds > 0) {
        const double left = job->req.seconds * job->rate - (double)(job->decoded - job->before);
        max = left >= BLOCK ? BLOCK : left > 0 ? (size_t)left : 0;
    }
    job->at = job->have = 0;
    st = max ? steno_audio_read(job->audio, job->block, max, &job->have, err) : STENO_OK;
    job->decoded += (int64_t)job->have;
    return st;
}

/* Push until the stream is full, the recording is over, or the iteration has done its share.
 * *again: there is more to do. */
static steno_status feed(steno_job *job, bool *again, steno_err *err)
{
    *again = false;
    for (int i = 0; i < ITERATION_BLOCKS; i++) {
        size_t taken = 0;
        steno_status st;
        if (job->at == job->have) {
            st = decode(job, err);
            if (st)
                return st == STENO_NEED_MORE ? STENO_OK : st;
            if (!job->have) {
                end_of_audio(job);
                return STENO_OK;
            }
        }
        st = steno_pool_stream_push(job->stream, job->block + job->at, job->have - job->at, &taken,
                                    err);
        if (st)
            return st;
        job->at += taken;
        note_position(job);
        if (job->at < job->have)
            return STENO_OK; /* a ROOM note wakes the job */
    }
    *again = true;
    return STENO_OK;
}

/* The stream is over: take what it knows. */
static void end_stream(steno_job *job)
{
    struct steno_job_result *r = &job->result;
    struct steno_pool_stream_stats stats;
    if (!job->stream)
        return;
    steno_pool_stream_get_stats(job->stream, &stats);
    steno_pool_stream_stats_add(&r->stats, &stats);
    if (stats.audio_seconds > r->duration)
        r->duration = stats.audio_seconds;
    steno_transcript_set_duration(r->transcript, stats.audio_seconds);
    steno_pool_stream_close(job->stream);
    job->stream = NULL;
}

/* Go on with the next channel. */
static steno_status next_channel(steno_job *job, steno_err *err)
{
    steno_transcript *next = steno_transcript_new(0);
    if (!next)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    end_stream(job);
    job->transcripts[job->channel++] = job->result.transcript;
    job->result.transcript = next;
    job->at = job->have = 0;
    job->before = job->decoded;
    pthread_mutex_lock(&job->jobs->lock);
    job->pool_done = false;
    job->state = OPENING;
    pthread_mutex_unlock(&job->jobs->lock);
    return STENO_OK;
}

/* Make one transcript of those of the channels. */
static steno_status join_channels(steno_job *job, steno_err *err)
{
    struct steno_job_result *r = &job->result;
    if (!job->req.multichannel)
        return STENO_OK;
    job->transcripts[job->channel] = r->transcript;
    r->transcript = steno_transcript_of_channels(job->transcripts, job->channel + 1);
    job->channel = 0;
    return r->transcript ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

static void finish(steno_job *job, steno_status st, steno_err *err)
{
    struct steno_job_result *r = &job->result;
    end_stream(job);
    release_audio(job);
    free(job->block);
    job->block = NULL;
    r->received = job->rate ? (double)job->decoded / job->rate : 0;
    r->dropped = job->rate ? (double)(job->have - job->at) / job->rate : 0;
    if (!st)
        st = join_channels(job, err);
    r->status = st;
    if (st)
        r->err = *err;
    pthread_mutex_lock(&job->jobs->lock);
    job->state = OVER;
    pthread_mutex_unlock(&job->jobs->lock);
}

/* False when the job is over. */
static bool iterate(steno_job *job, bool *again)
{
    steno_err err = {STENO_OK, ""};
    steno_status st = STENO_OK;
    bool cancelled, done;
    *again = false;
    pthread_mutex_lock(&job->jobs->lock);
    cancelled = job->cancelled;
    done = job->pool_done;
    if (done || job->pool_status) {
        st = job->pool_status;
        err = job->pool_err;
    }
    pthread_mutex_unlock(&job->jobs->lock);
    if (!st && cancelled)
        st = steno_fail(&err, STENO_ERR_CANCELLED, "cancelled");
    if (!st && job->state == OPENING) {
        st = open_stream(job, &err);
        if (st == STENO_NEED_MORE)
            return true;
        job->state = FEEDING;
    }
    if (!st && job->state == FEEDING)
        st = feed(job, again, &err);
    if (st == STENO_ERR_CANCELLED && !cancelled && !done) {
        *again = false; /* the stream ended by itself: its last note says why, and wakes the job */
        return true;
    }
    if (!st && job->state == FLUSHING && done && !is_last_channel(job)) {
        *again = true; /* on a feeder: this may be a worker */
        st = next_channel(job, &err);
        done = false;
    }
    if (!st && !(job->state == FLUSHING && done))
        return true;
    finish(job, st, &err);
    return false;
}

/* Lock held. */
static void link_job(steno_job *job)
{
    steno_jobs *jobs = job->jobs;
    job->older = jobs->newest;
    if (jobs->newest)
        jobs->newest->newer = job;
    jobs->newest = job;
    jobs->alive++;
}

static void unlink_job(steno_job *job)
{
    if (job->older)
        job->older->newer = job->newer;
    if (job->newer)
        job->newer->older = job->older;
    else
        job->jobs->newest = job->older;
}

/* Lock held, released meanwhile. The job may be gone afterwards. */
static void run_iterations(steno_job *job)
{
    steno_jobs *jobs = job->jobs;
    bool alive, again;
    job->running = true;
    job->again = false;
    pthread_mutex_unlock(&jobs->lock);
    alive = iterate(job, &again);
    pthread_mutex_lock(&jobs->lock);
    if (alive) {
        job->running = false;
        if (again || job->again)
            enqueue(job);
        return;
    }
    unlink_job(job);
    pthread_mutex_unlock(&jobs->lock);
    job->req.done(job->req.user, job); /* may free it */
    pthread_mutex_lock(&jobs->lock);
    if (--jobs->alive == 0)
        pthread_cond_broadcast(&jobs->none);
}

static void *feeder(void *arg)
{
    steno_jobs *jobs = arg;
    pthread_setname_np(pthread_self(), "feeder");
    steno_thread_give_way();
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        steno_job *job;
        while (!jobs->first && !jobs->stop)
            pthread_cond_wait(&jobs->work, &jobs->lock);
        if (!jobs->first)
            break;
        job = jobs->first;
        jobs->first = job->next;
        if (!jobs->first)
            jobs->last = NULL;
        job->queued = false;
        run_iterations(job);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

/* ---- interface ------------------------------------------------------------------------------- */

steno_status steno_jobs_open(steno_jobs **out, const struct steno_server *srv, int threads,
                             steno_err *err)
{
    steno_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    jobs->srv = srv;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->work, NULL);
    pthread_cond_init(&jobs->none, NULL);
    jobs->threads = calloc((size_t)threads, sizeof *jobs->threads);
    for (; jobs->threads && jobs->n_threads < threads; jobs->n_threads++) {
        int rc = pthread_create(&jobs->threads[jobs->n_threads], NULL, feeder, jobs);
        if (rc) {
            steno_jobs_close(jobs);
            return steno_fail(err, STENO_ERR_INTERNAL, "feeder thread: %s", strerror(rc));
        }
    }
    if (!jobs->threads) {
        steno_jobs_close(jobs);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    *out = jobs;
    return STENO_OK;
}

void steno_jobs_close(steno_jobs *jobs)
{
    if (!jobs)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->stop = true;
    pthread_cond_broadcast(&jobs->work);
    pthread_mutex_unlock(&jobs->lock);
    for (int i = 0; i < jobs->n_threads; i++)
        pthread_join(jobs->threads[i], NULL);
    free(jobs->threads);
    pthread_cond_destroy(&jobs->work);
    pthread_cond_destroy(&jobs->none);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
}

steno_status steno_job_start(steno_job **out, steno_jobs *jobs,
                             const struct steno_job_request *request, steno_err *err)
{
    bool cancelled;
    steno_job *job = calloc(1, sizeof *job);
    if (job) {
        job->block = calloc(BLOCK, sizeof *job->block);
        job->result.transcript = steno_transcript_new(0);
    }
    if (!job || !job->block || !job->result.transcript) {
        if (job) {
            free(job->block);
            steno_transcript_free(job->result.transcript);
        }
        free(job);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    job->jobs = jobs;
    job->req = *request;
    *out = job; /* before the first iteration, whose callbacks may read it */
    pthread_mutex_lock(&jobs->lock);
    cancelled = jobs->cancelled;
    if (!cancelled) {
        link_job(job);
        enqueue(job);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (cancelled) {
        *out = NULL;
        free(job->block);
        steno_job_free(job);
        return steno_fail(err, STENO_ERR_CANCELLED, "the server is shutting down");
    }
    return STENO_OK;
}

void steno_job_cancel(steno_job *job)
{
    pthread_mutex_lock(&job->jobs->lock);
    job->cancelled = true;
    enqueue(job);
    pthread_mutex_unlock(&job->jobs->lock);
}

void steno_jobs_cancel_all(steno_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->cancelled = true;
    for (steno_job *job = jobs->newest; job; job = job->older) {
        job->cancelled = true;
        enqueue(job);
    }
    while (jobs->alive)
        pthread_cond_wait(&jobs->none, &jobs->lock);
    pthread_mutex_unlock(&jobs->lock);
}

void steno_job_progress(const steno_job *job, double *position, double *duration)
{
    *position = (double)atomic_load_explicit(&job->position, memory_order_relaxed) / 1000;
    *duration = (double)atomic_load_explicit(&job->length, memory_order_relaxed) / 1000;
}

const struct steno_job_result *steno_job_get_result(const steno_job *job)
{
    return &job->result;
}

void steno_job_free(steno_job *job)
{
    if (!job)
        return;
    for (unsigned i = 0; i < job->channel; i++)
        steno_transcript_free(job->transcripts[i]);
    steno_transcript_free(job->result.transcript);
    free(job);
}
