#include "server/live/ws_session_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers; the caller holds mx -------------------------------------------------------- */

void steno_ws_session_set_ending(steno_ws_session *s, enum steno_ws_ending how, int close_code,
                                 steno_status failure, const char *code, const char *message)
{
    s->ending.how = how;
    s->ending.close_code = close_code;
    s->ending.failure = failure;
    snprintf(s->ending.code, sizeof s->ending.code, "%s", code);
    free(s->ending.message);
    s->ending.message = *message ? strdup(message) : NULL; /* out of memory: the code is told */
}

void steno_ws_session_unreachable(steno_ws_session *s, steno_status st)
{
    if (st == STENO_ERR_LIMIT) /* else what was written before is sent */
        steno_outbox_clear(&s->out);
    if (s->over)
        return;
    if (st == STENO_ERR_LIMIT)
        steno_ws_session_set_ending(s, STENO_WS_SLOW, 1008, STENO_ERR_LIMIT, "slow_reader", "");
    else
        steno_ws_session_set_ending(s, STENO_WS_FAILED, steno_status_info(st)->ws_close, st,
                                    steno_status_info(st)->name, "");
    s->over = true;
}

/* Queue what was written since steno_outbox_begin; st: the status of the writing. A client with
 * more unread answers than allowed is given up: no message can reach it. */
static void commit(struct steno_dialect_session *d, steno_status st, bool partial)
{
    steno_ws_session *s = d->owner;
    bool replaced = false;
    bool now = true;
    if (s->over)
        return;
    if (!st && s->d.start.resumable && !partial) {
        steno_ws_session_make_room(s, s->out.spare.len);
        steno_history_add(&s->history, d->seq, s->out.spare.data, s->out.spare.len);
    }
    if (!st)
        now = steno_ws_session_store_message(s, partial);
    if (!st && now && !s->detached)
        st = steno_outbox_commit(&s->out, partial, &replaced);
    else if (!now)
        replaced = partial;
    if (!st) {
        d->seq++;
        s->dropped += replaced;
        return;
    }
    steno_ws_session_unreachable(s, st);
}

/* Send the last message, `end` or `error`, as s->ending says. */
static void conclude(steno_ws_session *s)
{
    if (s->over)
        return;
    s->d.audio_seconds = s->rate ? (double)s->samples / s->rate : 0;
    s->concluding = true;
    steno_ws_session_keep_next(s);
    if (s->ending.code[0])
        s->dialect->error(&s->d, s->ending.code, s->ending.message ? s->ending.message : "");
    else
        s->dialect->end(&s->d, s->ending.how == STENO_WS_DRAINED);
    s->over = true;
}

size_t steno_ws_session_max_text(const steno_ws_session *s)
{
    size_t most = s->dialect->max_text;
    return most < s->limits.message_bytes ? most : s->limits.message_bytes;
}

/* ---- begin and end ----------------------------------------------------------------------- */

static struct steno_buf *begin_message(struct steno_dialect_session *d)
{
    return steno_outbox_begin(&((steno_ws_session *)d->owner)->out);
}

static steno_status each_model(struct steno_dialect_session *d,
                               steno_status (*see)(void *user, const struct steno_dialect_model *m),
                               void *user)
{
    steno_ws_session *s = d->owner;
    return s->engine->each_model ? s->engine->each_model(s->ctx, see, user) : STENO_OK;
}

static steno_status check(struct steno_dialect_session *d, const struct steno_native_start *start,
                          char *model, steno_err *err)
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
    d->owner = s;
    d->begin = begin_message;
    d->commit = commit;
    d->each_model = each_model;
    d->check = check;
    d->model_version = d->model_family = d->model_language = d->sha256 = "";
    snprintf(d->id, sizeof d->id, "%s", id);
    steno_native_start_init(&d->start);
    d->start.hints = &d->hints;
    steno_buf_init(&d->audio, s->limits.message_bytes);
    if (s->dialect->state_bytes && !(d->state = calloc(1, s->dialect->state_bytes)))
        return false;
    if (s->dialect->init)
        s->dialect->init(d);
    if (s->dialect->sums && (s->sum = malloc(sizeof *s->sum)))
        steno_sha256_begin(&s->sum->of);
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
    s->width = 1;
    s->ctx = ctx;
    s->limits = *limits;
    s->dialect = dialect;
    s->d.created = limits->now;
    if (!init_dialect(s, id)) {
        pthread_mutex_destroy(&s->mx);
        free(s);
        return NULL;
    }
    steno_buf_init(&s->text, steno_ws_session_max_text(s));
    steno_buf_init(&s->packet, STENO_WS_OPUS_PACKET);
    steno_ws_session_init_held(s);
    steno_buf_init(&s->last_partial, limits->send_bytes);
    steno_outbox_init(&s->out, limits->send_bytes);
    steno_history_init(&s->history, limits->resume_bytes < limits->send_bytes / 2
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
    free(s->sum);
    free(s->ending.message);
    steno_hint_store_free(&s->d.hints);
    steno_hint_store_free(&s->d.asked_hints);
    steno_buf_free(&s->d.audio);
    steno_feed_close(s->feed);
    free(s->held);
    steno_buf_free(&s->text);
    steno_buf_free(&s->packet);
    steno_buf_free(&s->held_bytes);
    steno_buf_free(&s->last_partial);
    steno_outbox_free(&s->out);
    steno_history_free(&s->history);
    pthread_mutex_destroy(&s->mx);
    free(s);
}

