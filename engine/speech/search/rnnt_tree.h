/* For rnnt*.c: token sequences as a tree, so that a sequence is a number. The networks' output for
 * a sequence is computed when it is first needed. It is kept until a collection finds that it has
 * not been used recently; sequences that no hypothesis needs are freed with it. So the memory is
 * that of the hypotheses of a few frames, whatever the length of the utterance, and of the emitted
 * tokens. */
#ifndef STENO_SEARCH_RNNT_TREE_H
#define STENO_SEARCH_RNNT_TREE_H

#include "base/array.h"
#include "speech/search/rnnt.h"

enum { STENO_TRANSDUCER_TREE_PREDICTION, STENO_TRANSDUCER_TREE_LM };

struct steno_transducer_prefix {
    int32_t parent, token, child, sibling; /* -1: none */
    uint32_t length;                       /* 1 for the root, which is one blank */
    uint32_t seen;                         /* the frame in which it was last used */
    int32_t moved;                         /* collection: its number afterwards; -1: it is freed */
    float *row[2];                         /* of each network: row, then state; NULL: none */
};

/* The tokens of a hypothesis and their frames: one link per token. */
struct steno_transducer_link {
    int32_t before; /* -1: this is the first */
    int32_t frame;
    float logp;
    int32_t moved;
};

/* Blocks of a row and a state of one network. */
struct steno_transducer_pool {
    size_t floats; /* of a block */
    void *free;    /* list: a block begins with the address of the next one */
    size_t n_free;
    int32_t *owner; /* [n_used] the sequences that use the blocks */
    size_t n_used, cap;
};

struct steno_transducer_tree {
    const struct steno_transducer_nets *nets;
    int32_t vocab, first; /* first: the token that the LM reads at the root */
    struct steno_transducer_pool pool[2];
    size_t row_bytes; /* of the pools; above this there is a collection */
    uint32_t frame;
    struct steno_transducer_prefix *p;
    int32_t n, full; /* full: number of sequences at which there is a collection */
    struct steno_transducer_link *links;
    int32_t n_links, full_links;
    size_t cap, cap_links;
    struct steno_blocks batch; /* what follows */
    float *logp;               /* [cap_batch, vocab] */
    size_t cap_batch;
    const float **in, **enc;
    float **next, **row;
    int32_t *tokens, *todo;
};

/* row_bytes: maximum of bytes of rows and states that are kept without need. */
void steno_transducer_tree_init(struct steno_transducer_tree *t, int32_t vocab, size_t row_bytes);
void steno_transducer_tree_free(struct steno_transducer_tree *t);
/* Start an utterance: the root alone, number 0. */
STENO_MUST steno_status steno_transducer_tree_start(struct steno_transducer_tree *t,
                                                    const struct steno_transducer_nets *nets,
                                                    int32_t first);
/* Sequence p with one token more; links are made in the same way. -1: out of memory. */
int32_t steno_transducer_tree_child(struct steno_transducer_tree *t, int32_t p, int32_t token);
int32_t steno_transducer_tree_link(struct steno_transducer_tree *t, int32_t before, size_t frame,
                                   float logp);
/* The prefix of p that has `length` tokens. */
int32_t steno_transducer_tree_head(const struct steno_transducer_tree *t, int32_t p,
                                   uint32_t length);
/* After every frame, free what no hypothesis needs any more. For rows, when they take more than
 * row_bytes: call mark_rows for every hypothesis that continues (its rows will be used), then
 * sweep. */
bool steno_transducer_tree_rows_due(struct steno_transducer_tree *t);
void steno_transducer_tree_mark_rows(struct steno_transducer_tree *t, int32_t p);
void steno_transducer_tree_sweep(struct steno_transducer_tree *t);
/* For sequences and links, when they are half as many again as were needed: call mark for every
 * hypothesis, then number, then place for every hypothesis, which gives it its new numbers, then
 * compact. */
bool steno_transducer_tree_due(struct steno_transducer_tree *t);
void steno_transducer_tree_mark(struct steno_transducer_tree *t, int32_t p, int32_t link);
void steno_transducer_tree_number(struct steno_transducer_tree *t);
void steno_transducer_tree_place(const struct steno_transducer_tree *t, int32_t *p, int32_t *link);
void steno_transducer_tree_compact(struct steno_transducer_tree *t);
/* Compute missing outputs: prediction rows of n sequences; LM rows. */
STENO_MUST steno_status steno_transducer_tree_predict(struct steno_transducer_tree *t,
                                                      const int32_t *p, size_t n, steno_err *err);
STENO_MUST steno_status steno_transducer_tree_score_lm(struct steno_transducer_tree *t,
                                                       const int32_t *p, size_t n, steno_err *err);
/* t->logp [n, vocab]: log-probabilities of what follows sequence p[i] at encoder frame enc[i].
 * Predicts first. STENO_ERR_FORMAT: not a number. */
STENO_MUST steno_status steno_transducer_tree_join(struct steno_transducer_tree *t,
                                                   const float *const *enc, const int32_t *p,
                                                   size_t n, steno_err *err);

#endif
