/* Kernel table: one pointer per inner loop, filled for a CPU level by steno_kernels_init.
 *
 * The files in scalar/ fill every slot and are written to be read: they are the specification, and
 * tests/kernels/kcheck checks all other levels against it. Rules for every slot:
 * - Activations need no alignment and are not read beyond their last element. Only packed buffers
 *   are padded, to the size that their *_bytes function returns; their layout is private to the
 *   level.
 * - An output may be the same array as an input where the slot says so. They never overlap in part.
 * - n, rows or m = 0 is allowed and does nothing. NaN in gives NaN out unless stated otherwise.
 * - Results do not depend on addresses, on memory beyond the arrays, or on the thread. */
#ifndef STENO_NN_KERNELS_KERNELS_H
#define STENO_NN_KERNELS_KERNELS_H

#include "base/status.h"

typedef struct steno_kernels steno_kernels;
struct steno_fbank_tables; /* nn/kernels/fbank.h */

/* Unary elementwise: y[i] = f(x[i]); x == y allowed. */
typedef void steno_unary_f32(float *y, const float *x, size_t n);
/* The same for a function with two parameters, y[i] = f(x[i]; a, b). */
typedef void steno_curve_f32(float *y, const float *x, size_t n, float a, float b);
/* Binary elementwise: each side has stride 1, or is a scalar (stride 0: only element 0 is read).
 * y == a and y == b are allowed where that side has stride 1. */
typedef void steno_binary_f32(float *y, const float *a, size_t a_stride, const float *b,
                              size_t b_stride, size_t n);

enum steno_activation {
    STENO_ACT_NONE,
    STENO_ACT_RELU,
    STENO_ACT_SIGMOID,
    STENO_ACT_TANH,
    STENO_ACT_SILU,
    STENO_ACT_GELU,
    STENO_ACT_CLIP,
    STENO_ACT_SWOOSH,
    STENO_ACT_HARD_SIGMOID,
    STENO_ACT_HARD_SWISH,
    STENO_ACT_LEAKY_RELU,
    STENO_ACT_ELU,
    STENO_ACT_SOFTPLUS,
    STENO_ACT_SOFTSIGN,
    STENO_ACT_MISH
};

/* f32 weights B [K,N] packed for the gemm of this CPU level; the layout is private to the level. */
struct steno_packed_b {
    size_t k, n;
    size_t bytes; /* of data */
    void *data; /* allocated by the caller with steno_aligned_alloc, gemm_f32_packed_bytes bytes */
};

/* Epilogue, applied to a result tile in registers: C = act(alpha * A*B + bias) + residual.
 * A NULL epilogue is {.alpha = 1}. */
struct steno_gemm_epilogue {
    const float *bias;     /* [N], or [M] when bias_rows, or NULL */
    const float *residual; /* [M, ldr], added after the activation, or NULL; must not overlap C */
    size_t ldr;
    enum steno_activation act;
    /* Bounds of CLIP; shift and offset of SWOOSH; parameters a and b of the kernel slot for
     * HARD_SIGMOID, LEAKY_RELU, ELU. */
    float act_min, act_max;
    float alpha;    /* scale of A*B before the bias, usually 1; 0 means 0 */
    bool bias_rows; /* bias has one number per row of C (convolution: output channels) */
};

/* An 8-bit product: C = ep(sum_k (A[i,k] - a_zero[i]) (B[k,j] - b_zero[j])). The sums are exact
 * modulo 2^32 at every level. Packed B contains its signedness and zero points. With scale NULL, C
 * is the i32 sums and ep is ignored. Otherwise C is f32 and each step is rounded by itself (no
 * fused multiply-add), so that all levels give the same bits before the activation:
 *     v = f32(sum) * scale[j];  v *= row_scale[i];  v += bias[j];  v = act(v);  v += residual[i,j]
 * Steps whose operand is NULL are left out. alpha and bias_rows of ep are ignored. SiLU is within
 * 2^-13 of the exact value, a fiftieth of a step of 8 bits. */
