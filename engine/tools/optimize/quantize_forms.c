/* The quantized forms of products: rounding, and the nodes of each form. */
#include "tools/optimize/quantize_forms.h"

#include "base/arena.h"
#include "nn/kernels/half.h"
#include "nn/passes/passes.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Of weights in 8 and 4 bits: the product of two scales must not become infinite. */
#define LARGEST 1e30f

/* ---- new nodes and constants ---- */

steno_value_id steno_quantize_const(struct steno_quantize_job *j, const char *name, steno_dtype t,
                                    int rank, const int64_t *dims, void **data)
{
    struct steno_shape s = {.rank = rank};
    steno_value_id v = STENO_NONE;
    for (int i = 0; i < rank; i++)
        s.dim[i] = dims[i];
    *data = steno_graph_new_const(j->g, name, t, &s, &v, j->err);
    if (*data)
        memset(*data, 0, steno_numel(j->g->values[v].constant) * steno_dtype_size(t));
    return v;
}

static double relative(double noise, double square)
{
    return square > 0 ? sqrt(noise / square) : 0;
}

/* ---- dynamic: 8-bit columns ---- */

/* The zero point of weights, which are of the type of activations: nn/passes/pass_signs.c. */
static const uint8_t middle = 128;

/* Round to middle -top..top by axis 1 of [rows, columns], or by axis 0 of a convolution's
 * weights. */
static void round_channels(const struct steno_tensor *w, bool conv, float top, uint8_t *q,
                           float *scale, struct steno_quantize_product *p)
{
    size_t count = steno_numel(w), channels = (size_t)w->shape.dim[conv ? 0 : 1];
    size_t inner = conv ? count / channels : 1;
    const float *x = w->data;
    double noise = 0, square = 0;
    for (size_t i = 0; i < count; i++) {
        float *s = &scale[i / inner % channels];
        *s = fmaxf(*s, fabsf(x[i]));
    }
    for (size_t n = 0; n < channels; n++)
        scale[n] = scale[n] / top >= FLT_MIN ? scale[n] / top : 1;
    for (size_t i = 0; i < count; i++) {
        float s = scale[i / inner % channels];
        float r = fminf(fmaxf(rintf(x[i] / s), -top), top);
        double e = (double)x[i] - (double)r * (double)s;
        q[i] = (uint8_t)(r + (float)middle);
        p->counts.underflow += r == 0 && x[i] != 0;
        noise += e * e;
        square += (double)x[i] * (double)x[i];
    }
    p->error = relative(noise, square);
}

/* Add w in 8 bits and its scales [channels]; of a convolution scales has rank `rank`: [channels, 1,
 * ...]. */
static steno_status eight_bits(struct steno_quantize_job *j, const char *name,
                               const struct steno_tensor *w, bool conv, int rank,
                               steno_value_id *wq, steno_value_id *ws,
                               struct steno_quantize_product *p)
{
    int64_t dims[STENO_MAX_RANK] = {w->shape.dim[conv ? 0 : 1]};
    void *qd = NULL, *sd = NULL;
    for (int i = 1; i < rank; i++)
        dims[i] = 1;
    *wq = steno_quantize_const(j, name, STENO_U8, w->shape.rank, w->shape.dim, &qd);
    *ws = *wq == STENO_NONE ? *wq : steno_quantize_const(j, name, STENO_F32, rank, dims, &sd);
    if (*ws == STENO_NONE)
        return STENO_ERR_NOMEM;
    round_channels(w, conv, j->opt->reduce_range ? 63 : 127, qd, sd, p);
    return STENO_OK;
}

