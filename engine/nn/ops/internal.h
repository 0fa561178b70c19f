/* What operator families share: axis rules, element access, broadcasting and strided copies.
 *
 * There are three ways to handle types. Operators that move data (move, gather, shape, where) go by
 * element size. Elementwise arithmetic has a row function for each type; f16 and bf16 are computed
 * in f32, one buffer at a time. All other operators have an f32 form on the kernel table and a
 * plain f64 form: f16 and bf16 are widened to f32 in scratch, f64 and the remaining types use the
 * f64 form. */
#ifndef STENO_NN_OPS_INTERNAL_H
#define STENO_NN_OPS_INTERNAL_H

#include "nn/exec/op.h"

#include <string.h>

#define STENO_OPS_MAX_IN 16 /* operands of one broadcast row; more are combined in pairs */

/* ---- types ---- */
static inline bool steno_ops_is_float(steno_dtype t)
{
    return t == STENO_F32 || t == STENO_F16 || t == STENO_BF16 || t == STENO_F64;
}
static inline bool steno_ops_is_half(steno_dtype t)
{
    return t == STENO_F16 || t == STENO_BF16;
}
static inline bool steno_ops_f32_or_half(steno_dtype t)
{
    return t == STENO_F32 || steno_ops_is_half(t);
}
bool steno_ops_is_int(steno_dtype t); /* false for bool */

/* IEEE 754 binary16 and bfloat16. Rounds to nearest even; overflow gives infinity. */
float steno_ops_f16_to_f32(uint16_t h);
uint16_t steno_ops_f32_to_f16(float f);
uint16_t steno_ops_f64_to_f16(double d);
static inline float steno_ops_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
/* The bfloat16 nearest to f, as f32. All steps are on 32 bits, so that a loop over it
 * vectorizes. */
static inline float steno_ops_nearest_bf16(float f)
{
    uint32_t u, near;
    memcpy(&u, &f, sizeof u);
    near = u + 0x7fffu + (u >> 16 & 1u);
    near = (u & 0x7fffffffu) > 0x7f800000u ? u | 0x400000u : near; /* a NaN stays a NaN */
    near &= 0xffff0000u;
    memcpy(&f, &near, sizeof f);
    return f;
}
static inline uint16_t steno_ops_f32_to_bf16(float f)
{
    uint32_t u;
    f = steno_ops_nearest_bf16(f);
    memcpy(&u, &f, sizeof u);
    return (uint16_t)(u >> 16);
}

/* Convert n elements of any numeric type to f32, f64 or i64, and back. Integer results are
 * truncated towards zero and saturate; NaN gives 0. src and dst must not overlap. */
void steno_ops_load_f32(float *dst, const void *src, steno_dtype t, size_t n);
void steno_ops_store_f32(void *dst, steno_dtype t, const float *src, size_t n);
void steno_ops_load_f64(double *dst, const void *src, steno_dtype t, size_t n);
void steno_ops_store_f64(void *dst, steno_dtype t, const double *src, size_t n);
void steno_ops_load_i64(int64_t *dst, const void *src, steno_dtype t, size_t n); /* u64 wraps */

/* Element i of a tensor of any numeric type. */
double steno_ops_get_f64(const struct steno_tensor *t, size_t i);
void steno_ops_set_f64(struct steno_tensor *t, size_t i, double v);
int64_t steno_ops_get_i64(const struct steno_tensor *t, size_t i);

/* The elements of t as f32 (f64): t's own data if it has that type, else a converted copy in
 * scratch. NULL: out of memory. */
const float *steno_ops_as_f32(struct steno_op_ctx *ctx, const struct steno_tensor *t);
const double *steno_ops_as_f64(struct steno_op_ctx *ctx, const struct steno_tensor *t);
/* Prefetch n floats that will soon be read (written). Meant for state, which has left the caches
 * since the last chunk: many lines are requested at once, instead of one row after the other. */
static inline void steno_ops_prefetch(const float *p, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        __builtin_prefetch(p + i, 0);
}

static inline void steno_ops_prefetch_for_write(const float *p, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        __builtin_prefetch(p + i, 1);
}

/* Where to compute output t in f32 (f64): its own data, or scratch that steno_ops_put_* converts
 * from. */
