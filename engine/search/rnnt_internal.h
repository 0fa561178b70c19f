/* For transducer*.c: lists of hypotheses, and what all searches do with them. A hypothesis is a
 * sequence (a number in the tree), a score and the chain of frames its tokens came out in. Where
 * ESPnet compares sequences, numbers are compared. Sums are double precision of single-precision
 * log-probabilities, and sorting keeps equals in order, both as in ESPnet, so that near ties fall
 * the same way. */
#ifndef STENO_SEARCH_RNNT_INTERNAL_H
#define STENO_SEARCH_RNNT_INTERNAL_H

#include <math.h>

#include "search/rnnt.h"
#include "search/rnnt_tree.h"

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
    struct steno_transducer_tree tree;
    struct list kept, hyps, a, b, c, final;
    size_t frames;     /* taken in before */
    struct best *top;  /* [vocab] */
    const float **enc; /* [cap_enc] rows given to join */
    int32_t *ids;
    size_t cap_ids;
    /* ALSD: steps done; rows from number first_row on, which hypotheses have yet to go through */
    size_t step, first_row, n_rows, cap_rows, dim;
    float *rows;
    bool unended; /* no hypothesis came to its end; they stay as the beam has them */
    /* results */
    int32_t *tokens;
    struct steno_span *spans;
    size_t cap_tokens;
};

/* A search takes rows [frames, dim] that come behind t->frames others; what goes on is in kept. */
STENO_MUST steno_status steno_transducer_by_steps(steno_transducer *t, const float *enc,
                                                  size_t frames, size_t dim, steno_err *err);
STENO_MUST steno_status steno_transducer_alsd(steno_transducer *t, const float *enc, size_t frames,
                                              size_t dim, steno_err *err);
/* ALSD: there are no more rows. */
STENO_MUST steno_status steno_transducer_alsd_end(steno_transducer *t, steno_err *err);

STENO_MUST steno_status steno_transducer_hyp_add(struct list *l, struct hyp h);
/* Best first, equals in order; at most `most` stay. */
void steno_transducer_hyp_sort(struct list *l, size_t most);
/* Log-probabilities of what follows each hypothesis of the list at one frame, into tree.logp. */
STENO_MUST steno_status steno_transducer_hyp_join(steno_transducer *t, const struct list *l,
                                                  const float *enc, bool lm, steno_err *err);
/* ids and enc for n hypotheses. */
STENO_MUST steno_status steno_transducer_hyp_reserve(steno_transducer *t, size_t n);
/* What the LM adds to token k after sequence p. */
double steno_transducer_hyp_lm(const steno_transducer *t, int32_t p, int32_t k);
/* h and one token more; *lost: out of memory. */
struct hyp steno_transducer_hyp_extend(steno_transducer *t, const struct hyp *h, int32_t token,
                                       double score, float logp, size_t frame, bool *lost);
/* Every hypothesis of `from` with each of its best tokens by logp [from->n, vocab], into `to`. */
STENO_MUST steno_status steno_transducer_hyp_extend_all(steno_transducer *t,
                                                        const struct list *from, const float *logp,
                                                        size_t frame, struct list *to);
/* After a frame: what no hypothesis of kept and final needs any more goes. */
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
