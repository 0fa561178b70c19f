/* The searches that process one frame at a time (best first, or all hypotheses together), and the
 * code that all searches share. rnnt_internal.h begins with the data. */
#include "speech/search/rnnt_internal.h"

#include <stdlib.h>
#include <string.h>

#define MAX_POPS 4096 /* maximum of expansions per frame; real scores need far fewer */

steno_status steno_transducer_open(steno_transducer **out,
                                   const struct steno_transducer_options *opt, steno_err *err)
{
    steno_transducer *t;
    if (opt->vocab < 2 || opt->beam < 1 || opt->beam > (size_t)opt->vocab - 1)
        return steno_fail(err, STENO_ERR_INVAL, "beam is %zu, expected 1 to %d", opt->beam,
                          (int)opt->vocab - 1);
    t = calloc(1, sizeof *t);
    if (!t)
        return steno_transducer_hyp_oom(err);
    t->o = *opt;
    steno_transducer_tree_init(&t->tree, opt->vocab,
                               opt->row_bytes ? opt->row_bytes : STENO_TRANSDUCER_ROW_BYTES);
    t->top = malloc((size_t)opt->vocab * sizeof *t->top);
    if (!t->top) {
        steno_transducer_close(t);
        return steno_transducer_hyp_oom(err);
    }
    *out = t;
    return STENO_OK;
}

void steno_transducer_close(steno_transducer *t)
{
    if (!t)
        return;
    steno_transducer_tree_free(&t->tree);
    free(t->kept.h);
    free(t->hyps.h);
    free(t->a.h);
    free(t->b.h);
    free(t->c.h);
    free(t->final.h);
    free(t->top);
    free(t->enc);
    free(t->ids);
    free(t->tokens);
    free(t->spans);
    free(t->rows);
    free(t);
}

/* ---- lists --------------------------------------------------------------------------------- */

steno_status steno_transducer_hyp_add(struct list *l, struct hyp h)
{
    if (STENO_RESERVE(&l->h, &l->cap, l->n + 1))
        return STENO_ERR_NOMEM;
    l->h[l->n++] = h;
    return STENO_OK;
}

static int by_score(const void *a, const void *b)
{
    const struct hyp *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void steno_transducer_hyp_sort(struct list *l, size_t most)
{
    for (size_t i = 0; i < l->n; i++)
        l->h[i].order = (uint32_t)i;
    if (l->n)
        qsort(l->h, l->n, sizeof *l->h, by_score);
    if (l->n > most)
        l->n = most;
}

steno_status steno_transducer_hyp_reserve(steno_transducer *t, size_t n)
{
    const steno_status st = STENO_RESERVE(&t->ids, &t->cap_ids, n);
    return st ? st : STENO_RESERVE(&t->enc, &t->cap_enc, n);
}

steno_status steno_transducer_hyp_join(steno_transducer *t, const struct list *l, const float *enc,
                                       bool lm, steno_err *err)
{
    steno_status st;
    if (steno_transducer_hyp_reserve(t, l->n + 1))
        return steno_transducer_hyp_oom(err);
    for (size_t i = 0; i < l->n; i++) {
        t->ids[i] = l->h[i].p;
        t->enc[i] = enc;
    }
    st = lm ? steno_transducer_tree_score_lm(&t->tree, t->ids, l->n, err) : STENO_OK;
    return st ? st : steno_transducer_tree_join(&t->tree, t->enc, t->ids, l->n, err);
}

double steno_transducer_hyp_lm(const steno_transducer *t, int32_t p, int32_t k)
{
    return t->tree.nets->lm ? t->o.lm_weight * (double)t->tree.p[p].row[STENO_TRANSDUCER_TREE_LM][k]
                            : 0;
}

/* The k best tokens except the blank, into top, best first. */
static void choose_best(steno_transducer *t, const float *logp, size_t k)
{
    size_t n = 0;
    for (int32_t v = 1; v < t->o.vocab; v++) {
        struct best b = {(double)logp[v], v};
        size_t i;
        if (n == k && b.score <= t->top[n - 1].score)
            continue;
        for (i = n < k ? n++ : n - 1; i > 0 && t->top[i - 1].score < b.score; i--)
            t->top[i] = t->top[i - 1];
        t->top[i] = b;
    }
}

struct hyp steno_transducer_hyp_extend(steno_transducer *t, const struct hyp *h, int32_t token,
                                       double score, float logp, size_t frame, bool *no_memory)
{
    struct hyp x = {.score = score, .final_at = -1};
    x.p = steno_transducer_tree_child(&t->tree, h->p, token);
    x.chain = steno_transducer_tree_link(&t->tree, h->chain, frame, logp);
    *no_memory = *no_memory || x.p < 0 || x.chain < 0;
    return x;
}

/* The first one of equals. */
static size_t best_of(const struct list *l)
{
    size_t best = 0;
    for (size_t i = 1; i < l->n; i++)
        if (l->h[i].score > l->h[best].score)
            best = i;
    return best;
}

steno_status steno_transducer_hyp_extend_all(steno_transducer *t, const struct list *from,
                                             const float *logp, size_t frame, struct list *to)
{
    bool no_memory = false;
    for (size_t i = 0; i < from->n && !no_memory; i++) {
        const struct hyp *h = &from->h[i];
        choose_best(t, logp + i * (size_t)t->o.vocab, t->o.beam);
        for (size_t k = 0; k < t->o.beam && !no_memory; k++) {
            double more = t->top[k].score;
            struct hyp x = steno_transducer_hyp_extend(
                t, h, t->top[k].token,
                h->score + more + steno_transducer_hyp_lm(t, h->p, t->top[k].token), (float)more,
                frame, &no_memory);
            no_memory = no_memory || steno_transducer_hyp_add(to, x);
        }
    }
    return no_memory ? STENO_ERR_NOMEM : STENO_OK;
}

void steno_transducer_hyp_tidy(steno_transducer *t)
{
    struct list *all[] = {&t->kept, &t->final};
    if (steno_transducer_tree_rows_due(&t->tree)) {
        for (size_t i = 0; i < t->kept.n; i++)
            steno_transducer_tree_mark_rows(&t->tree, t->kept.h[i].p);
        steno_transducer_tree_sweep(&t->tree);
    }
    if (!steno_transducer_tree_due(&t->tree))
        return;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < all[k]->n; i++)
            steno_transducer_tree_mark(&t->tree, all[k]->h[i].p, all[k]->h[i].chain);
    steno_transducer_tree_number(&t->tree);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < all[k]->n; i++)
            steno_transducer_tree_place(&t->tree, &all[k]->h[i].p, &all[k]->h[i].chain);
    steno_transducer_tree_compact(&t->tree);
}

