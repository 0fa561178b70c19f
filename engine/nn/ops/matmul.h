/* Geometry of a batched matrix product, by the rules of NumPy's matmul (ONNX MatMul, opset 1 and
 * later). */
#ifndef STENO_NN_OPS_MATMUL_H
#define STENO_NN_OPS_MATMUL_H

#include "nn/ops/internal.h"

struct steno_matmul {
    size_t m, n, k, batch;
    struct steno_shape bshape; /* batch dims of the result */
    struct steno_shape out;
    int64_t a_step[STENO_MAX_RANK], b_step[STENO_MAX_RANK]; /* in matrices, by batch dim */
    bool b_single;     /* one B for all: A's batch is only more rows */
    bool b_transposed; /* B's matrices lie as [n,k]; steno_matmul_plan says false */
};

/* Fill *p for A of shape a times B of shape b. Returns NULL, or a message that says what is wrong.
 * Shapes may be symbolic (inference); then only `out` is valid. */
const char *steno_matmul_plan(const struct steno_shape *a, const struct steno_shape *b,
                              struct steno_matmul *p);
/* Infer output 0 as the product of shapes a and b (rank unknown allowed), of type t. Unknown dims
 * become symbols. STENO_ERR_INVAL: the shapes do not fit. */
STENO_MUST steno_status steno_matmul_infer(struct steno_infer *ic, const struct steno_shape *a,
                                           const struct steno_shape *b, steno_dtype t,
                                           steno_err *err);
/* The numbers of the matrices of A and of B that product i, in [0, batch), multiplies. */
void steno_matmul_offsets(const struct steno_matmul *p, size_t i, size_t *a, size_t *b);

/* The number of parts that work of so many multiply-adds is worth dividing into, at most the number
 * of threads. */
size_t steno_ops_parts(const struct steno_op_ctx *ctx, double macs);

/* c = ep(a * b), all f32; parallel where it is large. ep may be NULL. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ops_matmul_f32(struct steno_op_ctx *ctx, const struct steno_matmul *p,
                                             const float *a, const float *b, float *c,
                                             const struct steno_gemm_epilogue *ep, steno_err *err);

#endif
