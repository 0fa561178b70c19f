#include "server/live/ws_session_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t steno_ws_session_max_text(const steno_ws_session *s)
{
    size_t most = s->dialect->max_text;
    return most < s->limits.message_bytes ? most : s->limits.message_bytes;
}

static void send_ready(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    steno_ws_session_keep_next(s);
    if (s->dialect->ready)
        s->dialect->ready(&s->d);
    pthread_mutex_unlock(&s->mx);
}

#define LOAD_TRIES 300 /* once a second */

/* Fix the format, open the stream, send `ready`. False when that failed and the session ends, or
 * the model is being loaded. */
static bool begin_session(steno_ws_session *s)
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
    s->loading.waits = st == STENO_ERR_BUSY && s->dialect->waits && s->loading.tries++ < LOAD_TRIES;
    if (s->loading.waits)
        return false;
    if (!st && !later)
        st = steno_ws_session_open_raw(s, &err);
    if (st) {
        steno_ws_session_fail(s, st, err.msg);
        return false;
    }
    s->state = RUNNING;
    steno_ws_session_begin_storing(s);
    send_ready(s);
    return true;
}

static void end_by_client(steno_ws_session *s)
{
    steno_err err;
    bool truncated;
    steno_status st = STENO_OK;
    if (s->state == OPEN &&
        !begin_session(s)) { /* a message before any audio: `ready` is due, too */
        s->loading.ends = s->loading.waits;
        return;
    }
    if (s->audio.feed && steno_feed_decodes(s->audio.feed)) {
        s->audio.last_byte = true;
        steno_ws_session_end_container(s);
        return;
    }
    if (s->audio.feed && !s->held.bytes.len)
        st = steno_feed_end(s->audio.feed, &truncated, &err);
    if (st && !s->stream.opened)
        steno_ws_session_fail(s, st, err.msg);
    else
        steno_ws_session_end_as(s, STENO_WS_ENDED, 1000, STENO_OK, "", "");
}

void steno_ws_session_begin_loaded(steno_ws_session *s)
{
    if (s->loading.waits && begin_session(s) && s->loading.ends)
        end_by_client(s);
}

static void start_by_client(steno_ws_session *s, bool may_be_late)
{
    if (s->state == OPEN) {
        pthread_mutex_lock(&s->mx);
        steno_dialect_take(&s->d);
        pthread_mutex_unlock(&s->mx);
        begin_session(s);
    } else if (!may_be_late) {
        steno_ws_session_fail(s, STENO_ERR_INVAL, "start: must come before audio");
    }
}

static void take_bytes(steno_ws_session *s, const char *p, size_t n, bool last);

static void act_on(steno_ws_session *s, enum steno_dialect_act what)
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
        if (s->state == RUNNING || (s->state == OPEN && begin_session(s)))
            steno_ws_session_finalize(s);
        break;
    case STENO_ACT_CHANGE:
    case STENO_ACT_CLEAR:
        steno_ws_session_want_swap(s, what == STENO_ACT_CLEAR);
        break;
    case STENO_ACT_END:
        if (s->d.audio.len)
            act_on(s, STENO_ACT_AUDIO);
        end_by_client(s);
        break;
    }
}

bool steno_ws_session_posted(const steno_ws_session *s)
{
    return s->d.posted;
}

bool steno_ws_session_hang_up(steno_ws_session *s)
{
    enum steno_dialect_act what = STENO_ACT_END;
    steno_ws_session_check_end(s);
    if (s->state == OPEN || !s->d.posted)
        return false;
    if (s->state > RUNNING)
        return true;
    if (!steno_ws_session_paused(s)) { /* else nothing can be added to what is held back */
        pthread_mutex_lock(&s->mx);
        what = s->dialect->hung_up(&s->d);
        pthread_mutex_unlock(&s->mx);
    }
    act_on(s, what);
    return true;
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
        steno_ws_session_fail(s, st, err.msg);
    else
        act_on(s, what);
}

void steno_ws_session_opened(steno_ws_session *s)
{
    char model[STENO_NATIVE_MODEL_BYTES];
    steno_status st = STENO_OK;
    steno_err err;
    pthread_mutex_lock(&s->mx);
    if (s->dialect->opened && !s->ending.over)
        s->dialect->opened(&s->d);
    /* a language or model of the URL that cannot be had is told now, not with the first audio */
    if (s->state == OPEN && (*s->d.hints.language || *s->d.start.model))
        st = s->d.check(&s->d, &s->d.start, model, &err);
    pthread_mutex_unlock(&s->mx);
    if (st == STENO_ERR_INVAL)
        steno_ws_session_fail(s, st, err.msg);
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
        steno_ws_session_fail(s, st, err.msg);
    }
}

