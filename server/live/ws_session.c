#include "server/live/ws_session_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers; the caller holds mx -------------------------------------------------------- */

/* Queue what was written since steno_outbox_begin; st: the status of the writing. A client with
 * more unread answers than allowed is given up: no message can reach it. */
static void commit(struct steno_dialect_session *d, steno_status st, bool partial)
{
    steno_ws_session *s = d->owner;
    bool replaced = false;
    bool now = true;
    if (s->ending.over)
        return;
    if (!st && s->d.start.resumable && !partial) {
        steno_ws_session_make_room(s, s->answers.out.spare.len);
        steno_history_add(&s->answers.history, d->seq, s->answers.out.spare.data,
                          s->answers.out.spare.len);
    }
    if (!st)
        now = steno_ws_session_store_message(s, partial);
    if (!st && now && !s->answers.detached)
        st = steno_outbox_commit(&s->answers.out, partial, &replaced);
    else if (!now)
        replaced = partial;
    if (!st) {
        d->seq++;
        s->notes.dropped += replaced;
        return;
    }
    steno_ws_session_unreachable(s, st);
}

/* ---- begin and end ----------------------------------------------------------------------- */

static struct steno_buf *begin_message(struct steno_dialect_session *d)
{
    return steno_outbox_begin(&((steno_ws_session *)d->owner)->answers.out);
}

static steno_status each_model(struct steno_dialect_session *d,
                               steno_status (*see)(void *user, const struct steno_dialect_model *m),
                               void *user)
{
    steno_ws_session *s = d->owner;
    return s->engine->each_model ? s->engine->each_model(s->ctx, see, user) : STENO_OK;
}

static steno_status check_start(struct steno_dialect_session *d,
                                const struct steno_native_start *start, char *model, steno_err *err)
{
    steno_ws_session *s = d->owner;
    if (s->engine->check)
        return s->engine->check(s->ctx, start, model, err);
    memcpy(model, start->model, sizeof start->model);
    return STENO_OK;
}

static bool init_dialect(steno_ws_session *s, const char *id)
{
    struct steno_dialect_session *d = &s->d;
    d->dialect = s->dialect;
    d->tells_speakers = s->limits.tells_speakers;
    d->owner = s;
    d->begin = begin_message;
    d->commit = commit;
    d->each_model = each_model;
    d->check = check_start;
    d->model_version = d->model_family = d->model_language = d->sha256 = "";
    snprintf(d->id, sizeof d->id, "%s", id);
    steno_native_start_init(&d->start);
    d->start.hints = &d->hints;
    d->hints.profanity = s->limits.profanity;
    steno_buf_init(&d->audio, s->limits.message_bytes);
    if (s->dialect->state_bytes && !(d->state = calloc(1, s->dialect->state_bytes)))
        return false;
    if (s->dialect->init)
        s->dialect->init(d);
    if (s->dialect->sums && (s->audio.sum = malloc(sizeof *s->audio.sum)))
        steno_sha256_begin(&s->audio.sum->of);
    return true;
}

steno_ws_session *steno_ws_session_new(const struct steno_dialect *dialect,
                                       const struct steno_ws_engine *engine, void *ctx,
                                       const char *id, const struct steno_ws_session_limits *limits)
{
    steno_ws_session *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    if (pthread_mutex_init(&s->mx, NULL)) {
        free(s);
        return NULL;
    }
    s->engine = engine;
    s->audio.width = 1;
    s->ctx = ctx;
    s->limits = *limits;
    s->dialect = dialect;
    s->d.created = limits->now;
    if (!init_dialect(s, id)) {
        pthread_mutex_destroy(&s->mx);
        free(s);
        return NULL;
    }
    steno_buf_init(&s->in.text, steno_ws_session_max_text(s));
    steno_buf_init(&s->in.packet, STENO_WS_OPUS_PACKET);
    steno_ws_session_init_held(s);
    steno_buf_init(&s->notes.last_partial, limits->send_bytes);
    steno_outbox_init(&s->answers.out, limits->send_bytes);
    steno_history_init(&s->answers.history, limits->resume_bytes < limits->send_bytes / 2
                                                ? limits->resume_bytes
                                                : limits->send_bytes / 2);
    return s;
}