struct steno_gemm_i8 {
    size_t m, n, k;
    const void *a; /* [M, lda] bytes */
    size_t lda;
    /* Number of rows of A that are readable memory; 0: M. Rows from M on do not change the result.
     * Level amx multiplies A in place, without a copy, where a_rows is steno_gemm_i8_rows(m) and
     * lda is steno_gemm_i8_lda(k), an odd multiple of 64 bytes. */
    size_t a_rows;
    bool a_signed;                        /* A is i8, else u8 */
    const int32_t *a_zero;                /* within the range of A's type; NULL = 0 */
    size_t a_zero_step;                   /* 0: one for all rows; 1: one per row */
    const void *packed;                   /* from gemm_i8_pack */
    const float *scale;                   /* [N] or NULL */
    const float *row_scale;               /* [M] or NULL */
    const struct steno_gemm_epilogue *ep; /* or NULL */
    void *c;                              /* [M, ldc] i32 or f32; must not overlap A */
    size_t ldc;
};

static inline size_t steno_gemm_i8_lda(size_t k)
{
    return ((k + 63) / 64 | 1) * 64;
}

static inline size_t steno_gemm_i8_rows(size_t m)
{
    return (m + 31) / 32 * 32;
}

/* 8-bit weights to pack: stored [K,N], or [N,K] when trans, with row stride ldb. */
struct steno_weights_i8 {
    size_t k, n;
    const void *b;
    size_t ldb;
    bool trans, is_signed;
    const int32_t *zero; /* within the range of B's type; NULL = 0 */
    size_t zero_step;    /* 0: one for all columns; 1: one per column */
};

struct steno_conv;

/* The f32 product with weights in fewer bits. The slots work like gemm_f32_packed_bytes,
 * gemm_f32_pack (here it rounds to nearest even) and gemm_f32_packed_part, with the same
 * guarantees. The kernel widens the weights. At level bf16 it rounds A to bf16 instead (to nearest
 * even, denormals to zero), sums in f32, and computes SiLU within 2^-13. conv: as conv_nhwc_f32
 * with group 1; its packed weights are [kernel0 * kernel1 * c_in, c_out], all channels of one tap
 * after the other. */
struct steno_gemm_weights {
    size_t (*packed_bytes)(size_t k, size_t n);
    void (*pack)(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n);
    void (*part)(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *packed,
                 float *c, size_t ldc, const struct steno_gemm_epilogue *ep, size_t part,
                 size_t n_parts);
    void (*conv)(const struct steno_conv *s, const float *x, const void *packed, float *y,
                 const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts);
    /* As conv_winograd_f32 below. NULL where conv is faster for all images (level amx). */
    void (*conv_winograd)(const struct steno_conv *s, const float *x, const void *packed, float *y,
                          const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts);
};

/* Weights of few bits with a scale and a zero point for each block of K: [N] rows of [blocks]
 * blocks, in the layout of ONNX Runtime's MatMulNBits. w[k,n] = (q - zero) * scale. */
struct steno_nbits {
    size_t k, n, bits, block; /* bits 2, 4, 8; block even */
    const uint8_t *q;         /* [N, blocks, block * bits / 8], lowest bits first */
    const float *scale;       /* [N, blocks] */
    const float *zero;        /* [N, blocks]; not read unless has_zero */
    bool has_zero;            /* false: all zero points are 2^(bits - 1) */
};

static inline uint8_t steno_nbits_value(const struct steno_nbits *b, size_t k, size_t n)
{
    size_t blocks = (b->k + b->block - 1) / b->block;
    const uint8_t *row = b->q + n * blocks * b->block * b->bits / 8;
    return (uint8_t)(row[k * b->bits / 8] >> (k * b->bits % 8) & ((1u << b->bits) - 1));
}

/* The f32 product with steno_nbits weights. They keep their few bits in memory and the kernel
 * widens them. q, scale and zero are not read after packing. work: scratch of work_bytes for all
 * parts together. Sums are f32. Their order, and so the last bits, may depend on M. */
