/* Lists of hypotheses; a hypothesis is a sequence (a number in the tree), a score and the chain of
 * frames its tokens came out in. Where ESPnet compares sequences, numbers are compared. Sums are
 * double precision of single-precision log-probabilities, and sorting keeps equals in order, both
 * as in ESPnet, so that near ties fall the same way. */
#include "decoder/transducer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decoder/transducer_tree.h"

#define MAX_POPS 4096 /* of one frame in the default search: with real scores it ends long before  \
                       */

struct hyp {
    double score;
    int32_t p, chain; /* chain -1: no token yet */
    int32_t final_at; /* ALSD: its place in the list of finals, -1 = none */
    uint32_t order;
};

struct list {
    struct hyp *h;
    size_t n, cap;
};

struct best { /* a token and its score */
    double score;
    int32_t token;
};

struct steno_transducer {
    struct steno_transducer_options o;
    struct steno_ttree tree;
    struct list kept, hyps, a, b, c, final;
    size_t frames; /* taken in before */
    bool unended;      /* ALSD: no hypothesis came to its end; they stay as the beam has them */
    struct best *top;  /* [vocab] */
    const float **enc; /* [cap_enc] rows given to join */
    int32_t *ids;
    size_t cap_ids;
    float *hold; /* [vocab]: log-probabilities kept over another join */
    /* results */
    int32_t *tokens;
    struct steno_span *spans;
    size_t cap_tokens;
};

static steno_status oom(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "transducer search: out of memory");
}

steno_status steno_transducer_open(steno_transducer **out,
                                   const struct steno_transducer_options *opt, steno_err *err)
{
    steno_transducer *t;
    if (opt->vocab < 2 || opt->beam < 1 || opt->beam > (size_t)opt->vocab - 1)
        return steno_fail(err, STENO_ERR_INVAL, "beam is %zu, expected 1 to %d", opt->beam,
                          (int)opt->vocab - 1);
    t = calloc(1, sizeof *t);
    if (!t)
        return oom(err);
    t->o = *opt;
    t->top = malloc((size_t)opt->vocab * sizeof *t->top);
    t->hold = malloc((size_t)opt->vocab * sizeof *t->hold);
    if (steno_ttree_init(&t->tree, opt->vocab) || !t->top || !t->hold) {
        steno_transducer_close(t);
        return oom(err);
    }
    *out = t;
    return STENO_OK;
}

void steno_transducer_close(steno_transducer *t)
{
    if (!t)
        return;
    steno_ttree_free(&t->tree);
    free(t->kept.h);
    free(t->hyps.h);
    free(t->a.h);
    free(t->b.h);
    free(t->c.h);
    free(t->final.h);
    free(t->top);
    free(t->hold);
    free(t->enc);
    free(t->ids);
    free(t->tokens);
    free(t->spans);
    free(t);
}

/* ---- lists --------------------------------------------------------------------------------- */

static steno_status add(struct list *l, struct hyp h)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        struct hyp *p = realloc(l->h, cap * sizeof *p);
        if (!p)
            return STENO_ERR_NOMEM;
        l->h = p;
        l->cap = cap;
    }
    l->h[l->n++] = h;
    return STENO_OK;
}

static void swap(struct list *a, struct list *b)
{
    struct list t = *a;
    *a = *b;
    *b = t;
}

