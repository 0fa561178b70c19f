#include "speech/turn/recent.h"

#include <stdlib.h>
#include <string.h>

#include "speech/audio/pcm.h"
#include "speech/audio/resample.h"

#define BLOCK 1024 /* samples resampled at a time */
#define ROOM (STENO_TURN_SAMPLES + STENO_TURN_SAMPLES / 4)

struct steno_turn_recent {
    steno_resampler *resampler;
    float *pcm; /* [cap], n of them used */
    size_t n, cap;
};

steno_status steno_turn_recent_open(steno_turn_recent **out, int rate, steno_err *err)
{
    steno_turn_recent *r = calloc(1, sizeof *r);
    steno_status st =
        r ? steno_resampler_open(&r->resampler, rate, STENO_TURN_RATE, err) : STENO_ERR_NOMEM;
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

static steno_status take_recent(void *ctx, const float *x, size_t n, steno_err *err)
{
    steno_turn_recent *r = ctx;
    if (!reserve_recent(r, n))
        return steno_fail(err, STENO_ERR_NOMEM, "turn: out of memory");
    memcpy(r->pcm + r->n, x, n * sizeof *r->pcm);
    r->n += n;
    return STENO_OK;
}

steno_status steno_turn_recent_push(steno_turn_recent *r, const float *pcm, size_t n,
                                    steno_err *err)
{
    float clean[BLOCK];
    steno_status st = STENO_OK;
    for (size_t k; n && !st; pcm += k, n -= k) {
        k = n < BLOCK ? n : BLOCK;
        steno_pcm_clean(pcm, k, clean);
        st = steno_resampler_pass(r->resampler, clean, k, take_recent, r, err);
    }
    return st;
}

steno_status steno_turn_recent_end(steno_turn_recent *r, steno_err *err)
{
    return steno_resampler_pass(r->resampler, NULL, 0, take_recent, r, err);
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