/* ---- greedy -------------------------------------------------------------------------------- */

static steno_status greedy(steno_transducer *t, const float *enc, size_t frames, size_t dim,
                           steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t f = 0; f < frames && !st; f++) {
        struct hyp *h = &t->kept.h[0];
        const float *logp;
        int32_t best = 0;
        bool no_memory = false;
        st = steno_transducer_hyp_join(t, &t->kept, enc + f * dim, false, err);
        if (st)
            break;
        logp = t->tree.logp;
        for (int32_t v = 1; v < t->o.vocab; v++)
            if (logp[v] > logp[best])
                best = v;
        if (best)
            *h = steno_transducer_hyp_extend(t, h, best, h->score + (double)logp[best], logp[best],
                                             t->frames + f, &no_memory);
        if (no_memory)
            st = steno_transducer_hyp_oom(err);
        steno_transducer_hyp_tidy(t);
    }
    return st;
}

/* ---- default: best first within a frame ---------------------------------------------------- */

/* Remove the best hypothesis from `hyps`: add it to `kept` as it is, and its extensions to
 * `hyps`. */
static steno_status expand_best(steno_transducer *t, const float *enc, size_t f, steno_err *err)
{
    size_t at = best_of(&t->hyps);
    struct hyp h = t->hyps.h[at];
    struct list one = {.h = &h, .n = 1};
    bool no_memory = false;
    steno_status st;
    memmove(t->hyps.h + at, t->hyps.h + at + 1, (t->hyps.n - at - 1) * sizeof h);
    t->hyps.n--;
    st = steno_transducer_hyp_join(t, &one, enc, true, err);
    if (st)
        return st;
    no_memory =
        steno_transducer_hyp_add(
            &t->kept, steno_transducer_hyp_wait(&h, h.score + (double)t->tree.logp[0])) != STENO_OK;
    choose_best(t, t->tree.logp, t->o.beam);
    for (size_t k = 0; k < t->o.beam && !no_memory; k++) {
        double logp = t->top[k].score;
        double score = h.score + logp + steno_transducer_hyp_lm(t, h.p, t->top[k].token);
        struct hyp x =
            steno_transducer_hyp_extend(t, &h, t->top[k].token, score, (float)logp, f, &no_memory);
        no_memory = no_memory || steno_transducer_hyp_add(&t->hyps, x);
    }
    return no_memory ? steno_transducer_hyp_oom(err) : STENO_OK;
}

