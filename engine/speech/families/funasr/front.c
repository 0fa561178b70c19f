#include "speech/families/funasr/front.h"

#include "base/arena.h"

steno_status steno_funasr_front_open(struct steno_funasr_front *f,
                                     const struct steno_funasr_source *s, steno_err *err)
{
    const struct steno_fbank_options o = steno_fbank_funasr();
    steno_status st = steno_funasr_front_meta(s, STENO_FUNASR_BINS, &f->lfr, &f->cmvn, err);
    return st ? st : steno_fbank_open(&f->tables, &o, err);
}

steno_status steno_funasr_front_make(struct steno_funasr_front *f, const struct steno_lfr *lfr,
                                     const float *neg_mean, const float *inv_stddev, steno_err *err)
{
    const struct steno_fbank_options o = steno_fbank_funasr();
    steno_status st = neg_mean ? steno_cmvn_open_inverse(&f->cmvn, neg_mean, inv_stddev,
                                                         lfr->window * STENO_FUNASR_BINS, err)
                               : STENO_OK;
    f->lfr = *lfr;
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
    return steno_piece_features_open(&f->features, front->tables, err);
}

void steno_funasr_frames_close(struct steno_funasr_frames *f)
{
    steno_piece_features_close(&f->features);
    steno_aligned_free(f->rows);
    *f = (struct steno_funasr_frames){0};
}

steno_status steno_funasr_frames_of(struct steno_funasr_frames *f, const float *pcm, size_t n,
                                    size_t *rows, steno_err *err)
{
    const struct steno_funasr_front *front = f->front;
    size_t frames;
    steno_status st = steno_piece_features_compute(&f->features, pcm, n, &frames, err);
    if (st)
        return st;
    *rows = steno_lfr_count(&front->lfr, frames);
    if (!*rows)
        return STENO_OK;
    if (!steno_floats_reserve(&f->rows, &f->cap_rows,
                              *rows * front->lfr.window * STENO_FUNASR_BINS))
        return steno_fail(err, STENO_ERR_NOMEM, "stream: out of memory");
    steno_lfr_apply(&front->lfr, f->features.frames, frames, STENO_FUNASR_BINS, f->rows);
    if (front->cmvn)
        steno_cmvn_apply(front->cmvn, f->rows, *rows);
    return STENO_OK;
}