float *steno_ops_out_f32(struct steno_op_ctx *ctx, const struct steno_tensor *t);
double *steno_ops_out_f64(struct steno_op_ctx *ctx, const struct steno_tensor *t);
void steno_ops_put_f32(struct steno_tensor *t, const float *buf);
void steno_ops_put_f64(struct steno_tensor *t, const double *buf);
/* For operators in f64: *x is input 0, which must be of floats, and *px its elements. */
STENO_MUST steno_status steno_ops_float_input(struct steno_op_ctx *ctx,
                                              const struct steno_tensor **x, const double **px,
                                              steno_err *err);
/* Make output 0, of type t and shape s; *py is where to compute it (steno_ops_put_f64). */
STENO_MUST steno_status steno_ops_float_output(struct steno_op_ctx *ctx, steno_dtype t,
                                               const struct steno_shape *s, struct steno_tensor **y,
                                               double **py, steno_err *err);
STENO_MUST steno_status steno_ops_nomem(const struct steno_op_ctx *ctx, steno_err *err);
STENO_MUST steno_status steno_ops_bad_type(const struct steno_op_ctx *ctx, steno_err *err,
                                           steno_dtype t);

/* ---- shapes ---- */
static inline size_t steno_ops_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}
/* Resolve an axis; a negative one counts from the end. False: outside [-rank, rank). */
static inline bool steno_ops_axis(int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return false;
    *out = (int)(axis < 0 ? axis + rank : axis);
    return true;
}
/* Product of the dims [from, to) of a concrete shape that has been checked. */
static inline size_t steno_ops_prod(const struct steno_shape *s, int from, int to)
{
    size_t n = 1;
    for (int i = from; i < to; i++)
        n *= (size_t)s->dim[i];
    return n;
}
/* Insert axis `axis` of extent dim; the rank is below STENO_MAX_RANK. Remove it. */
static inline void steno_ops_insert_axis(struct steno_shape *s, int axis, int64_t dim)
{
    memmove(s->dim + axis + 1, s->dim + axis, (size_t)(s->rank - axis) * sizeof *s->dim);
    s->dim[axis] = dim;
    s->rank++;
}
static inline void steno_ops_remove_axis(struct steno_shape *s, int axis)
{
    memmove(s->dim + axis, s->dim + axis + 1, (size_t)(s->rank - axis - 1) * sizeof *s->dim);
    s->rank--;
}
struct steno_shape steno_ops_shape(int rank, const int64_t *dim); /* dim may be NULL */
/* Row-major strides in elements. */
void steno_ops_strides(const struct steno_shape *s, int64_t *stride);
/* Read input `in` (i32 or i64) as a list of integers. STENO_ERR_FORMAT: absent or not integers;
 * STENO_ERR_INVAL: more than max. */
STENO_MUST steno_status steno_ops_ints(const struct steno_op_ctx *ctx, int in, int64_t *out,
                                       size_t max, size_t *n, steno_err *err);
/* Read attribute `name` if present, else input `in` if present; else *n = 0 and *found is false. */
STENO_MUST steno_status steno_ops_axes(const struct steno_op_ctx *ctx, const char *name, int in,
                                       int64_t *out, size_t max, size_t *n, bool *found,
                                       steno_err *err);
/* The same during inference. False: the input is present, but its value is not known yet. */
bool steno_ops_infer_axes(const struct steno_infer *ic, const char *name, int in, int64_t *out,
                          size_t max, size_t *n, bool *found);
/* Check that inputs [0, n_in) are present, where nn/ops/arity.c does not require them.
 * STENO_ERR_FORMAT names the number of the missing one. */
STENO_MUST steno_status steno_ops_need(const struct steno_op_ctx *ctx, int n_in, steno_err *err);

/* ---- inference shared by families ---- */
STENO_MUST steno_status steno_ops_infer_same(struct steno_infer *ic, steno_err *err);
STENO_MUST steno_status steno_ops_infer_broadcast(struct steno_infer *ic, steno_err *err);
STENO_MUST steno_status steno_ops_infer_compare(struct steno_infer *ic, steno_err *err);
/* Broadcast inputs `first` to `last` together into *out. */
STENO_MUST steno_status steno_ops_infer_bshape(struct steno_infer *ic, int first, int last,
                                               struct steno_shape *out, steno_err *err);

