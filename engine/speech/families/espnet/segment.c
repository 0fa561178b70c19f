/* Samples of a segment -> features -> encoder -> CTC scores. Whole utterances go through at once,
 * contextual blocks as they arrive. */
#include <math.h>
#include <string.h>

#include "speech/families/common/piece_features.h"
#include "speech/families/espnet/stream.h"

#define MIN_SEGMENT 0.1 /* s: a segment shorter than this is not decoded */

/* ---- contextual blocks --------------------------------------------------------------------- */

size_t steno_espnet_frames_wanted(const struct steno_espnet_stream *s)
{
    const struct steno_espnet_conf *c = &s->net->conf;
    return s->state.block ? steno_espnet_next_frames(c) : steno_espnet_first_frames(c);
}

steno_status steno_espnet_make_frames(struct steno_espnet_stream *s, const float *pcm,
                                      size_t dropped, size_t end)
{
    const struct steno_espnet *e = s->net;
    size_t bins = (size_t)e->conf.bins;
    while (s->fed < end && s->n_feats < steno_espnet_frames_wanted(s)) {
        float *to = s->feats + s->n_feats * bins;
        size_t used = 0, made = 0;
        steno_status st = steno_fbank_push(s->fbank, pcm + (s->fed - dropped), end - s->fed, &used,
                                           to, steno_espnet_frames_wanted(s) - s->n_feats, &made);
        if (st && st != STENO_NEED_MORE)
            return st;
        steno_espnet_normalize(e, to, made);
        s->fed += used;
        s->n_feats += made;
        if (!used && !made)
            break;
    }
    return STENO_OK;
}

/* Encoder frames that the stream stores: those that the search may need again. */
static size_t frames_stored(const struct steno_espnet_stream *s)
{
    return s->n_rows - s->n_taken;
}

static steno_status reserve_frames(struct steno_espnet_stream *s, size_t n)
{
    const struct steno_espnet *e = s->net;
    const size_t dim = (size_t)e->dim, vocab = e->ctc ? (size_t)e->conf.vocab : 0,
                 had = frames_stored(s);
    return steno_floats_extend(&s->rows, &s->cap_rows, n * dim, had * dim) &&
                   steno_floats_extend(&s->ctc, &s->cap_ctc, n * vocab, had * vocab)
               ? STENO_OK
               : STENO_ERR_NOMEM;
}

/* Store n more encoder frames and their scores (NULL: a transducer) for the search. */
static steno_status store_frames(struct steno_espnet_stream *s, const float *rows, const float *ctc,
                                 size_t n)
{
    const struct steno_espnet *e = s->net;
    size_t dim = (size_t)e->dim, vocab = (size_t)e->conf.vocab, at = frames_stored(s);
    steno_status st = reserve_frames(s, at + n);
    if (st)
        return st;
    memcpy(s->rows + at * dim, rows, n * dim * sizeof *rows);
    if (ctc)
        memcpy(s->ctc + at * vocab, ctc, n * vocab * sizeof *ctc);
    s->n_rows += n;
    return STENO_OK;
}

/* CTC alone consumes the scores; other searches need frames and scores again. */
static steno_status consume_frames(struct steno_espnet_stream *s, const float *rows,
                                   const float *ctc, size_t n)
{
    steno_status st = STENO_OK;
    if (ctc)
        st = steno_ctc_greedy_push(s->greedy, ctc, n);
    if (st || !steno_espnet_ctc_alone(s))
        return st ? st : store_frames(s, rows, ctc, n);
    s->n_rows += n;
    s->n_taken = s->n_rows;
    return s->beam ? steno_ctc_beam_push(s->beam, ctc, n) : STENO_OK;
}

steno_status steno_espnet_encode_blocks(struct steno_espnet_stream *const *s, size_t n,
                                        steno_espnet_runner *r, steno_err *err)
{
    const struct steno_espnet *e = s[0]->net;
    struct steno_espnet_state *state[STENO_BATCH_MAX];
    const float *feats[STENO_BATCH_MAX], *rows, *ctc;
    size_t each = 0;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < n && !st; i++) {
        state[i] = &s[i]->state;
        feats[i] = s[i]->feats;
        if (state[i]->block == 0)
            st = steno_espnet_state_reset(state[i], e, err);
    }
    if (!st)
        st = steno_espnet_block(r, state, feats, n, steno_espnet_frames_wanted(s[0]), &rows, &each,
                                err);
    if (!st && steno_espnet_ctc(r, rows, n * each, &ctc, NULL))
        ctc =
            NULL; /* each stream tries its own part later, so that only one with bad scores fails */
    for (size_t i = 0; i < n && !st; i++) {
        s[i]->n_feats = 0;
        s[i]->block.rows = rows + i * each * (size_t)e->dim;
        s[i]->block.ctc = ctc ? ctc + i * each * (size_t)e->conf.vocab : NULL;
        s[i]->block.n = each;
    }
    return st;
}

steno_status steno_espnet_take_block(struct steno_espnet_stream *s, steno_espnet_runner *r,
                                     size_t max, steno_err *err)
{
    const float *rows, *ctc;
    size_t n;
    steno_status st = s->block.rows ? STENO_OK : steno_espnet_encode_blocks(&s, 1, r, err);
    if (st)
        return st;
    rows = s->block.rows;
    ctc = s->block.ctc;
    s->block.rows = NULL;
    n = s->block.n;
    if (s->n_rows + n > max)
        n = max > s->n_rows ? max - s->n_rows : 0;
    if (!n)
        return STENO_OK;
    if (!ctc && (st = steno_espnet_ctc(r, rows, n, &ctc, err)))
        return st;
    st = consume_frames(s, rows, ctc, n);
    return st ? steno_fail(err, st, "stream: out of memory") : STENO_OK;
}

