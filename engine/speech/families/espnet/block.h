/* The contextual block encoder (Tsunoo et al., "Transformer ASR with Contextual Block Processing",
 * 2019) as espnet_onnx exports it. It takes a block of feature frames and the state of the stream,
 * and gives encoder frames and a new state. */
#ifndef STENO_FAMILIES_ESPNET_BLOCK_H
#define STENO_FAMILIES_ESPNET_BLOCK_H

#include "speech/families/espnet/net.h"

/* The state of one stream between blocks. Confined. */
struct steno_espnet_state {
    float *part[4]; /* frames before subsampling, frames after it, the context of the block before,
                     * the contexts of its layers; aligned */
    size_t rows[4], cap[4]; /* rows: second dimension; cap: floats */
    int64_t block;          /* blocks so far */
};

/* Inputs and outputs of the graph, mask and positions. Frozen. */
struct steno_espnet_blocks {
    int xs, mask, pos, pos_addin, first, in[4], out[4], ys;
    int64_t width[4];
    float *mask_data; /* [block + 2, block + 2] */
    float *pe;        /* [pe_rows, dim] as exported */
    size_t pe_rows;
    bool formula; /* pe is the sinusoid, so positions after its end are known */
};

/* Inputs that each stream has; all streams of a run share the mask and is_first. */
#define STENO_ESPNET_BLOCK_INPUTS                                                                  \
    "xs_pad,buffer_before_downsampling,buffer_after_downsampling,prev_addin,pos_enc_xs,"           \
    "pos_enc_addin,past_encoder_ctx"

/* Find the inputs and outputs and read the positions. Close *b in any case. STENO_ERR_FORMAT names
 * what the graph or pe.npy lacks; STENO_ERR_IO, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_espnet_blocks_open(struct steno_espnet_blocks *b,
                                                 struct steno_espnet *e, steno_err *err);
void steno_espnet_blocks_close(struct steno_espnet_blocks *b);

/* Feature frames of the first block, and of each later block. */
size_t steno_espnet_first_frames(const struct steno_espnet_conf *c);
size_t steno_espnet_next_frames(const struct steno_espnet_conf *c);

/* Begin a recording: zero states. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_espnet_state_reset(struct steno_espnet_state *s,
                                                 const struct steno_espnet *e, steno_err *err);
void steno_espnet_state_free(struct steno_espnet_state *s);
/* Whether the next blocks of two streams can run in one batch: both are the first block of their
 * stream, or neither is. */
bool steno_espnet_same_form(const struct steno_espnet_state *a, const struct steno_espnet_state *b);
/* Encode a block of each of n streams of one form, n <= STENO_BATCH_MAX, n = 1 unless e->batches.
 * feats: [n] of [frames, bins]. *rows: encoder frames [n, *n_rows, dim], valid until the runner's
 * next block. The result of a stream does not depend on the others. On failure all states are as
 * before. STENO_ERR_LIMIT: no positions for so long a stream; STENO_ERR_FORMAT, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_espnet_block(steno_espnet_runner *r,
                                           struct steno_espnet_state *const *s,
                                           const float *const *feats, size_t n, size_t frames,
                                           const float **rows, size_t *n_rows, steno_err *err);

/* Encoder frames of a whole recording as espnet_onnx's StreamingSpeech2Text computes them: pcm [n]
 * is cut into pieces. Each piece is mirrored at its edges for the Fourier transform and loses its
 * last feature frame. There is no flush at the end. *rows [*n_rows, dim]: to be freed by the caller
 * with steno_aligned_free. */
STENO_MUST steno_status steno_espnet_onnx_rows(steno_espnet_runner *r, const float *pcm, size_t n,
                                               float **rows, size_t *n_rows, steno_err *err);

#endif
