/* NSC and MAES: n_step tokens per frame, after prefix search. */
#include <math.h>
#include <stdlib.h>

#include "speech/search/rnnt_internal.h"

/* ---- n-step constrained, modified adaptive expansion ----------------------------------------- */

/* Sort the longest first, with the order of equals kept. */
static void sort_by_length(const steno_transducer *t, struct list *l)
{
    for (size_t i = 1; i < l->n; i++) {
        struct hyp x = l->h[i];
        size_t k = i;
        for (; k && t->tree.p[l->h[k - 1].p].length < t->tree.p[x.p].length; k--)
            l->h[k] = l->h[k - 1];
        l->h[k] = x;
    }
}

/* Token `at` of sequence p; the root's is number 0. */
static int32_t token_at(const steno_transducer *t, int32_t p, uint32_t at)
{
    return t->tree.p[steno_transducer_tree_head(&t->tree, p, at + 1)].token;
}

/* Score of the shorter hypothesis if it emits the rest of the longer one in this frame. */
static steno_status catch_up(steno_transducer *t, const struct hyp *shorter,
                             const struct hyp *longer, const float *enc, double *score,
                             steno_err *err)
{
    uint32_t from = t->tree.p[shorter->p].length, to = t->tree.p[longer->p].length;
    struct hyp at = *shorter;
    struct list one = {.h = &at, .n = 1};
    *score = shorter->score;
    for (uint32_t k = from; k < to; k++) {
        steno_status st;
        if (k > from && t->o.rules == STENO_RULES_ESPNET)
            at.p = steno_transducer_tree_head(&t->tree, longer->p, k);
        st = steno_transducer_hyp_join(t, &one, enc, false, err);
        if (st)
            return st;
        *score += (double)t->tree.logp[token_at(t, longer->p, k)];
    }
    return STENO_OK;
}

static steno_status prefix_search(steno_transducer *t, struct list *l, const float *enc,
                                  steno_err *err)
{
    sort_by_length(t, l);
    for (size_t j = 0; j + 1 < l->n; j++)
        for (size_t i = j + 1; i < l->n; i++) {
            uint32_t a = t->tree.p[l->h[j].p].length, b = t->tree.p[l->h[i].p].length;
            double score;
            steno_status st;
            if (b >= a || a - b > t->o.prefix_alpha ||
                steno_transducer_tree_head(&t->tree, l->h[j].p, b) != l->h[i].p)
                continue;
            st = catch_up(t, &l->h[i], &l->h[j], enc, &score, err);
            if (st)
                return st;
            l->h[j].score = steno_log_add(l->h[j].score, score);
        }
    return STENO_OK;
}

static bool list_has(const struct list *l, size_t n, int32_t p)
{
    for (size_t i = 0; i < n; i++)
        if (l->h[i].p == p)
            return true;
    return false;
}

/* Add the first blank after the last step of a frame. */
static steno_status add_blank(steno_transducer *t, struct list *l, const float *enc, steno_err *err)
{
    steno_status st = l->n ? steno_transducer_hyp_join(t, l, enc, false, err) : STENO_OK;
    for (size_t i = 0; i < l->n && !st; i++)
        l->h[i].score += (double)t->tree.logp[i * (size_t)t->o.vocab];
    return st;
}

static steno_status append_list(struct list *to, const struct list *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (steno_transducer_hyp_add(to, from->h[i]))
            return STENO_ERR_NOMEM;
    return STENO_OK;
}

/* One frame of NSC: from hyps to kept. a: blanks (ESPnet's S), b: extended hypotheses (V). */
static steno_status nsc_frame(steno_transducer *t, size_t f, const float *enc, steno_err *err)
{
    size_t v = (size_t)t->o.vocab;
    t->a.n = t->b.n = 0;
    for (size_t n = 0; n < t->o.n_step; n++) {
        size_t keep = 0;
        steno_status st = steno_transducer_hyp_join(t, &t->hyps, enc, true, err);
        if (st)
            return st;
        for (size_t i = 0; i < t->hyps.n; i++)
            if (steno_transducer_hyp_add(
                    &t->a, steno_transducer_hyp_wait(
                               &t->hyps.h[i], t->hyps.h[i].score + (double)t->tree.logp[i * v])))
                return steno_transducer_hyp_oom(err);
        if (steno_transducer_hyp_extend_all(t, &t->hyps, t->tree.logp, f, &t->b))
            return steno_transducer_hyp_oom(err);
        steno_transducer_hyp_sort(&t->b, SIZE_MAX);
        for (size_t i = 0; i < t->b.n; i++)
            if (!list_has(&t->hyps, t->hyps.n, t->b.h[i].p))
                t->b.h[keep++] = t->b.h[i];
        t->b.n = keep < t->o.beam ? keep : t->o.beam;
        t->hyps.n = 0;
        if (append_list(&t->hyps, &t->b))
            return steno_transducer_hyp_oom(err);
    }
    if (t->o.n_step != 1) {
        steno_status st = add_blank(t, &t->b, enc, err);
        if (st)
            return st;
    }
    t->kept.n = 0;
    if (append_list(&t->kept, &t->a) || append_list(&t->kept, &t->b))
        return steno_transducer_hyp_oom(err);
    steno_transducer_hyp_sort(&t->kept, t->o.beam);
    return STENO_OK;
}