/* The outputs of the DynamicQuantizeLinear of x, which is added if x has none yet. */
static void quantized(struct steno_pass_writer *w, steno_value_id x, steno_value_id out[3])
{
    for (int32_t i = 0; i < w->g->n_nodes; i++) {
        const struct steno_node *n = &w->g->nodes[i];
        if (!n->dead && steno_pass_is(n, "DynamicQuantizeLinear") && n->in[0] == x) {
            memcpy(out, n->out, 3 * sizeof *out);
            return;
        }
    }
    for (int i = 0; i < 3; i++)
        out[i] = steno_pass_new_value(w);
    steno_pass_write(
        w, STENO_NODE("", "DynamicQuantizeLinear", 11, .in = STENO_VALUES(x), .out = {out, 3}));
}

/* The bias of a convolution, a constant [channels], as [channels, 1, ...] of rank `rank`. */
static steno_value_id column(struct steno_quantize_job *j, const char *name, steno_value_id bias,
                             int rank)
{
    const struct steno_tensor *b = j->g->values[bias].constant;
    int64_t dims[STENO_MAX_RANK] = {b->shape.dim[0]};
    void *data = NULL;
    steno_value_id v;
    for (int i = 1; i < rank; i++)
        dims[i] = 1;
    if (steno_constant_fetch(b, j->err))
        return STENO_NONE;
    v = steno_quantize_const(j, name, STENO_F32, rank, dims, &data);
    if (v != STENO_NONE)
        memcpy(data, b->data, (size_t)dims[0] * sizeof(float));
    return v;
}

steno_status steno_quantize_dynamic(struct steno_quantize_job *j, int32_t at,
                                    const struct steno_tensor *w, struct steno_quantize_product *p)
{
    const struct steno_node old = j->g->nodes[at];
    const bool conv = !strcmp(old.op_type, "Conv");
    const int rank = conv ? w->shape.rank - 1 : 1; /* without the axis of the batch */
    struct steno_pass_writer to = {j->g, old.name, j->err, STENO_OK};
    steno_value_id q[3], wq, ws, wz, sum, bias = conv ? steno_node_in(&old, 2) : STENO_NONE;
    if (eight_bits(j, old.name, w, conv, rank, &wq, &ws, p))
        return STENO_ERR_NOMEM;
    if (bias != STENO_NONE && (bias = column(j, old.name, bias, rank)) == STENO_NONE)
        return STENO_ERR_NOMEM;
    quantized(&to, old.in[0], q);
    wz = steno_pass_new_const(&to, old.name, STENO_U8, 0, NULL, &middle);
    sum = steno_pass_write_new(&to, STENO_NODE("", conv ? "ConvInteger" : "MatMulInteger", 10,
                                               .in = STENO_VALUES(q[0], wq, q[2], wz),
                                               .attrs_of = conv ? &old : NULL));
    steno_pass_write_scaled(&to, sum, q[1], ws, bias, old.out[0]);
    return to.st;
}

/* ---- static: activations over the range of calibration, weights by column ---- */

/* The DequantizeLinear of x's QuantizeLinear; both are added if x has none yet. */
static steno_value_id there_and_back(struct steno_pass_writer *w, steno_value_id x, float lo,
                                     float hi)
{
    const struct steno_graph *g = w->g;
    steno_value_id s, z, q;
    float scale;
    uint8_t zero;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        if (!n->dead && steno_pass_is(n, "QuantizeLinear") && n->in[0] == x)
            for (int32_t k = 0; k < g->n_nodes; k++)
                if (!g->nodes[k].dead && steno_pass_is(&g->nodes[k], "DequantizeLinear") &&
                    g->nodes[k].in[0] == n->out[0])
                    return g->nodes[k].out[0];
    }
    lo = fminf(lo, 0);
    hi = fmaxf(hi, 0);
    scale = hi > lo ? (hi - lo) / 255 : 1;
    zero = (uint8_t)rintf(fminf(255, fmaxf(0, -lo / scale)));
    s = steno_pass_new_const(w, w->name, STENO_F32, 0, NULL, &scale);
    z = steno_pass_new_const(w, w->name, STENO_U8, 0, NULL, &zero);
    q = steno_pass_write_new(w, STENO_NODE("", "QuantizeLinear", 13, .in = STENO_VALUES(x, s, z)));
    return steno_pass_write_new(
        w, STENO_NODE("", "DequantizeLinear", 13, .in = STENO_VALUES(q, s, z)));
}

