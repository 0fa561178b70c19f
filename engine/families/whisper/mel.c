#include "families/whisper/mel.h"

#include <stdlib.h>
#include <string.h>

#include "features/logmel.h"

#define PADDING 160 /* zeros behind the recording (faster_whisper/feature_extractor.py) */

/* x: room for all frames of n samples and the padding. */
static steno_status spectra(steno_fbank *f, const float *pcm, size_t n, float *x, size_t max,
                            size_t *frames, steno_err *err)
{
    static const float zeros[PADDING];
    const size_t bins = steno_fbank_bins(f);
    size_t used, got;
    steno_status st = steno_fbank_push(f, pcm, n, &used, x, max, frames);
    if (st && st != STENO_NEED_MORE)
        return steno_fail(err, st, "log-mel: %zu samples", n);
    st = steno_fbank_push(f, zeros, PADDING, &used, x + *frames * bins, max - *frames, &got);
    if (st && st != STENO_NEED_MORE)
        return steno_fail(err, st, "log-mel: %zu samples", n);
    do {
        *frames += got;
        st = steno_fbank_flush(f, x + *frames * bins, max - *frames, &got);
    } while (!st && got && *frames + got <= max);
    return st && st != STENO_NEED_MORE ? steno_fail(err, st, "log-mel: %zu samples", n) : STENO_OK;
}

steno_status steno_whisper_logmel(const float *pcm, size_t n, size_t mels, float **out,
                                  size_t *frames, steno_err *err)
{
    const struct steno_fbank_options o = steno_logmel_whisper(mels);
    const size_t all = (n + PADDING) / 160, max = all + 2;
    size_t got = 0, bytes;
    steno_fbank *f = NULL;
    float *x = NULL;
    steno_status st = steno_fbank_open(&f, &o, err);
    if (st)
        return st;
    if (steno_mul_size(max, mels * sizeof *x, &bytes))
        x = malloc(bytes);
    st = x ? spectra(f, pcm, n, x, max, &got, err)
           : steno_fail(err, STENO_ERR_NOMEM, "out of memory for the log-mel of %zu samples", n);
    steno_fbank_close(f);
    if (!st && got < all)
        st = steno_fail(err, STENO_ERR_INTERNAL, "log-mel: %zu of %zu frames", got, all);
    if (st) {
        free(x);
        return st;
    }
    steno_logmel_whisper_scale(x, all, mels);
    *frames = n / 160;
    *out = x;
    return STENO_OK;
}

void steno_whisper_frames(const float *mel, size_t from, size_t n, size_t mels, size_t rows,
                          float *out)
{
    const float *x = mel + from * mels;
    memset(out, 0, rows * 3 * mels * sizeof *out);
    for (size_t t = 0; t < rows; t++)
        for (size_t k = 0; k < 3; k++) {
            const size_t at = t + k; /* one more than the frame */
            if (at >= 1 && at <= n && at <= rows)
                memcpy(out + (3 * t + k) * mels, x + (at - 1) * mels, mels * sizeof *out);
        }
}
