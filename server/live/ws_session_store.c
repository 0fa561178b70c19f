/* A session that another machine can go on with. Stored are its results and where they end in the
 * audio, never the recogniser's states: another machine begins a new stream there, as after any
 * endpoint, and the client says again what came later.
 *
 * A result that a client has seen and the storage has not would be made a second time elsewhere. So
 * finals and the messages at the ends of a session are delivered once they are stored; no thread
 * waits for that. Partials are not delivered meanwhile. Where storing takes longer than
 * HELD_NS, or the storage is away, results are delivered all the same. */
#include "server/live/ws_session_internal.h"

#include "protocol/session_head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELD_NS INT64_C(500000000)

/* ---- writing --------------------------------------------------------------------------------- */

void steno_ws_session_begin_storing(steno_ws_session *s)
{
    struct stored *x;
    if (!s->engine->store || !steno_ws_session_resumable(s))
        return;
    x = calloc(1, sizeof *x);
    if (!x)
        return; /* it is in this process alone */
    x->held = STENO_WS_NOT_HELD;
    x->storage = s->engine->store(s->ctx, &x->place);
    if (!x->storage) {
        free(x);
        return;
    }
    pthread_mutex_lock(&s->mx);
    s->stored = x;
    pthread_mutex_unlock(&s->mx);
}

void steno_ws_session_end_storing(steno_ws_session *s)
{
    if (!s->stored)
        return;
    s->stored->storage->leave(s->stored->place, s->ending.left && s->ending.how != STENO_WS_MOVED);
    free(s->stored);
    s->stored = NULL;
}

void *steno_ws_session_place(steno_ws_session *s)
{
    return s->stored ? s->stored->place : NULL;
}

uint64_t steno_ws_session_take_unstored(steno_ws_session *s)
{
    uint64_t n = 0;
    pthread_mutex_lock(&s->mx);
    if (s->stored) {
        n = s->stored->unstored;
        s->stored->unstored = 0;
    }
    pthread_mutex_unlock(&s->mx);
    return n;
}

/* Append the head of the session, whose next message has number seq. */
static steno_status write_head(const steno_ws_session *s, uint64_t seq, struct steno_buf *out)
{
    const struct stored *x = s->stored;
    struct steno_session_head h = {
        .seq = seq,
        .lost = s->answers.history.lost < seq ? s->answers.history.lost : seq,
        .finals = s->d.finals,
        .audio_ms = s->d.audio_ms,
        .rate = s->audio.rate ? s->audio.rate : s->d.start.audio.sample_rate,
        .channels = s->d.channels ? s->d.channels : 1,
        .over = s->ending.concluding,
        .ending = (int)s->ending.how,
        .close_code = s->ending.close_code,
        .start = s->d.start};
    memcpy(h.samples, x->samples, sizeof h.samples);
    memcpy(h.segments, x->segments, sizeof h.segments);
    memcpy(h.code, s->ending.code, sizeof h.code);
    return steno_session_head_write(out, &h);
}

/* mx held. Put the message in out.spare, or (all) every message of the history. */
static bool put_messages(steno_ws_session *s, bool all, uint64_t seq)
{
    struct stored *x = s->stored;
    struct steno_buf head, records;
    const char *text;
    size_t at = 0, n;
    bool good = false;
    uint64_t of;
    steno_buf_init(&head, STENO_SESSION_HEAD_MAX);
    steno_buf_init(&records, 2 * s->limits.resume_bytes + s->limits.send_bytes);
    if (write_head(s, seq + 1, &head))
        goto out;
    if (!all &&
        steno_record_add(&records, seq, s->answers.out.spare.data, s->answers.out.spare.len))
        goto out;
    while (all && steno_history_next(&s->answers.history, 0, &at, &of, &text, &n))
        if (steno_record_add(&records, of, text, n))
            goto out;
    good = x->storage->put(x->place, head.data, &records, seq, s->answers.history.lost, all);
out:
    steno_buf_free(&head);
    steno_buf_free(&records);
    return good;
}

static bool is_usable(const steno_ws_session *s)
{
    return s->stored->packet >= 0 && s->d.start.audio.encoding < STENO_ENCODING_WAV;
}

/* The place in the audio where another stream may begin, at most `at`. */
static int64_t aligned(const steno_ws_session *s, int64_t at)
{
    const int64_t packet = s->stored->packet;
    return packet > 0 ? at - at % packet : at;
}

