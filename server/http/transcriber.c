/* A transcription is a small state machine: OPENING -> FEEDING -> FLUSHING (-> the same three again
 * for times of words) (-> TELLING, who speaks) -> OVER, moved on by iterations. An iteration runs
 * on one thread, a feeder. `queued`, `running` and `again` ensure that a transcription never has
 * more than one iteration at a time, and that no wake-up is lost between its last check and its
 * sleep. Start, cancel, and the pool's ROOM and DONE notes wake a transcription. The last
 * iteration, at DONE, runs on the worker that delivers the note. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/http/transcriber_internal.h"

#include "base/clock.h"
#include "base/threads.h"
#include "protocol/dialect.h"
#include "protocol/word_times.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITERATION_BLOCKS 32 /* then the next transcription runs */
#define TELLING_MAX 4       /* diarizations at a time; each has some 35 MB */

/* Lock held. */
static void enqueue(steno_transcription *work)
{
    struct steno_transcription_queue *q = &work->transcriber->feeding;
    if (work->running) {
        work->again = true;
        return;
    }
    if (work->state == OVER)
        return;
    if (work->state == TELLING)
        q = &work->transcriber->telling;
    if (!work->queued) {
        work->queued = true;
        work->next = NULL;
        if (q->last)
            q->last->next = work;
        else
            q->first = work;
        q->last = work;
    }
    pthread_cond_signal(&q->work); /* of a queued one too: it may be cancelled */
}

/* Lock held. */
static bool may_run(const steno_transcription *work)
{
    return work->state != TELLING || work->placed || work->cancelled ||
           work->transcriber->placed < TELLING_MAX;
}

/* Take the first transcription that may run; NULL: none may. Lock held. */
static steno_transcription *take_next(struct steno_transcription_queue *q)
{
    steno_transcription *before = NULL, *work = q->first;
    for (; work && !may_run(work); work = work->next)
        before = work;
    if (!work)
        return NULL;
    if (before)
        before->next = work->next;
    else
        q->first = work->next;
    if (q->last == work)
        q->last = before;
    work->queued = false;
    if (work->state == TELLING && !work->placed) {
        work->placed = true;
        q->transcriber->placed++;
        steno_metric_add(q->transcriber->srv->stats->speakers_running, 1);
    }
    return work;
}

/* Lock held. */
static void leave_place(steno_transcription *work)
{
    if (!work->placed)
        return;
    work->placed = false;
    work->transcriber->placed--;
    steno_metric_add(work->transcriber->srv->stats->speakers_running, -1);
    pthread_cond_signal(&work->transcriber->telling.work);
}

static void wake(steno_transcription *work)
{
    pthread_mutex_lock(&work->transcriber->lock);
    enqueue(work);
    pthread_mutex_unlock(&work->transcriber->lock);
}

static void run_iterations(steno_transcription *work);

/* Take a final: a part of the text, or the times of its words. */
static steno_status take_final(steno_transcription *work, const struct steno_event *ev,
                               steno_err *err)
{
    steno_transcript *t = work->result.transcript;
    return work->words == WORDS_RUNNING ? steno_word_times_take(t, ev, err)
                                        : steno_transcript_add(t, ev, err);
}

static void on_event(steno_transcription *work, const struct steno_event *ev)
{
    steno_err err;
    if (ev->kind == STENO_FINAL && take_final(work, ev, &err)) {
        pthread_mutex_lock(&work->transcriber->lock);
        if (!work->pool_status) {
            work->pool_status = err.code;
            work->pool_err = err;
        }
        pthread_mutex_unlock(&work->transcriber->lock);
        return;
    }
    if (work->req.event && work->words != WORDS_RUNNING)
        work->req.event(work->req.user, work->req.multichannel ? work->channel + 1 : 0, ev);
}

/* The last iteration is short, and waking a feeder for it would cost more, so the worker runs it.
 */
