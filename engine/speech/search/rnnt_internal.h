/* For rnnt*.c: lists of hypotheses, and the operations that all searches share. A hypothesis has a
 * sequence (a number in the tree), a score, and the chain of frames in which its tokens were
 * emitted. Where ESPnet compares sequences, this code compares numbers. Sums are in double
 * precision, of single-precision log-probabilities, and sorting keeps the order of equals, both as
 * in ESPnet, so that near ties have the same outcome. */
#ifndef STENO_SEARCH_RNNT_INTERNAL_H
#define STENO_SEARCH_RNNT_INTERNAL_H

#include <math.h>

#include "base/array.h"

#include "speech/search/rnnt.h"
#include "speech/search/rnnt_tree.h"

struct hyp {
    double score;
    int32_t p, chain; /* chain -1: no token yet */
    int32_t final_at; /* ALSD: its index in the list of finals, -1 = none */
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
    struct steno_transducer_tree tree;
    struct list kept, hyps, a, b, c, final;
    size_t frames;     /* frames processed before */
    struct best *top;  /* [vocab] */
    const float **enc; /* [cap_enc] encoder frames for join */
    int32_t *ids;      /* [cap_ids] the hypotheses' sequences */
    size_t cap_enc, cap_ids;
    /* ALSD: steps so far; the frames from first_row on, which some hypothesis has not passed */
    size_t step, first_row, n_rows, cap_rows, dim;
    float *rows;
    bool unended; /* no hypothesis ended; those of the beam are the results */
    /* results */
    int32_t *tokens;
    struct steno_span *spans;
    size_t cap_tokens, cap_spans;
};

/* Search frames [frames, dim], which follow t->frames others. The hypotheses that continue are in
 * kept. */
STENO_MUST steno_status steno_transducer_by_steps(steno_transducer *t, const float *enc,
                                                  size_t frames, size_t dim, steno_err *err);
STENO_MUST steno_status steno_transducer_alsd(steno_transducer *t, const float *enc, size_t frames,
                                              size_t dim, steno_err *err);
/* ALSD: there are no more frames. */
STENO_MUST steno_status steno_transducer_alsd_end(steno_transducer *t, steno_err *err);

STENO_MUST steno_status steno_transducer_hyp_add(struct list *l, struct hyp h);
/* Sort best first, with the order of equals kept; at most `most` remain. */
void steno_transducer_hyp_sort(struct list *l, size_t most);
/* Log-probabilities of what follows each hypothesis of the list at one frame, into tree.logp. */
STENO_MUST steno_status steno_transducer_hyp_join(steno_transducer *t, const struct list *l,
                                                  const float *enc, bool lm, steno_err *err);
/* Reserve ids and enc for n hypotheses. */
STENO_MUST steno_status steno_transducer_hyp_reserve(steno_transducer *t, size_t n);
/* The LM's contribution to the score of token k after sequence p. */
double steno_transducer_hyp_lm(const steno_transducer *t, int32_t p, int32_t k);
/* h with one token more; *no_memory: out of memory. */
struct hyp steno_transducer_hyp_extend(steno_transducer *t, const struct hyp *h, int32_t token,
                                       double score, float logp, size_t frame, bool *no_memory);
/* Extend every hypothesis of `from` by each of its best tokens by logp [from->n, vocab], into
 * `to`. */
STENO_MUST steno_status steno_transducer_hyp_extend_all(steno_transducer *t,
                                                        const struct list *from, const float *logp,
                                                        size_t frame, struct list *to);
/* After a frame: free what no hypothesis of kept and final needs any more. */
void steno_transducer_hyp_tidy(steno_transducer *t);

static inline void steno_transducer_hyp_swap(struct list *a, struct list *b)
{
    struct list t = *a;
    *a = *b;
    *b = t;
}

static inline double steno_log_add(double a, double b)
{
    double hi = a > b ? a : b, lo = a > b ? b : a;
    return hi + log1p(exp(lo - hi));
}

static inline struct hyp steno_transducer_hyp_wait(const struct hyp *h, double score)
{
    return (struct hyp){.score = score, .p = h->p, .chain = h->chain, .final_at = -1};
}

static inline steno_status steno_transducer_hyp_oom(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "transducer search: out of memory");
}

#endif