/* ---- endings ----------------------------------------------------------------------------- */

bool steno_ws_session_paused(const steno_ws_session *s)
{
    return s->loading || s->n_held || s->finalize_wanted || s->swap == SWAP_RUNNING ||
           (s->swap == SWAP_WANTED && (s->clears || s->committed)) ||
           (s->held_bytes.len && s->feed && steno_feed_decodes(s->feed));
}

void steno_ws_session_check_end(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    if (s->over)
        s->state = OVER;
    pthread_mutex_unlock(&s->mx);
}

/* No more audio is taken: its checksum is known. Lock held. */
static void finish_sum(steno_ws_session *s)
{
    uint8_t digest[STENO_SHA256_BYTES];
    if (!s->sum || *s->d.sha256)
        return;
    steno_sha256_end(&s->sum->of, digest);
    steno_sha256_text(digest, s->sum->text);
    s->d.sha256 = s->sum->text;
}

void steno_ws_session_end_as(steno_ws_session *s, enum steno_ws_ending how, int close_code,
                             steno_status failure, const char *code, const char *message)
{
    steno_ws_session_check_end(s);
    if (s->state >= ENDING)
        return;
    pthread_mutex_lock(&s->mx);
    if (!s->over)
        steno_ws_session_set_ending(s, how, close_code, failure, code, message);
    finish_sum(s);
    if (!s->opened)
        conclude(s);
    pthread_mutex_unlock(&s->mx);
    s->state = s->opened ? ENDING : OVER;
    if (!s->opened)
        return;
    if (steno_ws_session_paused(s))
        s->end_wanted = true;
    else
        s->engine->end(s->ctx);
}

/* Tell the client when to come back. */
static void set_retry_after(steno_ws_session *s)
{
    double after;
    steno_ws_session_check_end(s);
    if (s->state >= ENDING || !s->engine->come_back)
        return;
    after = s->engine->come_back(s->ctx);
    pthread_mutex_lock(&s->mx);
    s->d.retry_after = after;
    pthread_mutex_unlock(&s->mx);
}

void steno_ws_session_fail(steno_ws_session *s, steno_status st, const char *message)
{
    const struct steno_status_map *info = steno_status_info(st);
    enum steno_ws_ending how = STENO_WS_BAD;
    if (st == STENO_ERR_BUSY || st == STENO_ERR_NOMEM)
        set_retry_after(s);
    if (st == STENO_ERR_BUSY)
        how = STENO_WS_BUSY;
    else if (st == STENO_ERR_NOMEM || st == STENO_ERR_INTERNAL || st == STENO_ERR_IO)
        how = STENO_WS_FAILED;
    steno_ws_session_end_as(s, how, info->ws_close, st, info->name, message);
}

void steno_ws_session_drain(steno_ws_session *s)
{
    steno_ws_session_end_as(s, STENO_WS_DRAINED, 1012, STENO_OK, "", "");
}

void steno_ws_session_stop(steno_ws_session *s, const char *code, int close_code,
                           const char *message)
{
    steno_ws_session_end_as(s, STENO_WS_STOPPED, close_code, STENO_ERR_CANCELLED, code, message);
}

void steno_ws_session_reject(steno_ws_session *s, steno_status st, int close_code, const char *code,
                             const char *message)
{
    const struct steno_status_map *info = steno_status_info(st);
    if (close_code || code)
        steno_ws_session_end_as(s, STENO_WS_BAD, close_code ? close_code : info->ws_close, st,
                                code ? code : info->name, message);
    else
        steno_ws_session_fail(s, st, message);
}

void steno_ws_session_leave(steno_ws_session *s, int close_code)
{
    pthread_mutex_lock(&s->mx);
    steno_outbox_clear(&s->out);
    s->left = true;
    if (s->stored)
        s->stored->held = STENO_WS_NOT_HELD;
    if (!s->over) {
        s->ended_by_close = close_code == 1000 && s->dialect->ends_by_close &&
                            !(s->dialect->is_busy && s->dialect->is_busy(&s->d));
        steno_ws_session_set_ending(s, STENO_WS_RUNNING, close_code, STENO_OK, "", "");
        s->over = true;
    }
    pthread_mutex_unlock(&s->mx);
    s->state = OVER;
}