static void on_pool_done(steno_transcription *work, const struct steno_pool_note *note)
{
    steno_transcriber *transcriber = work->transcriber;
    pthread_mutex_lock(&transcriber->lock);
    work->pool_done = true;
    if (note->status && !work->pool_status) {
        work->pool_status = note->status;
        if (note->err)
            work->pool_err = *note->err;
    }
    if (work->running || work->queued || work->state != FLUSHING)
        enqueue(work);
    else
        run_iterations(work); /* may free it */
    pthread_mutex_unlock(&transcriber->lock);
}

static void on_note(void *user, steno_pool_stream *ps, const struct steno_pool_note *note)
{
    steno_transcription *work = user;
    (void)ps;
    switch (note->kind) {
    case STENO_POOL_EVENT:
        on_event(work, note->event);
        break;
    case STENO_POOL_ROOM:
        wake(work);
        break;
    case STENO_POOL_FINALIZED:
    case STENO_POOL_PROGRESS:
        break;
    case STENO_POOL_DONE:
        on_pool_done(work, note);
        break;
    }
}

/* ---- an iteration ---------------------------------------------------------------------------- */

static void wake_job(void *work)
{
    wake(work);
}

/* Open the recording and its stream. STENO_NEED_MORE as above. */
static steno_status open_work_stream(steno_transcription *work, steno_err *err)
{
    const struct steno_server *srv = work->transcriber->srv;
    struct steno_pool_stream_options so = {.priority = work->req.background ? STENO_POOL_JOB
                                                                            : STENO_POOL_UPLOAD,
                                           .owner = work->req.owner};
    struct steno_options options = work->req.options;
    struct steno_option_list list;
    struct steno_audio_info info;
    steno_status st = steno_transcription_open_audio(work, &info, err);
    if (st)
        return st;
    so.stream.sample_rate = work->rate = info.sample_rate;
    if (work->words == WORDS_RUNNING)
        return steno_transcription_open_words(work, on_note, err);
    if (info.frames > 0)
        atomic_store_explicit(&work->length, info.frames * 1000 / info.sample_rate,
                              memory_order_relaxed);
    so.stream.no_partials = !work->req.partials;
    so.stream.no_endpointing = work->req.no_endpointing || work->req.served->info.cuts;
    so.stream.no_tail = work->req.served->info.cuts; /* its sections are enough */
    so.stream.hints = work->req.hints;
    so.filters = work->req.filters;
    so.vocabulary = work->req.vocabulary;
    so.lines = work->req.lines;
    so.n_lines = work->req.n_lines;
    so.stream.no_word_times = work->req.no_word_times;
    so.stream.beam = work->req.beam;
    so.stream.n_best = work->req.n_best;
    st = steno_config_search(srv->conf, work->req.served->family, &options, &so.stream, err);
    steno_options_list(&options, STENO_OPTION_OF_STREAM, &list);
    so.stream.options = list.v;
    so.stream.n_options = list.n;
    if (!st)
        st = steno_server_vad(srv, work->req.vad, &so.stream.vad, err);
    so.stream.turn_vad = srv->vad_net;
    if (st)
        return st;
    return steno_pool_stream_open(&work->stream, work->req.served->pool, &so, on_note, work, err);
}

static bool wants_voices(const steno_transcription *work)
{
    return work->req.voices.on && work->transcriber->srv->speakers &&
           !(work->req.voices_of_mono && work->result.channels > 1);
}

static bool is_last_channel(const steno_transcription *work)
{
    return !work->req.multichannel || work->channel + 1 >= work->result.channels;
}

static void release_audio(steno_transcription *work)
{
    size_t bytes = work->req.len;
    steno_transcription_close_audio(work);
    if (!work->req.audio)
        return;
    free(work->req.audio);
    work->req.audio = NULL;
    if (work->req.released)
        work->req.released(work->req.user, bytes);
}

/* Warn that several channels were mixed, which loses words spoken at the same time, and that no
 * network tells the speakers apart. Once for a recording. */
