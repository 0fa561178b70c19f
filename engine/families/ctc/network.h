/* Family ctc_streaming: one network, a window of feature frames and its states in,
 * log-probabilities and new states out (docs/models.md).
 *
 *     input  x           [N, window_frames, mel_bins] f32
 *     input  S           every other input is a state, zeros at the start
 *     output log_probs   [N, shift_frames / subsampling, vocab] f32, the first output
 *     output new_S       the state after the window */
#ifndef STENO_FAMILIES_CTC_NETWORK_H
#define STENO_FAMILIES_CTC_NETWORK_H

#include "nn/network/network.h"
#include "families/ctc/conf.h"

struct steno_ctc_network_state {
    int in, out;             /* graph inputs and outputs */
    struct steno_tensor one; /* type and shape of one stream's share; no elements */
    int axis;                /* the batch dimension, -1 if there is none */
    size_t bytes, offset;    /* of one stream's share, and its place in the stream's states */
    size_t blocks, block;    /* the share in a batch: `blocks` pieces of `block` bytes */
};

/* Frozen: how the network's inputs and outputs are used. */
struct steno_ctc_network {
    steno_network *net; /* borrowed */
    int x;
    int n_states;
    struct steno_ctc_network_state *states;
    int64_t window, shift, bins, rows, vocab; /* rows of scores per step */
    size_t state_bytes;                       /* of one stream */
    bool batches; /* x, the scores and every state have a free batch dimension */
};

/* Check the graph and its metadata against the configuration. STENO_ERR_FORMAT: what differs. */
STENO_MUST steno_status steno_ctc_network_bind(struct steno_ctc_network *n, steno_network *net,
                                               const struct steno_model_conf *conf, int32_t vocab,
                                               int32_t blank, steno_err *err);
void steno_ctc_network_unbind(struct steno_ctc_network *n);

/* What one stream keeps between steps. Confined. Memory comes with the first step. */
struct steno_ctc_state {
    char *data; /* [state_bytes] */
    bool fresh; /* a new recording: the states are zeros, whatever data holds */
};
void steno_ctc_state_free(struct steno_ctc_state *s);

/* A session and room for the inputs of a batch; states are gathered into it and scattered from it.
 * Confined: one for every thread that runs steps. */
typedef struct steno_ctc_batch steno_ctc_batch;

/* Up to max streams at once; 1 where the network has no batch dimension. */
STENO_MUST steno_status steno_ctc_batch_open(steno_ctc_batch **out,
                                             const struct steno_ctc_network *n, int max,
                                             int threads, steno_err *err);
void steno_ctc_batch_close(steno_ctc_batch *b);
/* The window of stream i of the coming step: [window, bins], to be filled by the caller. */
float *steno_ctc_batch_x(steno_ctc_batch *b, int i);
/* One step of the network on the first n windows, n <= max, as a batch of `size` >= n, what is over
 * being ignored. s: [n] states, which move on; on failure they are as before. *scores: [n, rows,
 * vocab], valid until the next step. */
STENO_MUST steno_status steno_ctc_batch_step(steno_ctc_batch *b, struct steno_ctc_state *const *s,
                                             int n, int size, const float **scores, steno_err *err);
size_t steno_ctc_batch_bytes(const steno_ctc_batch *b); /* arena, windows and states of a batch */

#endif
