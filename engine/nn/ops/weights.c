#include "nn/ops/weights.h"

#include "nn/ops/int8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_INT8_K = 16 }; /* int8 gains nothing on shorter sums */

void steno_weights_free(void *priv)
{
    struct steno_weights *w = priv;
    if (!w)
        return;
    free(w);
}

/* ---- quantization ---- */

/* Columns that are being quantized: COLUMNS at a time, each contiguous. */
enum { COLUMNS = 16, BINS = 256 };

struct columns {
    const steno_kernels *k;
    float *x;     /* [COLUMNS][K] */
    float *rest;  /* [K] of the elements `at`, which may be rounded to the other side */
    uint32_t *at; /* [K] */
};

/* Rows of a matrix are pages apart, which the hardware prefetcher does not follow; the next
 * DISTANCE rows are prefetched here. */
static void gather(const steno_kernels *k, float *to, const float *w, size_t ldw, bool trans,
                   size_t rows, size_t n, size_t cols)
{
    enum { DISTANCE = 32 };
    if (trans) {
        for (size_t c = 0; c < cols; c++)
            memcpy(to + c * rows, w + (n + c) * ldw, rows * sizeof *to);
        return;
    }
    for (size_t r = 0; r < rows; r += DISTANCE) {
        const size_t some = rows - r < DISTANCE ? rows - r : DISTANCE;
        for (size_t i = r + DISTANCE; i < rows && i < r + 2 * DISTANCE; i++)
            __builtin_prefetch(w + i * ldw + n);
        k->transpose_f32(to + r, rows, w + r * ldw + n, ldw, some, cols);
    }
}

static size_t bin_of(float rest) /* rest is in (0, 1/2] */
{
    const float at = rest * 2 * BINS;
    return at < BINS - 1 ? (size_t)at : BINS - 1;
}

/* Round `flips` of n elements to the other side; those nearest to the midpoint go first. */
static void flip(const struct columns *b, size_t n, int8_t *q, int sign, size_t flips)
{
    size_t count[BINS] = {0}, least = BINS;
    for (size_t i = 0; i < n; i++)
        count[bin_of(b->rest[i])]++;
    for (size_t sum = 0; least && sum < flips; sum += count[--least])
        ;
    for (int pass = 0; pass < 2; pass++) /* first all bins above `least`, then part of it */
        for (size_t i = 0; i < n && flips; i++) {
            const size_t at = bin_of(b->rest[i]);
            if (pass ? at != least : at <= least)
                continue;
            q[b->at[i]] = (int8_t)(q[b->at[i]] + sign);
            flips--;
        }
}

/* Collect the elements for which rounding left more than `more` steps on the side of sign. */
static size_t candidates(const struct columns *b, const float *x, const int8_t *q, size_t n,
                         float by, int sign, float more)
{
    const float side = (float)sign;
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        const float rest = (x[i] * by - (float)q[i]) * side;
        b->rest[found] = rest;
        b->at[found] = (uint32_t)i;
        found += rest > more && q[i] * sign < 127;
    }
    return found;
}

/* Errors are computed and squared in blocks of SOME: a loop of a known length vectorizes. */
enum { SOME = 512 };

static inline __attribute__((always_inline)) double squares_of(const float *x, const int8_t *q,
                                                               size_t n, float step)
{
    float off[SOME];
    for (size_t i = 0; i < n; i++)
        off[i] = x[i] - step * (float)q[i];
    return steno_square_sum(off, n);
}

static double squares(const float *x, const int8_t *q, size_t n, float step)
{
    double error = 0;
    for (; n >= SOME; n -= SOME, x += SOME, q += SOME)
        error += squares_of(x, q, SOME, step);
    return error + squares_of(x, q, n, step);
}

/* Quantize one column to q over its own range, symmetric; *scale is the step. The rounding errors
 * of the column add up to at most half a step. Activations mostly have a mean, above all after a
 * ReLU, and that mean would multiply the sum of the errors. Returns the sum of squared errors. */