void steno_ws_session_free(steno_ws_session *s)
{
    if (!s)
        return;
    steno_ws_session_end_storing(s);
    if (s->dialect->free_state)
        s->dialect->free_state(&s->d);
    free(s->d.state);
    free(s->d.warning);
    free(s->audio.sum);
    free(s->ending.message);
    steno_hint_store_free(&s->d.hints);
    steno_hint_store_free(&s->d.asked_hints);
    steno_buf_free(&s->d.audio);
    steno_feed_close(s->audio.feed);
    steno_buf_free(&s->in.text);
    steno_buf_free(&s->in.packet);
    steno_buf_free(&s->held.bytes);
    steno_buf_free(&s->notes.last_partial);
    steno_outbox_free(&s->answers.out);
    steno_history_free(&s->answers.history);
    pthread_mutex_destroy(&s->mx);
    free(s);
}

/* ---- going on ---------------------------------------------------------------------------- */

void steno_ws_session_decoded(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    s->notes.room = true;
    pthread_mutex_unlock(&s->mx);
}

/* No new stream could be opened: conclude without one. */
static void lose_stream(steno_ws_session *s, steno_status st, const char *message)
{
    if (s->state < ENDING) {
        steno_ws_session_fail(s, st, message);
        return;
    }
    pthread_mutex_lock(&s->mx); /* how it ends is known */
    steno_ws_session_conclude(s);
    pthread_mutex_unlock(&s->mx);
    s->state = OVER;
}

/* Whether samples may come without bytes. */
static bool may_decode(const steno_ws_session *s)
{
    return s->state == RUNNING && s->audio.feed && steno_feed_decodes(s->audio.feed);
}

void steno_ws_session_resume(steno_ws_session *s)
{
    steno_err err;
    steno_status st = STENO_OK;
    pthread_mutex_lock(&s->mx);
    s->notes.room = false;
    pthread_mutex_unlock(&s->mx);
    steno_ws_session_check_end(s);
    if (s->state == OVER)
        return;
    steno_ws_session_begin_loaded(s);
    if (s->stream.swap == SWAP_RUNNING) {
        st = steno_ws_session_finish_swap(s, &err);
        if (st == STENO_NEED_MORE)
            return;
        if (st) {
            lose_stream(s, st, err.msg);
            return;
        }
    }
    if (s->held.bytes.len || may_decode(s)) {
        st = steno_ws_session_feed_held(s, &err);
        s->audio.failed |= st != STENO_OK;
    }
    if (!st && !s->held.full && s->stream.finalize_wanted)
        steno_ws_session_finalize(s);
    if (st)
        steno_ws_session_fail(s, st, err.msg);
    steno_ws_session_end_container(s);
    steno_ws_session_try_swap(s);
    if (s->stream.end_wanted && !steno_ws_session_paused(s)) {
        s->stream.end_wanted = false;
        s->engine->end(s->ctx);
    }
}

bool steno_ws_session_readable(steno_ws_session *s)
{
    /* the next message may be audio of the next segment, which belongs to the new stream */
    if (s->stream.swap == SWAP_WANTED)
        steno_ws_session_try_swap(s);
    return !steno_ws_session_paused(s);
}

/* ---- the recogniser's notes -------------------------------------------------------------- */

static void count_revision(steno_ws_session *s, const struct steno_event *ev)
{
    if (s->d.channels > 1) /* there is one last partial, not one for each */
        return;
    if (ev->kind == STENO_PARTIAL && s->notes.last_partial.len &&
        strncmp(s->notes.last_partial.data, ev->text, s->notes.last_partial.len))
        s->notes.revised++;
    steno_buf_reset(&s->notes.last_partial);
    if (ev->kind == STENO_PARTIAL && steno_buf_puts(&s->notes.last_partial, ev->text))
        steno_buf_reset(&s->notes.last_partial); /* out of memory: one revision is not counted */
}

static bool note_event(steno_ws_session *s, const struct steno_event *ev)
{
    int64_t ms = (int64_t)((s->d.offset + ev->time) * 1000.0 + 0.5);
    uint64_t seq = s->d.seq;
    if (s->notes.mute || (ev->kind == STENO_PARTIAL && !s->d.start.interim))
        return false;
    if (ms > s->d.audio_ms)
        s->d.audio_ms = ms;
    count_revision(s, ev);
    s->d.finals += ev->kind == STENO_FINAL;
    if (ev->kind == STENO_FINAL)
        steno_ws_session_note_final(s, ev);
    s->dialect->event(&s->d, ev);
    return s->d.seq != seq || s->ending.over;
}

static bool note_progress(steno_ws_session *s, double heard)
{
    uint64_t seq = s->d.seq;
    if (!s->notes.mute && s->dialect->progress)
        s->dialect->progress(&s->d, s->d.offset + heard);
    return s->d.seq != seq || s->ending.over;
}

