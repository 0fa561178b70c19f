/* Constant f32 weights of a product, packed in the precision with which the network was opened.
 * Every operator that multiplies by constants uses this module.
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
    size_t bytes; /* of data and scale, which are one block */
    void *data;   /* in the kernel's layout */
    float *scale; /* [n] i8 only: weight = q * scale */
};

/* The kernels for weights that are packed neither as f32 nor as bytes. */
const struct steno_gemm_weights *steno_weights_kernels(const steno_kernels *k,
                                                       const struct steno_weights *w);
void steno_weights_free(void *w); /* a release function; accepts NULL */

/* For an operator that packs f32 weights by itself, in any precision but int8: how they are packed
 * and multiplied (conv, conv_winograd: NULL where f32 stays f32). */
struct steno_gemm_weights steno_weights_as(const steno_kernels *k, enum steno_precision p);
/* True if p does not hold all of constant w, so that the next block of steno_prepare_memory is to
 * be packed in f32. That is reported and stored with the block: an earlier load's answer stands. */
bool steno_weights_overflow(struct steno_prepare *pc, enum steno_precision p,
                            const struct steno_tensor *w);

/* While preparing: pack constant input `in`, f32 of rank 2, in the network's precision, report it,
 * and release the original. *out is NULL when the input is anything else. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_weights(struct steno_prepare *pc, int in, bool trans,
                                              struct steno_weights **out, steno_err *err);

/* Weights [k, n] that are computed from a constant: make reads all of the constant and writes their
 * transpose [n, k]. */
struct steno_weight_transform {
    size_t k, n;
    void (*make)(float *to, const float *w, const void *arg);
    const void *arg; /* [arg_bytes] */
    size_t arg_bytes;
    /* make only orders the numbers, and the operator packs weights that the precision does not hold
     * by itself, in f32 */
    bool orders;
};
/* As steno_prepare_weights, for weights that m computes from constant input `in`, f32 of any rank.
 * *out is NULL if the precision does not hold them and m->orders. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_weights_transformed(struct steno_prepare *pc, int in,
                                                          const struct steno_weight_transform *m,
                                                          struct steno_weights **out,
                                                          steno_err *err);

/* Weights computed from constant input `in`: `parts` matrices [k, n], each packed by itself in 8
 * bits. make writes [n, parts, k]. *out: an array, freed with free(); the packed elements are the
 * network's. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_weights_transformed_parts(
    struct steno_prepare *pc, int in, const struct steno_weight_transform *m, size_t parts,
    struct steno_weights **out, steno_err *err);

/* Pack constant bytes W [K, N] that the graph has in 8 bits, without a change of their values.
 * Input scale_in has their scale, one or one for each column; scale_in + 1, if present, their zero
 * point. *out is NULL when they do not fit each other or K is less than 16. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_prepare_weights_bytes(struct steno_prepare *pc, int in, int scale_in,
                                                    struct steno_weights **out, steno_err *err);

/* As steno_prepare_weights, cut into `parts` blocks of equally many columns, each packed by itself.
 * Part i is W[:, i] [rows, cols / parts], or its transpose. *out: an array of `parts`, freed with
 * free(); the packed elements are the network's. Bytes with scales in scale_in (as above) are
 * dequantized and quantized again to 8 bits, whatever the network's precision. STENO_ERR_NOMEM;
 * STENO_ERR_FORMAT: the columns do not divide. */
STENO_MUST steno_status steno_prepare_weights_parts(struct steno_prepare *pc, int in, int scale_in,
                                                    size_t parts, bool transposed,
                                                    struct steno_weights **out, steno_err *err);

/* Infer output 0, f32, as input 0 [..., K] times input 1 [K, N]. STENO_ERR_INVAL: the shapes
 * contradict each other. */
STENO_MUST steno_status steno_infer_linear(struct steno_infer *ic, steno_err *err);
/* c [m, n] = ep(a [m, k] * W), on the worker team where it is large. ep: as gemm_f32_packed takes
 * it, but without bias_rows; may be NULL. STENO_ERR_NOMEM (i8: scratch for the quantized rows). */
STENO_MUST steno_status steno_ops_linear(struct steno_op_ctx *ctx, const struct steno_weights *w,
                                         size_t m, const float *a, size_t lda, float *c, size_t ldc,
                                         const struct steno_gemm_epilogue *ep, steno_err *err);

#endif