static double round_column(const struct columns *b, const float *x, size_t n, int8_t *q,
                           float *scale)
{
    enum { MOST = 1 << 20 };
    float range[2] = {0, 0}, step, rest;
    size_t flips, found;
    int64_t sum = 0;
    int sign;
    b->k->range_f32(x, n, range);
    step = fmaxf(-range[0], range[1]) / 127;
    step = step > 0 && 1 / step < INFINITY && step < INFINITY ? step : 1;
    *scale = step;
    b->k->quantize_f32(q, x, n, step, 0, true);
    for (size_t i = 0; i < n; i += MOST) {
        int32_t part = 0;
        for (size_t j = i; j < n && j < i + MOST; j++)
            part += q[j];
        sum += part;
    }
    rest = b->k->sum_f32(x, n) / step - (float)sum;
    if (fabsf(rest) > 0.5f && fabsf(rest) < (float)n) {
        sign = rest < 0 ? -1 : 1;
        flips = (size_t)lrintf(fabsf(rest));
        found = candidates(b, x, q, n, 1 / step, sign,
                           fmaxf(0, 0.5f - (1.5f * (float)flips + 8) / (float)n));
        if (found < flips)
            found = candidates(b, x, q, n, 1 / step, sign, 0);
        flip(b, found, q, sign, flips);
    }
    return squares(x, q, n, step);
}

/* Quantize each column to i8; q [N, K]. False: out of memory. */
static bool round_i8(struct steno_weights *p, const steno_kernels *k, const float *w, size_t ldw,
                     bool trans, int8_t *q, double *error)
{
    struct columns b = {.k = k};
    b.x = malloc((COLUMNS + 1) * (p->k + 1) * sizeof *b.x);
    b.at = malloc((p->k + 1) * sizeof *b.at);
    if (!b.x || !b.at) {
        free(b.x);
        free(b.at);
        return false;
    }
    b.rest = b.x + COLUMNS * p->k; /* candidates() writes one element past what it holds */
    for (size_t n = 0; n < p->n; n += COLUMNS) {
        const size_t cols = p->n - n < COLUMNS ? p->n - n : COLUMNS;
        gather(k, b.x, w, ldw, trans, p->k, n, cols);
        for (size_t c = 0; c < cols; c++)
            *error += round_column(&b, b.x + c * p->k, p->k, q + (n + c) * p->k, &p->scale[n + c]);
    }
    free(b.x);
    free(b.at);
    return true;
}

static inline __attribute__((always_inline)) double error_of(const float *x, size_t n, bool bf16)
{
    float off[SOME];
    for (size_t i = 0; i < n; i++)
        off[i] = x[i] - (bf16 ? steno_ops_nearest_bf16(x[i])
                              : steno_ops_f16_to_f32(steno_ops_f32_to_f16(x[i])));
    return steno_square_sum(off, n);
}

static double error_of_row(const float *x, size_t n, bool bf16)
{
    double error = 0;
    for (; n >= SOME; n -= SOME, x += SOME)
        error += bf16 ? error_of(x, SOME, true) : error_of(x, SOME, false);
    return error + error_of(x, n, bf16);
}

static double error_16(const struct steno_weights *p, const float *w, size_t ldw, bool trans)
{
    const size_t rows = trans ? p->n : p->k, cols = trans ? p->k : p->n;
    double error = 0;
    for (size_t r = 0; r < rows; r++)
        error += error_of_row(w + r * ldw, cols, p->precision == STENO_BF16_WEIGHTS);
    return error;
}

/* The kernels for weights that are packed neither as f32 nor as bytes. */
static const struct steno_gemm_weights *kernels_of(const steno_kernels *k, enum steno_precision p)
{
    return p == STENO_FP16_WEIGHTS ? &k->gemm_f16 : &k->gemm_bf16;
}