/* Take the audio out of a part of a text message. */
static steno_status take_text_part(steno_ws_session *s, const char *p, size_t n, steno_err *err)
{
    steno_status st;
    pthread_mutex_lock(&s->mx);
    st = s->dialect->text_part(&s->d, p, n, &s->in.text, err);
    pthread_mutex_unlock(&s->mx);
    if (!st && s->d.audio.len)
        act_on(s, STENO_ACT_AUDIO);
    return st;
}

/* Take a part of a text message, and act on the whole one. A message that is not accepted ends the
 * session. */
static void add_message_text(steno_ws_session *s, const char *p, size_t n, bool last)
{
    size_t max = steno_ws_session_max_text(s);
    steno_err err;
    steno_status st = STENO_OK;
    if (steno_ws_session_paused(s))
        st = steno_fail(&err, STENO_ERR_INTERNAL, "message: came while reading was paused");
    else if (s->dialect->text_part)
        st = take_text_part(s, p, n, &err);
    else if (s->in.text.len + n > max)
        st = steno_fail(&err, STENO_ERR_LIMIT, "message: more than %zu bytes of text", max);
    else if (steno_buf_add(&s->in.text, p, n))
        st = steno_fail(&err, STENO_ERR_NOMEM, "message: out of memory");
    if (st) {
        steno_ws_session_fail(s, st, err.msg);
        s->in.skip = true;
    } else if (last && s->state < ENDING) {
        take_text(s, s->in.text.data ? s->in.text.data : "", s->in.text.len);
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
    if (s->in.any || !any->choose || !n || s->state >= ENDING)
        return;
    s->in.any = true;
    next = any->choose(p, n, is_text);
    if (next->state_bytes && !(state = calloc(1, next->state_bytes))) {
        steno_ws_session_fail(s, STENO_ERR_NOMEM, "session: out of memory");
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
        steno_ws_session_fail(s, st, err.msg);
}

void steno_ws_session_text(steno_ws_session *s, const char *p, size_t n, bool last)
{
    steno_ws_session_check_end(s);
    choose_dialect(s, p, n, true);
    if (s->state >= ENDING ||
        s->audio.last_byte) /* a late finalize, end or keepalive: ignoring it loses nothing */
        return;
    if (!s->in.skip)
        add_message_text(s, p, n, last);
    if (last) {
        steno_buf_free(&s->in.text);
        s->in.skip = false;
    }
}

/* A bare Opus packet must be complete before it is decoded. */
static void take_packet(steno_ws_session *s, const char *p, size_t n, bool last)
{
    steno_status st = steno_buf_add(&s->in.packet, p, n);
    if (st) {
        steno_ws_session_fail(s, st,
                              st == STENO_ERR_LIMIT
                                  ? "opus: a message of more than 65536 bytes is not a packet"
                                  : "opus: out of memory");
        return;
    }
    if (!last)
        return;
    if (s->in.packet.len)
        steno_ws_session_take_audio(s, s->in.packet.data, s->in.packet.len);
    steno_buf_reset(&s->in.packet);
}

/* Let the dialect look at the first bytes, which may tell the format. */
static bool inspect_first(steno_ws_session *s, const char *p, size_t n)
{
    steno_err err;
    steno_status st = STENO_OK;
    if (s->dialect->first_audio)
        st = s->dialect->first_audio(&s->d, p, n, &err);
    if (st)
        steno_ws_session_fail(s, st, err.msg);
    return !st;
}

/* Take bytes of audio, whole messages or parts of them. */
static void take_bytes(steno_ws_session *s, const char *p, size_t n, bool last)
{
    if (s->state >= ENDING)
        return;
    if (s->state == OPEN && (!inspect_first(s, p, n) || !begin_session(s)))
        return;
    if (!s->audio.feed && n) {
        steno_err err;
        steno_status st = steno_ws_session_open_feed(s, p, n, &err);
        if (st) {
            steno_ws_session_fail(s, st, err.msg);
            return;
        }
    }
    s->stream.fed |= n > 0;
    if (s->audio.whole_packets)
        take_packet(s, p, n, last);
    else
        steno_ws_session_take_audio(s, p, n);
}

static void late_audio(steno_ws_session *s)
{
    pthread_mutex_lock(&s->mx);
    if (!s->ending.over && s->ending.how == STENO_WS_ENDED)
        steno_ws_session_set_ending(s, STENO_WS_BAD, 1008, STENO_ERR_INVAL, "invalid_argument",
                                    STENO_WS_LATE_AUDIO);
    pthread_mutex_unlock(&s->mx);
}

/* Whether a message of so many bytes is allowed; if not, the session ends. */
static bool message_fits(steno_ws_session *s, size_t bytes)
{
    char msg[80];
    if (bytes <= s->limits.message_bytes)
        return true;
    snprintf(msg, sizeof msg, "message: more than %zu bytes of audio", s->limits.message_bytes);
    steno_ws_session_fail(s, STENO_ERR_LIMIT, msg);
    return false;
}

static bool is_text(const steno_ws_session *s, const char *p, size_t n)
{
    return n && n <= STENO_DIALECT_BYTES_TEXT && p[0] == '{' && s->dialect->binary_text &&
           s->dialect->binary_text(p, n);
}

/* Bytes of a binary message that may be a command are collected in s->in.text until the message
 * ends. Returns true if the piece was used up. */
static bool collect_text(steno_ws_session *s, const char *p, size_t n, bool first, bool last)
{
    if (first)
        s->in.maybe_text = s->dialect->binary_text && !steno_ws_session_paused(s);
    if (!s->in.maybe_text || !n)
        return false;
    if (s->in.text.len + n <= STENO_DIALECT_BYTES_TEXT && (s->in.text.len || *p == '{') &&
        !steno_buf_add(&s->in.text, p, n)) {
        if (!last)
            return true;
        if (is_text(s, s->in.text.data, s->in.text.len)) {
            take_text(s, s->in.text.data, s->in.text.len);
            return true;
        }
        s->in.text.len -= n;
    }
    s->in.maybe_text = false;
    if (s->in.text.len) /* it is audio: earlier parts come first */
        take_bytes(s, s->in.text.data, s->in.text.len, false);
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
        if (!st && s->stream.finalize_wanted)
            st = steno_fail(&err, STENO_ERR_LIMIT, "audio: came before the result");
        if (st) {
            steno_ws_session_fail(s, st, err.msg);
            return;
        }
        if (take)
            take_bytes(s, p + skip, take, last && skip + take == n);
        if (what == STENO_ACT_FINALIZE && s->held.full && s->state == RUNNING)
            s->stream.finalize_wanted = 1; /* after what is held back */
        else
            act_on(s, what);
        p += skip + take;
        n -= skip + take;
    }
}

static void binary_piece(steno_ws_session *s, const char *p, size_t n, bool first, bool last)
{
    s->in.bytes = (first ? 0 : s->in.bytes) + n;
    if (collect_text(s, p, n, first, last))
        return;
    if (steno_ws_session_paused(s)) {
        if (s->audio.whole_packets || s->stream.finalize_wanted ||
            steno_buf_add(&s->held.bytes, p, n))
            steno_ws_session_fail(s, STENO_ERR_INTERNAL, "audio: came while reading was paused");
        return;
    }
    if (!message_fits(s, s->in.bytes))
        return;
    if (s->dialect->split)
        take_parts(s, p, n, last);
    else if (n || s->in.packet.len)
        take_bytes(s, p, n, last);
    if (last && s->dialect->binary_end && s->state < ENDING) {
        enum steno_dialect_act what;
        pthread_mutex_lock(&s->mx);
        what = s->dialect->binary_end(&s->d, s->in.bytes);
        pthread_mutex_unlock(&s->mx);
        act_on(s, what);
    }
}

void steno_ws_session_binary(steno_ws_session *s, const void *p, size_t n, bool first, bool last)
{
    steno_ws_session_check_end(s);
    choose_dialect(s, p, n, false);
    if (s->state >= ENDING) {
        if (n && !s->in.maybe_text && !(first && last && is_text(s, p, n)))
            late_audio(s);
        return;
    }
    if (s->audio.last_byte) {
        s->audio.late |= n && !(first && last && is_text(s, p, n));
        return;
    }
    if (s->audio.sum)
        steno_sha256_add(&s->audio.sum->of, p, n);
    binary_piece(s, p, n, first, last);
    if (!s->in.maybe_text || last)
        steno_buf_free(&s->in.text);
}
