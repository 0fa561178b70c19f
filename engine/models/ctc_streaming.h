/* Family ctc_streaming: one network, a window of feature frames and its states in,
 * log-probabilities and new states out (docs/models.md).
 *
 *     input  x           [N, window_frames, mel_bins] f32
 *     input  S           every other input is a state, zeros at the start
 *     output log_probs   [N, shift_frames / subsampling, vocab] f32, the first output
 *     output new_S       the state after the window */
#ifndef STENO_MODELS_CTC_STREAMING_H
#define STENO_MODELS_CTC_STREAMING_H

#include "exec/session.h"
#include "models/conf.h"

struct steno_ctcnet_state {
    int in, out; /* graph inputs and outputs */
    size_t bytes;
    struct steno_tensor zero; /* where every stream begins: read only, shared */
};

/* Frozen: how the network's inputs and outputs are used. */
struct steno_ctcnet {
    steno_network *net; /* borrowed */
    int x;
    int n_states;
    struct steno_ctcnet_state *states;
    int64_t window, shift, bins, rows, vocab; /* rows of scores per step */
    size_t state_bytes;
};

/* Check the graph and its metadata against the configuration. STENO_ERR_FORMAT: what differs. */
STENO_MUST steno_status steno_ctcnet_bind(struct steno_ctcnet *n, steno_network *net,
                                          const struct steno_model_conf *conf, int32_t vocab,
                                          int32_t blank, steno_err *err);
void steno_ctcnet_unbind(struct steno_ctcnet *n);

typedef struct steno_ctcrun steno_ctcrun; /* confined: session and states of one stream */

STENO_MUST steno_status steno_ctcrun_open(steno_ctcrun **out, const struct steno_ctcnet *n,
                                          int threads, steno_err *err);
void steno_ctcrun_close(steno_ctcrun *r);
/* States to zero: a new recording. */
void steno_ctcrun_reset(steno_ctcrun *r);
/* x: [window, bins], 64-byte aligned with readable tail (steno_aligned_alloc). *scores: [rows,
 * vocab], valid until the next step. */
STENO_MUST steno_status steno_ctcrun_step(steno_ctcrun *r, float *x, const float **scores,
                                          steno_err *err);
size_t steno_ctcrun_bytes(const steno_ctcrun *r); /* arena and states */

#endif
