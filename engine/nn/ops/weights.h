/* Constant f32 weights of a product, packed in the precision the network was opened with: the one
 * way for every operator that multiplies by constants.
 *
 *     prepare:  st = steno_prepare_weights(pc, 1, false, &w, err);        -> priv
 *     run:      st = steno_ops_linear(ctx, w, m, x, k, y, n, &ep, err);
 *     release:  steno_weights_free(w); */
#ifndef STENO_NN_OPS_WEIGHTS_H
#define STENO_NN_OPS_WEIGHTS_H

#include "nn/ops/internal.h"
#include "nn/exec/precision.h"

/* W [k, n]. Frozen. */
struct steno_weights {
    size_t k, n;
    enum steno_precision precision;
    bool compressed; /* f32 in 24 bits, for gemm_f32_w24, or bf16 in 12, for gemm_bf16_w12 */
    size_t bytes;    /* of data and scale, one block */
    void *data;      /* the kernel's layout */
    float *scale;    /* [n] i8 only: q * scale is the weight */
};

/* Weights for gemm_f32_packed and its like. */
static inline bool steno_weights_are_floats(const struct steno_weights *w)
{
    return w->precision == STENO_FP32 && !w->compressed;
}

/* The kernels for weights that are kept neither as f32 nor as bytes. */
const struct steno_gemm_weights *steno_weights_kernels(const steno_kernels *k,
                                                       const struct steno_weights *w);
void steno_weights_free(void *w); /* a release function; accepts NULL */

/* Weights from which on gemm_f32_w24 and gemm_bf16_w12 are worth it, where the kernels have them:
 * 256 KiB of f32. Smaller ones stay in the first levels of the caches, where a single row is as
 * fast or faster by multiply-adds. */
#define STENO_COMPRESSED_WEIGHTS ((size_t)1 << 16)

/* Whether weights [rows, cols] in precision p are large enough for these. */
bool steno_ops_compressed(const steno_kernels *k, enum steno_precision p, size_t rows, size_t cols);
/* While preparing: whether a node keeps weights for these. Decided by their size and, where many
 * rows lose by it (kernels.h, compressed_max_rows), by the shape that the graph states, so that an
 * example's bits do not depend on what it is batched with. */
bool steno_prepare_compressed(const struct steno_prepare *pc, enum steno_precision p, size_t rows,
                              size_t cols);

/* For an operator that packs f32 weights by itself, in any precision but int8: how they are kept
 * and multiplied (conv, conv_winograd: NULL where f32 stays f32), and the sum of squares of what
 * that loses of n of them. */
struct steno_gemm_weights steno_weights_as(const steno_kernels *k, enum steno_precision p,
                                           bool compressed);
double steno_weights_lost(const float *w, size_t n, enum steno_precision p);

/* While preparing: constant input `in`, f32 of rank 2, packed in the network's precision, reported,
 * and the original given up. *out is NULL when the input is anything else. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_weights(struct steno_prepare *pc, int in, bool trans,
                                              struct steno_weights **out, steno_err *err);

/* Weights [k, n] that are made of a constant: make writes their transpose [n, k], from all of it.
 */
struct steno_made {
    size_t k, n;
    void (*make)(float *to, const float *w, const void *arg);
    const void *arg;
};
/* The same for constant input `in`, f32 of any rank. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_weights_made(struct steno_prepare *pc, int in,
                                                   const struct steno_made *m,
                                                   struct steno_weights **out, steno_err *err);

/* Weights made of constant input `in`, [parts][k, n] each packed for itself, in 8 bits: make writes
 * [n, parts, k]. *out: an array, to be freed with free(); the packed elements are the network's.
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_weights_made_parts(struct steno_prepare *pc, int in,
                                                         const struct steno_made *m, size_t parts,
                                                         struct steno_weights **out,
                                                         steno_err *err);

/* Constant bytes W [K, N] that the graph has in 8 bits, taken as they are: input scale_in has their
 * scale, one or one for each column, scale_in + 1, if it is there, their zero point. *out is NULL
 * when they do not fit each other or K is less than 16. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_weights_bytes(struct steno_prepare *pc, int in, int scale_in,
                                                    struct steno_weights **out, steno_err *err);

/* As steno_prepare_weights, cut into `parts` of as many columns each, packed one by one: part i is
 * W[:, i] [rows, cols / parts], or that turned. *out: an array of `parts`, to be freed with free();
 * the packed elements are the network's. Bytes with scales in scale_in (as above) are widened and
 * rounded anew to 8 bits, whatever the network's precision. STENO_ERR_NOMEM, STENO_ERR_FORMAT where
 * the columns do not divide. */
STENO_MUST steno_status steno_prepare_weights_parts(struct steno_prepare *pc, int in, int scale_in,
                                                    size_t parts, bool transposed,
                                                    struct steno_weights **out, steno_err *err);

/* While inferring: output 0, f32, is input 0 [..., K] times input 1 [K, N]. STENO_ERR_INVAL: those
 * shapes contradict each other. */
STENO_MUST steno_status steno_infer_linear(struct steno_infer *ic, steno_err *err);
/* c [m, n] = ep(a [m, k] * W), on the team where it is large. ep: as gemm_f32_packed takes it, but
 * no bias_rows; may be NULL. STENO_ERR_NOMEM (i8: scratch for the rounded rows). */
STENO_MUST steno_status steno_ops_linear(struct steno_op_ctx *ctx, const struct steno_weights *w,
                                         size_t m, const float *a, size_t lda, float *c, size_t ldc,
                                         const struct steno_gemm_epilogue *ep, steno_err *err);

#endif