static int by_score(const void *a, const void *b)
{
    const struct hyp *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Best first, equals in order; at most `most` stay. */
static void sort(struct list *l, size_t most)
{
    for (size_t i = 0; i < l->n; i++)
        l->h[i].order = (uint32_t)i;
    if (l->n)
        qsort(l->h, l->n, sizeof *l->h, by_score);
    if (l->n > most)
        l->n = most;
}

static double log_add(double a, double b)
{
    double hi = a > b ? a : b, lo = a > b ? b : a;
    return hi + log1p(exp(lo - hi));
}

static steno_status reserve_ids(steno_transducer *t, size_t n)
{
    size_t cap = t->cap_ids ? t->cap_ids : 64;
    if (n <= t->cap_ids)
        return STENO_OK;
    while (cap < n)
        cap *= 2;
    free(t->ids);
    free(t->enc);
    t->ids = malloc(cap * sizeof *t->ids);
    t->enc = malloc(cap * sizeof *t->enc);
    t->cap_ids = t->ids && t->enc ? cap : 0;
    return t->cap_ids ? STENO_OK : STENO_ERR_NOMEM;
}

/* Log-probabilities of what follows each hypothesis of the list at one frame, into tree.logp. */
static steno_status join(steno_transducer *t, const struct list *l, const float *enc, bool lm,
                         steno_err *err)
{
    steno_status st;
    if (reserve_ids(t, l->n + 1))
        return oom(err);
    for (size_t i = 0; i < l->n; i++) {
        t->ids[i] = l->h[i].p;
        t->enc[i] = enc;
    }
    st = lm ? steno_ttree_ask_lm(&t->tree, t->ids, l->n, err) : STENO_OK;
    return st ? st : steno_ttree_join(&t->tree, t->enc, t->ids, l->n, err);
}

/* What the LM adds to token k after sequence p. */
static double lm_score(const steno_transducer *t, int32_t p, int32_t k)
{
    return t->tree.nets->lm ? t->o.lm_weight * (double)t->tree.p[p].lm_row[k] : 0;
}

static int best_first(const void *a, const void *b)
{
    const struct best *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

/* The k best tokens other than the blank, into top, best first. */
static void choose(steno_transducer *t, const float *logp, size_t k)
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

/* h and one token more; *lost: out of memory. */
static struct hyp extended(steno_transducer *t, const struct hyp *h, int32_t token, double score,
                           float logp, size_t frame, bool *lost)
{
    struct hyp x = {.score = score, .final_at = -1};
    x.p = steno_ttree_child(&t->tree, h->p, token);
    x.chain = steno_ttree_link(&t->tree, h->chain, frame, logp);
    *lost = *lost || x.p < 0 || x.chain < 0;
    return x;
}

static struct hyp waiting(const struct hyp *h, double score)
{
    return (struct hyp){.score = score, .p = h->p, .chain = h->chain, .final_at = -1};
}

/* The first of equals. */
static size_t best_of(const struct list *l)
{
    size_t best = 0;
    for (size_t i = 1; i < l->n; i++)
        if (l->h[i].score > l->h[best].score)
            best = i;
    return best;
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
        bool lost = false;
        st = join(t, &t->kept, enc + f * dim, false, err);
        if (st)
            break;
        logp = t->tree.logp;
        for (int32_t v = 1; v < t->o.vocab; v++)
            if (logp[v] > logp[best])
                best = v;
        if (best)
            *h = extended(t, h, best, h->score + (double)logp[best], logp[best], t->frames + f,
                          &lost);
        if (lost)
            st = oom(err);
    }
    return st;
}

/* ---- default: best first within a frame ----------------------------------------------------- */

/* The best hypothesis leaves `hyps`: as it is to `kept`, extended back to `hyps`. */
static steno_status expand_best(steno_transducer *t, const float *enc, size_t f, steno_err *err)
{
    size_t at = best_of(&t->hyps);
    struct hyp h = t->hyps.h[at];
    struct list one = {.h = &h, .n = 1};
    bool lost = false;
    steno_status st;
    memmove(t->hyps.h + at, t->hyps.h + at + 1, (t->hyps.n - at - 1) * sizeof h);
    t->hyps.n--;
    st = join(t, &one, enc, true, err);
    if (st)
        return st;
    lost = add(&t->kept, waiting(&h, h.score + (double)t->tree.logp[0])) != STENO_OK;
    choose(t, t->tree.logp, t->o.beam);
    for (size_t k = 0; k < t->o.beam && !lost; k++) {
        double logp = t->top[k].score;
        double score = h.score + logp + lm_score(t, h.p, t->top[k].token);
        struct hyp x = extended(t, &h, t->top[k].token, score, (float)logp, f, &lost);
        lost = lost || add(&t->hyps, x);
    }
    return lost ? oom(err) : STENO_OK;
}

/* Those of `kept` that no open hypothesis can reach any more, worst first; false: too few yet. */
static bool settled(steno_transducer *t, bool anyway)
{
    double open = t->hyps.h[best_of(&t->hyps)].score;
    size_t n = 0;
    for (size_t i = 0; i < t->kept.n; i++)
        n += t->kept.h[i].score > open;
    if (n < t->o.beam && !anyway)
        return false;
    n = n < t->o.beam ? t->o.beam : n;
    sort(&t->kept, n);
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
        swap(&t->kept, &t->hyps);
        t->kept.n = 0;
        for (size_t pops = 1; !st; pops++) {
            st = expand_best(t, enc + f * dim, t->frames + f, err);
            if (!st && settled(t, pops >= MAX_POPS + t->o.beam))
                break;
        }
    }
    return st;
}

