/* A session whose client comes back. Audio is counted in the samples that the feed has made, so
 * that both sides can name a position. Samples that come twice are skipped; samples that have not
 * come are sent again. */
#include "server/live/ws_session_internal.h"

#include <string.h>

bool steno_ws_session_resumable(steno_ws_session *s)
{
    bool can;
    pthread_mutex_lock(&s->mx);
    can = s->limits.resume_bytes && s->dialect->resumed && s->d.start.resumable &&
          s->state > OPEN && !s->ending.left && s->ending.how != STENO_WS_SLOW;
    pthread_mutex_unlock(&s->mx);
    return can;
}

/* Drop input that has not become a sample: the client sends it again. */
static void forget_unfinished(steno_ws_session *s)
{
    steno_buf_reset(&s->in.text);
    steno_buf_reset(&s->in.packet);
    s->in.bytes = 0;
    s->in.skip = false;
    if (s->audio.feed && !s->held.bytes.len)
        (void)steno_feed_realign(s->audio.feed); /* formats that cannot are not resumable */
}

/* Drop audio that waits for room, and a finalize behind it: the client sends them again, unless its
 * audio has ended. */
static void forget_held(steno_ws_session *s)
{
    if (!s->held.full || s->state != RUNNING)
        return;
    s->held.full = false;
    steno_buf_reset(&s->held.bytes);
    s->stream.finalize_wanted = 0;
}

void steno_ws_session_detach(steno_ws_session *s)
{
    forget_unfinished(s);
    pthread_mutex_lock(&s->mx);
    s->answers.detached = true;
    steno_outbox_clear(&s->answers.out);
    if (s->stored)
        s->stored->storage->set_waiting(s->stored->place, true);
    pthread_mutex_unlock(&s->mx);
}

/* mx held. */
static steno_status replay(steno_ws_session *s, uint64_t next)
{
    const uint64_t held = s->stored ? s->stored->held : STENO_WS_NOT_HELD;
    const char *text;
    size_t at = 0, n;
    uint64_t seq;
    steno_status st = STENO_OK;
    steno_outbox_clear(&s->answers.out);
    while (!st && steno_history_next(&s->answers.history, next, &at, &seq, &text, &n) && seq < held)
        st = steno_outbox_put(&s->answers.out, text, n);
    return st;
}

/* mx held. */
static steno_status check_attach(const steno_ws_session *s, const struct steno_native_resume *ask,
                                 steno_err *err)
{
    if (ask->sample > s->audio.samples)
        return steno_fail(err, STENO_ERR_INVAL,
                          "sample: %lld is after the %lld that have come; continue from there",
                          (long long)ask->sample, (long long)s->audio.samples);
    if (!steno_history_has(&s->answers.history, ask->next))
        return steno_fail(err, STENO_ERR_LIMIT,
                          "seq: messages after it are no longer kept, those from %llu on are",
                          (unsigned long long)s->answers.history.lost);
    if (ask->next > s->d.seq)
        return steno_fail(err, STENO_ERR_INVAL, "seq: the session has sent %llu messages",
                          (unsigned long long)s->d.seq);
    return STENO_OK;
}

steno_status steno_ws_session_can_attach(steno_ws_session *s, const struct steno_native_resume *ask,
                                         steno_err *err)
{
    steno_status st;
    pthread_mutex_lock(&s->mx);
    st = check_attach(s, ask, err);
    pthread_mutex_unlock(&s->mx);
    return st;
}

steno_status steno_ws_session_attach(steno_ws_session *s, const struct steno_native_resume *ask,
                                     steno_err *err)
{
    steno_status st;
    pthread_mutex_lock(&s->mx);
    st = check_attach(s, ask, err);
    if (!st && replay(s, ask->next))
        st = steno_fail(err, STENO_ERR_NOMEM, "session: out of memory");
    if (!st) {
        s->answers.detached = false;
        if (s->stored)
            s->stored->storage->set_waiting(s->stored->place, false);
        s->dialect->resumed(&s->d, s->audio.samples, s->state > RUNNING); /* not once it is over */
    }
    pthread_mutex_unlock(&s->mx);
    if (st)
        return st;
    forget_held(s);
    forget_unfinished(s);
    s->audio.skip = ask->sample < 0 ? 0 : s->audio.samples - ask->sample;
    return STENO_OK;
}
