#include "nn/ops/weights.h"

#include "nn/ops/int8.h"
#include "nn/ops/weights_round.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_INT8_K = 16 }; /* int8 gains nothing on shorter sums */

void steno_weights_free(void *w)
{
    free(w);
}

/* ---- precision ---- */

const struct steno_gemm_weights *steno_weights_kernels(const steno_kernels *k,
                                                       const struct steno_weights *w)
{
    return w->precision == STENO_FP16_WEIGHTS ? &k->gemm_f16 : &k->gemm_bf16;
}

struct steno_gemm_weights steno_weights_as(const steno_kernels *k, enum steno_precision p)
{
    if (p == STENO_FP32)
        return (struct steno_gemm_weights){k->gemm_f32_packed_bytes, k->gemm_f32_pack,
                                           k->gemm_f32_packed_part, NULL, NULL};
    return *steno_weights_kernels(k, &(struct steno_weights){.precision = p});
}

/* The same for what a Winograd transform makes of w. */
static bool overflow(struct steno_prepare *pc, enum steno_precision p, const struct steno_tensor *w,
                     bool transformed)
{
    bool over;
    if (p == STENO_FP32 || steno_prepare_filled(pc, &over))
        return p != STENO_FP32 && over;
    over = !steno_round_finite(steno_prepare_kernels(pc), p, w->data, steno_numel(w), transformed);
    if (over)
        steno_prepare_overflowed(pc);
    return over;
}

bool steno_weights_overflow(struct steno_prepare *pc, enum steno_precision p,
                            const struct steno_tensor *w)
{
    return overflow(pc, p, w, false);
}

/* p for sums of k products; bytes only where they gain. */
static enum steno_precision that_gains(enum steno_precision p, size_t k)
{
    return p == STENO_INT8_WEIGHTS && k < MIN_INT8_K ? STENO_FP32 : p;
}

/* ---- one matrix: for i8 first the scales, then the packed weights ---- */

static size_t scale_bytes(const struct steno_weights *p)
{
    return p->precision == STENO_INT8_WEIGHTS ? steno_aligned(p->n * sizeof *p->scale) : 0;
}

static size_t bytes_of(const steno_kernels *k, const struct steno_weights *p)
{
    return scale_bytes(p) +
           steno_aligned(p->precision == STENO_INT8_WEIGHTS
                             ? k->gemm_i8_packed_bytes(p->k, p->n)
                             : steno_weights_as(k, p->precision).packed_bytes(p->k, p->n));
}

/* Scales come first: the product before prefetches what lies behind its own weights, and the scales
 * are read together with the first of these weights. */
static void place_weights(struct steno_weights *p, char *block)
{
    p->data = block + scale_bytes(p);
    p->scale = p->precision == STENO_INT8_WEIGHTS ? (float *)(void *)block : NULL;
}

static bool fill_weights(const struct steno_weights *p, const steno_kernels *k,
                         const struct steno_f32_matrix *w, double *error)
{
    struct steno_weights_i8 b = {
        .k = p->k, .n = p->n, .ldb = p->k, .trans = true, .is_signed = true};
    int8_t *q;
    bool ok;
    if (p->precision != STENO_INT8_WEIGHTS) {
        steno_weights_as(k, p->precision).pack(p->data, w->x, w->ld, w->trans, p->k, p->n);
        *error += steno_round_matrix_error(w, p->precision);
        return true;
    }
    q = malloc(p->k * p->n + 1);
    ok = q && steno_round_columns(k, w, q, p->scale, error);
    b.b = q;
    if (ok)
        k->gemm_i8_pack(p->data, &b);
    free(q);
    return ok;
}

/* ---- what the weights are made of ---- */

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
    if (!b->w || !steno_dtype_is_byte(b->w->dtype) || b->w->shape.rank != 2 || !steno_numel(b->w) ||
        !b->scale || !b->scale->data || b->scale->dtype != STENO_F32)
        return false;
    cols = (size_t)b->w->shape.dim[1];
    return (steno_numel(b->scale) == 1 || steno_numel(b->scale) == cols) &&
           (!b->zero || (b->zero->data && b->zero->dtype == b->w->dtype &&
                         (steno_numel(b->zero) == 1 || steno_numel(b->zero) == cols)));
}

