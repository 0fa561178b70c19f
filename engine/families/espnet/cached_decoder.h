/* Scorers of the joint search one token at a time: keys and values of earlier tokens are kept
 * (nn/passes/part.h), those of the utterance's rows are made once. Confined. */
#ifndef STENO_FAMILIES_ESPNET_CACHED_DECODER_H
#define STENO_FAMILIES_ESPNET_CACHED_DECODER_H

#include "search/aed_beam.h"
#include "nn/network/network.h"

typedef struct steno_cached_decoder steno_cached_decoder;
/* What one search keeps from step to step: keys and values. */
typedef struct steno_cached_decoder_state steno_cached_decoder_state;

struct steno_cached_decoder_options {
    int threads;
    int32_t vocab;
    /* LM: show the first step's zero row to all layers but the first, as espnet_onnx 0.2.1 does. */
    bool first_row;
};

/* step: STENO_PART_STEP of the file; once: STENO_PART_ONCE, for decoders and for first_row, else
 * NULL. name: for messages. */
STENO_MUST steno_status steno_cached_decoder_open(steno_cached_decoder **out, steno_network *step,
                                                  steno_network *once,
                                                  const struct steno_cached_decoder_options *opt,
                                                  const char *name, steno_err *err);
void steno_cached_decoder_close(steno_cached_decoder *s);
/* Searches block by block have states of their own. A state belongs to steps of one network; new:
 * NULL when out of memory. own: the one that s came with, which cannot be rewound. */
steno_cached_decoder_state *steno_cached_decoder_state_new(const steno_cached_decoder *s);
void steno_cached_decoder_state_free(steno_cached_decoder_state *k);
size_t steno_cached_decoder_state_bytes(const steno_cached_decoder_state *k);
steno_cached_decoder_state *steno_cached_decoder_own_state(const steno_cached_decoder *s);
/* Before an utterance. rows [n, dim] of the encoder (decoders), read during the call; beam:
 * hypotheses at most. */
STENO_MUST steno_status steno_cached_decoder_start(steno_cached_decoder *s,
                                                   steno_cached_decoder_state *k, const float *rows,
                                                   size_t n, int64_t dim, size_t beam,
                                                   steno_err *err);
/* n more rows of the utterance. */
STENO_MUST steno_status steno_cached_decoder_extend(steno_cached_decoder *s,
                                                    steno_cached_decoder_state *k,
                                                    const float *rows, size_t n, int64_t dim,
                                                    steno_err *err);
/* All rows of a whole utterance are there: activations of start and extend are given back. */
void steno_cached_decoder_trim(steno_cached_decoder *s);

/* What struct steno_joint_scorer's functions take for self. */
struct steno_cached_decoder_search {
    steno_cached_decoder *step;
    steno_cached_decoder_state *state;
};
/* Searches of one step: hypotheses of several go through the network in one run. At least one. */
void steno_cached_decoder_score_each(struct steno_score_request *requests, size_t n);
void steno_cached_decoder_rewind(void *self, int calls);
size_t steno_cached_decoder_bytes(const steno_cached_decoder *s);

#endif
