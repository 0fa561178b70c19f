/* A streaming encoder with states: each step takes a window of feature frames and the states of the
 * step before, and gives frames of output and new states. The graph names them:
 *
 *     input  x        [N, window, bins] f32; or i32, for samples of 16 bits, which the windows have
 *                     as numbers in [-1,1]: then they are multiplied by 32767 and cut towards 0.
 * The caller says its name input  S        every other input is a state; it is zero when a
 * recording begins output 0        [N, frames, width] f32 output new_S    the state S after the
 * window; or S_next input  processed_lens  [N] i64 without such an output (icefall's Conformer):
 * the number of output frames before this step
 *
 * N is the batch dimension. Where x and all states have it as a symbolic dimension, one step can
 * take several streams. */
#ifndef STENO_FAMILIES_COMMON_CACHED_ENCODER_H
#define STENO_FAMILIES_COMMON_CACHED_ENCODER_H

#include "nn/network/network.h"

/* What the model directory says of the encoder. */
struct steno_cached_encoder_shape {
    int64_t window, bins;  /* input: feature frames of a step, and values of each */
    int64_t frames, width; /* output: frames of a step, and values of each */
};

/* One state of the graph. */
struct steno_cached_encoder_slot {
    int in, out;             /* graph input and output; out -1: the count of output frames */
    struct steno_tensor one; /* type and shape of one stream's share; no elements */
    int axis;                /* the batch dimension; -1: none */
    size_t bytes, offset;    /* of one stream's share, and its place in the stream's states */
    size_t blocks, block;    /* the share in a batch: `blocks` blocks of `block` bytes */
};

struct steno_cached_encoder_batch;

/* How the network's inputs and outputs are used. Frozen. */
struct steno_cached_encoder {
    steno_network *net; /* borrowed */
    int x;              /* graph input */
    int n_states;
    struct steno_cached_encoder_slot *states; /* [n_states] */
    struct steno_cached_encoder_shape shape;
    size_t state_bytes; /* of one stream */
    char *begin;        /* [state_bytes] where a recording begins; NULL: zeros. Freed by unbind */
    bool batches;       /* x and every state have a symbolic batch dimension */
};

/* Match the graph with `shape` and find its states. x: name of the input; file: for messages.
 * STENO_ERR_FORMAT names what differs; STENO_ERR_NOMEM. Unbind after success. */
STENO_MUST steno_status steno_cached_encoder_bind(struct steno_cached_encoder *e,
                                                  steno_network *net, const char *x,
                                                  const struct steno_cached_encoder_shape *shape,
                                                  const char *file, steno_err *err);
/* Begin recordings with the states after a window of zeros. b: of e, closed and opened anew by the
 * caller, as are others. Errors of the step; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_cached_encoder_lead_in(struct steno_cached_encoder *e,
                                                     struct steno_cached_encoder_batch *b,
                                                     steno_err *err);
void steno_cached_encoder_unbind(struct steno_cached_encoder *e);
/* Floats of the window of one stream. */
static inline size_t steno_cached_encoder_window(const struct steno_cached_encoder *e)
{
    return (size_t)(e->shape.window * e->shape.bins);
}

/* The states of one stream between steps. Confined. The first step allocates the memory. */
struct steno_cached_encoder_state {
    char *data; /* [state_bytes] */
    bool fresh; /* a recording begins: states are those of the begin, whatever data holds */
};
void steno_cached_encoder_state_free(struct steno_cached_encoder_state *s);

/* A session and the inputs of a batch. Confined: one for each thread that runs steps. */
typedef struct steno_cached_encoder_batch steno_cached_encoder_batch;

/* max: streams of one step; it becomes 1 where the encoder takes no batches. e is borrowed.
 * STENO_ERR_NOMEM, and errors of steno_session_open. */
STENO_MUST steno_status steno_cached_encoder_batch_open(steno_cached_encoder_batch **out,
                                                        const struct steno_cached_encoder *e,
                                                        int max, int threads, steno_err *err);
void steno_cached_encoder_batch_close(steno_cached_encoder_batch *b);
const struct steno_cached_encoder *
steno_cached_encoder_batch_encoder(const steno_cached_encoder_batch *b);
/* Streams of one step. */
int steno_cached_encoder_batch_max(const steno_cached_encoder_batch *b);
/* The window of stream i of the next step: [window, bins]. The caller fills it. */
float *steno_cached_encoder_batch_x(steno_cached_encoder_batch *b, int i);
/* Run one step on the first n windows as a batch of `size` >= n; places from n on are ignored.
 * s: [n] states; a step that fails leaves them as they were, except those that the network changes
 * in place. *y: [n, frames, width], valid until the next step.
 * STENO_ERR_FORMAT: an output has another shape; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_cached_encoder_batch_step(steno_cached_encoder_batch *b,
                                                        struct steno_cached_encoder_state *const *s,
                                                        int n, int size, const float **y,
                                                        steno_err *err);

#endif
