/* Kernel table: one pointer per inner loop, filled for a CPU level by steno_kernels_init.
 *
 * scalar/ fills every slot, complete and readable: it is the specification the other levels are
 * checked against (tests/kernels/kcheck). Rules that hold for every slot:
 * - no alignment is required of activations, and none is read beyond its last element: only packed
 *   buffers (layout private to the level) are padded, to the size their *_bytes function states;
 * - an output may be the very same array as an input where the slot says so, never overlap partly;
 * - n, rows, m = 0 is allowed and does nothing; NaN in gives NaN out unless stated;
 * - results do not depend on address, on what is in memory beyond, or on the thread that runs it.
 */
#ifndef STENO_KERNELS_KERNELS_H
#define STENO_KERNELS_KERNELS_H

#include "base/status.h"

typedef struct steno_kernels steno_kernels;

/* Unary elementwise: y[i] = f(x[i]); x == y allowed. */
typedef void steno_unary_f32(float *y, const float *x, size_t n);
/* Binary elementwise, stride 1, or one side a scalar (stride 0: only element 0 is read).
 * y == a and y == b allowed where that side has stride 1. */
typedef void steno_binary_f32(float *y, const float *a, size_t a_stride, const float *b,
                              size_t b_stride, size_t n);

enum steno_act {
    STENO_ACT_NONE,
    STENO_ACT_RELU,
    STENO_ACT_SIGMOID,
    STENO_ACT_TANH,
    STENO_ACT_SILU,
    STENO_ACT_GELU,
    STENO_ACT_CLIP
};

/* f32 weights B [K,N] packed for this CPU level's gemm: layout private to the level. */
struct steno_packed_b {
    size_t k, n;
    size_t bytes; /* of data */
    void *data;   /* steno_aligned_alloc'd by the caller with gemm_f32_packed_bytes */
};

/* What happens to a result tile while it is in registers: C = act(alpha * A*B + bias) + residual.
 * A NULL epilogue is {.alpha = 1}. */
struct steno_gemm_epilogue {
    const float *bias;     /* [N], or [M] when bias_rows, or NULL */
    const float *residual; /* [M, ldr] added after the activation, or NULL; must not overlap C */
    size_t ldr;
    enum steno_act act;
    float act_min, act_max; /* STENO_ACT_CLIP */
    float alpha;            /* scale of A*B before the bias; 1 usual. 0 is taken literally */
    bool bias_rows;         /* bias belongs to rows of C (convolution: output channels) */
};

/* One image through one 2-D convolution; 1-D has in[0] = out[0] = kernel[0] = 1. Channels first:
 * x [c_in, in0, in1], w [c_out, c_in / group, kernel0, kernel1], y [c_out, out0, out1].
 * Padding is implicit zeros: `pad` is what comes before; what comes after follows from `out`.
 * ONNX Conv, opset 1 and later. */
struct steno_conv {
    size_t c_in, c_out, group; /* group divides both */
    size_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
};

struct steno_kernels {
    const char *level; /* "scalar", "avx2", "avx512", ... */
    unsigned cpu;      /* STENO_CPU_* mask in use */

    /* Multiply-adds in registers, `turns` times around; returns how many floating point operations
     * that were (kernels/peak.h times it). */
    double (*peak_f32)(size_t turns);

    /* ---- elementwise ----
     * Errors against the exact value, over the whole range, of the vector levels: exp, log, erf,
     * tanh, sigmoid <= 4 ulp (tested); silu x*sigmoid(x), gelu x/2*(1+erf(x/sqrt 2)): a few ulp of
     * the larger factor. min, max, relu, clip give NaN for NaN. */
    steno_unary_f32 *exp_f32, *log_f32, *tanh_f32, *sigmoid_f32, *erf_f32, *silu_f32, *gelu_f32,
        *relu_f32, *sqrt_f32, *neg_f32, *abs_f32, *recip_f32;
    steno_binary_f32 *add_f32, *sub_f32, *mul_f32, *div_f32, *min_f32, *max_f32;
    /* y = x * scale + shift; x == y allowed. */
    void (*affine_f32)(float *y, const float *x, size_t n, float scale, float shift);
    /* y = min(max(x, lo), hi); x == y allowed. */
    void (*clip_f32)(float *y, const float *x, size_t n, float lo, float hi);
    /* Gated linear unit: y = a * sigmoid(b); y may be a or b. */
    void (*glu_f32)(float *y, const float *a, const float *b, size_t n);
    /* y += scale * x. */
    void (*axpy_f32)(float *y, const float *x, size_t n, float scale);