static float scale_at(const struct bytes *b, size_t column)
{
    return ((const float *)b->scale->data)[steno_numel(b->scale) > 1 ? column : 0];
}

/* Dequantize all columns to f32 [K, N]. */
static void widen(const struct bytes *b, float *to)
{
    const size_t rows = (size_t)b->w->shape.dim[0], cols = (size_t)b->w->shape.dim[1];
    for (size_t c = 0; c < cols; c++) {
        const float scale = scale_at(b, c);
        const int32_t zero =
            b->zero ? steno_ops_zero_at(b->zero, steno_numel(b->zero) > 1 ? c : 0) : 0;
        for (size_t r = 0; r < rows; r++)
            to[r * cols + c] = (float)(steno_ops_zero_at(b->w, r * cols + c) - zero) * scale;
    }
}

/* Pack the bytes as they are, with their scales. */
static bool fill_bytes(const struct steno_weights *p, const steno_kernels *k, const struct bytes *b)
{
    const struct steno_weights_i8 w = {
        .k = p->k, .n = p->n, .b = b->w->data, .ldb = p->n, .is_signed = b->w->dtype == STENO_I8};
    for (size_t i = 0; i < p->n; i++)
        p->scale[i] = scale_at(b, i);
    return steno_ops_pack_i8(k, p->data, &w, b->zero);
}

/* Constant input `in` as `parts` matrices [k, n] that lie side by side in its columns, or in what
 * `transform` makes of it; trans: the transposes of these. */
struct source {
    int in, scale_in; /* scale_in: of bytes; 0: none */
    size_t k, n, parts;
    bool trans, as_they_are; /* bytes are packed without a change */
    enum steno_precision precision;
    const struct steno_weight_transform *transform;
    struct bytes bytes;
};

/* The key of a block: how it is packed. */
static struct steno_packing packing_of(const struct source *s)
{
    const size_t form[] = {s->k, s->n, s->parts, (size_t)s->precision, s->trans, s->as_they_are};
    struct steno_packing how = {.n = 0};
    steno_packing_put(&how, "weights", 7);
    steno_packing_put(&how, form, sizeof form);
    if (s->transform) {
        steno_packing_put(&how, &s->transform->make, sizeof s->transform->make);
        steno_packing_put(&how, s->transform->arg, s->transform->arg_bytes);
    }
    if (s->scale_in) {
        how.also[0] = s->scale_in;
        how.also[1] = s->scale_in + 1;
    }
    return how;
}

/* Fill parts p, and report weights that the graph has in f32. */
static bool fill_parts(struct steno_prepare *pc, const struct source *s,
                       const struct steno_weights *p)
{
    const steno_kernels *k = steno_prepare_kernels(pc);
    const size_t all = s->parts * s->k * s->n;
    const float *x = steno_prepare_const(pc, s->in)->data;
    struct steno_f32_matrix w = {.k = s->k, .n = s->n, .trans = s->trans};
    float *made = NULL;
    double error = 0;
    bool ok = true;
    if (s->as_they_are)
        return fill_bytes(p, k, &s->bytes);
    if (s->transform || s->scale_in) {
        made = malloc(all * sizeof *made + 1);
        if (!made)
            return false;
        if (s->transform)
            s->transform->make(made, x, s->transform->arg);
        else
            widen(&s->bytes, made);
        x = made;
    }
    w.ld = s->parts * (s->trans ? s->k : s->n);
    for (size_t i = 0; ok && i < s->parts; i++) {
        w.x = x + i * (w.ld / s->parts);
        ok = fill_weights(&p[i], k, &w, &error);
    }
    if (ok && !s->scale_in)
        steno_prepare_rounded(pc, x, all, s->precision != STENO_FP32, error);
    free(made);
    return ok;
}

