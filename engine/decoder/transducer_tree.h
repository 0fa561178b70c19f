/* For transducer.c: token sequences as a tree, so that a sequence is a number. What the networks
 * say of a sequence is computed once, when it is first asked for, and kept until the utterance
 * ends. */
#ifndef STENO_DECODER_TRANSDUCER_TREE_H
#define STENO_DECODER_TRANSDUCER_TREE_H

#include "base/arena.h"
#include "decoder/transducer.h"

struct steno_tprefix {
    int32_t parent, token, child, sibling; /* -1: none */
    uint32_t length;                       /* the root, one blank, counts 1 */
    float *row, *state;                    /* of the prediction network; NULL: not computed yet */
    float *lm_row, *lm_state;
};

/* How a hypothesis came to its tokens: one link each. */
struct steno_tlink {
    int32_t before; /* -1: the first */
    int32_t frame;
    float logp;
};

struct steno_ttree {
    const struct steno_transducer_nets *nets;
    int32_t vocab, first; /* first: what the LM reads at the root */
    steno_arena *mem;     /* of rows and states */
    struct steno_tprefix *p;
    int32_t n, cap;
    struct steno_tlink *links;
    int32_t n_links, cap_links;
    float *logp; /* [cap_batch, vocab] */
    size_t cap_batch;
    const float **in, **enc;
    float **next, **row;
    int32_t *tokens, *todo;
};

STENO_MUST steno_status steno_ttree_init(struct steno_ttree *t, int32_t vocab);
void steno_ttree_free(struct steno_ttree *t);
/* A new utterance: the root alone, number 0. */
STENO_MUST steno_status steno_ttree_start(struct steno_ttree *t,
                                          const struct steno_transducer_nets *nets, int32_t first);
/* Sequence p and one token more; links are made the same way. -1: out of memory. */
int32_t steno_ttree_child(struct steno_ttree *t, int32_t p, int32_t token);
int32_t steno_ttree_link(struct steno_ttree *t, int32_t before, size_t frame, float logp);
/* The part of p that has `length` tokens. */
int32_t steno_ttree_head(const struct steno_ttree *t, int32_t p, uint32_t length);
/* Compute what is missing: prediction rows of n sequences; LM rows. */
STENO_MUST steno_status steno_ttree_predict(struct steno_ttree *t, const int32_t *p, size_t n,
                                            steno_err *err);
STENO_MUST steno_status steno_ttree_ask_lm(struct steno_ttree *t, const int32_t *p, size_t n,
                                           steno_err *err);
/* t->logp [n, vocab]: log-probabilities of what follows sequence p[i] at encoder row enc[i];
 * predicts first. STENO_ERR_FORMAT: not a number. */
STENO_MUST steno_status steno_ttree_join(struct steno_ttree *t, const float *const *enc,
                                         const int32_t *p, size_t n, steno_err *err);

#endif
