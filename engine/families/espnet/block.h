/* The contextual-block encoder (Tsunoo et al., "Transformer ASR with Contextual Block Processing",
 * 2019) as espnet_onnx exports it: a block of feature frames and the stream's state in, rows out.
 */
#ifndef STENO_FAMILIES_ESPNET_BLOCK_H
#define STENO_FAMILIES_ESPNET_BLOCK_H

#include "families/espnet/net.h"

/* What a stream carries from block to block. Confined. */
struct steno_espnet_state {
    float *part[4]; /* frames before and rows after subsampling, context of the block before, of its
                     * layers; aligned */
    size_t rows[4], cap[4]; /* rows: second dimension; cap: elements */
    int64_t block;          /* blocks done */
};

/* Frozen: the graph's inputs and outputs, positions. */
struct steno_espnet_blocks {
    int xs, mask, pos, pos_addin, first, in[4], out[4], ys;
    int64_t width[4];
    float *mask_data; /* [block + 2, block + 2] */
    float *pe;        /* [pe_rows, dim] as exported */
    size_t pe_rows;
    bool formula; /* pe is the sinusoid, so positions behind its end are known */
};

/* Inputs that are a stream's own; the mask and is_first are of all streams of a run. */
#define STENO_ESPNET_BLOCK_INPUTS                                                                  \
    "xs_pad,buffer_before_downsampling,buffer_after_downsampling,prev_addin,pos_enc_xs,"           \
    "pos_enc_addin,past_encoder_ctx"

/* STENO_ERR_FORMAT: what the graph or pe.npy lack. *b is to be closed in any case. */
STENO_MUST steno_status steno_espnet_blocks_open(struct steno_espnet_blocks *b,
                                                 struct steno_espnet *e, steno_err *err);
void steno_espnet_blocks_close(struct steno_espnet_blocks *b);

/* Feature frames that the first block takes, and each one after it. */
size_t steno_espnet_first_frames(const struct steno_espnet_conf *c);
size_t steno_espnet_next_frames(const struct steno_espnet_conf *c);

/* A new stream. */
STENO_MUST steno_status steno_espnet_state_reset(struct steno_espnet_state *s,
                                                 const struct steno_espnet *e, steno_err *err);
void steno_espnet_state_free(struct steno_espnet_state *s);
/* The next blocks of both streams can be run together: both are their streams' first, or neither.
 */
bool steno_espnet_same_form(const struct steno_espnet_state *a, const struct steno_espnet_state *b);
/* A block of each of n streams of one form (n at most STENO_BATCH_MAX, 1 unless e->batches): feats
 * [n] of [frames, bins] -> *rows [n, *n_rows, dim], valid until the runner's next block. What it
 * makes of a stream does not depend on the others; where it fails, for one of them perhaps, all are
 * as they were. */
STENO_MUST steno_status steno_espnet_block(steno_espnet_runner *r,
                                           struct steno_espnet_state *const *s,
                                           const float *const *feats, size_t n, size_t frames,
                                           const float **rows, size_t *n_rows, steno_err *err);

/* Rows of a whole recording as espnet_onnx's StreamingSpeech2Text makes them: pcm [n] in pieces,
 * each with a Fourier transform of its own, mirrored at its edges, without its last frame; no
 * flush. *rows
 * [*n_rows, dim]: the caller's to steno_aligned_free. */
STENO_MUST steno_status steno_espnet_onnx_rows(steno_espnet_runner *r, const float *pcm, size_t n,
                                               float **rows, size_t *n_rows, steno_err *err);

#endif
