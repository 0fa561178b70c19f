/* How a session ends, and that it has: the first reason stays, what came before it is still
 * recognised, and the last message tells it. */
#include "server/live/ws_session_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the reason; the caller holds mx --------------------------------------------------------- */

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
        steno_outbox_clear(&s->answers.out);
    if (s->ending.over)
        return;
    if (st == STENO_ERR_LIMIT)
        steno_ws_session_set_ending(s, STENO_WS_SLOW, 1008, STENO_ERR_LIMIT, "slow_reader", "");
    else
        steno_ws_session_set_ending(s, STENO_WS_FAILED, steno_status_info(st)->ws_close, st,
                                    steno_status_info(st)->name, "");
    s->ending.over = true;
}

void steno_ws_session_conclude(steno_ws_session *s)
{
    if (s->ending.over)
        return;
    s->d.audio_seconds = s->audio.rate ? (double)s->audio.samples / s->audio.rate : 0;
    s->ending.concluding = true;
    steno_ws_session_keep_next(s);
    if (s->ending.code[0])
        s->dialect->error(&s->d, s->ending.code, s->ending.message ? s->ending.message : "");
    else
        s->dialect->end(&s->d, s->ending.how == STENO_WS_DRAINED);
    s->ending.over = true;
}

/* ---- endings --------------------------------------------------------------------------------- */

bool steno_ws_session_paused(const steno_ws_session *s)
{
    return s->loading.waits || s->held.full || s->stream.finalize_wanted ||
           s->stream.swap == SWAP_RUNNING ||
           (s->stream.swap == SWAP_WANTED && (s->stream.clears || s->stream.committed)) ||
           (s->held.bytes.len && s->audio.feed && steno_feed_decodes(s->audio.feed));
}

void steno_ws_session_check_end(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    if (s->ending.over)
        s->state = OVER;
    pthread_mutex_unlock(&s->mx);
}

/* No more audio is taken: its checksum is known. Lock held. */
static void finish_sum(steno_ws_session *s)
{
    uint8_t digest[STENO_SHA256_BYTES];
    if (!s->audio.sum || *s->d.sha256)
        return;
    steno_sha256_end(&s->audio.sum->of, digest);
    steno_sha256_text(digest, s->audio.sum->text);
    s->d.sha256 = s->audio.sum->text;
}

void steno_ws_session_end_as(steno_ws_session *s, enum steno_ws_ending how, int close_code,
                             steno_status failure, const char *code, const char *message)
{
    steno_ws_session_check_end(s);
    if (s->state >= ENDING)
        return;
    pthread_mutex_lock(&s->mx);
    if (!s->ending.over)
        steno_ws_session_set_ending(s, how, close_code, failure, code, message);
    finish_sum(s);
    if (!s->stream.opened)
        steno_ws_session_conclude(s);
    pthread_mutex_unlock(&s->mx);
    s->state = s->stream.opened ? ENDING : OVER;
    if (!s->stream.opened)
        return;
    if (steno_ws_session_paused(s))
        s->stream.end_wanted = true;
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
    steno_outbox_clear(&s->answers.out);
    s->ending.left = true;
    if (s->stored)
        s->stored->held = STENO_WS_NOT_HELD;
    if (!s->ending.over) {
        s->ending.by_close = close_code == 1000 && s->dialect->ends_by_close &&
                             !(s->dialect->is_busy && s->dialect->is_busy(&s->d));
        steno_ws_session_set_ending(s, STENO_WS_RUNNING, close_code, STENO_OK, "", "");
        s->ending.over = true;
    }
    pthread_mutex_unlock(&s->mx);
    s->state = OVER;
}

void steno_ws_session_give_up(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    steno_ws_session_unreachable(s, STENO_ERR_LIMIT);
    if (s->stored)
        s->stored->held = STENO_WS_NOT_HELD;
    pthread_mutex_unlock(&s->mx);
    s->state = OVER;
}