static steno_status push_transducer(struct steno_espnet_stream *s, steno_espnet_runner *r,
                                    steno_err *err)
{
    size_t n = frames_stored(s);
    s->n_taken = s->n_rows;
    return steno_espnet_transduce_push(r, &s->search, s->rows, n, &s->transduced, err);
}

void steno_espnet_search_blocks(struct steno_espnet_work *work, size_t n, steno_espnet_runner *r)
{
    struct steno_espnet_block_search_block b[STENO_BATCH_MAX];
    struct steno_espnet_work *of[STENO_BATCH_MAX];
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        struct steno_espnet_work *t = &work[i];
        struct steno_espnet_stream *s = t->s;
        if (t->st || !s->n_rows)
            continue;
        if (steno_espnet_is_transducer(s->net))
            t->st = push_transducer(s, r, t->item->err);
        if (!s->blocks)
            continue;
        b[m] = (struct steno_espnet_block_search_block){.search = s->blocks,
                                                        .rows = s->rows,
                                                        .ctc = s->ctc,
                                                        .n_rows = s->n_rows,
                                                        .last = t->last,
                                                        .err = t->item->err};
        of[m++] = t;
    }
    steno_espnet_block_search_blocks(b, m, r);
    for (size_t k = 0; k < m; k++)
        of[k]->st = b[k].st;
}

/* Encoder frames that an encoder without blocks would compute from n samples: `subsample` feature
 * frames each, as two convolutions of stride 2 do for 4. */
static size_t frames_of(const struct steno_espnet_stream *s, size_t n)
{
    const struct steno_espnet *e = s->net;
    size_t sub = (size_t)e->conf.subsample;
    size_t frames = (size_t)steno_fbank_count(&e->fbank, (int64_t)n);
    if (e->conf.center && n <= (size_t)e->conf.n_fft / 2)
        return 0;
    return frames >= sub ? (frames - (sub - 1)) / sub : 0;
}

/* Fill the next block with feature frames: of the segment's n samples, then what the front end
 * still holds, then silence. */
static steno_status fill_block(const struct steno_step_item *item)
{
    struct steno_espnet_stream *s = item->state;
    size_t n = item->n;
    const struct steno_espnet *e = s->net;
    size_t bins = (size_t)e->conf.bins, want = steno_espnet_frames_wanted(s), made = 1;
    steno_status st = steno_espnet_make_frames(s, item->pcm, item->dropped, n);
    float *to;
    while (!st && made && s->fed == n && s->n_feats < want) {
        to = s->feats + s->n_feats * bins;
        st = steno_fbank_flush(s->fbank, to, want - s->n_feats, &made);
        if (!st)
            steno_espnet_normalize(e, to, made);
        s->n_feats += st ? 0 : made;
    }
    to = s->feats + s->n_feats * bins;
    made = want - s->n_feats;
    for (size_t i = 0; i < made * bins; i++)
        to[i] = logf(e->fbank.floor) * e->log_scale;
    steno_espnet_normalize_logs(e, to, made);
    s->n_feats += made;
    return st;
}

/* The item has all samples of the segment. Encode one of the remaining blocks. STENO_NEED_MORE: it
 * was not the last. */
static steno_status flush_block(const struct steno_step_item *item, steno_espnet_runner *r)
{
    struct steno_espnet_stream *s = item->state;
    size_t want = frames_of(s, item->n);
    steno_status st;
    if (s->n_rows >= want)
        return STENO_OK;
    st = fill_block(item);
    if (st)
        return steno_espnet_explain(st, item->err);
    st = steno_espnet_take_block(s, r, want, item->err);
    return st || s->n_rows >= want ? st : STENO_NEED_MORE;
}

bool steno_espnet_wants_block(const struct steno_step_item *item)
{
    const struct steno_espnet_stream *s = item->state;
    if (!steno_espnet_by_blocks(s->net) || item->goal != STENO_STEP_FINAL)
        return steno_espnet_by_blocks(s->net);
    /* on an error the step fails in the same way */
    return s->n_rows < frames_of(s, item->n) && !fill_block(item);
}

/* ---- a segment ----------------------------------------------------------------------------- */

steno_status steno_espnet_recognize(const struct steno_step_item *item, steno_espnet_runner *r,
                                    struct steno_espnet_scores *x)
{
    struct steno_espnet_stream *s = item->state;
    steno_err *err = item->err;
    const float *feats;
    size_t frames;
    steno_status st = STENO_OK;
    *x = (struct steno_espnet_scores){0};
    if (steno_espnet_by_blocks(s->net)) {
        st = flush_block(item, r);
        *x = (struct steno_espnet_scores){s->ctc, s->rows, s->n_rows};
        return st;
    }
    if (s->net->blocks) {
        st = steno_espnet_onnx_rows(r, item->pcm, item->n, &s->rows, &x->rows, err);
        x->enc =
            s->rows; /* a compat stream has one segment; the frames are freed with the stream */
        return st ? st : steno_espnet_ctc(r, x->enc, x->rows, &x->ctc, err);
    }
    if (item->n < (size_t)(MIN_SEGMENT * (double)s->net->conf.rate) && !s->whole)
        return STENO_OK;
    st = steno_espnet_features(r, item->pcm, item->n, &feats, &frames, err);
    if (!st)
        st = steno_espnet_encode(r, feats, frames, &x->enc, &x->rows, err);
    if (!st && x->rows)
        st = steno_espnet_ctc(r, x->enc, x->rows, &x->ctc, err);
    return st;
}