struct steno_gemm_nbits {
    size_t (*packed_bytes)(const struct steno_nbits *b);
    void (*pack)(void *dst, const struct steno_nbits *b);
    size_t (*work_bytes)(const struct steno_nbits *b, size_t n_parts);
    void (*part)(const struct steno_nbits *b, size_t m, const float *a, size_t lda,
                 const void *packed, float *c, size_t ldc, const struct steno_gemm_epilogue *ep,
                 void *work, size_t part, size_t n_parts);
};

/* One image through one 2-D convolution; 1-D has in[0] = out[0] = kernel[0] = 1. Channels first:
 * x [c_in, in0, in1], w [c_out, c_in / group, kernel0, kernel1], y [c_out, out0, out1].
 * Padding is implicit zeros: `pad` is the padding before the image; the padding after it follows
 * from `out`. ONNX Conv, opset 1 and later. */
struct steno_conv {
    size_t c_in, c_out, group; /* group divides both */
    size_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
};

/* One head of attention with few rows and keys: y [m, v_size] = softmax(scale * q k' + mask) v.
 * q [m, size], k [n, size], v [n, v_size], mask [m, n] or NULL; ld*: row strides in elements. Up to
 * a multiple of 8 rows of k are read; the additional ones do not change the result. y overlaps no
 * input. */
#define STENO_ATTEND_FEW_ROWS 8
#define STENO_ATTEND_FEW_KEYS 64
#define STENO_ATTEND_FEW_SIZE 128 /* maximum of size; v_size has none */
struct steno_attend_few {
    const float *q, *k, *v, *mask;
    float *y;
    size_t ldq, ldk, ldv, ldm, ldy, size, v_size;
    float scale;
};

/* The keys that a row sees: [from, to). mask, which may be NULL, is added to their scores; its
 * first element belongs to the first key of the call. */
struct steno_attend_seen {
    size_t from, to;
    const float *mask;
};

/* A row tile of one head of attention, for keys [from, to), in f32 or with factors rounded to bf16
 * and sums in f32:
 *     t = scale * ((q + q_bias) k' + (q + p_bias) p') + mask,  w = e^(t - max),  o += w v
 * max is the largest t of a row so far; attend_bf16, whose w are powers of two, has it in units of
 * STENO_ATTEND_LOG2. o and sum (of w) are in units of e^(the largest t). Several calls for
 * consecutive keys accumulate: start with sum 0, max -inf and `first`. The result is o / sum. Where
 * max is -inf and sum is not NaN, the row saw no key. */
#define STENO_ATTEND_LOG2 0.693147181f /* log 2 */
#define STENO_ATTEND_ROWS 32
#define STENO_ATTEND_SIZE 256 /* maximum of size; v_size has none */
#define STENO_KV_PAGE_KEYS 128
struct steno_attend {
    size_t m, keys, size, v_size;     /* m: rows, 1..STENO_ATTEND_ROWS; keys: all packed keys */
    const float *q, *q_bias, *p_bias; /* [m, ldq]; [size] or NULL */
    size_t ldq;
    const void *k, *v; /* [size, keys], [keys, v_size], packed by the kernel's pack */
    /* Positions, packed as [size, .] from the one for key `from` on, or NULL. Score (i, j) uses
     * position j - from or, with shifted, j - from + STENO_ATTEND_ROWS - 1 - i. Whole panels of 32
     * are read. */
    const void *p;
    bool shifted;
    size_t from, to; /* from: a multiple of 32 */
    float scale;
    const struct steno_attend_seen *seen; /* [m], or NULL: rows see all keys */
    bool first;
    bool cold; /* k, v and what follows them in memory are not in the caches: prefetch them */
    float *max, *sum; /* [m] */
    float *o;         /* [STENO_ATTEND_ROWS, steno_attend_ldo(v_size)] */
};