static int best_first(const void *a, const void *b)
{
    const struct best *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

/* The tokens of hypothesis i, including the blank, whose score is within gamma of the best. */
static size_t choose_close(steno_transducer *t, size_t i)
{
    const float *logp = t->tree.logp + i * (size_t)t->o.vocab;
    double base = t->hyps.h[i].score, best = -INFINITY;
    size_t n = 0, most = t->o.beam + t->o.expansion_beta;
    for (int32_t k = 0; k < t->o.vocab; k++)
        best = fmax(best, base + (double)logp[k]);
    for (int32_t k = 0; k < t->o.vocab; k++)
        if (base + (double)logp[k] >= best - t->o.expansion_gamma)
            t->top[n++] = (struct best){base + (double)logp[k], k};
    qsort(t->top, n, sizeof *t->top, best_first);
    return n < most ? n : most;
}

/* One step: blanks to a, the rest to b. c: the hypotheses at the beginning of the frame. */
static steno_status maes_expand(steno_transducer *t, size_t f)
{
    bool no_memory = false;
    for (size_t i = 0; i < t->hyps.n && !no_memory; i++) {
        const struct hyp *h = &t->hyps.h[i];
        size_t n = choose_close(t, i);
        for (size_t k = 0; k < n && !no_memory; k++) {
            int32_t token = t->top[k].token;
            double score = t->top[k].score;
            struct hyp x;
            if (!token) {
                no_memory = steno_transducer_hyp_add(&t->a, steno_transducer_hyp_wait(h, score)) !=
                            STENO_OK;
                continue;
            }
            x = steno_transducer_hyp_extend(t, h, token,
                                            score + steno_transducer_hyp_lm(t, h->p, token),
                                            (float)(score - h->score), f, &no_memory);
            if (t->o.rules == STENO_RULES_ESPNET_ONNX || !list_has(&t->c, t->c.n, x.p))
                no_memory = no_memory || steno_transducer_hyp_add(&t->b, x);
        }
    }
    return no_memory ? STENO_ERR_NOMEM : STENO_OK;
}

static steno_status maes_frame(steno_transducer *t, size_t f, const float *enc, steno_err *err)
{
    steno_status st = STENO_OK;
    t->a.n = t->c.n = 0;
    if (append_list(&t->c, &t->hyps))
        return steno_transducer_hyp_oom(err);
    for (size_t n = 0; n < t->o.n_step && !st; n++) {
        t->b.n = 0;
        st = steno_transducer_hyp_join(t, &t->hyps, enc, true, err);
        if (!st && maes_expand(t, f))
            st = steno_transducer_hyp_oom(err);
        if (st || !t->b.n)
            break;
        if (n + 1 < t->o.n_step) {
            steno_transducer_hyp_swap(&t->b, &t->hyps);
            continue;
        }
        st = add_blank(t, &t->b, enc, err);
        if (!st && append_list(&t->a, &t->b))
            st = steno_transducer_hyp_oom(err);
    }
    if (st)
        return st;
    steno_transducer_hyp_swap(&t->a, &t->kept);
    steno_transducer_hyp_sort(&t->kept, t->o.beam);
    return STENO_OK;
}

steno_status steno_transducer_by_steps(steno_transducer *t, const float *enc, size_t frames,
                                       size_t dim, steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t f = 0; f < frames && !st; f++) {
        const float *row = enc + f * dim;
        steno_transducer_hyp_swap(&t->kept, &t->hyps);
        st = prefix_search(t, &t->hyps, row, err);
        if (!st)
            st = t->o.search == STENO_TRANSDUCER_NSC ? nsc_frame(t, t->frames + f, row, err)
                                                     : maes_frame(t, t->frames + f, row, err);
        steno_transducer_hyp_tidy(t);
    }
    return st;
}
