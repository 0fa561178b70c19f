/* Alignment-length-synchronous search. Step i makes every hypothesis one symbol longer, so that one
 * of u tokens is at frame i - u. The last frame only matters to hypotheses that have reached it,
 * and the maximum of tokens (u_max) only to later steps. So all steps before the newest frame are
 * the same for every length of the utterance, and they are taken as frames arrive. */
#include <stdlib.h>
#include <string.h>

#include "speech/search/rnnt_internal.h"

/* Merge hypotheses of the same tokens into the first one. If it is also a final one, its final
 * score is updated. */
static void recombine(steno_transducer *t, struct list *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        size_t k = 0;
        while (k < n && l->h[k].p != l->h[i].p)
            k++;
        if (k == n) {
            l->h[n++] = l->h[i];
            continue;
        }
        l->h[k].score = steno_log_add(l->h[k].score, l->h[i].score);
        if (l->h[k].final_at >= 0)
            t->final.h[l->h[k].final_at].score = l->h[k].score;
    }
    l->n = n;
}

/* Hypotheses of u tokens are at frame step - u. Those with frames left are added to c. */
static steno_status at_step(steno_transducer *t, size_t frames, steno_err *err)
{
    t->c.n = 0;
    if (steno_transducer_hyp_reserve(t, t->kept.n + 1))
        return steno_transducer_hyp_oom(err);
    for (size_t k = 0; k < t->kept.n; k++) {
        size_t at = t->step - (t->tree.p[t->kept.h[k].p].length - 1);
        if (at >= frames)
            continue;
        t->ids[t->c.n] = t->kept.h[k].p;
        t->enc[t->c.n] = t->rows + (at - t->first_row) * t->dim;
        if (steno_transducer_hyp_add(&t->c, t->kept.h[k]))
            return steno_transducer_hyp_oom(err);
    }
    return STENO_OK;
}

static steno_status extend_alignments(steno_transducer *t, size_t frames)
{
    bool no_memory = false;
    t->a.n = 0;
    for (size_t k = 0; k < t->c.n && !no_memory; k++) {
        const float *logp = t->tree.logp + k * (size_t)t->o.vocab;
        struct hyp h = t->c.h[k], x = steno_transducer_hyp_wait(&h, h.score + (double)logp[0]);
        struct list one = {.h = &h, .n = 1};
        size_t frame = t->step - (t->tree.p[h.p].length - 1);
        if (frame == frames - 1) {
            x.final_at = (int32_t)t->final.n;
            no_memory = steno_transducer_hyp_add(&t->final, x) != STENO_OK;
        }
        no_memory = no_memory || steno_transducer_hyp_add(&t->a, x);
        no_memory = no_memory || steno_transducer_hyp_extend_all(t, &one, logp, frame, &t->a);
    }
    return no_memory ? STENO_ERR_NOMEM : STENO_OK;
}

/* Take the steps before `end`. frames: of the utterance, SIZE_MAX while it is not complete. */
static steno_status take_steps(steno_transducer *t, size_t end, size_t frames, steno_err *err)
{
    for (; t->step < end; t->step++) {
        steno_status st = at_step(t, frames, err);
        if (st || !t->c.n) {
            if (st)
                return st;
            continue;
        }
        st = steno_transducer_tree_score_lm(&t->tree, t->ids, t->c.n, err);
        if (!st)
            st = steno_transducer_tree_join(&t->tree, t->enc, t->ids, t->c.n, err);
        if (!st && extend_alignments(t, frames))
            st = steno_transducer_hyp_oom(err);
        if (st)
            return st;
        steno_transducer_hyp_swap(&t->a, &t->kept);
        steno_transducer_hyp_sort(&t->kept, t->o.beam);
        recombine(t, &t->kept);
        steno_transducer_hyp_tidy(t);
    }
    return STENO_OK;
}

static steno_status add_rows(steno_transducer *t, const float *enc, size_t frames, size_t dim)
{
    t->dim = dim;
    if (STENO_RESERVE(&t->rows, &t->cap_rows, (t->n_rows + frames) * dim))
        return STENO_ERR_NOMEM;
    memcpy(t->rows + t->n_rows * dim, enc, frames * dim * sizeof *enc);
    t->n_rows += frames;
    return STENO_OK;
}

/* Drop the frames that every hypothesis has passed, once they are half of all that are kept. */
static void drop_rows(steno_transducer *t)
{
    size_t least = t->first_row + t->n_rows, gone;
    for (size_t k = 0; k < t->kept.n; k++) {
        size_t at = t->step - (t->tree.p[t->kept.h[k].p].length - 1);
        least = at < least ? at : least;
    }
    gone = least - t->first_row;
    if (2 * gone < t->n_rows)
        return;
    t->n_rows -= gone;
    t->first_row = least;
    memmove(t->rows, t->rows + gone * t->dim, t->n_rows * t->dim * sizeof *t->rows);
}

steno_status steno_transducer_alsd(steno_transducer *t, const float *enc, size_t frames, size_t dim,
                                   steno_err *err)
{
    steno_status st = add_rows(t, enc, frames, dim);
    if (st)
        return steno_transducer_hyp_oom(err);
    st = take_steps(t, t->frames + frames - 1, SIZE_MAX, err);
    if (!st)
        drop_rows(t);
    return st;
}

steno_status steno_transducer_alsd_end(steno_transducer *t, steno_err *err)
{
    size_t u_max = t->o.u_max < t->frames - 1 ? t->o.u_max : t->frames - 1;
    steno_status st = take_steps(t, t->frames + u_max, t->frames, err);
    if (st)
        return st;
    t->unended = !t->final.n;
    if (t->final.n)
        steno_transducer_hyp_swap(&t->final, &t->kept);
    return STENO_OK;
}