static void warn_of_losses(steno_transcription *work)
{
    char mix[STENO_MIX_WARNING];
    if (work->channel)
        return;
    if (!work->req.multichannel && !work->req.channel && work->result.channels > 1)
        steno_transcription_warn(work, steno_mix_warning(mix, work->result.channels));
    if (work->req.voices.on && !work->transcriber->srv->speakers)
        steno_transcription_warn(work, STENO_VOICES_MISSING);
}

/* The recording is over for now: it is kept as long as it is to be heard again. */
static void let_audio_go(steno_transcription *work)
{
    if (is_last_channel(work) && !wants_voices(work) && !steno_transcription_wants_words(work))
        release_audio(work);
    else
        steno_transcription_close_audio(work);
}

static void warn_of_audio(steno_transcription *work)
{
    struct steno_audio_info info;
    struct steno_pool_stream_stats stats;
    steno_audio_get_info(work->audio, &info);
    steno_pool_stream_get_stats(work->stream, &stats);
    if (!(work->req.seconds > 0)) /* else it may be short */
        steno_audio_warning(&info, stats.audio_seconds, work->result.warning,
                            sizeof work->result.warning);
    warn_of_losses(work);
}

static void end_of_audio(steno_transcription *work)
{
    if (work->words != WORDS_RUNNING)
        warn_of_audio(work);
    let_audio_go(work);
    steno_pool_stream_end(work->stream);
    work->state = FLUSHING;
}

/* Channels that are transcribed one after the other are parts of the whole. */
static void note_position(steno_transcription *work)
{
    const int64_t parts =
        work->req.multichannel && work->result.channels ? work->result.channels : 1;
    atomic_store_explicit(&work->position, work->decoded * 1000 / work->rate / parts,
                          memory_order_relaxed);
}

/* Decode into the stream until it is full, the recording is over, or the iteration has done its
 * share. *again: there is more to do. */
static steno_status feed(steno_transcription *work, bool *again, steno_err *err)
{
    *again = false;
    for (int i = 0; i < ITERATION_BLOCKS; i++) {
        const size_t wanted = steno_transcription_wanted(work);
        size_t room = 0, n;
        float *to = NULL;
        steno_status st = STENO_OK;
        if (wanted)
            st = steno_pool_stream_room(work->stream, wanted, wanted, &to, &room, err);
        if (st || room < wanted)
            return st; /* a ROOM note wakes the transcription */
        st = steno_transcription_decode(work, to, room, &n, err);
        if (room)
            steno_pool_stream_add(work->stream, n);
        if (st)
            return st == STENO_NEED_MORE ? STENO_OK : st;
        if (!n) {
            end_of_audio(work);
            return STENO_OK;
        }
        if (work->words != WORDS_RUNNING) /* it is at its end already */
            note_position(work);
    }
    *again = true;
    return STENO_OK;
}

/* The stream is over: take what it knows. */
static void end_stream(steno_transcription *work)
{
    struct steno_transcription_result *r = &work->result;
    struct steno_pool_stream_stats stats;
    if (!work->stream)
        return;
    steno_pool_stream_get_stats(work->stream, &stats);
    if (work->words == WORDS_RUNNING) { /* its audio counts already */
        stats.audio_seconds = 0;
    } else {
        r->duration = stats.audio_seconds > r->duration ? stats.audio_seconds : r->duration;
        steno_transcript_set_duration(r->transcript, stats.audio_seconds);
    }
    steno_pool_stream_stats_add(&r->stats, &stats);
    steno_pool_stream_close(work->stream);
    work->stream = NULL;
}

/* Go on with the next channel. */
static steno_status next_channel(steno_transcription *work, steno_err *err)
{
    steno_transcript *next = steno_transcript_new(0);
    if (!next)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    end_stream(work);
    work->transcripts[work->channel++] = work->result.transcript;
    work->result.transcript = next;
    work->before = work->decoded;
    work->words = WORDS_PLAIN;
    pthread_mutex_lock(&work->transcriber->lock);
    leave_place(work);
    work->pool_done = false;
    work->state = OPENING;
    pthread_mutex_unlock(&work->transcriber->lock);
    return STENO_OK;
}

