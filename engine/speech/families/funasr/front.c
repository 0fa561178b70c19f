#include "speech/families/funasr/front.h"

steno_status steno_funasr_front_make(struct steno_funasr_front *f, const struct steno_lfr *lfr,
                                     const float *neg_mean, const float *inv_stddev, steno_err *err)
{
    f->lfr = *lfr;
    return neg_mean ? steno_cmvn_open_inverse(&f->cmvn, neg_mean, inv_stddev,
                                              lfr->window * STENO_FUNASR_BINS, err)
                    : STENO_OK;
}

steno_status steno_funasr_frames_of(struct steno_funasr_frames *f,
                                    const struct steno_funasr_front *front,
                                    struct steno_piece_features *features, const float *pcm,
                                    size_t n, size_t *rows, steno_err *err)
{
    size_t frames;
    steno_status st = steno_piece_features_compute(features, pcm, n, &frames, err);
    if (st)
        return st;
    *rows = steno_lfr_count(&front->lfr, frames);
    if (!*rows)
        return STENO_OK;
    if (!steno_floats_reserve(&f->rows, &f->cap_rows,
                              *rows * front->lfr.window * STENO_FUNASR_BINS))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    steno_lfr_apply(&front->lfr, features->frames, frames, STENO_FUNASR_BINS, f->rows);
    if (front->cmvn)
        steno_cmvn_apply(front->cmvn, f->rows, *rows);
    return STENO_OK;
}