/* ---- time-synchronous ----------------------------------------------------------------------- */

/* c's hypotheses end the frame: those that `a` had before this round (the first n_a) add up. */
static steno_status end_frame(steno_transducer *t, size_t n_a)
{
    size_t v = (size_t)t->o.vocab;
    for (size_t i = 0; i < t->c.n; i++) {
        double score = t->c.h[i].score + (double)t->tree.logp[i * v];
        size_t k = 0;
        while (k < n_a && t->a.h[k].p != t->c.h[i].p)
            k++;
        if (k < n_a)
            t->a.h[k].score = log_add(t->a.h[k].score, score);
        else if (add(&t->a, waiting(&t->c.h[i], score)))
            return STENO_ERR_NOMEM;
    }
    return STENO_OK;
}

/* Every hypothesis of `from` with each of its best tokens, into `to`. */
static steno_status expand_all(steno_transducer *t, const struct list *from, size_t frame,
                               struct list *to)
{
    bool lost = false;
    for (size_t i = 0; i < from->n && !lost; i++) {
        const struct hyp *h = &from->h[i];
        choose(t, t->tree.logp + i * (size_t)t->o.vocab, t->o.beam);
        for (size_t k = 0; k < t->o.beam && !lost; k++) {
            double logp = t->top[k].score;
            struct hyp x = extended(t, h, t->top[k].token,
                                    h->score + logp + lm_score(t, h->p, t->top[k].token),
                                    (float)logp, frame, &lost);
            lost = lost || add(to, x);
        }
    }
    return lost ? STENO_ERR_NOMEM : STENO_OK;
}

static steno_status tsd(steno_transducer *t, const float *enc, size_t frames, size_t dim,
                        steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t f = 0; f < frames && !st; f++) {
        swap(&t->kept, &t->c);
        t->a.n = 0;
        for (size_t v = 0; v < t->o.max_sym_exp && t->c.n && !st; v++) {
            st = join(t, &t->c, enc + f * dim, true, err);
            if (st)
                return st;
            t->b.n = 0;
            st = end_frame(t, t->a.n);
            if (!st && v + 1 < t->o.max_sym_exp)
                st = expand_all(t, &t->c, t->frames + f, &t->b);
            if (st)
                return oom(err);
            sort(&t->b, t->o.beam);
            swap(&t->b, &t->c);
        }
        sort(&t->a, t->o.beam);
        swap(&t->a, &t->kept);
    }
    return st;
}

/* ---- alignment-length-synchronous ----------------------------------------------------------- */

/* Hypotheses of the same tokens become one, the first; a final that is one of them goes along. */
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
        l->h[k].score = log_add(l->h[k].score, l->h[i].score);
        if (l->h[k].final_at >= 0)
            t->final.h[l->h[k].final_at].score = l->h[k].score;
    }
    l->n = n;
}