struct steno_gemm_weights steno_weights_as(const steno_kernels *k, enum steno_precision p)
{
    if (p == STENO_FP32)
        return (struct steno_gemm_weights){k->gemm_f32_packed_bytes, k->gemm_f32_pack,
                                           k->gemm_f32_packed_part, NULL, NULL};
    return *kernels_of(k, p);
}

double steno_weights_error(const float *w, size_t n, enum steno_precision p)
{
    return p == STENO_FP32 ? 0 : error_of_row(w, n, p != STENO_FP16_WEIGHTS);
}

/* ---- packing: one block; for i8 first the scales, then the packed weights ---- */

static size_t data_bytes(const struct steno_weights *p, const steno_kernels *k)
{
    return steno_aligned(p->precision == STENO_INT8_WEIGHTS
                             ? k->gemm_i8_packed_bytes(p->k, p->n)
                             : steno_weights_as(k, p->precision).packed_bytes(p->k, p->n));
}

static struct steno_weights *describe(const struct steno_prepare *pc,
                                      enum steno_precision precision, size_t rows, size_t cols)
{
    struct steno_weights *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->k = rows;
    p->n = cols;
    p->precision = precision == STENO_INT8_WEIGHTS && rows < MIN_INT8_K ? STENO_FP32 : precision;
    p->bytes = data_bytes(p, steno_prepare_kernels(pc));
    if (p->precision == STENO_INT8_WEIGHTS)
        p->bytes += steno_aligned(cols * sizeof *p->scale);
    return p;
}

/* Scales come first: the product before prefetches what lies behind its own weights, and the scales
 * are read together with the first of these weights. */
static void place(struct steno_weights *p, void *block)
{
    p->data = block;
    if (p->precision == STENO_INT8_WEIGHTS) {
        p->scale = block;
        p->data = (char *)block + steno_aligned(p->n * sizeof *p->scale);
    }
}

static bool fill(struct steno_weights *p, const steno_kernels *k, const float *w, size_t ldw,
                 bool trans, double *error)
{
    int8_t *q;
    *error = 0;
    if (p->precision != STENO_INT8_WEIGHTS) {
        steno_weights_as(k, p->precision).pack(p->data, w, ldw, trans, p->k, p->n);
        *error = p->precision == STENO_FP32 ? 0 : error_16(p, w, ldw, trans);
        return true;
    }
    q = malloc(p->k * p->n + 1);
    if (!q || !round_i8(p, k, w, ldw, trans, q, error)) {
        free(q);
        return false;
    }
    k->gemm_i8_pack(
        p->data, &(struct steno_weights_i8){
                     .k = p->k, .n = p->n, .b = q, .ldb = p->k, .trans = true, .is_signed = true});
    free(q);
    return true;
}

const struct steno_gemm_weights *steno_weights_kernels(const steno_kernels *k,
                                                       const struct steno_weights *w)
{
    return kernels_of(k, w->precision);
}

/* ---- weights that a precision does not hold ---- */

/* True if n weights stay finite in p, or in what a Winograd transform makes of them. */
static bool stays_finite(const steno_kernels *k, enum steno_precision p, const float *w, size_t n,
                         bool transformed)
{
    const float most = (p == STENO_FP16_WEIGHTS   ? 65504.0f
                        : p == STENO_BF16_WEIGHTS ? 3.38e38f
                                                  : 1e30f) /
                       (transformed ? 64 : 1);
    float range[2] = {0, 0};
    k->range_f32(w, n, range);
    if (range[0] >= -most && range[1] <= most)
        return p != STENO_INT8_WEIGHTS || isfinite(steno_square_sum(w, n));
    for (size_t i = 0; i < n; i++)
        if (isfinite(w[i]) ? fabsf(w[i]) > most : p == STENO_INT8_WEIGHTS)
            return false;
    return true;
}

bool steno_weights_finite(const steno_kernels *k, enum steno_precision p, const float *w, size_t n)
{
    return p == STENO_FP32 || stays_finite(k, p, w, n, false);
}

