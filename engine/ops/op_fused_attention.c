/* Operators of domain ai.steno for attention, made by passes:
 *
 * MaskedSoftmax   x [..., n], mask bool, broadcast to each other; attribute fill
 *                 y = Softmax(mask ? fill : x) along the last axis, 0 where mask
 * RelativeShift   x [..., T, L]; y [..., T, L], or its first L / 2 + 1 columns with half = 1:
 *                 x with a column of zeros before it, as [L + 1, T] without the first row, as
 *                 [T, L] again. With L = 2 T - 1 and half: y[i, j] = x[i, T - 1 - i + j]
 *                 (Transformer-XL, appendix B; ESPnet's rel_shift, both forms) */
#include "ops/families.h"
#include "ops/internal.h"

/* ---- MaskedSoftmax ---- */
struct masked_job {
    const steno_kernels *k;
    const struct steno_bcast *b;
    const float *x;
    const uint8_t *mask;
    float *y;
    size_t n; /* of a row of softmax */
    float fill;
};

/* Rows [begin, end) of the broadcast: each holds one or several rows of softmax. */
static void masked_rows(void *arg, size_t begin, size_t end)
{
    const struct masked_job *j = arg;
    size_t per = j->b->row / j->n; /* rows of softmax in one of the broadcast */
    for (size_t r = begin; r < end; r++) {
        struct steno_bcast_pos p;
        const uint8_t *m;
        float *y;
        steno_bcast_start(j->b, &p, r);
        m = j->mask + p.at[1];
        y = j->y + r * j->b->row;
        for (size_t i = 0; i < j->b->row; i++)
            y[i] = m[i * j->b->row_step[1]] ? j->fill : j->x[p.at[0] + i * j->b->row_step[0]];
        j->k->softmax_f32(y, y, per, j->n);
        for (size_t i = 0; i < j->b->row; i++)
            y[i] = m[i * j->b->row_step[1]] ? 0 : y[i];
    }
}

static steno_status run_masked_softmax(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x, *mask;
    const struct steno_shape *shapes[2];
    struct steno_bcast b;
    struct steno_shape s;
    struct steno_tensor *y;
    struct masked_job j = {.k = steno_op_kernels(ctx), .b = &b};
    steno_status st = steno_ops_need(ctx, 2, err);
    if (!st)
        st = steno_ops_bshape(ctx, 2, &s, err);
    if (st)
        return st;
    x = steno_op_in(ctx, 0);
    mask = steno_op_in(ctx, 1);
    if (x->dtype != STENO_F32 || mask->dtype != STENO_BOOL || s.rank < 1)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "x must be f32, mask bool");
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    shapes[0] = &x->shape;
    shapes[1] = &mask->shape;
    steno_bcast_init(&b, &s, shapes, 2);
    j.x = x->data;
    j.mask = mask->data;
    j.y = y->data;
    j.n = (size_t)s.dim[s.rank - 1];
    j.fill = steno_node_float(steno_op_node(ctx), "fill", 0);
    steno_ops_ranges(ctx, b.rows, 1 + 8192 / b.row, masked_rows, &j);
    return STENO_OK;
}

static steno_status infer_masked(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s;
    steno_status st = steno_ops_infer_bshape(ic, 0, 1, &s, err);
    if (!st)
        steno_infer_set(ic, 0, STENO_F32, &s);
    return st;
}

/* ---- RelativeShift ---- */
struct shift_job {
    const float *x;
    float *y;
    size_t t, l, out;
};

static void shift_rows(void *arg, size_t begin, size_t end)
{
    const struct shift_job *j = arg;
    for (size_t r = begin; r < end; r++) {
        const float *x = j->x + r / j->t * j->t * j->l;
        float *y = j->y + r * j->out;
        /* position in [T, L + 1], the zeros in column 0 */
        size_t at = j->t + r % j->t * j->l, row = at / (j->l + 1), col = at % (j->l + 1);
        for (size_t i = 0; i < j->out; row++, col = 0) {
            size_t n = j->l + 1 - col < j->out - i ? j->l + 1 - col : j->out - i;
            if (col == 0 && n) {
                y[i++] = 0;
                col++;
                n--;
            }
            if (n)
                memcpy(y + i, x + row * j->l + col - 1, n * sizeof *y);
            i += n;
        }
    }
}

static void shifted(const struct steno_node *n, struct steno_shape *s)
{
    int64_t *l = &s->dim[s->rank - 1];
    if (steno_node_int(n, "half", 0) && *l >= 0)
        *l = *l / 2 + 1 < *l ? *l / 2 + 1 : *l;
}

static steno_status infer_shift(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    (void)err;
    if (s.rank >= 2 && s.dim[s.rank - 1] < 0 && steno_node_int(steno_infer_node(ic), "half", 0))
        s.dim[s.rank - 1] = steno_infer_new_dim(ic);
    else if (s.rank >= 2)
        shifted(steno_infer_node(ic), &s);
    steno_infer_set(ic, 0, STENO_F32, &s);
    return STENO_OK;
}

static steno_status run_shift(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct shift_job j;
    struct steno_shape s;
    struct steno_tensor *y;
    steno_status st;
    if (!x || x->dtype != STENO_F32 || x->shape.rank < 2)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "x must be f32 of rank 2 or more");
    s = x->shape;
    j.t = (size_t)s.dim[s.rank - 2];
    j.l = (size_t)s.dim[s.rank - 1];
    shifted(steno_op_node(ctx), &s);
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    j.out = (size_t)s.dim[s.rank - 1];
    j.x = x->data;
    j.y = y->data;
    steno_ops_ranges(ctx, steno_numel(y) / j.out, 1 + 16384 / j.out, shift_rows, &j);
    return STENO_OK;
}

const struct steno_op steno_ops_fused_attention[] = {
    {"ai.steno", "MaskedSoftmax", 1, 0, 0, infer_masked, NULL, NULL, run_masked_softmax},
    {"ai.steno", "RelativeShift", 1, 0, 0, infer_shift, NULL, NULL, run_shift},
    {0},
};