/* Step i: hypotheses of u tokens are at frame i - u. Those that have frames left go to c. */
static steno_status at_step(steno_transducer *t, size_t i, const float *enc, size_t frames,
                            size_t dim, steno_err *err)
{
    t->c.n = 0;
    if (reserve_ids(t, t->kept.n + 1))
        return oom(err);
    for (size_t k = 0; k < t->kept.n; k++) {
        size_t u = t->tree.p[t->kept.h[k].p].length - 1;
        if (i - u > frames - 1)
            continue;
        t->ids[t->c.n] = t->kept.h[k].p;
        t->enc[t->c.n] = enc + (i - u) * dim;
        if (add(&t->c, t->kept.h[k]))
            return oom(err);
    }
    return STENO_OK;
}

static steno_status alsd_step(steno_transducer *t, size_t i, size_t frames)
{
    size_t v = (size_t)t->o.vocab;
    bool lost = false;
    t->a.n = 0;
    for (size_t k = 0; k < t->c.n && !lost; k++) {
        struct hyp h = t->c.h[k], x = waiting(&h, h.score + (double)t->tree.logp[k * v]);
        struct list one = {.h = &h, .n = 1};
        size_t frame = i - (t->tree.p[h.p].length - 1);
        if (frame == frames - 1) {
            x.final_at = (int32_t)t->final.n;
            lost = add(&t->final, x) != STENO_OK;
        }
        lost = lost || add(&t->a, x);
        if (k) /* expand_all reads the scores of the first */
            memcpy(t->tree.logp, t->tree.logp + k * v, v * sizeof *t->tree.logp);
        lost = lost || expand_all(t, &one, frame, &t->a);
    }
    return lost ? STENO_ERR_NOMEM : STENO_OK;
}

static steno_status alsd(steno_transducer *t, const float *enc, size_t frames, size_t dim,
                         steno_err *err)
{
    size_t u_max = t->o.u_max < frames - 1 ? t->o.u_max : frames - 1;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < frames + u_max && !st; i++) {
        st = at_step(t, i, enc, frames, dim, err);
        if (st || !t->c.n)
            continue;
        st = steno_ttree_ask_lm(&t->tree, t->ids, t->c.n, err);
        if (!st)
            st = steno_ttree_join(&t->tree, t->enc, t->ids, t->c.n, err);
        if (!st && alsd_step(t, i, frames))
            st = oom(err);
        if (st)
            return st;
        swap(&t->a, &t->kept);
        sort(&t->kept, t->o.beam);
        recombine(t, &t->kept);
    }
    t->unended = !t->final.n;
    if (t->final.n)
        swap(&t->final, &t->kept);
    return st;
}

/* ---- n-step constrained, modified adaptive expansion ----------------------------------------- */

/* Longest first, equals in order. */
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

/* Token number `at` of sequence p, the root's being 0. */
static int32_t token_at(const steno_transducer *t, int32_t p, uint32_t at)
{
    return t->tree.p[steno_ttree_head(&t->tree, p, at + 1)].token;
}

/* Score of the shorter hypothesis saying the rest of the longer one in this frame. */
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
        if (k > from && !t->o.as_espnet_onnx)
            at.p = steno_ttree_head(&t->tree, longer->p, k);
        st = join(t, &one, enc, false, err);
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
                steno_ttree_head(&t->tree, l->h[j].p, b) != l->h[i].p)
                continue;
            st = catch_up(t, &l->h[i], &l->h[j], enc, &score, err);
            if (st)
                return st;
            l->h[j].score = log_add(l->h[j].score, score);
        }
    return STENO_OK;
}

static bool has(const struct list *l, size_t n, int32_t p)
{
    for (size_t i = 0; i < n; i++)
        if (l->h[i].p == p)
            return true;
    return false;
}