    /* ---- reductions ---- of n elements; empty: sum and dot 0, max -inf, min +inf. */
    float (*sum_f32)(const float *x, size_t n);
    float (*max_reduce_f32)(const float *x, size_t n);
    float (*min_reduce_f32)(const float *x, size_t n);
    float (*dot_f32)(const float *a, const float *b, size_t n);

    /* ---- rows ---- x, y [rows, cols] dense, cols >= 1, x == y allowed.
     * softmax: exp(x - max) / sum; log_softmax: x - max - log(sum). */
    void (*softmax_f32)(float *y, const float *x, size_t rows, size_t cols);
    void (*log_softmax_f32)(float *y, const float *x, size_t rows, size_t cols);
    /* y = (x - mean) / sqrt(var + eps) * gamma + beta over the last axis; gamma, beta may be NULL.
     */
    void (*layernorm_f32)(float *y, const float *x, size_t rows, size_t cols, const float *gamma,
                          const float *beta, float eps);
    /* y = x / sqrt(mean(x*x) + eps) * gamma; gamma may be NULL. */
    void (*rmsnorm_f32)(float *y, const float *x, size_t rows, size_t cols, const float *gamma,
                        float eps);
    /* dst [cols, rows] (row stride ldd) = transpose of src [rows, cols] (row stride lds). */
    void (*transpose_f32)(float *dst, size_t ldd, const float *src, size_t lds, size_t rows,
                          size_t cols);

    /* ---- matrix product ---- C[M,N] = act(alpha * A[M,K] * B[K,N] + bias) + residual; row strides
     * lda, ldc in elements. K = 0 gives the epilogue of zeros. C must not overlap A or B.
     * ep may be NULL. Packed form: B from gemm_f32_pack in gemm_f32_packed_bytes bytes, 64-byte
     * aligned. Needs up to 256 KiB of the caller's stack. */
    size_t (*gemm_f32_packed_bytes)(size_t k, size_t n);
    /* trans: B is stored [N,K] with row stride ldb; else [K,N]. */
    void (*gemm_f32_pack)(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n);
    void (*gemm_f32_packed)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                            const void *packed, float *c, size_t ldc,
                            const struct steno_gemm_epilogue *ep);
    /* The same product shared out: call once for every part in [0, n_parts), in any order, on any
     * threads. The kernel chooses rows or columns; a part may be empty. Bits equal those of
     * gemm_f32_packed whatever n_parts is. */
    void (*gemm_f32_packed_part)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                 const void *packed, float *c, size_t ldc,
                                 const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts);
    /* Unpacked, both sides activations: trans_a: A is stored [K,M]; trans_b: B is stored [N,K].
     * work: 64-byte aligned scratch of gemm_f32_work bytes (may be 0). */
    size_t (*gemm_f32_work)(size_t m, size_t n, size_t k);
    void (*gemm_f32)(size_t m, size_t n, size_t k, const float *a, size_t lda, bool trans_a,
                     const float *b, size_t ldb, bool trans_b, float *c, size_t ldc,
                     const struct steno_gemm_epilogue *ep, void *work);

    /* ---- convolution ---- one image (batch is the caller's loop). ep: bias [c_out] with bias_rows
     * set, act, residual like y with ldr = out0*out1. conv_f32_work is for all n_parts together;
     * the parts share one work block and may run at the same time; the bits do not depend on
     * n_parts. */
    size_t (*conv_f32_packed_bytes)(const struct steno_conv *s);
    void (*conv_f32_pack)(void *dst, const float *w, const struct steno_conv *s);
    size_t (*conv_f32_work)(const struct steno_conv *s, size_t n_parts);
    void (*conv_f32)(const struct steno_conv *s, const float *x, const void *packed, float *y,
                     const struct steno_gemm_epilogue *ep, void *work, size_t part, size_t n_parts);
    /* Depthwise 1-D convolution along time, channels last: x [T + K - 1, C], w [K, C],
     * y [T, C] = sum_k x[t + k, c] * w[k, c] + bias[c]; bias may be NULL. */
    void (*dwconv_f32)(float *y, const float *x, const float *w, const float *bias, size_t t,
                       size_t c, size_t k);
};

/* Fill every slot for the CPU mask (base/cpu.h). Frozen afterwards. */
void steno_kernels_init(steno_kernels *k, unsigned cpu);

#endif
