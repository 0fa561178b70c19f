#include "speech/turn/features.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/audio/pcm.h"
#include "speech/features/logmel.h"

#define EPSILON 1e-7 /* added to the variance */

struct steno_turn_features {
    steno_fbank *fbank;
    float *pcm;    /* [STENO_TURN_SAMPLES] */
    float *frames; /* [STENO_TURN_FRAMES + 1, STENO_TURN_BINS] */
};

steno_status steno_turn_features_open(steno_turn_features **out, steno_err *err)
{
    const struct steno_fbank_options o = steno_logmel_whisper(STENO_TURN_BINS);
    steno_turn_features *f = calloc(1, sizeof *f);
    steno_status st = STENO_OK;
    if (!f || !(f->pcm = malloc(STENO_TURN_SAMPLES * sizeof *f->pcm)) ||
        !(f->frames =
              malloc((size_t)(STENO_TURN_FRAMES + 1) * STENO_TURN_BINS * sizeof *f->frames)))
        st = steno_fail(err, STENO_ERR_NOMEM, "turn: out of memory");
    if (!st)
        st = steno_fbank_open(&f->fbank, &o, err);
    if (st) {
        steno_turn_features_close(f);
        return st;
    }
    *out = f;
    return STENO_OK;
}

void steno_turn_features_close(steno_turn_features *f)
{
    if (!f)
        return;
    steno_fbank_close(f->fbank);
    free(f->pcm);
    free(f->frames);
    free(f);
}

/* Mean 0, deviation 1, the zeros in front included. */
static void normalize(float *x, size_t n)
{
    double sum = 0, square = 0, mean, scale;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean);
    scale = 1 / sqrt(square / (double)n + EPSILON);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(((double)x[i] - mean) * scale);
}

steno_status steno_turn_features_make(steno_turn_features *f, const float *pcm, size_t n,
                                      float *out, steno_err *err)
{
    const size_t used = n < STENO_TURN_SAMPLES ? n : STENO_TURN_SAMPLES;
    const size_t zeros = STENO_TURN_SAMPLES - used;
    size_t frames;
    steno_status st;
    memset(f->pcm, 0, zeros * sizeof *f->pcm);
    if (used)
        steno_pcm_clean(pcm + (n - used), used, f->pcm + zeros);
    normalize(f->pcm, STENO_TURN_SAMPLES);
    st = steno_fbank_whole(f->fbank, f->pcm, STENO_TURN_SAMPLES, f->frames, STENO_TURN_FRAMES + 1,
                           &frames);
    if (st)
        return steno_fail(err, st, "turn: log-mel features");
    /* Whisper drops the last frame */
    steno_logmel_whisper_scale(f->frames, STENO_TURN_FRAMES, STENO_TURN_BINS);
    for (size_t b = 0; b < STENO_TURN_BINS; b++)
        for (size_t t = 0; t < STENO_TURN_FRAMES; t++)
            out[b * STENO_TURN_FRAMES + t] = f->frames[t * STENO_TURN_BINS + b];
    return STENO_OK;
}