/* Pack into the memory of the input, unless that memory is filled already. */
static steno_status pack_weights(struct steno_prepare *pc, const struct source *s,
                                 struct steno_weights **out, steno_err *err)
{
    struct steno_weights one = {.k = s->k, .n = s->n, .precision = s->precision};
    struct steno_weights *p = calloc(s->parts, sizeof *p);
    const struct steno_packing how = packing_of(s);
    bool filled = false;
    char *block;
    one.bytes = bytes_of(steno_prepare_kernels(pc), &one);
    block = p ? steno_prepare_memory(pc, s->in, s->parts * one.bytes, &how, &filled) : NULL;
    for (size_t i = 0; block && i < s->parts; i++) {
        p[i] = one;
        place_weights(&p[i], block + i * one.bytes);
    }
    if (!block || (!filled && !fill_parts(pc, s, p))) {
        free(p);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for packed weights");
    }
    *out = p;
    return STENO_OK;
}

/* ---- for operators ---- */

steno_status steno_prepare_weights(struct steno_prepare *pc, int in, bool trans,
                                   struct steno_weights **out, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_tensor *w = in < n->n_in ? steno_prepare_const(pc, in) : NULL;
    *out = NULL;
    if (!w || w->dtype != STENO_F32 || w->shape.rank != 2 || !steno_numel(w))
        return STENO_OK;
    return steno_prepare_weights_parts(pc, in, 0, 1, trans, out, err);
}

steno_status steno_prepare_weights_parts(struct steno_prepare *pc, int in, int scale_in,
                                         size_t parts, bool transposed, struct steno_weights **out,
                                         steno_err *err)
{
    const struct steno_tensor *w = steno_prepare_const(pc, in);
    const size_t rows = (size_t)w->shape.dim[0], all = (size_t)w->shape.dim[1], cols = all / parts;
    struct source s = {.in = in,
                       .k = transposed ? cols : rows,
                       .n = transposed ? rows : cols,
                       .parts = parts,
                       .trans = transposed};
    s.precision =
        that_gains(w->dtype == STENO_F32 ? steno_prepare_precision(pc) : STENO_INT8_WEIGHTS, s.k);
    if (all % parts)
        return steno_fail(err, STENO_ERR_FORMAT, "%zu columns do not divide into %zu parts", all,
                          parts);
    if (w->dtype != STENO_F32) {
        s.scale_in = scale_in;
        if (!find_bytes(pc, in, scale_in, &s.bytes))
            return steno_fail(err, STENO_ERR_FORMAT, "8-bit weights without scales");
    } else if (overflow(pc, s.precision, w, false)) {
        s.precision = STENO_FP32;
    }
    return pack_weights(pc, &s, out, err);
}

steno_status steno_prepare_weights_transformed(struct steno_prepare *pc, int in,
                                               const struct steno_weight_transform *m,
                                               struct steno_weights **out, steno_err *err)
{
    struct source s = {.in = in,
                       .k = m->k,
                       .n = m->n,
                       .parts = 1,
                       .trans = true,
                       .precision = that_gains(steno_prepare_precision(pc), m->k),
                       .transform = m};
    *out = NULL;
    if (overflow(pc, s.precision, steno_prepare_const(pc, in), !m->orders)) {
        if (m->orders)
            return STENO_OK;
        s.precision = STENO_FP32;
    }
    return pack_weights(pc, &s, out, err);
}

steno_status steno_prepare_weights_transformed_parts(struct steno_prepare *pc, int in,
                                                     const struct steno_weight_transform *m,
                                                     size_t parts, struct steno_weights **out,
                                                     steno_err *err)
{
    const struct source s = {.in = in,
                             .k = m->k,
                             .n = m->n,
                             .parts = parts,
                             .trans = true,
                             .precision = that_gains(STENO_INT8_WEIGHTS, m->k),
                             .transform = m};
    return pack_weights(pc, &s, out, err);
}

steno_status steno_prepare_weights_bytes(struct steno_prepare *pc, int in, int scale_in,
                                         struct steno_weights **out, steno_err *err)
{
    struct source s = {.in = in,
                       .scale_in = scale_in,
                       .parts = 1,
                       .as_they_are = true,
                       .precision = STENO_INT8_WEIGHTS};
    *out = NULL;
    if (!find_bytes(pc, in, scale_in, &s.bytes) || s.bytes.w->shape.dim[0] < MIN_INT8_K)
        return STENO_OK;
    s.k = (size_t)s.bytes.w->shape.dim[0];
    s.n = (size_t)s.bytes.w->shape.dim[1];
    return pack_weights(pc, &s, out, err);
}
