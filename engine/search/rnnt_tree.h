/* For transducer.c: token sequences as a tree, so that a sequence is a number. What the networks
 * say of a sequence is computed when it is first asked for, and kept until a collection finds that
 * nobody has asked for it lately; sequences that no hypothesis stands on go with it. So memory is
 * that of a few frames' hypotheses, whatever the length of the utterance, and of the tokens said.
 */
#ifndef STENO_SEARCH_RNNT_TREE_H
#define STENO_SEARCH_RNNT_TREE_H

#include "search/rnnt.h"

enum { STENO_TRANSDUCER_TREE_PREDICTION, STENO_TRANSDUCER_TREE_LM };

struct steno_transducer_prefix {
    int32_t parent, token, child, sibling; /* -1: none */
    uint32_t length;                       /* the root, one blank, counts 1 */
    uint32_t seen;                         /* the frame in which it was last asked for */
    int32_t moved;                         /* collection: its number afterwards; -1: it goes */
    float *row[2];                         /* of either network: row, then state; NULL: none */
};

/* How a hypothesis came to its tokens: one link each. */
struct steno_transducer_link {
    int32_t before; /* -1: the first */
    int32_t frame;
    float logp;
    int32_t moved;
};

/* Blocks of a row and a state, of one network. */
struct steno_transducer_pool {
    size_t floats; /* of a block */
    void *free;    /* list: a block begins with the next one's place */
    size_t n_free;
    int32_t *owner; /* [n_used] sequences that have one */
    size_t n_used, cap;
};

struct steno_transducer_tree {
    const struct steno_transducer_nets *nets;
    int32_t vocab, first; /* first: what the LM reads at the root */
    struct steno_transducer_pool pool[2];
    size_t row_bytes; /* of the pools, above which there is a collection */
    uint32_t frame;
    struct steno_transducer_prefix *p;
    int32_t n, cap, full; /* full: sequences at which there is a collection */
    struct steno_transducer_link *links;
    int32_t n_links, cap_links, full_links;
    float *logp; /* [cap_batch, vocab] */
    size_t cap_batch;
    const float **in, **enc;
    float **next, **row;
    int32_t *tokens, *todo;
};

/* row_bytes: of rows and states that are kept without need. */
void steno_transducer_tree_init(struct steno_transducer_tree *t, int32_t vocab, size_t row_bytes);
void steno_transducer_tree_free(struct steno_transducer_tree *t);
/* A new utterance: the root alone, number 0. */
STENO_MUST steno_status steno_transducer_tree_start(struct steno_transducer_tree *t,
                                                    const struct steno_transducer_nets *nets,
                                                    int32_t first);
/* Sequence p and one token more; links are made the same way. -1: out of memory. */
int32_t steno_transducer_tree_child(struct steno_transducer_tree *t, int32_t p, int32_t token);
int32_t steno_transducer_tree_link(struct steno_transducer_tree *t, int32_t before, size_t frame,
                                   float logp);
/* The part of p that has `length` tokens. */
int32_t steno_transducer_tree_head(const struct steno_transducer_tree *t, int32_t p,
                                   uint32_t length);
/* After every frame, what no hypothesis needs any more goes. Rows, where they take more than
 * row_bytes: need for every hypothesis that goes on (what the networks said of it will be asked
 * for), then sweep. */
bool steno_transducer_tree_rows_due(struct steno_transducer_tree *t);
void steno_transducer_tree_mark_rows(struct steno_transducer_tree *t, int32_t p);
void steno_transducer_tree_sweep(struct steno_transducer_tree *t);
/* Sequences and links, where they have become half as many again as were needed: keep for every
 * hypothesis, number, place for every hypothesis, which gives it its new numbers, and compact. */
bool steno_transducer_tree_due(struct steno_transducer_tree *t);
void steno_transducer_tree_mark(struct steno_transducer_tree *t, int32_t p, int32_t link);
void steno_transducer_tree_number(struct steno_transducer_tree *t);
void steno_transducer_tree_place(const struct steno_transducer_tree *t, int32_t *p, int32_t *link);
void steno_transducer_tree_compact(struct steno_transducer_tree *t);
size_t steno_transducer_tree_bytes(const struct steno_transducer_tree *t);
/* Compute what is missing: prediction rows of n sequences; LM rows. */
STENO_MUST steno_status steno_transducer_tree_predict(struct steno_transducer_tree *t,
                                                      const int32_t *p, size_t n, steno_err *err);
STENO_MUST steno_status steno_transducer_tree_score_lm(struct steno_transducer_tree *t,
                                                       const int32_t *p, size_t n, steno_err *err);
/* t->logp [n, vocab]: log-probabilities of what follows sequence p[i] at encoder row enc[i];
 * predicts first. STENO_ERR_FORMAT: not a number. */
STENO_MUST steno_status steno_transducer_tree_join(struct steno_transducer_tree *t,
                                                   const float *const *enc, const int32_t *p,
                                                   size_t n, steno_err *err);

#endif