/* True if the precision of p holds w [n]: p is one of `parts` blocks (0: one that is not aligned),
 * and in f32 each would take f32_bytes. The size of what an earlier load packed says how it was,
 * and then w may not be there: so both sizes differ, if need be by a larger *f32_bytes. */
static bool stays_lowered(struct steno_prepare *pc, const struct steno_weights *p,
                          size_t *f32_bytes, size_t parts, const float *w, size_t n,
                          bool transformed)
{
    const size_t filled = steno_prepare_filled(pc);
    bool lowered;
    if (steno_aligned(*f32_bytes) == steno_aligned(p->bytes))
        *f32_bytes = steno_aligned(*f32_bytes) + 64;
    lowered = filled
                  ? filled != (parts ? steno_aligned(*f32_bytes) * parts : *f32_bytes)
                  : !w || stays_finite(steno_prepare_kernels(pc), p->precision, w, n, transformed);
    if (!lowered && !filled)
        steno_prepare_overflowed(pc);
    return lowered;
}

/* Weights [rows, cols] of `parts` blocks (0: one that is not aligned) in the network's precision,
 * or in f32 if it does not hold w [n]. NULL: out of memory. */
static struct steno_weights *describe_lowered(struct steno_prepare *pc, const float *w, size_t n,
                                              bool transformed, size_t rows, size_t cols,
                                              size_t parts)
{
    struct steno_weights *p = describe(pc, steno_prepare_precision(pc), rows, cols), *f32;
    bool lowered;
    if (!p || p->precision == STENO_FP32)
        return p;
    f32 = describe(pc, STENO_FP32, rows, cols);
    if (!f32) {
        steno_weights_free(p);
        return NULL;
    }
    lowered = stays_lowered(pc, p, &f32->bytes, parts, w, n, transformed);
    steno_weights_free(lowered ? f32 : p);
    return lowered ? p : f32;
}

/* The source of packed weights: w itself, or what `transform` computes from it. */
struct source {
    const float *w;
    size_t ldw;
    bool trans;
    const struct steno_weight_transform *transform;
};

/* Start the key of a block: who packs it, and the form that it gets. */
static struct steno_packing packing_of(const char *who, const struct steno_weights *p)
{
    const size_t form[] = {p->k, p->n, (size_t)p->precision};
    struct steno_packing how = {.n = 0};
    steno_packing_put(&how, who, strlen(who));
    steno_packing_put(&how, form, sizeof form);
    return how;
}

static void put_transform(struct steno_packing *how, const struct steno_weight_transform *m)
{
    if (!m)
        return;
    steno_packing_put(how, &m->make, sizeof m->make);
    steno_packing_put(how, m->arg, m->arg_bytes);
}

static bool fill_from(struct steno_prepare *pc, struct steno_weights *p, struct source s)
{
    const steno_kernels *k = steno_prepare_kernels(pc);
    float *transposed = NULL;
    double error;
    bool ok;
    if (s.transform) {
        transposed = malloc(p->k * p->n * sizeof *transposed + 1);
        if (!transposed)
            return false;
        s.transform->make(transposed, s.w, s.transform->arg);
        s = (struct source){.w = transposed, .ldw = p->k, .trans = true};
    }
    ok = fill(p, k, s.w, s.ldw, s.trans, &error);
    if (ok)
        steno_prepare_rounded(pc, s.w, p->k * p->n, p->precision != STENO_FP32, error);
    free(transposed);
    return ok;
}