void steno_ws_session_note_final(steno_ws_session *s, const struct steno_event *ev)
{
    struct stored *x = s->stored;
    const unsigned c = s->d.channel;
    /* what was asked for ends with the audio before; an endpoint's silence belongs to nothing */
    const bool all = ev->reason == STENO_FINAL_REQUEST || ev->reason == STENO_FINAL_END;
    int64_t at;
    if (!x)
        return;
    x->keep = true;
    at = aligned(s, (int64_t)floor((s->d.offset + (all ? ev->time : ev->end)) * s->audio.rate));
    if (at > s->audio.samples)
        at = aligned(s, s->audio.samples);
    if (at > x->samples[c])
        x->samples[c] = at;
    x->segments[c] = s->d.segments[c] + ev->segment + 1;
}

bool steno_ws_session_store_message(steno_ws_session *s, bool partial)
{
    struct stored *x = s->stored;
    const bool keep = x && x->keep && !partial;
    if (!x)
        return true;
    if (keep) {
        struct steno_ws_storage_state st;
        x->keep = false;
        x->storage->get_state(x->place, &st);
        if (is_usable(s) && put_messages(s, st.stale, s->d.seq)) {
            x->last = s->d.seq;
            if (x->held == STENO_WS_NOT_HELD)
                x->held = s->d.seq;
        } else
            x->unstored++;
    }
    return x->held == STENO_WS_NOT_HELD;
}

/* ---- delivering ------------------------------------------------------------------------------ */

/* mx held. Queue the messages from x->held on up to seq `to`. */
static void deliver_held(steno_ws_session *s, uint64_t to)
{
    struct stored *x = s->stored;
    const char *text;
    size_t at = 0, n;
    uint64_t seq;
    steno_status st = STENO_OK;
    while (!st && !s->answers.detached &&
           steno_history_next(&s->answers.history, x->held, &at, &seq, &text, &n) && seq <= to)
        st = steno_outbox_put(&s->answers.out, text, n);
    x->held = to >= x->last ? STENO_WS_NOT_HELD : to + 1;
    x->held_ns = 0;
    if (!st)
        return;
    x->held = STENO_WS_NOT_HELD;
    steno_ws_session_unreachable(s, st);
}

void steno_ws_session_make_room(steno_ws_session *s, size_t n)
{
    struct stored *x = s->stored;
    if (!x || x->held == STENO_WS_NOT_HELD || steno_history_fits(&s->answers.history, n, x->held))
        return;
    x->unstored++;
    deliver_held(s, UINT64_MAX);
}

/* mx held */
static void deliver_stored(steno_ws_session *s, const struct steno_ws_storage_state *st,
                           int64_t now_ns)
{
    struct stored *x = s->stored;
    if (x->held == STENO_WS_NOT_HELD)
        return;
    if (st->stored > x->last)
        deliver_held(s, UINT64_MAX);
    else if (!st->up || st->stale || (x->held_ns && now_ns - x->held_ns > HELD_NS)) {
        x->unstored += x->last - x->held + 1;
        deliver_held(s, UINT64_MAX);
    } else if (st->stored > x->held)
        deliver_held(s, st->stored - 1);
    else if (!x->held_ns)
        x->held_ns = now_ns;
}

bool steno_ws_session_refresh(steno_ws_session *s, int64_t now_ns)
{
    struct stored *x;
    struct steno_ws_storage_state st;
    bool taken = false;
    pthread_mutex_lock(&s->mx);
    x = s->stored;
    if (x && s->ending.how != STENO_WS_MOVED) {
        x->storage->get_state(x->place, &st);
        taken = st.taken;
        if (!taken) {
            deliver_stored(s, &st, now_ns);
            if (st.up && st.stale && s->d.seq && !s->ending.left && is_usable(s))
                (void)put_messages(s, true, s->d.seq - 1);
        }
    }
    pthread_mutex_unlock(&s->mx);
    return !taken;
}

/* ---- moving ---------------------------------------------------------------------------------- */

void steno_ws_session_move(steno_ws_session *s, int close_code)
{
    pthread_mutex_lock(&s->mx);
    if (s->stored)
        s->stored->held = STENO_WS_NOT_HELD;
    s->ending.left = true;
    steno_ws_session_set_ending(s, STENO_WS_MOVED, close_code, STENO_OK, "", "");
    s->ending.over = true;
    pthread_mutex_unlock(&s->mx);
    s->state = OVER;
}