/* Make one transcript of those of the channels. */
static steno_status join_channels(steno_transcription *work, steno_err *err)
{
    struct steno_transcription_result *r = &work->result;
    if (!work->req.multichannel)
        return STENO_OK;
    work->transcripts[work->channel] = r->transcript;
    r->transcript = steno_transcript_of_channels(work->transcripts, work->channel + 1);
    work->channel = 0;
    return r->transcript ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
}

/* The text is there: go on with the times of its words, from the beginning of the recording. False:
 * nothing can find them. */
static bool begin_words(steno_transcription *work)
{
    end_stream(work);
    if (!steno_transcription_begin_words(work)) {
        let_audio_go(work);
        return false;
    }
    work->before = work->decoded;
    pthread_mutex_lock(&work->transcriber->lock);
    work->pool_done = false;
    work->state = OPENING;
    pthread_mutex_unlock(&work->transcriber->lock);
    return true;
}

/* The words have their times, or not, which is no failure: st and err say why. */
static void end_words(steno_transcription *work, steno_status st, const steno_err *err)
{
    end_stream(work);
    let_audio_go(work);
    work->decoded = work->before;
    steno_transcription_end_words(work, st, err);
    pthread_mutex_lock(&work->transcriber->lock);
    work->pool_status = STENO_OK;
    work->pool_done = true;
    work->state = FLUSHING;
    pthread_mutex_unlock(&work->transcriber->lock);
}

