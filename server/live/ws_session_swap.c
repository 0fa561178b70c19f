/* A new stream for changed settings. A stream keeps the settings that it was opened with, so a
 * change of them, or a clear, ends the stream and opens another one in its place. */
#include "server/live/ws_session_internal.h"

#include <stdlib.h>

void steno_ws_session_try_swap(steno_ws_session *s)
{
    bool may, finalizing;
    const bool running = s->state == RUNNING || (s->state == ENDING && s->end_wanted);
    if (s->swap != SWAP_WANTED || !running || s->n_held || s->finalize_wanted)
        return;
    pthread_mutex_lock(&s->mx);
    finalizing = s->finalizing;
    may = !finalizing && (s->clears || !s->dialect->is_busy || !s->dialect->is_busy(&s->d));
    s->swap_waits = !may;
    s->swapping = may;
    s->swapped = false;
    s->mute = may && s->clears;
    pthread_mutex_unlock(&s->mx);
    s->committed &= finalizing; /* a segment that is open all the same may take audio */
    if (!may)
        return;
    s->swap = SWAP_RUNNING;
    if (s->clears)
        s->engine->cancel(s->ctx);
    else
        s->engine->end(s->ctx);
}

steno_status steno_ws_session_finish_swap(steno_ws_session *s, steno_err *err)
{
    steno_status st;
    bool done;
    pthread_mutex_lock(&s->mx);
    done = s->swapped;
    s->swapping = s->swapping && !done;
    pthread_mutex_unlock(&s->mx);
    if (!done)
        return STENO_NEED_MORE;
    s->engine->close(s->ctx);
    pthread_mutex_lock(&s->mx);
    s->mute = false;
    s->d.offset = (double)s->samples / s->rate;
    pthread_mutex_unlock(&s->mx);
    s->swap = SWAP_NONE;
    s->clears = false;
    st = s->engine->resolve(s->ctx, &s->d, err);
    if (!st)
        st = s->engine->open(s->ctx, &s->d.start, s->rate, err);
    if (st)
        s->opened = s->end_wanted = false;
    return st;
}

void steno_ws_session_want_swap(steno_ws_session *s, bool clears)
{
    if (s->state != RUNNING || !s->opened)
        return;
    if (clears) {
        s->lost += (int64_t)s->n_held;
        steno_ws_session_drop_held(s);
        steno_buf_reset(&s->held_bytes);
    }
    s->clears |= clears;
    if (s->swap == SWAP_NONE)
        s->swap = SWAP_WANTED;
    steno_ws_session_try_swap(s);
}