/* ---- broadcasting ---- The dims of the result are merged as far as every operand allows. The last
 * one is a row, in which each operand has step 1 or 0. */
struct steno_broadcast {
    int rank, n_in;
    size_t dim[STENO_MAX_RANK];                    /* the outer dims */
    size_t step[STENO_OPS_MAX_IN][STENO_MAX_RANK]; /* in elements */
    size_t rows, row;                              /* number of rows, elements per row */
    size_t row_step[STENO_OPS_MAX_IN];             /* 0 or 1 */
};
struct steno_broadcast_pos {
    size_t idx[STENO_MAX_RANK];
    size_t at[STENO_OPS_MAX_IN]; /* element offset of each operand in the current row */
};
/* out must be the broadcast shape of the inputs (the caller has checked it with
 * steno_shape_broadcast). */
void steno_broadcast_init(struct steno_broadcast *b, const struct steno_shape *out,
                          const struct steno_shape *const *in, int n_in);
void steno_broadcast_start(const struct steno_broadcast *b, struct steno_broadcast_pos *p,
                           size_t row);
void steno_broadcast_next(const struct steno_broadcast *b, struct steno_broadcast_pos *p);
/* Broadcast shape of inputs [0, n_in) of a run; the error names the shapes. */
STENO_MUST steno_status steno_ops_bshape(const struct steno_op_ctx *ctx, int n_in,
                                         struct steno_shape *out, steno_err *err);

/* ---- strided copy ---- dst[sum i_d * ds_d] = src[sum i_d * ss_d] for every index below dim.
 * Strides are in elements of esize bytes (1, 2, 4 or 8); they may be negative, and zero in the
 * source. */
void steno_ops_copy(int rank, const int64_t *dim, size_t esize, void *dst, const int64_t *ds,
                    const void *src, const int64_t *ss);
/* Set n elements of esize bytes at dst to the element at value. */
void steno_ops_fill(void *dst, size_t n, size_t esize, const void *value);
/* Dense transposition: dst has dims src.dim[perm[i]]. */
void steno_ops_transpose(const struct steno_shape *s, const int *perm, size_t esize, void *dst,
                         const void *src);

/* ---- activations ---- y = act(y), n elements; act_min and act_max as in struct
 * steno_gemm_epilogue. */
void steno_ops_activate(const steno_kernels *k, enum steno_activation act, float act_min,
                        float act_max, float *y, size_t n);

/* Weight of cubic interpolation for an element at distance x (op_resize.c); a: mostly -0.75. */
double steno_ops_cubic_weight(double x, double a);

/* ---- parallel work ---- Split [0, n) into ranges of at least `grain` and call fn(arg, begin, end)
 * on the worker team; inline when n is small. */
void steno_ops_ranges(struct steno_op_ctx *ctx, size_t n, size_t grain,
                      void (*fn)(void *arg, size_t begin, size_t end), void *arg);
/* First row of part `part` of n rows. Many rows are split at whole tiles, as the products of level
 * amx split them, so that a row stays in the cache of one core from node to node. */
enum { STENO_ROWS_TOGETHER = 32 };
size_t steno_ops_row_of(size_t n, size_t part, size_t parts);

/* ---- matrix products (op_matmul.c) ---- */
/* C [m,n] = ep(A [m,k] * packed), on the worker team when the product is large enough. */
void steno_ops_gemm_packed(struct steno_op_ctx *ctx, size_t m, size_t n, size_t k, const float *a,
                           size_t lda, const void *packed, float *c, size_t ldc,
                           const struct steno_gemm_epilogue *ep);

/* y = x * sigmoid(alpha * x * (1 + cubic * x^2)). Swish has cubic 0; the tanh form of Gelu has the
 * two constants below (0.5 (1 + tanh u) = sigmoid(2 u)). x == y is allowed. */
#define STENO_OPS_GELU_ALPHA 1.5957691216f /* 2 sqrt(2 / pi) */
#define STENO_OPS_GELU_CUBIC 0.044715f
void steno_ops_gate_f32(const steno_kernels *k, float *y, const float *x, size_t n, float alpha,
                        float cubic);

#endif
