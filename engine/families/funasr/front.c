#include "families/funasr/front.h"

#include "base/arena.h"

steno_status steno_funasr_front_open(struct steno_funasr_front *f,
                                     const struct steno_funasr_source *s, steno_err *err)
{
    const struct steno_fbank_options o = steno_fbank_funasr();
    steno_status st = steno_funasr_front_meta(s, STENO_FUNASR_BINS, &f->lfr, &f->cmvn, err);
    return st ? st : steno_fbank_open(&f->tables, &o, err);
}

void steno_funasr_front_close(struct steno_funasr_front *f)
{
    steno_fbank_close(f->tables);
    steno_cmvn_close(f->cmvn);
    *f = (struct steno_funasr_front){0};
}

steno_status steno_funasr_frames_open(struct steno_funasr_frames *f,
                                      const struct steno_funasr_front *front, steno_err *err)
{
    *f = (struct steno_funasr_frames){.front = front};
    return steno_fbank_open_like(&f->fbank, front->tables, err);
}

void steno_funasr_frames_close(struct steno_funasr_frames *f)
{
    steno_fbank_close(f->fbank);
    steno_aligned_free(f->bank);
    steno_aligned_free(f->rows);
    *f = (struct steno_funasr_frames){0};
}

static bool reserve(float **p, size_t *cap, size_t n)
{
    float *q;
    if (n <= *cap)
        return true;
    q = steno_aligned_alloc((n + n / 2) * sizeof *q);
    if (!q)
        return false;
    steno_aligned_free(*p);
    *p = q;
    *cap = n + n / 2;
    return true;
}

steno_status steno_funasr_frames_of(struct steno_funasr_frames *f, const float *pcm, size_t n,
                                    size_t *rows, steno_err *err)
{
    const struct steno_funasr_front *front = f->front;
    const struct steno_fbank_options o = steno_fbank_funasr();
    const size_t count = (size_t)steno_fbank_count(&o, (int64_t)n);
    const size_t width = STENO_FUNASR_BINS * front->lfr.window;
    size_t made = 0;
    steno_status st;
    *rows = steno_lfr_count(&front->lfr, count);
    if (!*rows)
        return STENO_OK;
    if (!reserve(&f->bank, &f->cap_bank, count * STENO_FUNASR_BINS) ||
        !reserve(&f->rows, &f->cap_rows, *rows * width))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for %zu frames", count);
    st = steno_fbank_whole(f->fbank, pcm, n, f->bank, count, &made);
    if (st)
        return steno_fail(err, st, "features: %s", steno_status_info(st)->name);
    steno_lfr_apply(&front->lfr, f->bank, made, STENO_FUNASR_BINS, f->rows);
    steno_cmvn_apply(front->cmvn, f->rows, *rows);
    return STENO_OK;
}
