#include "speech/recognizer/sound.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/recognizer/vad.h"

struct span {
    int64_t from, to; /* samples */
};

struct steno_sound {
    steno_vad_state *state;
    struct span *spans; /* [n] sounds, in order; the first may be partly queried */
    size_t n, cap;
    bool loud; /* the last frame belongs to spans[n - 1] */
};

steno_status steno_sound_open(steno_sound **out, const steno_vad *vad, int rate, steno_err *err)
{
    steno_sound *s = calloc(1, sizeof *s);
    steno_status st = STENO_OK;
    if (!s)
        st = steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    if (!st)
        st = steno_vad_state_open(&s->state, vad ? vad : &steno_vad_energy, rate, err);
    if (st) {
        steno_sound_close(s);
        return st;
    }
    *out = s;
    return STENO_OK;
}

void steno_sound_close(steno_sound *s)
{
    if (!s)
        return;
    steno_vad_state_close(s->state);
    free(s->spans);
    free(s);
}

/* The frame that ends at `to` has sound. */
static steno_status add_frame(steno_sound *s, int64_t to, steno_err *err)
{
    if (s->loud) {
        s->spans[s->n - 1].to = to;
        return STENO_OK;
    }
    if (STENO_RESERVE(&s->spans, &s->cap, s->n + 1))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    s->spans[s->n++] = (struct span){to - steno_vad_state_latency(s->state), to};
    s->loud = true;
    return STENO_OK;
}

steno_status steno_sound_push(steno_sound *s, const float *pcm, size_t n, steno_err *err)
{
    for (;;) {
        bool loud = false;
        size_t used;
        steno_status st = steno_vad_state_push(s->state, pcm, n, &used, &loud, err);
        if (st)
            return st == STENO_NEED_MORE ? STENO_OK : st;
        pcm += used;
        n -= used;
        if (loud)
            st = add_frame(s, steno_vad_state_classified(s->state), err);
        s->loud = loud;
        if (st)
            return st;
    }
}

int64_t steno_sound_end(steno_sound *s, int64_t at)
{
    size_t gone = 0;
    while (gone + 1 < s->n && s->spans[gone + 1].from < at)
        gone++;
    if (gone) {
        s->n -= gone;
        memmove(s->spans, s->spans + gone, s->n * sizeof *s->spans);
    }
    if (!s->n || s->spans[0].from >= at)
        return -1;
    return s->spans[0].to < at ? s->spans[0].to : at;
}

steno_status steno_sound_reset(steno_sound *s, steno_err *err)
{
    s->n = 0;
    s->loud = false;
    return steno_vad_state_reset(s->state, err);
}
