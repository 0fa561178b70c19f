/* Operators of domain ai.steno.run that replace tables of a fixed length (nn/passes/any_length.c):
 *
 * Positions   table [1, n, d] f32, start i64 (one positions_number), end i64 (one)? -> y [1, end -
 * start, d] Rows start .. end of the table; without end one row. Rows that the table does not have,
 * including those before its first, are computed: sines in even columns, cosines in odd ones
 * (Vaswani et al. 2017, section 3.5), of position r in row r, or of center - r with the attribute
 * center >= 0. LengthMask  last i64 [B], end i64 (one) -> y [B, end] bool: y[b, j] = j > last[b];
 * the opposite with the attribute below. */
#include "nn/ops/families.h"
#include "nn/ops/internal.h"
#include "nn/ops/positions.h"

#include <math.h>

#define MAX_ROWS INT64_C(1000000)

/* Read an input that is one i64 number. */
static bool positions_number(const struct steno_tensor *t, int64_t *out)
{
    if (!t || t->dtype != STENO_I64 || steno_numel(t) != 1)
        return false;
    *out = *(const int64_t *)t->data;
    return true;
}

static bool infer_number(struct steno_infer *ic, int in, int64_t *out)
{
    size_t n;
    return steno_infer_ints(ic, in, out, 1, &n) && n == 1;
}

/* ---- Positions ---- */

static steno_status infer_positions(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t start, end;
    (void)err;
    if (s.rank == 3) {
        if (!steno_infer_has(ic, 2))
            s.dim[1] = 1;
        else if (infer_number(ic, 1, &start) && infer_number(ic, 2, &end))
            s.dim[1] = end > start ? end - start : 0;
        else
            s.dim[1] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, STENO_F32, s.rank == 3 ? &s : NULL);
    return STENO_OK;
}

float steno_ops_position(int64_t pos, int64_t column, int64_t dim)
{
    double rate = exp((double)(column & ~INT64_C(1)) * -(log(10000.0) / (double)dim));
    return (float)(column & 1 ? cos((double)pos * rate) : sin((double)pos * rate));
}

static steno_status run_positions(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, 0);
    int64_t center = steno_node_int(steno_op_node(ctx), "center", -1), start, end;
    struct steno_tensor *y;
    struct steno_shape s;
    steno_status st;
    if (!t || t->dtype != STENO_F32 || t->shape.rank != 3 || t->shape.dim[0] != 1 ||
        !positions_number(steno_op_in(ctx, 1), &start))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "table must be f32 [1, n, d], start one i64 number");
    end = start + 1;
    if (steno_op_in(ctx, 2) && !positions_number(steno_op_in(ctx, 2), &end))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "end must be one i64 number");
    if (start < -MAX_ROWS || end > MAX_ROWS || end - start > MAX_ROWS)
        return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "positions %lld to %lld are out of range",
                             (long long)start, (long long)end);
    s = t->shape;
    s.dim[1] = end > start ? end - start : 0;
    st = steno_op_out(ctx, 0, STENO_F32, &s, &y, err);
    for (int64_t r = start; r < end && !st; r++) {
        int64_t d = s.dim[2];
        float *to = (float *)y->data + (r - start) * d;
        if (r >= 0 && r < t->shape.dim[1])
            memcpy(to, (const float *)t->data + r * d, (size_t)d * sizeof *to);
        else
            for (int64_t k = 0; k < d; k++)
                to[k] = steno_ops_position(center < 0 ? r : center - r, k, d);
    }
    return st;
}

/* ---- LengthMask ---- */

static steno_status infer_mask(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t end;
    (void)err;
    if (s.rank != 1) {
        steno_infer_set(ic, 0, STENO_BOOL, NULL);
        return STENO_OK;
    }
    s.rank = 2;
    s.dim[1] = infer_number(ic, 1, &end) && end >= 0 ? end : steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, STENO_BOOL, &s);
    return STENO_OK;
}

static steno_status run_mask(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *last = steno_op_in(ctx, 0);
    bool below = steno_node_int(steno_op_node(ctx), "below", 0) != 0;
    struct steno_tensor *y;
    struct steno_shape s;
    int64_t end;
    steno_status st;
    if (!last || last->dtype != STENO_I64 || last->shape.rank != 1 ||
        !positions_number(steno_op_in(ctx, 1), &end) || end < 0 || end > MAX_ROWS)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "last must be i64 [B], end a length");
    s = steno_ops_shape(2, (const int64_t[]){last->shape.dim[0], end});
    st = steno_op_out(ctx, 0, STENO_BOOL, &s, &y, err);
    for (int64_t b = 0; b < s.dim[0] && !st; b++)
        for (int64_t j = 0; j < end; j++)
            ((uint8_t *)y->data)[b * end + j] = (j > ((const int64_t *)last->data)[b]) != below;
    return st;
}

const struct steno_op steno_ops_positions[] = {
    {"ai.steno.run", "Positions", 1, 0, 0, infer_positions, NULL, NULL, run_positions},
    {"ai.steno.run", "LengthMask", 1, 0, 0, infer_mask, NULL, NULL, run_mask},
    {0},
};