/* Sort the hypotheses of `kept` that no open hypothesis can exceed, worst first. False: there are
 * too few yet. */
static bool decided(steno_transducer *t, bool anyway)
{
    double open = t->hyps.h[best_of(&t->hyps)].score;
    size_t n = 0;
    for (size_t i = 0; i < t->kept.n; i++)
        n += t->kept.h[i].score > open;
    if (n < t->o.beam && !anyway)
        return false;
    n = n < t->o.beam ? t->o.beam : n;
    steno_transducer_hyp_sort(&t->kept, n);
    for (size_t i = 0; i < t->kept.n / 2; i++) {
        struct hyp x = t->kept.h[i];
        t->kept.h[i] = t->kept.h[t->kept.n - 1 - i];
        t->kept.h[t->kept.n - 1 - i] = x;
    }
    return true;
}

static steno_status default_search(steno_transducer *t, const float *enc, size_t frames, size_t dim,
                                   steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t f = 0; f < frames && !st; f++) {
        steno_transducer_hyp_swap(&t->kept, &t->hyps);
        t->kept.n = 0;
        for (size_t pops = 1; !st; pops++) {
            st = expand_best(t, enc + f * dim, t->frames + f, err);
            if (!st && decided(t, pops >= MAX_POPS + t->o.beam))
                break;
        }
        steno_transducer_hyp_tidy(t);
    }
    return st;
}

/* ---- time-synchronous ----------------------------------------------------------------------- */

/* The hypotheses of c end the frame. One that `a` already had before this round (the first n_a)
 * adds to its score. */
static steno_status end_frame(steno_transducer *t, size_t n_a)
{
    size_t v = (size_t)t->o.vocab;
    for (size_t i = 0; i < t->c.n; i++) {
        double score = t->c.h[i].score + (double)t->tree.logp[i * v];
        size_t k = 0;
        while (k < n_a && t->a.h[k].p != t->c.h[i].p)
            k++;
        if (k < n_a)
            t->a.h[k].score = steno_log_add(t->a.h[k].score, score);
        else if (steno_transducer_hyp_add(&t->a, steno_transducer_hyp_wait(&t->c.h[i], score)))
            return STENO_ERR_NOMEM;
    }
    return STENO_OK;
}

static steno_status tsd(steno_transducer *t, const float *enc, size_t frames, size_t dim,
                        steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t f = 0; f < frames && !st; f++) {
        steno_transducer_hyp_swap(&t->kept, &t->c);
        t->a.n = 0;
        for (size_t v = 0; v < t->o.max_sym_exp && t->c.n && !st; v++) {
            st = steno_transducer_hyp_join(t, &t->c, enc + f * dim, true, err);
            if (st)
                return st;
            t->b.n = 0;
            st = end_frame(t, t->a.n);
            if (!st && v + 1 < t->o.max_sym_exp)
                st = steno_transducer_hyp_extend_all(t, &t->c, t->tree.logp, t->frames + f, &t->b);
            if (st)
                return steno_transducer_hyp_oom(err);
            steno_transducer_hyp_sort(&t->b, t->o.beam);
            steno_transducer_hyp_swap(&t->b, &t->c);
        }
        steno_transducer_hyp_sort(&t->a, t->o.beam);
        steno_transducer_hyp_swap(&t->a, &t->kept);
        steno_transducer_hyp_tidy(t);
    }
    return st;
}

/* ---- one utterance ------------------------------------------------------------------------- */

static steno_status search_frames(steno_transducer *t, const float *enc, size_t frames, size_t dim,
                                  steno_err *err)
{
    switch (t->o.beam == 1 ? STENO_TRANSDUCER_GREEDY : t->o.search) {
    case STENO_TRANSDUCER_GREEDY:
        return greedy(t, enc, frames, dim, err);
    case STENO_TRANSDUCER_DEFAULT:
        return default_search(t, enc, frames, dim, err);
    case STENO_TRANSDUCER_TSD:
        return tsd(t, enc, frames, dim, err);
    case STENO_TRANSDUCER_ALSD:
        return steno_transducer_alsd(t, enc, frames, dim, err);
    case STENO_TRANSDUCER_NSC:
    case STENO_TRANSDUCER_MAES:
        return steno_transducer_by_steps(t, enc, frames, dim, err);
    }
    return steno_fail(err, STENO_ERR_INVAL, "transducer search %d", (int)t->o.search);
}

