#include "speech/families/common/piece_features.h"

#include <string.h>

#include "base/arena.h"

steno_status steno_piece_features_open(struct steno_piece_features *f, const steno_fbank *front,
                                       steno_err *err)
{
    *f = (struct steno_piece_features){0};
    return steno_fbank_open_like(&f->fbank, front, err);
}

void steno_piece_features_close(struct steno_piece_features *f)
{
    steno_fbank_close(f->fbank);
    steno_aligned_free(f->frames);
    *f = (struct steno_piece_features){0};
}

bool steno_floats_reserve(float **p, size_t *cap, size_t n)
{
    return steno_floats_extend(p, cap, n, 0);
}

bool steno_floats_extend(float **p, size_t *cap, size_t n, size_t keep)
{
    const size_t want = n + n / 4;
    float *q;
    if (n <= *cap)
        return true;
    q = steno_aligned_alloc(want * sizeof *q);
    if (!q)
        return false;
    if (keep)
        memcpy(q, *p, keep * sizeof *q);
    steno_aligned_free(*p);
    *p = q;
    *cap = want;
    return true;
}

steno_status steno_piece_features_compute(struct steno_piece_features *f, const float *pcm,
                                          size_t n, size_t *frames, steno_err *err)
{
    const size_t most = (size_t)steno_fbank_whole_count(f->fbank, (int64_t)n);
    steno_status st;
    *frames = 0;
    if (!most)
        return STENO_OK;
    if (!steno_floats_reserve(&f->frames, &f->cap, most * steno_fbank_bins(f->fbank)))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    steno_fbank_reset(f->fbank);
    st = steno_fbank_whole(f->fbank, pcm, n, f->frames, most, frames);
    return st ? steno_fail(err, st, "stream: features: %s", steno_status_info(st)->name) : STENO_OK;
}