/* The first blank after the last step of a frame. */
static steno_status add_blank(steno_transducer *t, struct list *l, const float *enc, steno_err *err)
{
    steno_status st = l->n ? join(t, l, enc, false, err) : STENO_OK;
    for (size_t i = 0; i < l->n && !st; i++)
        l->h[i].score += (double)t->tree.logp[i * (size_t)t->o.vocab];
    return st;
}

static steno_status append(struct list *to, const struct list *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (add(to, from->h[i]))
            return STENO_ERR_NOMEM;
    return STENO_OK;
}

/* One frame of NSC: hyps in, kept out; a: blanks (ESPnet's S), b: extended ones (V). */
static steno_status nsc_frame(steno_transducer *t, size_t f, const float *enc, steno_err *err)
{
    size_t v = (size_t)t->o.vocab;
    t->a.n = t->b.n = 0;
    for (size_t n = 0; n < t->o.n_step; n++) {
        size_t keep = 0;
        steno_status st = join(t, &t->hyps, enc, true, err);
        if (st)
            return st;
        for (size_t i = 0; i < t->hyps.n; i++)
            if (add(&t->a,
                    waiting(&t->hyps.h[i], t->hyps.h[i].score + (double)t->tree.logp[i * v])))
                return oom(err);
        if (expand_all(t, &t->hyps, f, &t->b))
            return oom(err);
        sort(&t->b, SIZE_MAX);
        for (size_t i = 0; i < t->b.n; i++)
            if (!has(&t->hyps, t->hyps.n, t->b.h[i].p))
                t->b.h[keep++] = t->b.h[i];
        t->b.n = keep < t->o.beam ? keep : t->o.beam;
        t->hyps.n = 0;
        if (append(&t->hyps, &t->b))
            return oom(err);
    }
    if (t->o.n_step != 1) {
        steno_status st = add_blank(t, &t->b, enc, err);
        if (st)
            return st;
    }
    t->kept.n = 0;
    if (append(&t->kept, &t->a) || append(&t->kept, &t->b))
        return oom(err);
    sort(&t->kept, t->o.beam);
    return STENO_OK;
}

/* Tokens of hypothesis i, the blank among them, whose score is within gamma of its best. */
static size_t choose_near(steno_transducer *t, size_t i)
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

/* One step: blanks to a, the rest to b. c: the hypotheses this frame began with. */
static steno_status maes_expand(steno_transducer *t, size_t f)
{
    bool lost = false;
    for (size_t i = 0; i < t->hyps.n && !lost; i++) {
        const struct hyp *h = &t->hyps.h[i];
        size_t n = choose_near(t, i);
        for (size_t k = 0; k < n && !lost; k++) {
            int32_t token = t->top[k].token;
            double score = t->top[k].score;
            struct hyp x;
            if (!token) {
                lost = add(&t->a, waiting(h, score)) != STENO_OK;
                continue;
            }
            x = extended(t, h, token, score + lm_score(t, h->p, token), (float)(score - h->score),
                         f, &lost);
            if (t->o.as_espnet_onnx || !has(&t->c, t->c.n, x.p))
                lost = lost || add(&t->b, x);
        }
    }
    return lost ? STENO_ERR_NOMEM : STENO_OK;
}

static steno_status maes_frame(steno_transducer *t, size_t f, const float *enc, steno_err *err)
{
    steno_status st = STENO_OK;
    t->a.n = t->c.n = 0;
    if (append(&t->c, &t->hyps))
        return oom(err);
    for (size_t n = 0; n < t->o.n_step && !st; n++) {
        t->b.n = 0;
        st = join(t, &t->hyps, enc, true, err);
        if (!st && maes_expand(t, f))
            st = oom(err);
        if (st || !t->b.n)
            break;
        if (n + 1 < t->o.n_step) {
            swap(&t->b, &t->hyps);
            continue;
        }
        st = add_blank(t, &t->b, enc, err);
        if (!st && append(&t->a, &t->b))
            st = oom(err);
    }
    if (st)
        return st;
    swap(&t->a, &t->kept);
    sort(&t->kept, t->o.beam);
    return STENO_OK;
}