void steno_ws_session_give_up(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    steno_outbox_clear(&s->out);
    if (s->stored)
        s->stored->held = STENO_WS_NOT_HELD;
    if (!s->over) {
        steno_ws_session_set_ending(s, STENO_WS_SLOW, 1008, STENO_ERR_LIMIT, "slow_reader", "");
        s->over = true;
    }
    pthread_mutex_unlock(&s->mx);
    s->state = OVER;
}

/* ---- audio ------------------------------------------------------------------------------- */

void steno_ws_session_take_audio(steno_ws_session *s, const char *p, size_t n)
{
    steno_err err;
    steno_status st = steno_ws_session_feed(s, p, n, &err);
    if (!st)
        return;
    s->failed_in_audio = true;
    steno_ws_session_fail(s, st, err.msg);
}

void steno_ws_session_end_container(steno_ws_session *s)
{
    bool truncated;
    if (!s->last_byte || s->held_bytes.len || s->state >= ENDING)
        return;
    (void)!steno_feed_end(s->feed, &truncated, NULL);
    if (steno_feed_decodes(s->feed))
        return;
    if (s->late)
        steno_ws_session_end_as(s, STENO_WS_BAD, 1008, STENO_ERR_INVAL, "invalid_argument",
                                STENO_WS_LATE_AUDIO);
    else
        steno_ws_session_end_as(s, STENO_WS_ENDED, 1000, STENO_OK, "", "");
}

static void count_finalize(steno_ws_session *s, int by)
{
    pthread_mutex_lock(&s->mx);
    s->finalizing += (unsigned)by;
    pthread_mutex_unlock(&s->mx);
}

void steno_ws_session_finalize(steno_ws_session *s)
{
    steno_err err;
    steno_status st;
    if (!s->opened) {
        steno_ws_session_fail(s, STENO_ERR_INVAL,
                              "finalize: not possible before the audio's header");
        return;
    }
    s->committed = s->swap == SWAP_WANTED;
    count_finalize(s, 1);
    st = s->engine->finalize(s->ctx, &err);
    if (st)
        count_finalize(s, -1);
    s->committed &= !st || st == STENO_ERR_BUSY;
    s->finalize_wanted = st == STENO_ERR_BUSY;
    if (st && st != STENO_ERR_BUSY && st != STENO_ERR_CANCELLED)
        steno_ws_session_fail(s, st, err.msg);
}

/* ---- going on ---------------------------------------------------------------------------- */

void steno_ws_session_decoded(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    s->room = true;
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
    conclude(s);
    pthread_mutex_unlock(&s->mx);
    s->state = OVER;
}

/* Whether samples may come without bytes. */
static bool may_decode(const steno_ws_session *s)
{
    return s->state == RUNNING && s->feed && steno_feed_decodes(s->feed);
}

void steno_ws_session_resume(steno_ws_session *s)
{
    steno_err err;
    steno_status st = STENO_OK;
    pthread_mutex_lock(&s->mx);
    s->room = false;
    pthread_mutex_unlock(&s->mx);
    steno_ws_session_check_end(s);
    if (s->state == OVER)
        return;
    steno_ws_session_begin_loaded(s);
    if (s->swap == SWAP_RUNNING) {
        st = steno_ws_session_finish_swap(s, &err);
        if (st == STENO_NEED_MORE)
            return;
        if (st) {
            lose_stream(s, st, err.msg);
            return;
        }
    }
    if (s->n_held)
        st = steno_ws_session_push_held(s, &err);
    if (!st && !s->n_held && (s->held_bytes.len || may_decode(s))) {
        st = steno_ws_session_feed_held(s, &err);
        s->failed_in_audio |= st != STENO_OK;
    }
    if (!st && !s->n_held && s->finalize_wanted)
        steno_ws_session_finalize(s);
    if (st)
        steno_ws_session_fail(s, st, err.msg);
    steno_ws_session_end_container(s);
    steno_ws_session_try_swap(s);
    if (s->end_wanted && !steno_ws_session_paused(s)) {
        s->end_wanted = false;
        s->engine->end(s->ctx);
    }
}

bool steno_ws_session_readable(steno_ws_session *s)
{
    /* the next message may be audio of the next segment, which belongs to the new stream */
    if (s->swap == SWAP_WANTED)
        steno_ws_session_try_swap(s);
    return !steno_ws_session_paused(s);
}

/* ---- the recogniser's notes -------------------------------------------------------------- */

static void count_revision(steno_ws_session *s, const struct steno_event *ev)
{
    if (s->d.channels > 1) /* there is one last partial, not one for each */
        return;
    if (ev->kind == STENO_PARTIAL && s->last_partial.len &&
        strncmp(s->last_partial.data, ev->text, s->last_partial.len))
        s->revised++;
    steno_buf_reset(&s->last_partial);
    if (ev->kind == STENO_PARTIAL && steno_buf_puts(&s->last_partial, ev->text))
        steno_buf_reset(&s->last_partial); /* out of memory: one revision is not counted */
}

