/* Prediction and joint network of a transducer, behind the function pointers of search/tdt.h.
 *
 *     decoder   targets [N,1] i32, [target_length [N] i32], h [L,N,H], c [L,N,H]
 *               -> outputs [N,H,1], [lengths], h, c
 *     joiner    encoder_outputs [N,D,1], decoder_outputs [N,H,1] -> [N,1,1,vocab + durations]
 *     decoder_joint: both in one network, encoder_outputs before targets
 *
 * Names of states are those of the exporter's temporaries, so inputs and outputs are bound by their
 * order and type. */
#ifndef STENO_FAMILIES_NEMO_TRANSDUCER_H
#define STENO_FAMILIES_NEMO_TRANSDUCER_H

#include "nn/network/network.h"
#include "speech/search/tdt.h"

/* Which input and output of the networks is what; -1: there is none. Frozen. */
struct steno_nemo_transducer {
    steno_network *decoder, *joiner; /* borrowed; joiner NULL: decoder has both */
    const char *decoder_name, *joiner_name;
    int targets, length, enc, state[2]; /* inputs of the decoder */
    int out, next[2];                   /* its outputs */
    int64_t layers, hidden;             /* of each state */
    size_t dim, width, outputs;         /* of an encoder frame, a prediction, a row of scores */
    bool alone;     /* rows of one run change each other: the networks run once for each */
    bool one_state; /* the prediction network reads one token in a run: a state has N = 1 in the
                     * file, as NeMo's exporter writes it, or it is in 8 bits */
};

/* Bind the networks and find the sizes, with one step of each. dim: of encoder frames.
 * STENO_ERR_FORMAT names the file and what was expected. */
STENO_MUST steno_status steno_nemo_transducer_bind(struct steno_nemo_transducer *t, size_t dim,
                                                   steno_err *err);

/* Floats of a state. */
static inline size_t steno_nemo_state_size(const struct steno_nemo_transducer *t)
{
    return (size_t)(2 * t->layers * t->hidden);
}

/* Floats of what the prediction network leaves for the joint network: the prediction, or, where one
 * network has both, the token and the state before it, from which each join computes it again. */
static inline size_t steno_nemo_row_size(const struct steno_nemo_transducer *t)
{
    return t->joiner ? t->width : 2 + steno_nemo_state_size(t);
}

/* Sessions and buffers of one thread. Confined. */
typedef struct steno_nemo_joint steno_nemo_joint;
STENO_MUST steno_status steno_nemo_joint_open(steno_nemo_joint **out,
                                              const struct steno_nemo_transducer *t, int threads,
                                              steno_err *err);
void steno_nemo_joint_close(steno_nemo_joint *j);
/* The networks for search/tdt.h; valid as long as j. */
struct steno_transducer_nets steno_nemo_joint_nets(steno_nemo_joint *j);

#endif
