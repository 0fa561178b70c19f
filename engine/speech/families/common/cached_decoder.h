/* An attention decoder or language model with a key/value cache: each step computes the newest
 * token of every hypothesis and reads keys and values of earlier tokens from the cache. Keys and
 * values of the encoder's frames are computed once. The two networks come from one file
 * (nn/passes/part.h). Confined. */
#ifndef STENO_FAMILIES_COMMON_CACHED_DECODER_H
#define STENO_FAMILIES_COMMON_CACHED_DECODER_H

#include "speech/search/aed_beam.h"
#include "nn/network/network.h"

typedef struct steno_cached_decoder steno_cached_decoder;
/* The key/value cache of one search. */
typedef struct steno_cached_decoder_state steno_cached_decoder_state;

struct steno_cached_decoder_options {
    int threads;
    int32_t vocab;
    /* The first step of each layer but the first also attends to the keys and values of a zero row.
     * Runtimes that pass a cache of one zero row at the first token do that. */
    bool zero_row;
};

/* step: STENO_PART_STEP of the file. once: STENO_PART_ONCE, for a decoder with an encoder and for
 * zero_row; else NULL. Both are borrowed. name: for messages, borrowed.
 * STENO_ERR_INTERNAL: the parts do not fit; STENO_ERR_FORMAT; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_cached_decoder_open(steno_cached_decoder **out, steno_network *step,
                                                  steno_network *once,
                                                  const struct steno_cached_decoder_options *opt,
                                                  const char *name, steno_err *err);
void steno_cached_decoder_close(steno_cached_decoder *s);
/* A state of a search that goes block by block. It works with every decoder that was opened on the
 * same networks. NULL: out of memory. */
steno_cached_decoder_state *steno_cached_decoder_state_new(const steno_cached_decoder *s);
void steno_cached_decoder_state_free(steno_cached_decoder_state *k);
size_t steno_cached_decoder_state_bytes(const steno_cached_decoder_state *k);
/* The state that the decoder opened with; it cannot be rewound. */
steno_cached_decoder_state *steno_cached_decoder_own_state(const steno_cached_decoder *s);
/* Begin an utterance with n encoder frames: frames [n, dim], read during the call; n = 0 for a
 * language model. beam: maximum number of hypotheses. STENO_ERR_NOMEM, STENO_ERR_FORMAT. */
STENO_MUST steno_status steno_cached_decoder_start(steno_cached_decoder *s,
                                                   steno_cached_decoder_state *k,
                                                   const float *frames, size_t n, int64_t dim,
                                                   size_t beam, steno_err *err);
/* Add n more encoder frames of the utterance. */
STENO_MUST steno_status steno_cached_decoder_extend(steno_cached_decoder *s,
                                                    steno_cached_decoder_state *k,
                                                    const float *frames, size_t n, int64_t dim,
                                                    steno_err *err);
/* Release the activations of start and extend, when all frames of the utterance are in. */
void steno_cached_decoder_trim(steno_cached_decoder *s);

/* `self` of the functions of struct steno_joint_scorer. */
struct steno_cached_decoder_search {
    steno_cached_decoder *decoder;
    steno_cached_decoder_state *state;
};
/* Answer the requests of n searches of one decoder, n >= 1: their hypotheses go through the network
 * in one run. Each request has its own status. */
void steno_cached_decoder_score_each(struct steno_score_request *requests, size_t n);
/* struct steno_joint_scorer's rewind. */
void steno_cached_decoder_rewind(void *self, int calls);
size_t steno_cached_decoder_bytes(const steno_cached_decoder *s);

#endif