/* The text is there: go on with its speakers, from the beginning of the recording. */
static void begin_telling(steno_transcription *work)
{
    end_stream(work);
    work->before = work->decoded;
    pthread_mutex_lock(&work->transcriber->lock);
    work->state = TELLING;
    pthread_mutex_unlock(&work->transcriber->lock);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void finish_work(steno_transcription *work, steno_status st, steno_err *err)
{
    struct steno_transcription_result *r = &work->result;
    end_stream(work);
    steno_diarization_close(work->voices);
    work->voices = NULL;
    steno_transcription_drop_words(work);
    if ((work->state == TELLING && !work->req.print_only) || work->words == WORDS_RUNNING)
        work->decoded = work->before; /* nothing was received twice */
    release_audio(work);
    r->received = work->rate ? (double)work->decoded / work->rate : 0;
    if (!st)
        st = join_channels(work, err);
    r->status = st;
    if (st)
        r->err = *err;
    pthread_mutex_lock(&work->transcriber->lock);
    leave_place(work);
    work->state = OVER;
    pthread_mutex_unlock(&work->transcriber->lock);
}

/* False when the transcription is over. */
static bool iterate(steno_transcription *work, bool *again)
{
    steno_err err = {STENO_OK, ""};
    steno_status st = STENO_OK;
    bool cancelled, done, told = false;
    *again = false;
    pthread_mutex_lock(&work->transcriber->lock);
    cancelled = work->cancelled;
    done = work->pool_done;
    if (done || work->pool_status) {
        st = work->pool_status;
        err = work->pool_err;
    }
    pthread_mutex_unlock(&work->transcriber->lock);
    if (!st && cancelled)
        st = steno_fail(&err, STENO_ERR_CANCELLED, "cancelled");
    if (work->words == WORDS_RUNNING && !cancelled && (st || (done && work->state == FLUSHING))) {
        end_words(work, st, &err);
        st = STENO_OK;
        done = true;
    }
    if (!st && work->state == OPENING && work->req.print_only) {
        *again = true;
        begin_telling(work);
        return true;
    }
    if (!st && work->state == OPENING) {
        st = open_work_stream(work, &err);
        if (st == STENO_NEED_MORE)
            return true;
        if (st && work->words == WORDS_RUNNING) {
            end_words(work, st, &err);
            st = STENO_OK;
            done = true;
        } else {
            work->state = FEEDING;
        }
    }
    if (!st && work->state == FEEDING)
        st = feed(work, again, &err);
    if (st == STENO_ERR_CANCELLED && !cancelled && !done) {
        *again = false; /* the stream ended by itself: its last note says why, and wakes the
                           transcription */
        return true;
    }
    if (!st && work->state == TELLING)
        st = steno_transcription_tell(work, &told, again, &err);
    if (!st && work->state == FLUSHING && done && steno_transcription_wants_words(work) &&
        begin_words(work)) {
        *again = true; /* on a feeder: this may be a worker */
        return true;
    }
    if (!st && work->state == FLUSHING && done && wants_voices(work)) {
        *again = true; /* on a thread of its own: this may be a worker */
        begin_telling(work);
    }
    told |= work->state == FLUSHING && done;
    if (!st && told && !is_last_channel(work)) {
        *again = true;
        st = next_channel(work, &err);
        told = false;
    }
    if (!st && !told)
        return true;
    finish_work(work, st, &err);
    return false;
}

/* Lock held. */
static void link_job(steno_transcription *work)
{
    steno_transcriber *transcriber = work->transcriber;
    work->older = transcriber->newest;
    if (transcriber->newest)
        transcriber->newest->newer = work;
    transcriber->newest = work;
    transcriber->alive++;
}

static void unlink_job(steno_transcription *work)
{
    if (work->older)
        work->older->newer = work->newer;
    if (work->newer)
        work->newer->older = work->older;
    else
        work->transcriber->newest = work->older;
}

/* Lock held, released meanwhile. The transcription may be gone afterwards. */
static void run_iterations(steno_transcription *work)
{
    steno_transcriber *transcriber = work->transcriber;
    bool alive, again;
    work->running = true;
    work->again = false;
    pthread_mutex_unlock(&transcriber->lock);
    alive = iterate(work, &again);
    pthread_mutex_lock(&transcriber->lock);
    if (alive) {
        work->running = false;
        if (again || work->again)
            enqueue(work);
        return;
    }
    unlink_job(work);
    pthread_mutex_unlock(&transcriber->lock);
    work->req.done(work->req.user, work); /* may free it */
    pthread_mutex_lock(&transcriber->lock);
    if (--transcriber->alive == 0)
        pthread_cond_broadcast(&transcriber->none);
}

static void *serve(void *arg)
{
    struct steno_transcription_queue *q = arg;
    steno_transcriber *transcriber = q->transcriber;
    pthread_setname_np(pthread_self(), q == &transcriber->feeding ? "feeder" : "speakers");
    steno_thread_give_way();
    pthread_mutex_lock(&transcriber->lock);
    for (;;) {
        steno_transcription *work = take_next(q);
        if (work)
            run_iterations(work);
        else if (transcriber->stop)
            break;
        else
            pthread_cond_wait(&q->work, &transcriber->lock);
    }
    pthread_mutex_unlock(&transcriber->lock);
    return NULL;
}

/* ---- interface ------------------------------------------------------------------------------- */

static steno_status open_queue(struct steno_transcription_queue *q, int threads, steno_err *err)
{
    q->threads = calloc((size_t)threads, sizeof *q->threads);
    if (!q->threads)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (; q->n_threads < threads; q->n_threads++) {
        int rc = pthread_create(&q->threads[q->n_threads], NULL, serve, q);
        if (rc)
            return steno_fail(err, STENO_ERR_INTERNAL, "feeder thread: %s", strerror(rc));
    }
    return STENO_OK;
}

static void close_queue(struct steno_transcription_queue *q)
{
    for (int i = 0; i < q->n_threads; i++)
        pthread_join(q->threads[i], NULL);
    free(q->threads);
    pthread_cond_destroy(&q->work);
}

steno_status steno_transcriber_open(steno_transcriber **out, const struct steno_server *srv,
                                    int threads, int speakers_threads, steno_err *err)
{
    steno_transcriber *transcriber = calloc(1, sizeof *transcriber);
    steno_status st;
    if (!transcriber)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    transcriber->srv = srv;
    transcriber->feeding.transcriber = transcriber->telling.transcriber = transcriber;
    pthread_mutex_init(&transcriber->lock, NULL);
    pthread_cond_init(&transcriber->feeding.work, NULL);
    pthread_cond_init(&transcriber->telling.work, NULL);
    pthread_cond_init(&transcriber->none, NULL);
    st = open_queue(&transcriber->feeding, threads, err);
    if (!st && srv->speakers)
        st = open_queue(&transcriber->telling, speakers_threads, err);
    if (st) {
        steno_transcriber_close(transcriber);
        return st;
    }
    *out = transcriber;
    return STENO_OK;
}

void steno_transcriber_close(steno_transcriber *transcriber)
{
    if (!transcriber)
        return;
    pthread_mutex_lock(&transcriber->lock);
    transcriber->stop = true;
    pthread_cond_broadcast(&transcriber->feeding.work);
    pthread_cond_broadcast(&transcriber->telling.work);
    pthread_mutex_unlock(&transcriber->lock);
    close_queue(&transcriber->feeding);
    close_queue(&transcriber->telling);
    pthread_cond_destroy(&transcriber->none);
    pthread_mutex_destroy(&transcriber->lock);
    free(transcriber);
}

steno_status steno_transcription_start(steno_transcription **out, steno_transcriber *transcriber,
                                       const struct steno_transcription_request *request,
                                       steno_err *err)
{
    bool cancelled;
    steno_transcription *work = calloc(1, sizeof *work);
    if (work)
        work->result.transcript = steno_transcript_new(0);
    if (!work || !work->result.transcript) {
        free(work);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    work->transcriber = transcriber;
    work->wake = wake_job;
    work->req = *request;
    *out = work; /* before the first iteration, whose callbacks may read it */
    pthread_mutex_lock(&transcriber->lock);
    cancelled = transcriber->cancelled;
    if (!cancelled) {
        link_job(work);
        enqueue(work);
    }
    pthread_mutex_unlock(&transcriber->lock);
    if (cancelled) {
        *out = NULL;
        steno_transcription_free(work);
        return steno_fail(err, STENO_ERR_CANCELLED, "the server is shutting down");
    }
    return STENO_OK;
}

void steno_transcription_cancel(steno_transcription *work)
{
    pthread_mutex_lock(&work->transcriber->lock);
    work->cancelled = true;
    enqueue(work);
    pthread_mutex_unlock(&work->transcriber->lock);
}

void steno_transcriber_cancel_all(steno_transcriber *transcriber)
{
    pthread_mutex_lock(&transcriber->lock);
    transcriber->cancelled = true;
    for (steno_transcription *work = transcriber->newest; work; work = work->older) {
        work->cancelled = true;
        enqueue(work);
    }
    while (transcriber->alive)
        pthread_cond_wait(&transcriber->none, &transcriber->lock);
    pthread_mutex_unlock(&transcriber->lock);
}

void steno_transcription_progress(const steno_transcription *work, double *position,
                                  double *duration)
{
    *position = (double)atomic_load_explicit(&work->position, memory_order_relaxed) / 1000;
    *duration = (double)atomic_load_explicit(&work->length, memory_order_relaxed) / 1000;
}

const struct steno_transcription_result *
steno_transcription_get_result(const steno_transcription *work)
{
    return &work->result;
}

void steno_transcription_free(steno_transcription *work)
{
    if (!work)
        return;
    for (unsigned i = 0; i < work->channel; i++)
        steno_transcript_free(work->transcripts[i]);
    steno_transcript_free(work->result.transcript);
    free(work->result.print);
    free(work);
}