/* Pack weights [rows, cols] into the memory of input `in`, unless that memory is filled already. */
static steno_status pack(struct steno_prepare *pc, int in, size_t rows, size_t cols,
                         struct source s, struct steno_weights **out, steno_err *err)
{
    const struct steno_tensor *t = steno_prepare_const(pc, in);
    const size_t numbers = t ? steno_numel(t) : 0;
    size_t *f32_bytes = s.transform ? s.transform->f32_bytes : NULL;
    struct steno_weights *p =
        f32_bytes ? describe(pc, steno_prepare_precision(pc), rows, cols)
                  : describe_lowered(pc, s.w, numbers, s.transform != NULL, rows, cols, 0);
    struct steno_packing how = {.n = 0};
    bool filled;
    void *block;
    *out = NULL;
    if (p && f32_bytes && !stays_lowered(pc, p, f32_bytes, 0, s.w, numbers, false)) {
        steno_weights_free(p);
        return STENO_OK;
    }
    if (p) {
        how = packing_of("matrix", p);
        steno_packing_put(&how, &s.trans, sizeof s.trans);
        put_transform(&how, s.transform);
    }
    block = p ? steno_prepare_memory(pc, in, p->bytes, &how, &filled) : NULL;
    if (block)
        place(p, block);
    if (!block || (!filled && !fill_from(pc, p, s))) {
        steno_weights_free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    *out = p;
    return STENO_OK;
}

steno_status steno_prepare_weights(struct steno_prepare *pc, int in, bool trans,
                                   struct steno_weights **out, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_tensor *w = in < n->n_in ? steno_prepare_const(pc, in) : NULL;
    size_t rows, cols;
    *out = NULL;
    if (!w || w->dtype != STENO_F32 || w->shape.rank != 2 || !steno_numel(w))
        return STENO_OK;
    rows = (size_t)w->shape.dim[0];
    cols = (size_t)w->shape.dim[1];
    return pack(pc, in, trans ? cols : rows, trans ? rows : cols,
                (struct source){.w = w->data, .ldw = cols, .trans = trans}, out, err);
}

steno_status steno_prepare_weights_transformed(struct steno_prepare *pc, int in,
                                               const struct steno_weight_transform *m,
                                               struct steno_weights **out, steno_err *err)
{
    return pack(pc, in, m->k, m->n,
                (struct source){.w = steno_prepare_const(pc, in)->data, .transform = m}, out, err);
}

steno_status steno_infer_linear(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1);
    if (!x.rank || (w.rank >= 0 && w.rank != 2))
        return steno_fail(err, STENO_ERR_INVAL, "X has rank %d, but W has rank %d", x.rank, w.rank);
    if (x.rank > 0 && w.rank == 2) {
        if (x.dim[x.rank - 1] >= 0 && x.dim[x.rank - 1] != w.dim[0])
            return steno_fail(err, STENO_ERR_INVAL, "inner dimensions differ");
        x.dim[x.rank - 1] = w.dim[1];
    }
    steno_infer_set(ic, 0, STENO_F32, &x);
    return STENO_OK;
}

/* ---- weights that the graph has in 8 bits ---- */

/* W [K, N] bytes, real value (q - zero) * scale; zero may be NULL. Bytes with a packed form in a
 * cache have no elements here (w->data is NULL). */
struct bytes {
    const struct steno_tensor *w, *scale, *zero;
};

static bool find_bytes(const struct steno_prepare *pc, int in, int scale_in, struct bytes *b)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    size_t cols;
    b->w = steno_prepare_const(pc, in);
    b->scale = scale_in < n->n_in ? steno_prepare_const(pc, scale_in) : NULL;
    b->zero = scale_in + 1 < n->n_in ? steno_prepare_const(pc, scale_in + 1) : NULL;
    if (!b->w || !steno_ops_is_byte(b->w->dtype) || b->w->shape.rank != 2 || !steno_numel(b->w) ||
        !b->scale || !b->scale->data || b->scale->dtype != STENO_F32)
        return false;
    cols = (size_t)b->w->shape.dim[1];
    return (steno_numel(b->scale) == 1 || steno_numel(b->scale) == cols) &&
           (!b->zero || (b->zero->data && b->zero->dtype == b->w->dtype &&
                         (steno_numel(b->zero) == 1 || steno_numel(b->zero) == cols)));
}

static void also_scales(struct steno_packing *how, int scale_in)
{
    how->also[0] = scale_in;
    how->also[1] = scale_in + 1;
}