static bool note_event(steno_ws_session *s, const struct steno_event *ev)
{
    int64_t ms = (int64_t)((s->d.offset + ev->time) * 1000.0 + 0.5);
    uint64_t seq = s->d.seq;
    if (s->mute || (ev->kind == STENO_PARTIAL && !s->d.start.interim))
        return false;
    if (ms > s->d.audio_ms)
        s->d.audio_ms = ms;
    count_revision(s, ev);
    s->d.finals += ev->kind == STENO_FINAL;
    if (ev->kind == STENO_FINAL)
        steno_ws_session_note_final(s, ev);
    s->dialect->event(&s->d, ev);
    return s->d.seq != seq || s->over;
}

static bool note_progress(steno_ws_session *s, double heard)
{
    uint64_t seq = s->d.seq;
    if (!s->mute && s->dialect->progress)
        s->dialect->progress(&s->d, s->d.offset + heard);
    return s->d.seq != seq || s->over;
}

static void note_done(steno_ws_session *s, const struct steno_pool_note *note)
{
    int64_t ms = (int64_t)((s->d.offset + note->stats.audio_seconds) * 1000.0 + 0.5);
    if (ms > s->d.audio_ms)
        s->d.audio_ms = ms;
    if (s->swapping && (!note->status || note->status == STENO_ERR_CANCELLED)) {
        s->swapped = s->room = true;
        return;
    }
    if (note->status && note->status != STENO_ERR_CANCELLED)
        steno_ws_session_set_ending(s, STENO_WS_FAILED, steno_status_info(note->status)->ws_close,
                                    note->status, steno_status_info(note->status)->name,
                                    note->err ? note->err->msg : "");
    else if (s->ending.how == STENO_WS_RUNNING) /* the session did not cancel it: the pool closes */
        steno_ws_session_set_ending(s, STENO_WS_DRAINED, 1012, STENO_OK, "", "");
    conclude(s);
}

bool steno_ws_session_note(steno_ws_session *s, const struct steno_pool_note *note)
{
    return steno_ws_session_note_of(s, 0, note);
}

bool steno_ws_session_note_of(steno_ws_session *s, unsigned channel,
                              const struct steno_pool_note *note)
{
    bool wake = true;
    pthread_mutex_lock(&s->mx);
    s->d.channel = channel;
    if (s->over)
        wake = false;
    else if (note->kind == STENO_POOL_EVENT)
        wake = note_event(s, note->event);
    else if (note->kind == STENO_POOL_PROGRESS)
        wake = note_progress(s, note->heard);
    else if (note->kind == STENO_POOL_DONE)
        note_done(s, note);
    else if (note->kind == STENO_POOL_FINALIZED && s->dialect->finalized)
        s->dialect->finalized(&s->d);
    if (note->kind == STENO_POOL_FINALIZED && s->finalizing)
        s->finalizing--;
    if (note->kind == STENO_POOL_ROOM || note->kind == STENO_POOL_FINALIZED)
        s->room = true;
    if (s->swap_waits && note->kind == STENO_POOL_EVENT && note->event->kind == STENO_FINAL)
        s->room = wake = true;
    pthread_mutex_unlock(&s->mx);
    return wake;
}

/* ---- called by the network's thread ------------------------------------------------------ */

steno_status steno_ws_session_take(steno_ws_session *s, struct steno_buf *out)
{
    steno_status st;
    pthread_mutex_lock(&s->mx);
    st = steno_outbox_take(&s->out, out);
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
        .room_wanted = s->room,
        .loading = s->loading,
        .takes_no_more = s->state >= ENDING,
        .close = s->over && !s->out.count && (!s->stored || s->stored->held == STENO_WS_NOT_HELD),
        .close_code = code,
        .reason = reason,
        .error = s->ending.code,
        .ending = s->over ? s->ending.how : STENO_WS_RUNNING,
        .ended_by_close = s->ended_by_close,
        .failure = s->ending.failure,
        .failed_in_audio = s->failed_in_audio,
        .queued = steno_outbox_size(&s->out),
        .messages = s->d.seq,
        .finals = s->d.finals,
        .partials_dropped = s->dropped,
        .partials_revised = s->revised,
        .audio_seconds = s->rate ? (double)s->samples / s->rate : 0,
        .received_seconds = s->rate ? (double)s->received * s->width / s->rate : 0,
        .dropped_seconds =
            s->rate ? (double)(s->lost + (int64_t)s->n_held) * s->width / s->rate : 0,
        .mixed = s->d.mixed,
    };
    pthread_mutex_unlock(&s->mx);
}