static inline size_t steno_attend_ldo(size_t v_size)
{
    return (v_size + 31) / 32 * 32;
}

/* The kernel, and the packing of K, V and positions that it reads: as gemm_f32_packed_bytes and
 * gemm_f32_pack; with trans b are keys [n, k], without it values [k, n]. Matrices [k, 32 n] that
 * are packed one behind the other are one with the columns of all (not attend_i16). */
struct steno_attend_kernel {
    size_t (*packed_bytes)(size_t k, size_t n);
    void (*pack)(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n);
    void (*attend)(const struct steno_attend *a);
};

enum steno_attend_form {
    STENO_ATTEND_PRODUCTS, /* matrix products, and softmax apart */
    STENO_ATTEND_F32,
    STENO_ATTEND_BF16,
    STENO_ATTEND_I16
};

/* Attention of queries of one head to keys and values in 8 bits:
 *     t = scale * q k',  w = e^(t - max t),  y = sum w v / sum w
 * y is NaN where a number is not finite. */
struct steno_attend_i8 {
    size_t m, n;         /* queries, 1..STENO_ATTEND_ROWS; keys, 1 or more */
    size_t size, v_size; /* 1..STENO_ATTEND_SIZE */
    const float *q;      /* [m, ldq] */
    size_t ldq;
    const void *pages; /* of kv_pack_i8, one behind the other */
    float scale;
    float *y; /* [m, ldy] */
    size_t ldy;
};

/* Pooling of m rows of n outputs, stride 1 or 2: y[i * ldy + o] = the largest (max; NaN where one
 * is) of x[i * step + r * ldx + o * stride + c] for r < rows and c < cols, both at least 1; or the
 * sum over c of the sums over r. */
struct steno_pool {
    size_t m, n, rows, cols, stride;
    const float *x;
    size_t step, ldx;
    float *y; /* overlaps no input */
    size_t ldy;
    bool max;
};

struct steno_kernels {
    const char *level; /* "scalar", "avx2", "avx512", ... */
    unsigned cpu;      /* STENO_CPU_* mask in use */

    /* Runs multiply-adds in registers for `rounds` rounds. Returns the number of floating point
     * operations (nn/kernels/peak.h times them). */
    double (*peak_f32)(size_t rounds);
    double (*peak_bf16)(size_t rounds); /* with the instruction of gemm_bf16 */

    /* ---- elementwise ----
     * Errors of the vector levels against the exact value, over the whole range: exp, log, erf,
     * tanh, sigmoid <= 4 ulp (tested); silu x*sigmoid(x), gelu x/2*(1+erf(x/sqrt 2)): a few ulp of
     * the larger factor. min, max, relu, clip give NaN for NaN. */
    steno_unary_f32 *exp_f32, *log_f32, *tanh_f32, *sigmoid_f32, *erf_f32, *silu_f32, *gelu_f32,
        *relu_f32, *sqrt_f32, *neg_f32, *abs_f32, *recip_f32;
    /* hard_swish: x min(max(x/6 + 1/2, 0), 1); softplus: log(1 + e^x); softsign: x / (1 + |x|);
     * mish: x tanh(softplus(x)). Errors: softplus, mish and softsign <= 4 ulp (tested). */
    steno_unary_f32 *hard_swish_f32, *softplus_f32, *softsign_f32, *mish_f32;
    /* hard_sigmoid: min(max(a x + b, 0), 1); leaky_relu: x < 0 ? a x : x;
     * elu: x > 0 ? x : a (e^(b x) - 1), 4 ulp; thresholded_relu: x > a ? x : 0, and 0 for NaN
     * (ONNX). */
    steno_curve_f32 *hard_sigmoid_f32, *leaky_relu_f32, *elu_f32, *thresholded_relu_f32;
    steno_binary_f32 *add_f32, *sub_f32, *mul_f32, *div_f32, *min_f32, *max_f32;
    /* y = x * scale + shift; x == y allowed. */
    void (*affine_f32)(float *y, const float *x, size_t n, float scale, float shift);
    /* y = min(max(x, a), b). */
    steno_curve_f32 *clip_f32;
    /* Gated linear unit: y = a * sigmoid(b); y may be a or b. */
    void (*glu_f32)(float *y, const float *a, const float *b, size_t n);
    /* y = log(1 + e^(x - a)) - 0.08 x - b. The two sums are rounded to f32 as written. Zipformer
     * (Yao et al. 2024, section 3.4): SwooshL 4, 0.035; SwooshR 1, 0.313261687. */
    steno_curve_f32 *swoosh_f32;
    /* y += scale * x. */
    void (*axpy_f32)(float *y, const float *x, size_t n, float scale);