steno_status steno_prepare_weights_bytes(struct steno_prepare *pc, int in, int scale_in,
                                         struct steno_weights **out, steno_err *err)
{
    const steno_kernels *k = steno_prepare_kernels(pc);
    struct steno_packing how = {.n = 0};
    struct steno_weights *p;
    struct bytes b;
    void *block;
    bool filled;
    *out = NULL;
    if (!find_bytes(pc, in, scale_in, &b) || b.w->shape.dim[0] < MIN_INT8_K)
        return STENO_OK;
    p = describe(pc, STENO_INT8_WEIGHTS, (size_t)b.w->shape.dim[0], (size_t)b.w->shape.dim[1]);
    if (p) {
        how = packing_of("bytes", p);
        also_scales(&how, scale_in);
    }
    block = p ? steno_prepare_memory(pc, in, p->bytes, &how, &filled) : NULL;
    if (block)
        place(p, block);
    if (!block || (!filled && !steno_ops_pack_i8(
                                  k, p->data,
                                  &(struct steno_weights_i8){.k = p->k,
                                                             .n = p->n,
                                                             .b = b.w->data,
                                                             .ldb = p->n,
                                                             .is_signed = b.w->dtype == STENO_I8},
                                  b.zero))) {
        steno_weights_free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    for (size_t i = 0; !filled && i < p->n; i++)
        p->scale[i] = ((const float *)b.scale->data)[steno_numel(b.scale) > 1 ? i : 0];
    *out = p;
    return STENO_OK;
}

/* Dequantize columns [from, from + cols) to f32 [K, cols]. */
static void widen(const struct bytes *b, size_t from, size_t cols, float *to)
{
    const size_t rows = (size_t)b->w->shape.dim[0], all = (size_t)b->w->shape.dim[1];
    for (size_t c = 0; c < cols; c++) {
        float scale = ((const float *)b->scale->data)[steno_numel(b->scale) > 1 ? from + c : 0];
        int32_t zero =
            b->zero ? steno_ops_zero_at(b->zero, steno_numel(b->zero) > 1 ? from + c : 0) : 0;
        for (size_t r = 0; r < rows; r++)
            to[r * cols + c] = (float)(steno_ops_zero_at(b->w, r * all + from + c) - zero) * scale;
    }
}

/* ---- several blocks of columns ---- */

struct parts {
    const float *w; /* f32, or NULL: `bytes` has the weights, or `transform` computes them */
    struct bytes bytes;
    float *wide; /* for bytes: one part in f32 */
    const struct steno_weight_transform *transform;
    int scale_in; /* of bytes */
    size_t all;   /* columns */
    bool transposed;
};

static struct steno_packing packing_of_parts(const struct parts *s, const struct steno_weights *one,
                                             size_t parts)
{
    struct steno_packing how = packing_of("parts", one);
    steno_packing_put(&how, &parts, sizeof parts);
    steno_packing_put(&how, &s->transposed, sizeof s->transposed);
    put_transform(&how, s->transform);
    if (s->wide)
        also_scales(&how, s->scale_in);
    return how;
}

static bool fill_part(const struct parts *s, struct steno_weights *p, const steno_kernels *k,
                      size_t from, double *error)
{
    const size_t cols = s->transposed ? p->k : p->n;
    if (!s->wide)
        return fill(p, k, s->w + from, s->all, s->transposed, error);
    widen(&s->bytes, from, cols, s->wide);
    return fill(p, k, s->wide, cols, s->transposed, error);
}

/* Pack parts that are each like `one`; frees `one`. */
static steno_status pack_parts(struct steno_prepare *pc, int in, struct parts s,
                               struct steno_weights *one, size_t parts, struct steno_weights **out,
                               steno_err *err)
{
    const steno_kernels *k = steno_prepare_kernels(pc);
    const size_t each = one ? steno_aligned(one->bytes) : 0;
    struct steno_weights *p = calloc(parts, sizeof *p);
    float *transformed = NULL;
    bool filled = false, ok;
    double error = 0, part;
    struct steno_packing how = {.n = 0};
    char *block;
    if (one)
        how = packing_of_parts(&s, one, parts);
    block = p && one ? steno_prepare_memory(pc, in, parts * each, &how, &filled) : NULL;
    if (block && !filled && s.transform &&
        (transformed = malloc(parts * one->k * one->n * sizeof *transformed + 1)))
        s.transform->make(transformed, steno_prepare_const(pc, in)->data, s.transform->arg);
    s.w = transformed ? transformed : s.w;
    ok = block && (filled || s.w || s.wide);
    for (size_t i = 0; ok && i < parts; i++) {
        p[i] = *one;
        place(&p[i], block + i * each);
        ok = filled || fill_part(&s, &p[i], k, i * (s.transposed ? one->k : one->n), &part);
        error += filled || !ok ? 0 : part;
    }
    if (ok && !filled && s.w)
        steno_prepare_rounded(pc, s.w, parts * one->k * one->n, one->precision != STENO_FP32,
                              error);
    free(transformed);
    free(one);
    if (!ok) {
        free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    *out = p;
    return STENO_OK;
}

steno_status steno_prepare_weights_parts(struct steno_prepare *pc, int in, int scale_in,
                                         size_t parts, bool transposed, struct steno_weights **out,
                                         steno_err *err)
{
    const struct steno_tensor *w = steno_prepare_const(pc, in);
    const size_t rows = (size_t)w->shape.dim[0], all = (size_t)w->shape.dim[1], cols = all / parts;
    const bool f32 = w->dtype == STENO_F32;
    struct parts s = {
        .w = f32 ? w->data : NULL, .scale_in = scale_in, .transposed = transposed, .all = all};
    steno_status st;
    if (!f32 && (!find_bytes(pc, in, scale_in, &s.bytes) ||
                 !(s.wide = malloc(rows * cols * sizeof *s.wide + 1))))
        return steno_fail(err, STENO_ERR_FORMAT, "8-bit weights without scales, or out of memory");
    if (all % parts)
        st = steno_fail(err, STENO_ERR_FORMAT, "%zu columns do not divide into %zu parts", all,
                        parts);
    else
        st = pack_parts(pc, in, s,
                        f32 ? describe_lowered(pc, s.w, rows * all, false, transposed ? cols : rows,
                                               transposed ? rows : cols, parts)
                            : describe(pc, STENO_INT8_WEIGHTS, transposed ? cols : rows,
                                       transposed ? rows : cols),
                        parts, out, err);
    free(s.wide);
    return st;
}

steno_status steno_prepare_weights_transformed_parts(struct steno_prepare *pc, int in,
                                                     const struct steno_weight_transform *m,
                                                     size_t parts, struct steno_weights **out,
                                                     steno_err *err)
{
    const struct parts s = {.transform = m, .transposed = true, .all = parts * m->k};
    return pack_parts(pc, in, s, describe(pc, STENO_INT8_WEIGHTS, m->k, m->n), parts, out, err);
}

/* ---- products ---- */

#define PART_MACS ((size_t)1 << 17) /* multiply-adds worth waking another thread for: ~5 us */
#define MAX_PARTS 64

struct job {
    const steno_kernels *k;
    const struct steno_weights *w;
    size_t m, lda, ldc, parts;
    const float *a;
    float *c;
    const struct steno_gemm_epilogue *ep;
};

static void run_part(void *arg, int part)
{
    const struct job *j = arg;
    const struct steno_weights *w = j->w;
    steno_weights_as(j->k, w->precision)
        .part(j->m, w->n, w->k, j->a, j->lda, w->data, j->c, j->ldc, j->ep, (size_t)part, j->parts);
}

/* Rows of A quantized to u8, each over its own range, and their product. */
struct rows {
    const steno_kernels *k;
    const float *a;
    size_t lda, parts;
    uint8_t *q;
    float *scale, alpha;
    int32_t *zero;
    struct steno_gemm_i8 g;
};

static void round_rows(void *arg, size_t begin, size_t end)
{
    const struct rows *r = arg;
    for (size_t i = begin; i < end; i++)
        r->scale[i] = r->alpha * r->k->quantize_row_f32(r->q + i * r->g.lda, r->a + i * r->lda,
                                                        r->g.k, &r->zero[i]);
}

/* Quantize and multiply the rows of one part, on one thread. */
static void linear_rows(void *arg, int part)
{
    const struct rows *r = arg;
    const size_t begin = steno_ops_row_of(r->g.m, (size_t)part, r->parts);
    const size_t end = steno_ops_row_of(r->g.m, (size_t)part + 1, r->parts);
    struct steno_gemm_epilogue ep = r->g.ep ? *r->g.ep : (struct steno_gemm_epilogue){.alpha = 1};
    struct steno_gemm_i8 g = r->g;
    round_rows(arg, begin, end);
    if (ep.residual)
        ep.residual += begin * ep.ldr;
    g.m = end - begin;
    g.a = r->q + begin * g.lda;
    g.a_rows = r->g.a_rows - begin;
    g.a_zero += begin;
    g.row_scale += begin;
    g.ep = &ep;
    g.c = (float *)g.c + begin * g.ldc;
    r->k->gemm_i8_part(&g, 0, 1);
}

static steno_status linear_i8(struct steno_op_ctx *ctx, const struct steno_weights *w, size_t m,
                              const float *a, size_t lda, float *c, size_t ldc,
                              const struct steno_gemm_epilogue *ep, steno_err *err)
{
    const steno_kernels *k = steno_op_kernels(ctx);
    const size_t threads = (size_t)steno_op_threads(ctx), tiled = steno_gemm_i8_rows(m);
    struct rows r = {.k = k, .a = a, .lda = lda, .parts = threads, .alpha = ep ? ep->alpha : 1};
    r.g = (struct steno_gemm_i8){.m = m,
                                 .n = w->n,
                                 .k = w->k,
                                 .lda = steno_gemm_i8_lda(w->k),
                                 .a_rows = tiled,
                                 .a_zero_step = 1,
                                 .packed = w->data,
                                 .scale = w->scale,
                                 .ep = ep,
                                 .c = c,
                                 .ldc = ldc};
    r.q = steno_op_scratch(ctx, tiled * r.g.lda);
    r.scale = steno_op_scratch(ctx, m * sizeof *r.scale);
    r.zero = steno_op_scratch(ctx, m * sizeof *r.zero);
    if (!r.q || !r.scale || !r.zero)
        return steno_ops_nomem(ctx, err);
    r.g.a = r.q;
    r.g.a_zero = r.zero;
    r.g.row_scale = r.scale;
    if (threads > 1 && k->gemm_i8_rows && m >= threads * k->gemm_i8_rows) {
        steno_op_parallel(ctx, (int)threads, linear_rows, &r);
        return STENO_OK;
    }
    steno_ops_ranges(ctx, m, 1 + ((size_t)1 << 14) / w->k, round_rows, &r);
    steno_ops_gemm_i8(ctx, &r.g);
    return STENO_OK;
}

steno_status steno_ops_linear(struct steno_op_ctx *ctx, const struct steno_weights *w, size_t m,
                              const float *a, size_t lda, float *c, size_t ldc,
                              const struct steno_gemm_epilogue *ep, steno_err *err)
{
    struct job j = {steno_op_kernels(ctx), w, m, lda, ldc, (size_t)steno_op_threads(ctx), a, c, ep};
    double most = (double)m * (double)w->n * (double)w->k / (double)PART_MACS;
    if (w->precision == STENO_INT8_WEIGHTS)
        return linear_i8(ctx, w, m, a, lda, c, ldc, ep, err);
    if (j.parts > MAX_PARTS)
        j.parts = MAX_PARTS;
    if (most < (double)j.parts)
        j.parts = most < 2 ? 1 : (size_t)most;
    if (j.parts == 1)
        run_part(&j, 0);
    else
        steno_op_parallel(ctx, (int)j.parts, run_part, &j);
    return STENO_OK;
}