static steno_status by_steps(steno_transducer *t, const float *enc, size_t frames, size_t dim,
                             steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t f = 0; f < frames && !st; f++) {
        const float *row = enc + f * dim;
        swap(&t->kept, &t->hyps);
        st = prefix_search(t, &t->hyps, row, err);
        if (!st)
            st = t->o.search == STENO_TRANSDUCER_NSC ? nsc_frame(t, t->frames + f, row, err)
                                                     : maes_frame(t, t->frames + f, row, err);
    }
    return st;
}

/* ---- one utterance ------------------------------------------------------------------------- */

static steno_status search(steno_transducer *t, const float *enc, size_t frames, size_t dim,
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
        return alsd(t, enc, frames, dim, err);
    case STENO_TRANSDUCER_NSC:
    case STENO_TRANSDUCER_MAES:
        return by_steps(t, enc, frames, dim, err);
    }
    return steno_fail(err, STENO_ERR_INVAL, "transducer search %d", (int)t->o.search);
}

/* ESPnet's last sort: by score for each token, the root's blank among them. */
static void sort_results(steno_transducer *t)
{
    for (size_t i = 0; i < t->kept.n && t->o.score_norm; i++)
        t->kept.h[i].score /= t->tree.p[t->kept.h[i].p].length;
    sort(&t->kept, SIZE_MAX);
    for (size_t i = 0; i < t->kept.n && t->o.score_norm; i++)
        t->kept.h[i].score *= t->tree.p[t->kept.h[i].p].length;
}

steno_status steno_transducer_start(steno_transducer *t, steno_err *err)
{
    bool sos = t->o.search == STENO_TRANSDUCER_DEFAULT && !t->o.as_espnet_onnx;
    steno_status st = steno_ttree_start(&t->tree, NULL, sos ? t->o.sos : 0);
    t->kept.n = t->hyps.n = t->a.n = t->b.n = t->c.n = t->final.n = 0;
    t->frames = 0;
    t->unended = false;
    if (!st)
        st = add(&t->kept, (struct hyp){.p = 0, .chain = -1, .final_at = -1});
    return st ? oom(err) : STENO_OK;
}

bool steno_transducer_by_frames(const struct steno_transducer_options *opt)
{
    return opt->beam == 1 || opt->search != STENO_TRANSDUCER_ALSD;
}

steno_status steno_transducer_push(steno_transducer *t, const struct steno_transducer_nets *nets,
                                   const float *enc, size_t frames, size_t dim, steno_err *err)
{
    steno_status st = STENO_OK;
    if (t->frames && !steno_transducer_by_frames(&t->o))
        return steno_fail(err, STENO_ERR_INVAL, "transducer search alsd: needs all rows at once");
    t->tree.nets = nets;
    if (frames)
        st = search(t, enc, frames, dim, err);
    t->tree.nets = NULL; /* lent for the call */
    t->frames += frames;
    if (st)
        t->kept.n = 0;
    return st;
}

void steno_transducer_finish(steno_transducer *t)
{
    if (!t->unended)
        sort_results(t);
}

steno_status steno_transducer_run(steno_transducer *t, const struct steno_transducer_nets *nets,
                                  const float *enc, size_t frames, size_t dim, steno_err *err)
{
    steno_status st = steno_transducer_start(t, err);
    if (!st)
        st = steno_transducer_push(t, nets, enc, frames, dim, err);
    if (!st)
        steno_transducer_finish(t);
    return st;
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
    if (n > t->cap_tokens) {
        free(t->tokens);
        free(t->spans);
        t->tokens = malloc(2 * n * sizeof *t->tokens);
        t->spans = malloc(2 * n * sizeof *t->spans);
        t->cap_tokens = t->tokens && t->spans ? 2 * n : 0;
        if (!t->cap_tokens)
            return STENO_ERR_NOMEM;
    }
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