    /* ---- reductions ---- of n elements; empty: sum and dot 0, max and log_sum -inf,
     * min +inf. */
    float (*sum_f32)(const float *x, size_t n);
    float (*max_reduce_f32)(const float *x, size_t n);
    float (*min_reduce_f32)(const float *x, size_t n);
    void (*pool_f32)(const struct steno_pool *p);
    /* log of the sum of e^x; -inf where all are, NaN where one is. */
    float (*log_sum_f32)(const float *x, size_t n);
    float (*dot_f32)(const float *a, const float *b, size_t n);
    /* y[i * ldy + j] = a_i b_j for m rows a_i and `cols` rows b_j of n elements each: a small
     * product with a transposed B that is not packed. */
    void (*dots_f32)(float *y, size_t ldy, const float *a, size_t lda, size_t m, const float *b,
                     size_t ldb, size_t cols, size_t n);

    /* ---- rows ---- x, y [rows, cols] dense, cols >= 1, x == y allowed.
     * softmax: exp(x - max) / sum; log_softmax: x - max - log(sum). */
    void (*softmax_f32)(float *y, const float *x, size_t rows, size_t cols);
    void (*log_softmax_f32)(float *y, const float *x, size_t rows, size_t cols);
    /* y = (x - mean) / sqrt(var + eps) * gamma + beta over the last axis; gamma and beta may be
     * NULL. */
    void (*layernorm_f32)(float *y, const float *x, size_t rows, size_t cols, const float *gamma,
                          const float *beta, float eps);
    /* y = x / sqrt(mean(x*x) + eps) * gamma; gamma may be NULL. */
    void (*rmsnorm_f32)(float *y, const float *x, size_t rows, size_t cols, const float *gamma,
                        float eps);
    /* One block of a row of softmax (online softmax: Milakov and Gimelshein 2018):
     *     t = scale * (s + bias) + mask      (bias, mask: n elements or NULL)
     *     m' = max(*max, t), s = e^(t - m'), *sum = *sum * c + sum of s, *max = m'
     * Returns c = e^(*max - m'); the caller multiplies the results of earlier blocks by it. Start
     * with *max -inf and *sum 0. While every t so far is -inf, s = 0 and c = 1. */
    float (*softmax_step_f32)(float *s, size_t n, float scale, const float *bias, const float *mask,
                              float *max, float *sum);
    /* One head of one query against rows at arbitrary places: row i is at rows + at[i] * row.
     * s[i] = scale * q . row i for i < n. */
    void (*dot_rows_f32)(float *s, size_t n, const float *q, size_t size, float scale,
                         const float *rows, size_t row, const int32_t *at);
    /* y[0, size) = sum of w[i] * row i. */
    void (*mix_rows_f32)(float *y, size_t size, const float *w, size_t n, const float *rows,
                         size_t row, const int32_t *at);
    /* Attention of struct steno_attend_few for m (1..STENO_ATTEND_FEW_ROWS) rows and n
     * (1..STENO_ATTEND_FEW_KEYS) keys. y is NaN where all scores of a row are -inf. Needs 40 KiB of
     * stack. */
    void (*attend_few_f32)(size_t m, size_t n, const struct steno_attend_few *a);
    /* Each needs 110 KiB of stack. */
    struct steno_attend_kernel attend_f32, attend_bf16;
    /* The same with factors rounded to integers of 16 bits and fewer, without positions; size and
     * v_size up to STENO_ATTEND_SIZE. Numbers of a column of K or V are rounded to 1/2047 and
     * 1/1023 of the largest, those of a row of q, times what columns of K are in units of, to
     * 1/4095, weights to 1/16383. max is in units of STENO_ATTEND_LOG2. y is NaN where K, or the
     * column of V, has a number that is not finite. */
    struct steno_attend_kernel attend_i16;
    /* What is fastest at this level where results are f32, and where they may be rounded to 16
     * bits. */
    enum steno_attend_form attend_as, attend_rounded_as;
    /* Append keys [n, ldk] and values [n, ldv] of a head to a KV page, as numbers `at` and on of
     * its STENO_KV_PAGE_KEYS. The layout is what attend_bf16 reads: its pack of [size,
     * STENO_KV_PAGE_KEYS] keys, followed by its pack of [STENO_KV_PAGE_KEYS, v_size] values. The
     * rest of the page does not change; a new page is all zeros. */
    void (*kv_append_bf16)(void *page, size_t size, size_t v_size, size_t at, size_t n,
                           const float *k, size_t ldk, const float *v, size_t ldv);
    /* Write a KV page of 8 bits: keys [n, ldk] and values [n, ldv] of a head, n of its
     * STENO_KV_PAGE_KEYS; the others are zeros. Each key and each value is in units of its own,
     * its largest magnitude / 127. All levels write the same bytes: the keys' numbers plus 128 in
     * steps of four, [ceil(size / 4)][STENO_KV_PAGE_KEYS][4]; the values likewise, four keys to a
     * step, [STENO_KV_PAGE_KEYS / 4][v_size, padded to 16][4]; the units of keys, then of values,
     * in f32. size and v_size: 1..STENO_ATTEND_SIZE. */
    void (*kv_pack_i8)(void *page, size_t size, size_t v_size, size_t n, const float *k, size_t ldk,
                       const float *v, size_t ldv);
    /* Queries, and the weights of the keys of a page, are rounded to 16 bits: what it adds to the
     * error of the page's bytes is below 2^-14 of the largest. Needs 60 KiB of stack. */
    void (*attend_i8)(const struct steno_attend_i8 *a);
    /* dst [cols, rows] (row stride ldd) = transpose of src [rows, cols] (row stride lds). */
    void (*transpose_f32)(float *dst, size_t ldd, const float *src, size_t lds, size_t rows,
                          size_t cols);