static void note_done(steno_ws_session *s, const struct steno_pool_note *note)
{
    int64_t ms = (int64_t)((s->d.offset + note->stats.audio_seconds) * 1000.0 + 0.5);
    if (ms > s->d.audio_ms)
        s->d.audio_ms = ms;
    if (s->notes.swapping && (!note->status || note->status == STENO_ERR_CANCELLED)) {
        s->notes.swapped = s->notes.room = true;
        return;
    }
    if (note->status && note->status != STENO_ERR_CANCELLED)
        steno_ws_session_set_ending(s, STENO_WS_FAILED, steno_status_info(note->status)->ws_close,
                                    note->status, steno_status_info(note->status)->name,
                                    note->err ? note->err->msg : "");
    else if (s->ending.how == STENO_WS_RUNNING) /* the session did not cancel it: the pool closes */
        steno_ws_session_set_ending(s, STENO_WS_DRAINED, 1012, STENO_OK, "", "");
    steno_ws_session_conclude(s);
}

bool steno_ws_session_note(steno_ws_session *s, unsigned channel,
                           const struct steno_pool_note *note,
                           const struct steno_live_voices *voices)
{
    bool wake = true;
    pthread_mutex_lock(&s->mx);
    s->d.channel = channel;
    s->d.voices = voices;
    if (s->ending.over)
        wake = false;
    else if (note->kind == STENO_POOL_EVENT)
        wake = note_event(s, note->event);
    else if (note->kind == STENO_POOL_PROGRESS)
        wake = note_progress(s, note->heard);
    else if (note->kind == STENO_POOL_DONE)
        note_done(s, note);
    else if (note->kind == STENO_POOL_FINALIZED && s->dialect->finalized)
        s->dialect->finalized(&s->d);
    if (note->kind == STENO_POOL_FINALIZED && s->notes.finalizing)
        s->notes.finalizing--;
    if (note->kind == STENO_POOL_ROOM || note->kind == STENO_POOL_FINALIZED)
        s->notes.room = true;
    if (s->notes.swap_waits && note->kind == STENO_POOL_EVENT && note->event->kind == STENO_FINAL)
        s->notes.room = wake = true;
    s->d.voices = NULL;
    pthread_mutex_unlock(&s->mx);
    return wake;
}

void steno_ws_session_warn(steno_ws_session *s, const char *text)
{
    pthread_mutex_lock(&s->mx);
    if (!s->d.warning)
        s->d.warning = strdup(text); /* out of memory: it is in the log alone */
    pthread_mutex_unlock(&s->mx);
}

/* ---- called by the network's thread ------------------------------------------------------ */

steno_status steno_ws_session_take(steno_ws_session *s, struct steno_buf *out)
{
    steno_status st;
    pthread_mutex_lock(&s->mx);
    st = steno_outbox_take(&s->answers.out, out);
    pthread_mutex_unlock(&s->mx);
    return st;
}

void steno_ws_session_get_state(steno_ws_session *s, struct steno_ws_session_state *st)
{
    const char *reason;
    int code;
    pthread_mutex_lock(&s->mx);
    reason = s->ending.code[0] ? s->ending.code
             : s->ending.how == STENO_WS_MOVED
                 ? s->ending.close_code == 1012 ? "draining" : "resumed on another machine"
             : s->ending.how == STENO_WS_DRAINED ? "draining"
                                                 : "end";
    code = s->ending.close_code;
    if (s->ending.code[0] && s->dialect->close)
        s->dialect->close(s->ending.code, &code, &reason);
    *st = (struct steno_ws_session_state){
        .started = s->state > OPEN,
        .room_wanted = s->notes.room,
        .loading = s->loading.waits,
        .takes_no_more = s->state >= ENDING,
        .close = s->ending.over && !s->answers.out.count &&
                 (!s->stored || s->stored->held == STENO_WS_NOT_HELD),
        .close_code = code,
        .reason = reason,
        .error = s->ending.code,
        .ending = s->ending.over ? s->ending.how : STENO_WS_RUNNING,
        .ended_by_close = s->ending.by_close,
        .failure = s->ending.failure,
        .failed_in_audio = s->audio.failed,
        .queued = steno_outbox_size(&s->answers.out),
        .messages = s->d.seq,
        .finals = s->d.finals,
        .partials_dropped = s->notes.dropped,
        .partials_revised = s->notes.revised,
        .audio_seconds = s->audio.rate ? (double)s->audio.samples / s->audio.rate : 0,
        .received_seconds =
            s->audio.rate ? (double)s->audio.received * s->audio.width / s->audio.rate : 0,
        .dropped_seconds =
            s->audio.rate ? (double)s->audio.lost * s->audio.width / s->audio.rate : 0,
        .mixed = s->d.mixed,
    };
    pthread_mutex_unlock(&s->mx);
}
