#include "server/ws_session_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest Opus packet: 48 frames of 1275 bytes and their lengths (RFC 6716, 3.2.5). */
#define OPUS_PACKET_BYTES 65536
#define LATE_AUDIO "audio: came after end, and was not transcribed"

/* ---- answers; the caller holds mx -------------------------------------------------------- */

static void set_ending(steno_ws_session *s, enum steno_ws_ending how, int close_code,
                       steno_status failure, const char *code, const char *message)
{
    s->ending.how = how;
    s->ending.close_code = close_code;
    s->ending.failure = failure;
    snprintf(s->ending.code, sizeof s->ending.code, "%s", code);
    free(s->ending.message);
    s->ending.message = *message ? strdup(message) : NULL; /* out of memory: the code is told */
}

/* Queue what was written since steno_outbox_begin; st: the status of the writing. A client with
 * more unread answers than allowed is given up: no message can reach it. */
static void commit(struct steno_dialect_session *d, steno_status st, bool partial)
{
    steno_ws_session *s = d->owner;
    bool replaced = false;
    if (s->over)
        return;
    if (!st && s->d.start.resumable && !partial)
        steno_history_add(&s->history, d->seq, s->out.spare.data, s->out.spare.len);
    if (!st && !s->detached)
        st = steno_outbox_commit(&s->out, partial, &replaced);
    if (!st) {
        d->seq++;
        s->dropped += replaced;
        return;
    }
    steno_outbox_clear(&s->out);
    if (st == STENO_ERR_LIMIT)
        set_ending(s, STENO_WS_SLOW, 1008, STENO_ERR_LIMIT, "slow_reader", "");
    else
        set_ending(s, STENO_WS_FAILED, steno_status_info(st)->ws_close, st,
                   steno_status_info(st)->name, "");
    s->over = true;
}

/* Send the last message, `end` or `error`, as s->ending says. */
static void conclude(steno_ws_session *s)
{
    if (s->over)
        return;
    s->d.audio_seconds = s->rate ? (double)s->samples / s->rate : 0;
    if (s->ending.code[0])
        s->dialect->error(&s->d, s->ending.code, s->ending.message ? s->ending.message : "");
    else
        s->dialect->end(&s->d, s->ending.how == STENO_WS_DRAINED);
    s->over = true;
}

static void send_ready(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    if (s->dialect->ready)
        s->dialect->ready(&s->d);
    pthread_mutex_unlock(&s->mx);
}