    /* ---- matrix product ---- C[M,N] = act(alpha * A[M,K] * B[K,N] + bias) + residual; row strides
     * lda, ldc in elements. K = 0 gives the epilogue of zeros. C must not overlap A or B. ep may be
     * NULL. Packed form: B from gemm_f32_pack, gemm_f32_packed_bytes bytes, 64-byte aligned. Needs
     * up to 320 KiB of the caller's stack (8 bits at level avx2: 700 KiB; bf16 and 8 bits at level
     * amx: 1.2 MiB). */
    size_t (*gemm_f32_packed_bytes)(size_t k, size_t n);
    /* Columns of a panel, or 0. Where it is not 0, packed matrices can be joined: if all but the
     * last have a multiple of gemm_panel columns and each lies right behind the one before, they
     * are one packed B with the columns of all. This holds for f32 and for 16 bits. */
    size_t gemm_panel;
    /* trans: B is stored [N,K] with row stride ldb; else [K,N]. */
    void (*gemm_f32_pack)(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n);
    void (*gemm_f32_packed)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                            const void *packed, float *c, size_t ldc,
                            const struct steno_gemm_epilogue *ep);
    /* The same product in parts. Call it once for every part in [0, n_parts), in any order, on any
     * threads. The kernel divides the rows or the columns; a part may be empty. The bits equal
     * those of gemm_f32_packed for every n_parts. */
    void (*gemm_f32_packed_part)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                 const void *packed, float *c, size_t ldc,
                                 const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts);
    /* Unpacked: both sides are activations. trans_a: A is stored [K,M]; trans_b: B is stored [N,K].
     * work: 64-byte aligned scratch of gemm_f32_work bytes (may be 0). */
    size_t (*gemm_f32_work)(size_t m, size_t n, size_t k);
    void (*gemm_f32)(size_t m, size_t n, size_t k, const float *a, size_t lda, bool trans_a,
                     const float *b, size_t ldb, bool trans_b, float *c, size_t ldc,
                     const struct steno_gemm_epilogue *ep, void *work);

    struct steno_gemm_weights gemm_bf16, gemm_f16;
    struct steno_gemm_nbits gemm_nbits;

    /* ---- 8-bit product ---- Packed weights take one byte each (K rounded up to the level's group,
     * N to its panel) and 8 bytes per column; 64-byte aligned. Call gemm_i8_part once for every
     * part in [0, n_parts), like gemm_f32_packed_part. */
    double (*peak_i8)(size_t rounds); /* as peak_f32, in integer operations */
    size_t (*gemm_i8_packed_bytes)(size_t k, size_t n);
    void (*gemm_i8_pack)(void *dst, const struct steno_weights_i8 *w);
    void (*gemm_i8_part)(const struct steno_gemm_i8 *g, size_t part, size_t n_parts);
    size_t gemm_i8_rows; /* parts with this many rows each are divided by rows, not columns; 0: the
                          * number of rows alone does not decide */
    /* q = saturate(round_half_even(x / scale) + zero) to u8, or to i8 when to_signed; NaN gives 0.
     * ONNX QuantizeLinear, opset 10. */
    void (*quantize_f32)(void *q, const float *x, size_t n, float scale, int32_t zero,
                         bool to_signed);

    /* y = (q - zero) * scale for q of u8, or of i8 when is_signed; zero is within the range of q's
     * type. ONNX DequantizeLinear, opset 10. All levels give the same bits. */
    void (*dequantize_f32)(float *y, const void *q, size_t n, float scale, int32_t zero,
                           bool is_signed);

    /* Quantize x to u8 over the range of x and 0: scale = (max - min) / 255 (1 where that is 0),
     * *zero = rint(-min / scale), q = saturate(round_half_even(x * (1 / scale)) + zero). NaN is
     * left out of the range and gives 0. Returns the scale. n = 0: scale 1 and zero 0. All levels
     * give the same bits. Like ONNX DynamicQuantizeLinear, except for the reciprocal. */
    float (*quantize_row_f32)(uint8_t *q, const float *x, size_t n, int32_t *zero);
    /* The two halves of quantize_row_f32. range_f32 extends [range[0], range[1]] to contain all of
     * x; NaN is left out. quantize_in_f32 rounds x over such a range, which must contain 0 and all
     * of x. */
    void (*range_f32)(const float *x, size_t n, float *range);
    float (*quantize_in_f32)(uint8_t *q, const float *x, size_t n, const float *range,
                             int32_t *zero);

    /* ---- rows of a Winograd convolution (winograd.h) ----
     * Sum of n_x rows of n elements: x[0]; x[0] + s1 x[1]; or (x[0] + s1 x[1]) + s0 (x[2] + s1
     * x[3]). s0 and s1 are -1 where minus is true, else 1. range: extended by the sum, as in
     * range_f32. Returns the sum: `to`, or x[0]. All levels give the same bits. */
    const float *(*sum_rows_f32)(float *to, const float *const *x, size_t n_x, const bool *minus,
                                 size_t n, float *range);
    /* Add row [n] to count[0] x count[1] pixels of y. Pixels are `line` floats apart along axis 0
     * and n along axis 1. minus[d]: subtract from the second pixel along axis d. */
    void (*spread_row_f32)(float *y, size_t line, const size_t *count, const bool *minus,
                           const float *row, size_t n);

    /* ---- convolution ---- One image (the caller loops over the batch). ep: bias [c_out] with
     * bias_rows set, act, residual like y with ldr = out0*out1. conv_f32_work returns the size for
     * all n_parts together: the parts share one work block and may run at the same time. The bits
     * do not depend on n_parts. */
    size_t (*conv_f32_packed_bytes)(const struct steno_conv *s);
    void (*conv_f32_pack)(void *dst, const float *w, const struct steno_conv *s);
    size_t (*conv_f32_work)(const struct steno_conv *s, size_t n_parts);
    void (*conv_f32)(const struct steno_conv *s, const float *x, const void *packed, float *y,
                     const struct steno_gemm_epilogue *ep, void *work, size_t part, size_t n_parts);
    /* The same with channels last: x [in0, in1, c_in], y [out0, out1, c_out], w as above. group is
     * 1, or c_in with c_out = c_in. ep: bias [c_out] (bias_rows not set), act, residual like y with
     * ldr = c_out. Needs no work block. */
    size_t (*conv_nhwc_f32_packed_bytes)(const struct steno_conv *s);
    void (*conv_nhwc_f32_pack)(void *dst, const float *w, const struct steno_conv *s);
    void (*conv_nhwc_f32)(const struct steno_conv *s, const float *x, const void *packed, float *y,
                          const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts);
    /* The same for convolutions that steno_winograd_fits accepts (nn/kernels/winograd.h), with
     * fewer multiplications where the image is large enough. packed: by gemm_f32_pack,
     * [STENO_WINOGRAD_SLOTS * c_in, c_out], from the transposed result of steno_winograd_weights.
     * The kernel first takes sums and differences of up to 4 pixels, so an infinite or NaN pixel
     * gives NaN in up to 9 outputs around it. */
    void (*conv_winograd_f32)(const struct steno_conv *s, const float *x, const void *packed,
                              float *y, const struct steno_gemm_epilogue *ep, size_t part,
                              size_t n_parts);
    /* Depthwise 1-D convolution along time, channels last: x [T + K - 1, C], w [K, C],
     * y [T, C] = sum_k x[t + k, c] * w[k, c] + bias[c]; bias may be NULL. */
    void (*dwconv_f32)(float *y, const float *x, const float *w, const float *bias, size_t t,
                       size_t c, size_t k);
    /* Log-mel energies of n frames that begin at x, x + shift, ...; out [n, bins]. x contains all
     * their samples, which are finite. length <= fft.n <= STENO_FBANK_FFT. Every operation is
     * rounded by itself and in the order of scalar/fbank.c: the bits depend neither on n nor on the
     * level. */
    void (*fbank_f32)(const struct steno_fbank_tables *t, const float *x, size_t n, float *out);
};

/* Fill every slot of k for the CPU mask (base/cpu.h). The old contents of k are ignored. A slot is
 * NULL only where its comment allows it. k is frozen afterwards. */
void steno_kernels_init(steno_kernels *k, unsigned cpu);

/* Bytes of the keys of a KV page (kv_append_bf16), after which its values begin; bytes of the whole
 * page. */
static inline size_t steno_kv_page_key_bytes(const steno_kernels *k, size_t size)
{
    return k->attend_bf16.packed_bytes(size, STENO_KV_PAGE_KEYS);
}

static inline size_t steno_kv_page_bytes(const steno_kernels *k, size_t size, size_t v_size)
{
    return steno_kv_page_key_bytes(k, size) +
           k->attend_bf16.packed_bytes(STENO_KV_PAGE_KEYS, v_size);
}

/* Bytes of a KV page of 8 bits (kv_pack_i8), a multiple of 64. */
static inline size_t steno_kv_i8_page_bytes(size_t size, size_t v_size)
{
    return STENO_KV_PAGE_KEYS * ((size + 3) / 4 * 4 + (v_size + 15) / 16 * 16 + 2 * sizeof(float));
}

#endif