/* ESPnet's last sort: by score per token, including the root's blank. */
static void sort_results(steno_transducer *t)
{
    for (size_t i = 0; i < t->kept.n && t->o.score_norm; i++)
        t->kept.h[i].score /= t->tree.p[t->kept.h[i].p].length;
    steno_transducer_hyp_sort(&t->kept, SIZE_MAX);
    for (size_t i = 0; i < t->kept.n && t->o.score_norm; i++)
        t->kept.h[i].score *= t->tree.p[t->kept.h[i].p].length;
}

steno_status steno_transducer_start(steno_transducer *t, steno_err *err)
{
    bool sos = t->o.search == STENO_TRANSDUCER_DEFAULT && t->o.rules == STENO_RULES_ESPNET;
    steno_status st = steno_transducer_tree_start(&t->tree, NULL, sos ? t->o.sos : 0);
    t->kept.n = t->hyps.n = t->a.n = t->b.n = t->c.n = t->final.n = 0;
    t->frames = t->step = t->first_row = t->n_rows = 0;
    t->unended = false;
    if (!st)
        st = steno_transducer_hyp_add(&t->kept, (struct hyp){.p = 0, .chain = -1, .final_at = -1});
    return st ? steno_transducer_hyp_oom(err) : STENO_OK;
}

static bool is_alsd(const steno_transducer *t)
{
    return t->o.beam > 1 && t->o.search == STENO_TRANSDUCER_ALSD;
}

steno_status steno_transducer_push(steno_transducer *t, const struct steno_transducer_nets *nets,
                                   const float *enc, size_t frames, size_t dim, steno_err *err)
{
    steno_status st = STENO_OK;
    t->tree.nets = nets;
    if (frames)
        st = search_frames(t, enc, frames, dim, err);
    t->tree.nets = NULL; /* borrowed for the call */
    t->frames += frames;
    if (st)
        t->kept.n = 0;
    return st;
}

steno_status steno_transducer_finish(steno_transducer *t, const struct steno_transducer_nets *nets,
                                     steno_err *err)
{
    steno_status st = STENO_OK;
    t->tree.nets = nets;
    if (is_alsd(t) && t->frames)
        st = steno_transducer_alsd_end(t, err);
    t->tree.nets = NULL;
    if (st)
        t->kept.n = 0;
    else if (!t->unended)
        sort_results(t);
    return st;
}

steno_status steno_transducer_run(steno_transducer *t, const struct steno_transducer_nets *nets,
                                  const float *enc, size_t frames, size_t dim, steno_err *err)
{
    steno_status st = steno_transducer_start(t, err);
    if (!st)
        st = steno_transducer_push(t, nets, enc, frames, dim, err);
    return st ? st : steno_transducer_finish(t, nets, err);
}

size_t steno_transducer_count(const steno_transducer *t)
{
    return t->kept.n;
}

steno_status steno_transducer_get(steno_transducer *t, size_t i, struct steno_transducer_hyp *out)
{
    const struct hyp *h = &t->kept.h[i];
    size_t n = t->tree.p[h->p].length;
    int32_t link = h->chain;
    if (STENO_RESERVE(&t->tokens, &t->cap_tokens, n) || STENO_RESERVE(&t->spans, &t->cap_spans, n))
        return STENO_ERR_NOMEM;
    for (int32_t p = h->p; p >= 0; p = t->tree.p[p].parent)
        t->tokens[t->tree.p[p].length - 1] = t->tree.p[p].token;
    for (size_t k = n - 1; k-- > 0 && link >= 0; link = t->tree.links[link].before)
        t->spans[k] = (struct steno_span){.token = t->tokens[k + 1],
                                          .peak = t->tree.links[link].logp,
                                          .first = t->tree.links[link].frame,
                                          .last = t->tree.links[link].frame};
    *out = (struct steno_transducer_hyp){
        .tokens = t->tokens, .n = n, .spans = t->spans, .score = h->score};
    return STENO_OK;
}

steno_status steno_transducer_best(steno_transducer *t, struct steno_transducer_hyp *out)
{
    double best = -INFINITY;
    size_t at = 0;
    for (size_t i = 0; i < t->kept.n; i++) {
        const struct hyp *h = &t->kept.h[i];
        double score = t->o.score_norm ? h->score / t->tree.p[h->p].length : h->score;
        if (score > best) {
            best = score;
            at = i;
        }
    }
    return steno_transducer_get(t, at, out);
}
