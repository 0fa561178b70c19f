#include "speech/families/whisper/mel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "speech/features/logmel.h"

#define PADDING 160 /* zeros behind the recording */
#define HOP 160
#define BLOCK 1024 /* frames made room for at a time */

struct steno_whisper_mel {
    steno_fbank *bank, *spare; /* spare: of an early end, or NULL */
    size_t mels;
    float *x;            /* [cap, mels] frames from number `base` on */
    size_t base, n, cap; /* n: of those in x */
    size_t samples;
    float max;
    bool ended;
    size_t early_n; /* n and max before an early end */
    float early_max;
};

steno_status steno_whisper_mel_open(steno_whisper_mel **out, size_t mels, steno_err *err)
{
    const struct steno_fbank_options o = steno_logmel_whisper(mels);
    steno_whisper_mel *f = calloc(1, sizeof *f);
    steno_status st;
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    f->mels = mels;
    f->max = -INFINITY;
    st = steno_fbank_open(&f->bank, &o, err);
    if (st)
        steno_whisper_mel_close(f);
    else
        *out = f;
    return st;
}

void steno_whisper_mel_close(steno_whisper_mel *f)
{
    if (!f)
        return;
    steno_fbank_close(f->spare);
    steno_fbank_close(f->bank);
    free(f->x);
    free(f);
}

void steno_whisper_mel_restart(steno_whisper_mel *f)
{
    steno_fbank_reset(f->bank);
    f->base = f->n = f->samples = 0;
    f->max = -INFINITY;
    f->ended = false;
}

static bool reserve_mel(steno_whisper_mel *f, size_t frames)
{
    size_t cap = f->cap ? f->cap : BLOCK, bytes;
    float *x;
    if (f->n + frames <= f->cap)
        return true;
    while (cap < f->n + frames)
        cap += cap / 2;
    if (!steno_mul_size(cap, f->mels * sizeof *x, &bytes) || !(x = realloc(f->x, bytes)))
        return false;
    f->x = x;
    f->cap = cap;
    return true;
}

static void count(steno_whisper_mel *f, size_t frames)
{
    const float *x = f->x + f->n * f->mels;
    for (size_t i = 0; i < frames * f->mels; i++)
        f->max = x[i] > f->max ? x[i] : f->max;
    f->n += frames;
}

static steno_status push_mel(steno_whisper_mel *f, steno_fbank *bank, const float *pcm, size_t n,
                             steno_err *err)
{
    while (n) {
        size_t used, got;
        steno_status st;
        if (!reserve_mel(f, BLOCK))
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a spectrogram");
        st = steno_fbank_push(bank, pcm, n, &used, f->x + f->n * f->mels, BLOCK, &got);
        if (st && st != STENO_NEED_MORE)
            return steno_fail(err, st, "log-mel of %zu samples", n);
        count(f, got);
        pcm += used;
        n -= used;
    }
    return STENO_OK;
}

steno_status steno_whisper_mel_push(steno_whisper_mel *f, const float *pcm, size_t n,
                                    steno_err *err)
{
    if (f->ended)
        return steno_fail(err, STENO_ERR_INVAL, "samples after the end of the recording");
    f->samples += n;
    return push_mel(f, f->bank, pcm, n, err);
}

static steno_status end(steno_whisper_mel *f, steno_fbank *bank, steno_err *err)
{
    static const float zeros[PADDING];
    const size_t all = (f->samples + PADDING) / HOP;
    size_t got = 1;
    steno_status st = STENO_OK;
    if (f->ended)
        return STENO_OK;
    f->ended = true;
    st = push_mel(f, bank, zeros, PADDING, err);
    while (!st && got && f->base + f->n < all) {
        if (!reserve_mel(f, BLOCK))
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a spectrogram");
        st = steno_fbank_flush(bank, f->x + f->n * f->mels, BLOCK, &got);
        if (st)
            return steno_fail(err, st, "log-mel of %zu samples", f->samples);
        got =
            f->base + f->n + got < all ? got : all - f->base - f->n; /* the last frame is dropped */
        count(f, got);
    }
    return st;
}

steno_status steno_whisper_mel_end(steno_whisper_mel *f, steno_err *err)
{
    return end(f, f->bank, err);
}

steno_status steno_whisper_mel_end_early(steno_whisper_mel *f, steno_err *err)
{
    if (!f->spare) {
        const steno_status st = steno_fbank_open_like(&f->spare, f->bank, err);
        if (st)
            return st;
    }
    steno_fbank_follow(f->spare, f->bank);
    f->early_n = f->n;
    f->early_max = f->max;
    return end(f, f->spare, err);
}

void steno_whisper_mel_resume(steno_whisper_mel *f)
{
    f->n = f->early_n;
    f->max = f->early_max;
    f->ended = false;
}

size_t steno_whisper_mel_frames(const steno_whisper_mel *f)
{
    const size_t all = f->base + f->n;
    return f->ended && all > f->samples / HOP ? f->samples / HOP : all;
}

const float *steno_whisper_mel_at(const steno_whisper_mel *f, size_t from, size_t *n)
{
    *n = from < f->base + f->n ? f->base + f->n - from : 0;
    return from < f->base ? NULL : f->x + (from - f->base) * f->mels;
}

void steno_whisper_mel_drop(steno_whisper_mel *f, size_t from)
{
    size_t n = from > f->base ? from - f->base : 0;
    n = n < f->n ? n : f->n;
    if (n < BLOCK) /* seldom, so that little is moved */
        return;
    memmove(f->x, f->x + n * f->mels, (f->n - n) * f->mels * sizeof *f->x);
    f->n -= n;
    f->base += n;
}

float steno_whisper_mel_floor(const steno_whisper_mel *f)
{
    return f->max - 8;
}

void steno_whisper_frames(const float *mel, size_t n, float floor, size_t mels, size_t rows,
                          float *out)
{
    n = n < rows ? n : rows;
    memset(out, 0, rows * 3 * mels * sizeof *out);
    for (size_t t = 0; t < n; t++) {
        float *middle = out + (3 * t + 1) * mels;
        for (size_t b = 0; b < mels; b++) {
            const float x = mel[t * mels + b];
            middle[b] = ((x > floor ? x : floor) + 4) / 4;
        }
        if (t)
            memcpy(out + (3 * (t - 1) + 2) * mels, middle, mels * sizeof *out);
        if (t + 1 < rows)
            memcpy(out + 3 * (t + 1) * mels, middle, mels * sizeof *out);
    }
}
