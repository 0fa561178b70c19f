/* A new stream for changed settings. A stream keeps the settings that it was opened with, so a
 * change of them, or a clear, ends the stream and opens another one in its place. */
#include "server/live/ws_session_internal.h"

#include <stdlib.h>

/* mx held. Whether audio that comes now may belong to a segment that has begun. */
static bool segment_is_open(const steno_ws_session *s)
{
    return (s->stream.by_client && s->stream.fed) ||
           (s->dialect->is_busy && s->dialect->is_busy(&s->d));
}

void steno_ws_session_try_swap(steno_ws_session *s)
{
    bool may, finalizing;
    const bool running = s->state == RUNNING || (s->state == ENDING && s->stream.end_wanted);
    if (s->stream.swap != SWAP_WANTED || !running || s->held.full || s->stream.finalize_wanted)
        return;
    pthread_mutex_lock(&s->mx);
    finalizing = s->notes.finalizing;
    may = !finalizing && (s->stream.clears || !segment_is_open(s));
    s->notes.swap_waits = !may;
    s->notes.swapping = may;
    s->notes.swapped = false;
    s->notes.mute = may && s->stream.clears;
    pthread_mutex_unlock(&s->mx);
    s->stream.committed &= finalizing; /* a segment that is open all the same may take audio */
    if (!may)
        return;
    s->stream.swap = SWAP_RUNNING;
    if (s->stream.clears)
        s->engine->cancel(s->ctx);
    else
        s->engine->end(s->ctx);
}

steno_status steno_ws_session_finish_swap(steno_ws_session *s, steno_err *err)
{
    steno_status st;
    bool done;
    pthread_mutex_lock(&s->mx);
    done = s->notes.swapped;
    s->notes.swapping = s->notes.swapping && !done;
    pthread_mutex_unlock(&s->mx);
    if (!done)
        return STENO_NEED_MORE;
    s->engine->close(s->ctx);
    pthread_mutex_lock(&s->mx);
    s->notes.mute = false;
    s->d.offset = (double)s->audio.samples / s->audio.rate;
    pthread_mutex_unlock(&s->mx);
    s->stream.swap = SWAP_NONE;
    s->stream.clears = false;
    s->stream.fed = s->held.bytes.len;
    s->stream.by_client = !s->d.start.endpointing;
    st = s->engine->resolve(s->ctx, &s->d, err);
    if (!st)
        st = s->engine->open(s->ctx, &s->d.start, s->audio.rate, err);
    if (st)
        s->stream.opened = s->stream.end_wanted = false;
    return st;
}

void steno_ws_session_want_swap(steno_ws_session *s, bool clears)
{
    if (s->state != RUNNING || !s->stream.opened)
        return;
    if (clears) {
        s->held.full = false;
        steno_buf_reset(&s->held.bytes);
    }
    s->stream.clears |= clears;
    if (s->stream.swap == SWAP_NONE) {
        s->stream.swap = SWAP_WANTED;
        s->stream.committed = !s->stream.fed; /* if a finalize is under way */
    }
    steno_ws_session_try_swap(s);
}

static void count_finalize(steno_ws_session *s, int by)
{
    pthread_mutex_lock(&s->mx);
    s->notes.finalizing += (unsigned)by;
    pthread_mutex_unlock(&s->mx);
}

/* Before the header of the audio there is no stream, and nothing to close: the answer says so. */
static void answer_empty(steno_ws_session *s)
{
    const struct steno_event final = {
        .kind = STENO_FINAL, .reason = STENO_FINAL_REQUEST, .text = "", .language = ""};
    pthread_mutex_lock(&s->mx);
    s->d.channel = 0;
    s->d.finals++;
    s->dialect->event(&s->d, &final);
    s->d.segments[0]++;
    if (s->dialect->finalized)
        s->dialect->finalized(&s->d);
    pthread_mutex_unlock(&s->mx);
}

void steno_ws_session_finalize(steno_ws_session *s)
{
    steno_err err;
    steno_status st;
    if (!s->stream.opened) {
        answer_empty(s);
        return;
    }
    s->stream.committed = s->stream.swap == SWAP_WANTED;
    s->stream.fed = false;
    count_finalize(s, 1);
    st = s->engine->finalize(s->ctx, &err);
    if (st)
        count_finalize(s, -1);
    s->stream.committed &= !st || st == STENO_ERR_BUSY;
    s->stream.finalize_wanted = st == STENO_ERR_BUSY;
    if (st && st != STENO_ERR_BUSY && st != STENO_ERR_CANCELLED)
        steno_ws_session_fail(s, st, err.msg);
}
