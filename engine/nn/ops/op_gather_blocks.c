/* com.microsoft GatherBlockQuantized: rows of a table of few bits, such as embeddings. Definition:
 * ONNX Runtime, docs/ContribOperators.md. The table has two dimensions, and blocks along its rows:
 * what quantizers write. Bytes hold one element (those of UINT4 and INT4 are bytes here), or
 * 8 / bits of them, the lowest bits first. */
#include "nn/ops/contrib.h"

struct block_table {
    const struct steno_tensor *data, *scale, *zero; /* zero NULL: the middle, or 0 */
    size_t rows, width, blocks, block, bits;
    size_t each; /* elements in a byte */
};

static bool is_bytes(const struct steno_tensor *t)
{
    return t->dtype == STENO_U8 || t->dtype == STENO_I8;
}

/* Elements of bytes [w] that have so many blocks, if a byte holds `each`; 0: they do not fit. */
static size_t width_of(const struct block_table *t, size_t w, size_t each)
{
    const size_t n = w * each;
    return n > (t->blocks - 1) * t->block && n <= t->blocks * t->block ? n : 0;
}

static const char *read_table(const struct steno_op_ctx *ctx, struct block_table *t)
{
    const struct steno_node *n = steno_op_node(ctx);
    const int64_t block = steno_node_int(n, "block_size", 128), bits = steno_node_int(n, "bits", 4);
    size_t zeros;
    t->data = steno_op_in(ctx, 0);
    t->scale = steno_op_in(ctx, 2);
    t->zero = steno_op_in(ctx, 3);
    if (steno_node_int(n, "gather_axis", 0) != 0 ||
        (steno_node_int(n, "quantize_axis", 1) != 1 && steno_node_int(n, "quantize_axis", 1) != -1))
        return "gather_axis must be 0, quantize_axis 1";
    if ((bits != 2 && bits != 4 && bits != 8) || block < 1 || block > 1 << 20)
        return "bits or block_size is out of range";
    if (!is_bytes(t->data) || t->data->shape.rank != 2 || t->scale->shape.rank != 2 ||
        !steno_ops_is_float(t->scale->dtype) || t->data->shape.dim[1] > INT32_MAX ||
        t->scale->shape.dim[0] != t->data->shape.dim[0] || t->scale->shape.dim[1] < 1 ||
        t->scale->shape.dim[1] > INT32_MAX)
        return "expected a table [rows, width] and scales [rows, blocks]";
    t->rows = (size_t)t->data->shape.dim[0];
    t->blocks = (size_t)t->scale->shape.dim[1];
    t->block = (size_t)block;
    t->bits = (size_t)bits;
    t->each = t->data->dtype == STENO_U8 ? 8 / t->bits : 1;
    t->width = width_of(t, (size_t)t->data->shape.dim[1], t->each);
    if (!t->width && t->each > 1) {
        t->each = 1;
        t->width = width_of(t, (size_t)t->data->shape.dim[1], 1);
    }
    zeros = (t->blocks + t->each - 1) / t->each;
    if (!t->width)
        return "scales do not fit the table";
    if (t->zero && (t->zero->dtype != t->data->dtype || steno_numel(t->zero) != t->rows * zeros))
        return "zero points do not fit the table";
    return NULL;
}

/* Element i of a row of bytes. */
static int element(const struct block_table *t, const struct steno_tensor *of, const uint8_t *row,
                   size_t i)
{
    if (of->dtype == STENO_I8)
        return (int8_t)row[i];
    return t->each == 1 ? row[i]
                        : row[i / t->each] >> (i % t->each * t->bits) & ((1 << t->bits) - 1);
}

static void read_row(const struct block_table *t, size_t r, const float *scale, float *y)
{
    const size_t zeros = (t->blocks + t->each - 1) / t->each;
    const uint8_t *row = (const uint8_t *)t->data->data + r * (size_t)t->data->shape.dim[1];
    const bool middle = t->data->dtype == STENO_U8 && (t->each > 1 || t->bits == 8);
    for (size_t b = 0; b < t->blocks; b++) {
        const size_t end = (b + 1) * t->block < t->width ? (b + 1) * t->block : t->width;
        const int zero = t->zero
                             ? element(t, t->zero, (const uint8_t *)t->zero->data + r * zeros, b)
                         : middle ? 1 << (t->bits - 1)
                                  : 0;
        for (size_t i = b * t->block; i < end; i++)
            y[i] = (float)(element(t, t->data, row, i) - zero) * scale[r * t->blocks + b];
    }
}

static steno_status run_gather_blocks(struct steno_op_ctx *ctx, steno_err *err)
{
    struct block_table t = {0};
    const struct steno_tensor *at = steno_op_in(ctx, 1);
    struct steno_tensor *y;
    struct steno_shape s;
    const char *wrong;
    const float *scale;
    float *to;
    steno_status st;
    wrong = read_table(ctx, &t);
    if (!wrong &&
        ((at->dtype != STENO_I32 && at->dtype != STENO_I64) || at->shape.rank >= STENO_MAX_RANK))
        wrong = "expected indices i32 or i64";
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_UNSUPPORTED, "%s", wrong);
    s = at->shape;
    s.dim[s.rank++] = (int64_t)t.width;
    st = steno_op_out(ctx, 0, t.scale->dtype, &s, &y, err);
    if (st || !steno_numel(y))
        return st;
    scale = steno_ops_as_f32(ctx, t.scale);
    to = steno_ops_out_f32(ctx, y);
    if (!scale || !to)
        return steno_ops_nomem(ctx, err);
    for (size_t i = 0; i < steno_numel(at); i++) {
        int64_t r = steno_ops_get_i64(at, i);
        r += r < 0 ? (int64_t)t.rows : 0;
        if (r < 0 || (uint64_t)r >= t.rows)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "index %lld is outside %zu rows",
                                 (long long)r, t.rows);
        read_row(&t, (size_t)r, scale, to + i * t.width);
    }
    steno_ops_put_f32(y, to);
    return STENO_OK;
}

static steno_status infer_gather_blocks(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 1);
    (void)err;
    if (s.rank >= 0 && s.rank < STENO_MAX_RANK)
        s.dim[s.rank++] = steno_infer_new_dim(ic);
    else
        s.rank = -1;
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 2), &s);
    return STENO_OK;
}

const struct steno_op steno_ops_ms_gather_blocks[] = {
    {"com.microsoft", "GatherBlockQuantized", 1, 0, 0, infer_gather_blocks, NULL, NULL,
     run_gather_blocks},
    {0},
};
