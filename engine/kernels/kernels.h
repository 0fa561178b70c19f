/* Kernel table: one pointer per inner loop, filled for a CPU level by steno_kernels_init.
 * Slots are added here as operators need them; scalar/ fills every one and is the specification. */
#ifndef STENO_KERNELS_KERNELS_H
#define STENO_KERNELS_KERNELS_H

#include "base/status.h"

typedef struct steno_kernels steno_kernels;

/* Unary elementwise: y[i] = f(x[i]); x == y allowed. */
typedef void steno_unary_f32(float *y, const float *x, size_t n);
/* Binary elementwise, same length, or one side a scalar (stride 0: only element 0 is read). */
typedef void steno_binary_f32(float *y, const float *a, size_t a_stride, const float *b,
                              size_t b_stride, size_t n);

enum steno_act { STENO_ACT_NONE, STENO_ACT_RELU, STENO_ACT_SIGMOID, STENO_ACT_TANH, STENO_ACT_SILU,
                 STENO_ACT_GELU, STENO_ACT_CLIP };

/* f32 weights B [K,N] packed for this CPU level's gemm: layout private to the level. */
struct steno_packed_b {
    size_t k, n;
    size_t bytes;   /* of data */
    void *data;     /* steno_aligned_alloc'd by the caller with gemm_f32_packed_bytes */
};

struct steno_gemm_epilogue {
    const float *bias;      /* [N] or NULL */
    const float *residual;  /* [M, ldr] added after the activation, or NULL */
    size_t ldr;
    enum steno_act act;
    float act_min, act_max; /* STENO_ACT_CLIP */
    float alpha;            /* scale of A*B before the bias; 1 usual */
};

struct steno_kernels {
    const char *level; /* "scalar", "avx2", "avx512", ... */
    unsigned cpu;      /* STENO_CPU_* mask in use */

    steno_unary_f32 *exp_f32, *log_f32, *tanh_f32, *sigmoid_f32, *erf_f32, *silu_f32, *gelu_f32,
        *relu_f32, *sqrt_f32, *neg_f32, *abs_f32, *recip_f32;
    steno_binary_f32 *add_f32, *sub_f32, *mul_f32, *div_f32, *min_f32, *max_f32;

    float (*sum_f32)(const float *x, size_t n);
    float (*max_reduce_f32)(const float *x, size_t n);
    float (*dot_f32)(const float *a, const float *b, size_t n);

    /* Rows: y[r,:] = softmax(x[r,:]); log_softmax alike. cols >= 1. x == y allowed. */
    void (*softmax_f32)(float *y, const float *x, size_t rows, size_t cols);
    void (*log_softmax_f32)(float *y, const float *x, size_t rows, size_t cols);
    /* y = (x - mean) / sqrt(var + eps) * gamma + beta over the last axis; gamma, beta may be NULL. */
    void (*layernorm_f32)(float *y, const float *x, size_t rows, size_t cols, const float *gamma,
                          const float *beta, float eps);
    void (*rmsnorm_f32)(float *y, const float *x, size_t rows, size_t cols, const float *gamma,
                        float eps);

    /* C[M,N] = epilogue(alpha * A[M,K] * B[K,N]). Packed form: B from gemm_f32_pack. */
    size_t (*gemm_f32_packed_bytes)(size_t k, size_t n);
    /* trans: B is stored [N,K] with row stride ldb; else [K,N]. */
    void (*gemm_f32_pack)(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n);
    void (*gemm_f32_packed)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                            const void *packed, float *c, size_t ldc,
                            const struct steno_gemm_epilogue *ep);
    /* Unpacked, both sides activations: trans_b as above. work: scratch of gemm_f32_work bytes. */
    size_t (*gemm_f32_work)(size_t m, size_t n, size_t k);
    void (*gemm_f32)(size_t m, size_t n, size_t k, const float *a, size_t lda, bool trans_a,
                     const float *b, size_t ldb, bool trans_b, float *c, size_t ldc,
                     const struct steno_gemm_epilogue *ep, void *work);

    /* Depthwise 1-D convolution along time, channels last: x [T + K - 1, C], w [K, C],
     * y [T, C] = sum_k x[t + k, c] * w[k, c] + bias[c]. */
    void (*dwconv_f32)(float *y, const float *x, const float *w, const float *bias, size_t t,
                       size_t c, size_t k);
};

/* Fill every slot for the CPU mask (base/cpu.h). Frozen afterwards. */
void steno_kernels_init(steno_kernels *k, unsigned cpu);

#endif