/* Maximum bytes of one text message. */
static size_t max_text(const steno_ws_session *s)
{
    size_t most = s->dialect->max_text;
    return most && most < s->limits.message_bytes ? most : s->limits.message_bytes;
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
    steno_buf_init(&s->text, max_text(s));
    steno_buf_init(&s->packet, OPUS_PACKET_BYTES);
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

static bool paused(const steno_ws_session *s)
{
    return s->n_held || s->finalize_wanted || s->swap == SWAP_RUNNING ||
           (s->swap == SWAP_WANTED && (s->clears || s->committed)) ||
           (s->held_bytes.len && s->feed && steno_feed_decodes(s->feed));
}

/* If a worker has concluded the session, it is over here too: its stream may be closed by now. */
static void check_end(steno_ws_session *s)
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

/* Deliver the results so far, then conclude as set_ending says. Further calls change nothing: the
 * first reason stays. */
static void end_as(steno_ws_session *s, enum steno_ws_ending how, int close_code,
                   steno_status failure, const char *code, const char *message)
{
    check_end(s);
    if (s->state >= ENDING)
        return;
    pthread_mutex_lock(&s->mx);
    if (!s->over)
        set_ending(s, how, close_code, failure, code, message);
    finish_sum(s);
    if (!s->opened)
        conclude(s);
    pthread_mutex_unlock(&s->mx);
    s->state = s->opened ? ENDING : OVER;
    if (!s->opened)
        return;
    if (paused(s))
        s->end_wanted = true;
    else
        s->engine->end(s->ctx);
}

/* Tell the client when to come back. */
static void set_retry_after(steno_ws_session *s)
{
    double after;
    check_end(s);
    if (s->state >= ENDING || !s->engine->come_back)
        return;
    after = s->engine->come_back(s->ctx);
    pthread_mutex_lock(&s->mx);
    s->d.retry_after = after;
    pthread_mutex_unlock(&s->mx);
}

static void fail(steno_ws_session *s, steno_status st, const char *message)
{
    const struct steno_status_map *info = steno_status_info(st);
    enum steno_ws_ending how = STENO_WS_BAD;
    if (st == STENO_ERR_BUSY || st == STENO_ERR_NOMEM)
        set_retry_after(s);
    if (st == STENO_ERR_BUSY)
        how = STENO_WS_BUSY;
    else if (st == STENO_ERR_NOMEM || st == STENO_ERR_INTERNAL || st == STENO_ERR_IO)
        how = STENO_WS_FAILED;
    end_as(s, how, info->ws_close, st, info->name, message);
}

void steno_ws_session_drain(steno_ws_session *s)
{
    end_as(s, STENO_WS_DRAINED, 1012, STENO_OK, "", "");
}

void steno_ws_session_stop(steno_ws_session *s, const char *code, int close_code,
                           const char *message)
{
    end_as(s, STENO_WS_STOPPED, close_code, STENO_ERR_CANCELLED, code, message);
}

void steno_ws_session_reject(steno_ws_session *s, steno_status st, int close_code, const char *code,
                             const char *message)
{
    const struct steno_status_map *info = steno_status_info(st);
    if (close_code || code)
        end_as(s, STENO_WS_BAD, close_code ? close_code : info->ws_close, st,
               code ? code : info->name, message);
    else
        fail(s, st, message);
}

void steno_ws_session_leave(steno_ws_session *s, int close_code)
{
    pthread_mutex_lock(&s->mx);
    steno_outbox_clear(&s->out);
    s->left = true;
    if (!s->over) {
        set_ending(s, STENO_WS_RUNNING, close_code, STENO_OK, "", "");
        s->over = true;
    }
    pthread_mutex_unlock(&s->mx);
    s->state = OVER;
}

void steno_ws_session_give_up(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    steno_outbox_clear(&s->out);
    if (!s->over) {
        set_ending(s, STENO_WS_SLOW, 1008, STENO_ERR_LIMIT, "slow_reader", "");
        s->over = true;
    }
    pthread_mutex_unlock(&s->mx);
    s->state = OVER;
}

/* ---- audio ------------------------------------------------------------------------------- */

static void take_audio(steno_ws_session *s, const char *p, size_t n)
{
    steno_err err;
    steno_status st = steno_ws_session_feed(s, p, n, &err);
    if (!st)
        return;
    s->failed_in_audio = true;
    fail(s, st, err.msg);
}

/* The client has ended a container: end its input once every byte is given, and the session once
 * every sample came. */
static void end_container(steno_ws_session *s)
{
    bool truncated;
    if (!s->last_byte || s->held_bytes.len || s->state >= ENDING)
        return;
    (void)!steno_feed_end(s->feed, &truncated, NULL);
    if (steno_feed_decodes(s->feed))
        return;
    if (s->late)
        end_as(s, STENO_WS_BAD, 1008, STENO_ERR_INVAL, "invalid_argument", LATE_AUDIO);
    else
        end_as(s, STENO_WS_ENDED, 1000, STENO_OK, "", "");
}

static void count_finalize(steno_ws_session *s, int by)
{
    pthread_mutex_lock(&s->mx);
    s->finalizing += (unsigned)by;
    pthread_mutex_unlock(&s->mx);
}

static void finalize(steno_ws_session *s)
{
    steno_err err;
    steno_status st;
    if (!s->opened) {
        fail(s, STENO_ERR_INVAL, "finalize: not possible before the audio's header");
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
        fail(s, st, err.msg);
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
        fail(s, st, message);
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
    check_end(s);
    if (s->state == OVER)
        return;
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
        finalize(s);
    if (st)
        fail(s, st, err.msg);
    end_container(s);
    steno_ws_session_try_swap(s);
    if (s->end_wanted && !paused(s)) {
        s->end_wanted = false;
        s->engine->end(s->ctx);
    }
}

bool steno_ws_session_readable(steno_ws_session *s)
{
    /* the next message may be audio of the next segment, which belongs to the new stream */
    if (s->swap == SWAP_WANTED)
        steno_ws_session_try_swap(s);
    return !paused(s);
}

/* ---- the client's messages --------------------------------------------------------------- */

/* Fix the format, open the stream, send `ready`. False when that failed and the session ends. */
static bool begin(steno_ws_session *s)
{
    steno_err err;
    steno_status st = steno_native_start_complete(&s->d.start, &err);
    /* the first bytes tell more */
    bool later = s->d.start.audio.encoding == STENO_ENCODING_OPUS ||
                 s->d.start.audio.encoding == STENO_ENCODING_CONTAINER;
    if (!st)
        st = steno_ws_session_check_resumable(s, NULL, &err);
    if (!st)
        st = s->engine->resolve(s->ctx, &s->d, &err);
    if (!st && !later)
        st = steno_ws_session_open_raw(s, &err);
    if (st) {
        fail(s, st, err.msg);
        return false;
    }
    s->state = RUNNING;
    send_ready(s);
    return true;
}

static void end_by_client(steno_ws_session *s)
{
    steno_err err;
    bool truncated;
    steno_status st = STENO_OK;
    if (s->state == OPEN && !begin(s)) /* a message before any audio: `ready` is due all the same */
        return;
    if (s->feed && steno_feed_decodes(s->feed)) {
        s->last_byte = true;
        end_container(s);
        return;
    }
    if (s->feed && !s->held_bytes.len)
        st = steno_feed_end(s->feed, &truncated, &err);
    if (st && !s->opened)
        fail(s, st, err.msg);
    else
        end_as(s, STENO_WS_ENDED, 1000, STENO_OK, "", "");
}

static void start_by_client(steno_ws_session *s, bool may_be_late)
{
    if (s->state == OPEN) {
        pthread_mutex_lock(&s->mx);
        steno_dialect_take(&s->d);
        pthread_mutex_unlock(&s->mx);
        begin(s);
    } else if (!may_be_late) {
        fail(s, STENO_ERR_INVAL, "start: must come before audio");
    }
}

static void take_bytes(steno_ws_session *s, const char *p, size_t n, bool last);

static void act(steno_ws_session *s, enum steno_dialect_act what)
{
    switch (what) {
    case STENO_ACT_NOTHING:
        break;
    case STENO_ACT_START:
    case STENO_ACT_SETTINGS:
        start_by_client(s, what == STENO_ACT_SETTINGS);
        break;
    case STENO_ACT_AUDIO: {
        struct steno_buf audio = s->d.audio;
        steno_buf_init(&s->d.audio, s->limits.message_bytes);
        take_bytes(s, audio.data ? audio.data : "", audio.len, true);
        steno_buf_free(&audio);
        break;
    }
    case STENO_ACT_FINALIZE:
        if (s->state == RUNNING || (s->state == OPEN && begin(s)))
            finalize(s);
        break;
    case STENO_ACT_CHANGE:
    case STENO_ACT_CLEAR:
        steno_ws_session_want_swap(s, what == STENO_ACT_CLEAR);
        break;
    case STENO_ACT_END:
        end_by_client(s);
        break;
    }
}

static void take_text(steno_ws_session *s, const char *p, size_t n)
{
    enum steno_dialect_act what = STENO_ACT_NOTHING;
    steno_err err;
    steno_status st;
    pthread_mutex_lock(&s->mx);
    st = s->dialect->text(&s->d, p, n, &what, &err);
    pthread_mutex_unlock(&s->mx);
    if (st)
        fail(s, st, err.msg);
    else
        act(s, what);
}

void steno_ws_session_opened(steno_ws_session *s)
{
    char model[STENO_NATIVE_MODEL_BYTES];
    steno_status st = STENO_OK;
    steno_err err;
    pthread_mutex_lock(&s->mx);
    if (s->dialect->opened && !s->over)
        s->dialect->opened(&s->d);
    /* a language or model of the URL that cannot be had is told now, not with the first audio */
    if (s->state == OPEN && (*s->d.hints.language || *s->d.start.model))
        st = check(&s->d, &s->d.start, model, &err);
    pthread_mutex_unlock(&s->mx);
    if (st == STENO_ERR_INVAL)
        fail(s, st, err.msg);
}

void steno_ws_session_query(steno_ws_session *s, const char *name, const char *value)
{
    steno_err err;
    steno_status st;
    if (s->state != OPEN || !s->dialect->query)
        return;
    st = s->dialect->query(&s->d, name, value, &err);
    if (st) {
        steno_fail_in(&err, st, "query");
        fail(s, st, err.msg);
    }
}

/* Take a part of a text message, and act on the whole one. A message that is not accepted ends the
 * session. */
static void add_text(steno_ws_session *s, const char *p, size_t n, bool last)
{
    size_t max = max_text(s);
    steno_err err;
    steno_status st = STENO_OK;
    if (paused(s))
        st = steno_fail(&err, STENO_ERR_INTERNAL, "message: came while reading was paused");
    else if (s->text.len + n > max)
        st = steno_fail(&err, STENO_ERR_LIMIT, "message: more than %zu bytes of text", max);
    else if (steno_buf_add(&s->text, p, n))
        st = steno_fail(&err, STENO_ERR_NOMEM, "message: out of memory");
    if (st) {
        fail(s, st, err.msg);
        s->skip = true;
    } else if (last) {
        take_text(s, s->text.data ? s->text.data : "", s->text.len);
    }
}

/* The first message of a client of "/" tells its dialect. */
static void choose_dialect(steno_ws_session *s, const char *p, size_t n, bool is_text)
{
    struct steno_dialect_session *d = &s->d;
    const struct steno_dialect *any = s->dialect, *next;
    struct steno_dialect_session was = {.state = d->state};
    void *state = NULL;
    steno_err err;
    steno_status st;
    if (s->any_message || !any->choose || !n || s->state >= ENDING)
        return;
    s->any_message = true;
    next = any->choose(p, n, is_text);
    if (next->state_bytes && !(state = calloc(1, next->state_bytes))) {
        fail(s, STENO_ERR_NOMEM, "session: out of memory");
        return;
    }
    pthread_mutex_lock(&s->mx);
    d->state = state;
    s->dialect = d->dialect = next;
    if (next->init)
        next->init(d);
    st = any->replay(d, was.state, &err);
    pthread_mutex_unlock(&s->mx);
    any->free_state(&was);
    free(was.state);
    if (st)
        fail(s, st, err.msg);
}

void steno_ws_session_text(steno_ws_session *s, const char *p, size_t n, bool last)
{
    check_end(s);
    choose_dialect(s, p, n, true);
    if (s->state >= ENDING ||
        s->last_byte) /* a late finalize, end or keepalive: ignoring it loses nothing */
        return;
    if (!s->skip)
        add_text(s, p, n, last);
    if (last) {
        steno_buf_free(&s->text);
        s->skip = false;
    }
}

/* A bare Opus packet must be complete before it is decoded. */
static void take_packet(steno_ws_session *s, const char *p, size_t n, bool last)
{
    steno_status st = steno_buf_add(&s->packet, p, n);
    if (st) {
        fail(s, st,
             st == STENO_ERR_LIMIT ? "opus: a message of more than 65536 bytes is not a packet"
                                   : "opus: out of memory");
        return;
    }
    if (!last)
        return;
    if (s->packet.len)
        take_audio(s, s->packet.data, s->packet.len);
    steno_buf_reset(&s->packet);
}

/* Let the dialect look at the first bytes, which may tell the format. */
static bool inspect_first(steno_ws_session *s, const char *p, size_t n)
{
    steno_err err;
    steno_status st = STENO_OK;
    if (s->dialect->first_audio)
        st = s->dialect->first_audio(&s->d, p, n, &err);
    if (st)
        fail(s, st, err.msg);
    return !st;
}

/* Take bytes of audio, whole messages or parts of them. */
static void take_bytes(steno_ws_session *s, const char *p, size_t n, bool last)
{
    if (s->state >= ENDING)
        return;
    if (s->state == OPEN && (!inspect_first(s, p, n) || !begin(s)))
        return;
    if (!s->feed && n) {
        steno_err err;
        steno_status st = steno_ws_session_open_feed(s, p, n, &err);
        if (st) {
            fail(s, st, err.msg);
            return;
        }
    }
    if (s->whole_packets)
        take_packet(s, p, n, last);
    else
        take_audio(s, p, n);
}

static void late_audio(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    if (!s->over && s->ending.how == STENO_WS_ENDED)
        set_ending(s, STENO_WS_BAD, 1008, STENO_ERR_INVAL, "invalid_argument", LATE_AUDIO);
    pthread_mutex_unlock(&s->mx);
}

/* Whether a message of so many bytes is allowed; if not, the session ends. */
static bool fits(steno_ws_session *s, size_t bytes)
{
    char msg[80];
    if (bytes <= s->limits.message_bytes)
        return true;
    snprintf(msg, sizeof msg, "message: more than %zu bytes of audio", s->limits.message_bytes);
    fail(s, STENO_ERR_LIMIT, msg);
    return false;
}

static bool is_text(const steno_ws_session *s, const char *p, size_t n)
{
    return n && n <= STENO_DIALECT_BYTES_TEXT && p[0] == '{' && s->dialect->binary_text &&
           s->dialect->binary_text(p, n);
}

/* Bytes of a binary message that may be a command are collected in s->text until the message ends.
 * Returns true if the piece was used up. */
static bool collect_text(steno_ws_session *s, const char *p, size_t n, bool first, bool last)
{
    if (first)
        s->maybe_text = s->dialect->binary_text && !paused(s);
    if (!s->maybe_text || !n)
        return false;
    if (s->text.len + n <= STENO_DIALECT_BYTES_TEXT && (s->text.len || *p == '{') &&
        !steno_buf_add(&s->text, p, n)) {
        if (!last)
            return true;
        if (is_text(s, s->text.data, s->text.len)) {
            take_text(s, s->text.data, s->text.len);
            return true;
        }
        s->text.len -= n;
    }
    s->maybe_text = false;
    if (s->text.len) /* it is audio: earlier parts come first */
        take_bytes(s, s->text.data, s->text.len, false);
    return false;
}

/* Take the audio in a piece of a binary message, and act between. */
static void take_parts(steno_ws_session *s, const char *p, size_t n, bool last)
{
    while (n && s->state < ENDING) {
        size_t skip, take;
        enum steno_dialect_act what = STENO_ACT_NOTHING;
        steno_err err;
        steno_status st;
        pthread_mutex_lock(&s->mx);
        st = s->dialect->split(&s->d, p, n, &skip, &take, &what, &err);
        pthread_mutex_unlock(&s->mx);
        if (!st && s->finalize_wanted)
            st = steno_fail(&err, STENO_ERR_LIMIT, "audio: came before the result");
        if (st) {
            fail(s, st, err.msg);
            return;
        }
        if (take)
            take_bytes(s, p + skip, take, last && skip + take == n);
        if (what == STENO_ACT_FINALIZE && s->n_held && s->state == RUNNING)
            s->finalize_wanted = 1; /* after what is held back */
        else
            act(s, what);
        p += skip + take;
        n -= skip + take;
    }
}

static void binary_piece(steno_ws_session *s, const char *p, size_t n, bool first, bool last)
{
    s->message_bytes = (first ? 0 : s->message_bytes) + n;
    if (collect_text(s, p, n, first, last))
        return;
    if (paused(s)) {
        if (s->whole_packets || s->finalize_wanted || steno_buf_add(&s->held_bytes, p, n))
            fail(s, STENO_ERR_INTERNAL, "audio: came while reading was paused");
        return;
    }
    if (!fits(s, s->message_bytes))
        return;
    if (s->dialect->split)
        take_parts(s, p, n, last);
    else if (n || s->packet.len)
        take_bytes(s, p, n, last);
    if (last && s->dialect->binary_end && s->state < ENDING) {
        enum steno_dialect_act what;
        pthread_mutex_lock(&s->mx);
        what = s->dialect->binary_end(&s->d, s->message_bytes);
        pthread_mutex_unlock(&s->mx);
        act(s, what);
    }
}

void steno_ws_session_binary(steno_ws_session *s, const void *p, size_t n, bool first, bool last)
{
    check_end(s);
    choose_dialect(s, p, n, false);
    if (s->state >= ENDING) {
        if (n && !s->maybe_text && !(first && last && is_text(s, p, n)))
            late_audio(s);
        return;
    }
    if (s->last_byte) {
        s->late |= n && !(first && last && is_text(s, p, n));
        return;
    }
    if (s->sum)
        steno_sha256_add(&s->sum->of, p, n);
    binary_piece(s, p, n, first, last);
    if (!s->maybe_text || last)
        steno_buf_free(&s->text);
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
    s->dialect->event(&s->d, ev);
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
        set_ending(s, STENO_WS_FAILED, steno_status_info(note->status)->ws_close, note->status,
                   steno_status_info(note->status)->name, note->err ? note->err->msg : "");
    else if (s->ending.how == STENO_WS_RUNNING) /* the session did not cancel it: the pool closes */
        set_ending(s, STENO_WS_DRAINED, 1012, STENO_OK, "", "");
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
    reason = s->ending.code[0]                   ? s->ending.code
             : s->ending.how == STENO_WS_DRAINED ? "draining"
                                                 : "end";
    code = s->ending.close_code;
    if (s->ending.code[0] && s->dialect->close)
        s->dialect->close(s->ending.code, &code, &reason);
    *st = (struct steno_ws_session_state){
        .started = s->state > OPEN,
        .room_wanted = s->room,
        .close = s->over && !s->out.count,
        .close_code = code,
        .reason = reason,
        .error = s->ending.code,
        .ending = s->over ? s->ending.how : STENO_WS_RUNNING,
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
        .mixed = s->mixed > 1 ? s->mixed : 0,
    };
    pthread_mutex_unlock(&s->mx);
}