bool steno_ws_session_hand_over(steno_ws_session *s)
{
    struct steno_ws_storage_state st;
    bool may = false;
    steno_ws_session_check_end(s);
    pthread_mutex_lock(&s->mx);
    if (s->stored && s->state == RUNNING && !s->ending.over && !s->ending.left && is_usable(s)) {
        s->stored->storage->get_state(s->stored->place, &st);
        may = st.up && !st.stale && !st.taken;
    }
    pthread_mutex_unlock(&s->mx);
    if (may)
        steno_ws_session_move(s, 1012);
    return may;
}

/* ---- going on elsewhere ---------------------------------------------------------------------- */

static steno_status take_settings(steno_ws_session *s, const struct steno_session_head *h,
                                  steno_err *err)
{
    const char *profanity = s->d.hints.profanity;
    steno_status st = h->hints.profanity_filter && !profanity
                          ? steno_fail(err, STENO_ERR_INVAL,
                                       "profanity_filter: this server has no list (text.profanity)")
                          : steno_hint_store_copy(&s->d.hints, &h->hints, err);
    s->d.hints.profanity = profanity;
    s->d.start = h->start;
    s->d.start.hints = &s->d.hints;
    s->d.seq = h->seq;
    s->d.finals = h->finals;
    s->d.audio_ms = h->audio_ms;
    return st ? st : steno_native_start_complete(&s->d.start, err);
}

static void take_messages(steno_ws_session *s, const struct steno_session_head *h,
                          const struct steno_buf *messages)
{
    const char *text;
    size_t at = 0, n;
    uint64_t seq;
    s->answers.history.lost = h->lost;
    while (steno_record_next(messages, &at, &seq, &text, &n))
        steno_history_add(&s->answers.history, seq, text, n);
}

/* Where the new stream begins: at the end of the earliest channel's last final. */
static void take_position(steno_ws_session *s, const struct steno_session_head *h)
{
    struct stored *x = s->stored;
    int64_t first = h->samples[0];
    for (unsigned c = 1; c < h->channels; c++)
        first = h->samples[c] < first ? h->samples[c] : first;
    for (unsigned c = 0; c < h->channels; c++) {
        x->apart |= h->samples[c] != first;
        x->samples[c] = s->audio.restored[c] = h->samples[c];
        x->segments[c] = s->d.segments[c] = h->segments[c];
    }
    s->audio.samples = first;
    s->d.offset = (double)first / h->rate;
}

static void take_end(steno_ws_session *s, const struct steno_session_head *h)
{
    const bool known = h->ending > STENO_WS_RUNNING && h->ending <= STENO_WS_FAILED;
    steno_ws_session_set_ending(s, known ? (enum steno_ws_ending)h->ending : STENO_WS_ENDED,
                                h->close_code, STENO_OK, h->code, "");
    s->audio.rate = h->rate;
    s->ending.over = s->ending.concluding = true;
    s->state = OVER;
}

steno_status steno_ws_session_restore(steno_ws_session *s, const struct steno_session_head *h,
                                      const struct steno_buf *messages, uint64_t next,
                                      const struct steno_ws_storage *storage, void *place,
                                      steno_err *err)
{
    steno_status st;
    s->stored = calloc(1, sizeof *s->stored);
    if (!s->stored) {
        storage->leave(place, false);
        return steno_fail(err, STENO_ERR_NOMEM, "session: out of memory");
    }
    *s->stored = (struct stored){.storage = storage, .place = place, .held = STENO_WS_NOT_HELD};
    s->answers.detached = true;
    st = take_settings(s, h, err);
    if (st)
        return st;
    take_messages(s, h, messages);
    take_position(s, h);
    if (h->over) {
        take_end(s, h);
        return STENO_OK;
    }
    /* the client may have seen partials that came after the last stored message */
    if (next > s->d.seq && next < UINT64_MAX / 2)
        s->d.seq = next;
    st = s->engine->resolve(s->ctx, &s->d, err);
    if (!st && s->d.start.audio.encoding != STENO_ENCODING_OPUS)
        st = steno_ws_session_open_raw(s, err);
    if (!st)
        s->state = RUNNING;
    return st;
}