steno_status steno_quantize_static(struct steno_quantize_job *j, int32_t at,
                                   const struct steno_tensor *w, struct steno_quantize_product *p)
{
    const struct steno_node old = j->g->nodes[at];
    const bool conv = !strcmp(old.op_type, "Conv");
    const int64_t channels = w->shape.dim[conv ? 0 : 1];
    struct steno_pass_writer to = {j->g, old.name, j->err, STENO_OK};
    steno_value_id wq, ws, wz, x;
    void *zeros = NULL;
    if (eight_bits(j, old.name, w, conv, 1, &wq, &ws, p))
        return STENO_ERR_NOMEM;
    wz = steno_quantize_const(j, old.name, STENO_U8, 1, &channels, &zeros);
    if (wz == STENO_NONE)
        return STENO_ERR_NOMEM;
    memset(zeros, middle, (size_t)channels);
    x = there_and_back(&to, old.in[0], p->lo, p->hi);
    wq = steno_pass_write_new(&to,
                              STENO_NODE("", "DequantizeLinear", 13, .in = STENO_VALUES(wq, ws, wz),
                                         .attr = STENO_ATTRS(STENO_INT_ATTR("axis", !conv))));
    if (conv)
        steno_pass_write(
            &to,
            STENO_NODE("", "Conv", 11,
                       .in = {(const steno_value_id[]){x, wq, steno_node_in(&old, 2)}, old.n_in},
                       .out = STENO_VALUES(old.out[0]), .attrs_of = &old));
    else
        steno_pass_write_product(&to, x, wq, STENO_NONE, old.out[0]);
    return to.st;
}

/* ---- blocks of 4 or 8 bits ---- */

/* Quantize one block of column c, rows [from, to); the zero point is in the middle. */
static double round_block(const struct steno_tensor *w, int bits, size_t c, size_t from, size_t to,
                          uint8_t *q, float *scale, size_t *underflow)
{
    size_t cols = (size_t)w->shape.dim[1];
    const float *x = (const float *)w->data + c;
    int half = 1 << (bits - 1);
    float most = 0, s;
    double noise = 0;
    for (size_t r = from; r < to; r++)
        if (fabsf(x[r * cols]) > fabsf(most))
            most = x[r * cols];
    /* the extreme gets the side that has one more step */
    s = fabsf(most / (float)-half) >= FLT_MIN ? most / (float)-half : 1;
    for (size_t r = from; r < to; r++) {
        float v = fminf(fmaxf(rintf(x[r * cols] / s) + (float)half, 0), (float)(2 * half - 1));
        double e = (double)x[r * cols] - (double)(v - (float)half) * (double)s;
        uint8_t u = (uint8_t)v;
        if (bits == 8)
            q[r - from] = u;
        else
            q[(r - from) / 2] |= (uint8_t)(u << ((r - from) % 2 * 4));
        *underflow += v == (float)half && x[r * cols] != 0;
        noise += e * e;
    }
    *scale = s;
    return noise;
}

