#include "speech/turn/recent.h"

#include <stdlib.h>
#include <string.h>

#include "speech/audio/pcm.h"
#include "speech/audio/resample.h"

#define BLOCK 1024 /* samples resampled at a time */
#define ROOM (STENO_TURN_SAMPLES + STENO_TURN_SAMPLES / 4)

struct steno_turn_recent {
    steno_resampler *resampler;
    float *clean; /* [BLOCK] */
    float *made;  /* [cap_made] of one block */
    float *pcm;   /* [cap], n of them used */
    size_t cap_made, n, cap;
};

steno_status steno_turn_recent_open(steno_turn_recent **out, int rate, steno_err *err)
{
    steno_turn_recent *r = calloc(1, sizeof *r);
    steno_status st =
        r ? steno_resampler_open(&r->resampler, rate, STENO_TURN_RATE, err) : STENO_ERR_NOMEM;
    if (!st) {
        r->cap_made = steno_resampler_max_out(r->resampler, BLOCK);
        r->cap_made = r->cap_made < BLOCK ? BLOCK : r->cap_made;
        r->clean = malloc(BLOCK * sizeof *r->clean);
        r->made = malloc(r->cap_made * sizeof *r->made);
        st = r->clean && r->made ? STENO_OK : STENO_ERR_NOMEM;
    }
    if (st) {
        steno_turn_recent_close(r);
        return st == STENO_ERR_NOMEM ? steno_fail(err, st, "turn: out of memory") : st;
    }
    *out = r;
    return STENO_OK;
}

void steno_turn_recent_close(steno_turn_recent *r)
{
    if (!r)
        return;
    steno_resampler_close(r->resampler);
    free(r->clean);
    free(r->made);
    free(r->pcm);
    free(r);
}

void steno_turn_recent_keep(steno_turn_recent *r, size_t n)
{
    if (n >= r->n)
        return;
    memmove(r->pcm, r->pcm + (r->n - n), n * sizeof *r->pcm);
    r->n = n;
}

/* Make room for k more samples, k <= ROOM - STENO_TURN_SAMPLES. */
static bool reserve_recent(steno_turn_recent *r, size_t k)
{
    size_t cap = r->cap ? r->cap : ROOM / 8;
    float *pcm;
    if (r->n + k > ROOM)
        steno_turn_recent_keep(r, STENO_TURN_SAMPLES);
    if (r->n + k <= r->cap)
        return true;
    while (cap < r->n + k)
        cap *= 2;
    cap = cap < ROOM ? cap : ROOM;
    pcm = realloc(r->pcm, cap * sizeof *pcm);
    if (!pcm)
        return false;
    r->pcm = pcm;
    r->cap = cap;
    return true;
}

static steno_status take_recent(steno_turn_recent *r, size_t made, steno_err *err)
{
    if (!made)
        return STENO_OK;
    if (!reserve_recent(r, made))
        return steno_fail(err, STENO_ERR_NOMEM, "turn: out of memory");
    memcpy(r->pcm + r->n, r->made, made * sizeof *r->pcm);
    r->n += made;
    return STENO_OK;
}

steno_status steno_turn_recent_push(steno_turn_recent *r, const float *pcm, size_t n,
                                    steno_err *err)
{
    while (n) {
        const size_t k = n < BLOCK ? n : BLOCK;
        size_t used, made = 0;
        steno_status st;
        steno_pcm_clean(pcm, k, r->clean);
        st = steno_resampler_push(r->resampler, r->clean, k, &used, r->made, r->cap_made, &made,
                                  err);
        if (!st || st == STENO_NEED_MORE)
            st = take_recent(r, made, err);
        if (st)
            return st;
        pcm += used;
        n -= used;
    }
    return STENO_OK;
}

steno_status steno_turn_recent_end(steno_turn_recent *r, steno_err *err)
{
    size_t made;
    steno_status st;
    do {
        st = steno_resampler_flush(r->resampler, r->made, r->cap_made, &made, err);
        if (!st)
            st = take_recent(r, made, err);
    } while (!st && made);
    return st;
}

steno_status steno_turn_recent_reset(steno_turn_recent *r, steno_err *err)
{
    r->n = 0;
    return steno_resampler_reset(r->resampler, err);
}

const float *steno_turn_recent_samples(const steno_turn_recent *r, size_t *n)
{
    *n = r->n;
    return r->pcm;
}