steno_status steno_quantize_blocks(struct steno_quantize_job *j, int32_t at,
                                   const struct steno_tensor *w, struct steno_quantize_product *p)
{
    const char *name = j->g->nodes[at].name;
    size_t rows = (size_t)w->shape.dim[0], cols = (size_t)w->shape.dim[1];
    size_t block = (size_t)j->opt->block, count = (rows + block - 1) / block;
    size_t bytes = block * (size_t)j->opt->bits / 8;
    const int64_t dims[3] = {(int64_t)cols, (int64_t)count, (int64_t)bytes};
    const int64_t n_scales = (int64_t)(cols * count);
    double noise = 0, square = 0;
    void *q = NULL, *s = NULL;
    steno_value_id x = j->g->nodes[at].in[0], y = j->g->nodes[at].out[0];
    steno_value_id wq = steno_quantize_const(j, name, STENO_U8, 3, dims, &q);
    steno_value_id ws =
        wq == STENO_NONE ? wq : steno_quantize_const(j, name, STENO_F32, 1, &n_scales, &s);
    if (ws == STENO_NONE)
        return STENO_ERR_NOMEM;
    for (size_t c = 0; c < cols; c++)
        for (size_t k = 0; k < count; k++) {
            size_t to = (k + 1) * block < rows ? (k + 1) * block : rows;
            noise += round_block(w, j->opt->bits, c, k * block, to,
                                 (uint8_t *)q + (c * count + k) * bytes, (float *)s + c * count + k,
                                 &p->counts.underflow);
        }
    for (size_t i = 0; i < rows * cols; i++)
        square += (double)((const float *)w->data)[i] * (double)((const float *)w->data)[i];
    p->error = relative(noise, square);
    return steno_pass_put(
        j->g, name,
        STENO_NODE("com.microsoft", "MatMulNBits", 1, .in = STENO_VALUES(x, wq, ws),
                   .out = STENO_VALUES(y),
                   .attr = STENO_ATTRS(STENO_INT_ATTR("K", (int64_t)rows),
                                       STENO_INT_ATTR("N", (int64_t)cols),
                                       STENO_INT_ATTR("bits", j->opt->bits),
                                       STENO_INT_ATTR("block_size", j->opt->block))),
        j->err);
}

/* ---- 16 bits ---- */

const char *steno_quantize_count(enum steno_quantize_kind kind, const struct steno_tensor *w,
                                 struct steno_quantize_counts *c)
{
    const bool half = kind == STENO_QUANTIZE_F16, brain = kind == STENO_QUANTIZE_BF16;
    const float *x = w->data;
    *c = (struct steno_quantize_counts){0};
    for (size_t i = 0; i < steno_numel(w); i++) {
        float y = half    ? half_from_f16(half_to_f16(x[i]))
                  : brain ? half_from_bf16(half_to_bf16(x[i]))
                          : x[i];
        c->nan += isnan(x[i]);
        c->infinite += isinf(x[i]);
        c->overflow += isfinite(x[i]) && (half || brain ? !isfinite(y) : fabsf(y) > LARGEST);
        c->underflow += y == 0 && x[i] != 0;
    }
    if (c->overflow)
        return half || brain ? "weights would become infinite" : "weights are above 1e30";
    return !half && !brain && (c->infinite || c->nan) ? "weights are infinite or NaN" : NULL;
}

steno_status steno_quantize_sixteen(struct steno_quantize_job *j, int32_t at, int in,
                                    const struct steno_tensor *w, struct steno_quantize_product *p)
{
    bool brain = j->opt->kind == STENO_QUANTIZE_BF16;
    const char *name = j->g->nodes[at].name;
    const float *x = w->data;
    double noise = 0, square = 0;
    void *h = NULL;
    struct steno_pass_writer to = {j->g, name, j->err, STENO_OK};
    steno_value_id wh =
        steno_quantize_const(j, name, brain ? STENO_BF16 : STENO_F16, 2, w->shape.dim, &h);
    if (wh == STENO_NONE)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < steno_numel(w); i++) {
        uint16_t r = brain ? half_to_bf16(x[i]) : half_to_f16(x[i]);
        double e = (double)x[i] - (double)(brain ? half_from_bf16(r) : half_from_f16(r));
        ((uint16_t *)h)[i] = r;
        noise += e * e;
        square += (double)x[i] * (double)x[i];
    }
    p->error = relative(noise, square);
    wh =
        steno_pass_write_new(&to, STENO_NODE("", "Cast", 13, .in = STENO_VALUES(wh),
                                             .attr = STENO_ATTRS(STENO_INT_ATTR("to", STENO_F32))));
    j->g->nodes[at].in[in] = wh;
    return to.st;
}
