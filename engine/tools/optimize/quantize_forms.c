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
    struct steno_tensor c = {.dtype = t, .shape = {.rank = rank}};
    size_t bytes;
    steno_value_id v;
    for (int i = 0; i < rank; i++)
        c.shape.dim[i] = dims[i];
    if (steno_shape_bytes(&c.shape, t, &bytes) || !(c.data = steno_aligned_alloc(bytes))) {
        (void)steno_fail(j->err, STENO_ERR_NOMEM, "out of memory for '%s'", name);
        return STENO_NONE;
    }
    memset(c.data, 0, bytes);
    if (steno_graph_take_const(j->g, name, &c, &v, j->err)) {
        steno_aligned_free(c.data);
        return STENO_NONE;
    }
    *data = c.data;
    return v;
}

/* Add a constant that is one number. */
static steno_value_id add_number(struct steno_quantize_job *j, const char *name, steno_dtype t,
                                 const void *value)
{
    void *data = NULL;
    steno_value_id v = steno_quantize_const(j, name, t, 0, NULL, &data);
    if (v != STENO_NONE)
        memcpy(data, value, steno_dtype_size(t));
    return v;
}

struct steno_node *steno_quantize_node(struct steno_quantize_job *j, const char *domain,
                                       const char *type, int opset, const char *name, int n_in,
                                       int n_out, int n_attr, steno_value_id out)
{
    struct steno_node *n =
        steno_pass_add_node(j->g, domain, type, opset, name, n_in, n_out, n_attr, j->err);
    for (int i = 0; n && i < n_out; i++) {
        if (i == 0 && out != STENO_NONE)
            n->out[0] = out;
        else if (steno_graph_add_value(j->g, name, &n->out[i], j->err))
            return NULL;
    }
    return n;
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
static steno_status quantized(struct steno_quantize_job *j, steno_value_id x, const char *name,
                              steno_value_id out[3])
{
    struct steno_node *q;
    for (int32_t i = 0; i < j->g->n_nodes; i++) {
        const struct steno_node *n = &j->g->nodes[i];
        if (!n->dead && n->in && n->n_in == 1 && n->in[0] == x && !*n->domain &&
            !strcmp(n->op_type, "DynamicQuantizeLinear")) {
            memcpy(out, n->out, 3 * sizeof *out);
            return STENO_OK;
        }
    }
    q = steno_quantize_node(j, "", "DynamicQuantizeLinear", 11, name, 1, 3, 0, STENO_NONE);
    if (!q)
        return STENO_ERR_NOMEM;
    q->in[0] = x;
    memcpy(out, q->out, 3 * sizeof *out);
    return STENO_OK;
}

static steno_status binary(struct steno_quantize_job *j, const char *type, const char *name,
                           steno_value_id a, steno_value_id b, steno_value_id out,
                           steno_value_id *y)
{
    struct steno_node *n = steno_quantize_node(j, "", type, 13, name, 2, 1, 0, out);
    if (!n)
        return STENO_ERR_NOMEM;
    n->in[0] = a;
    n->in[1] = b;
    *y = n->out[0];
    return STENO_OK;
}

/* Append y = f32(real) * (sx * ws) [+ bias] to the integer product `real`. */
static steno_status scaled(struct steno_quantize_job *j, const char *name, steno_value_id real,
                           steno_value_id sx, steno_value_id ws, steno_value_id bias,
                           steno_value_id y)
{
    steno_value_id scale, v;
    struct steno_node *n = steno_quantize_node(j, "", "Cast", 13, name, 1, 1, 1, STENO_NONE);
    if (!n)
        return STENO_ERR_NOMEM;
    steno_pass_set_int(j->g, n, 0, "to", STENO_F32);
    n->in[0] = real;
    real = n->out[0];
    if (binary(j, "Mul", name, sx, ws, STENO_NONE, &scale))
        return STENO_ERR_NOMEM;
    if (bias == STENO_NONE)
        return binary(j, "Mul", name, real, scale, y, &v);
    if (binary(j, "Mul", name, real, scale, STENO_NONE, &v))
        return STENO_ERR_NOMEM;
    return binary(j, "Add", name, v, bias, y, &v);
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

/* The attributes of a convolution go to n. */
static void copy_attributes(struct steno_node *n, const struct steno_node *conv)
{
    if (conv->n_attr)
        memcpy(n->attr, conv->attr, (size_t)conv->n_attr * sizeof *conv->attr);
}

steno_status steno_quantize_dynamic(struct steno_quantize_job *j, int32_t at,
                                    const struct steno_tensor *w, struct steno_quantize_product *p)
{
    const struct steno_node old = j->g->nodes[at];
    const bool conv = !strcmp(old.op_type, "Conv");
    const int rank = conv ? w->shape.rank - 1 : 1; /* without the axis of the batch */
    steno_value_id q[3], wq, ws, wz, bias = conv && old.n_in > 2 ? old.in[2] : STENO_NONE;
    struct steno_node *n;
    if (eight_bits(j, old.name, w, conv, rank, &wq, &ws, p) || quantized(j, old.in[0], old.name, q))
        return STENO_ERR_NOMEM;
    if (bias != STENO_NONE && (bias = column(j, old.name, bias, rank)) == STENO_NONE)
        return STENO_ERR_NOMEM;
    wz = add_number(j, old.name, STENO_U8, &middle);
    n = wz == STENO_NONE ? NULL
                         : steno_quantize_node(j, "", conv ? "ConvInteger" : "MatMulInteger", 10,
                                               old.name, 4, 1, conv ? old.n_attr : 0, STENO_NONE);
    if (!n)
        return STENO_ERR_NOMEM;
    if (conv)
        copy_attributes(n, &old);
    n->in[0] = q[0];
    n->in[1] = wq;
    n->in[2] = q[2];
    n->in[3] = wz;
    return scaled(j, old.name, n->out[0], q[1], ws, bias, old.out[0]);
}

/* ---- static: activations over the range of calibration, weights by column ---- */

/* The DequantizeLinear of x's QuantizeLinear; both are added if x has none yet. STENO_NONE: err is
 * set. */
static steno_value_id there_and_back(struct steno_quantize_job *j, steno_value_id x,
                                     const char *name, float lo, float hi)
{
    struct steno_node *q;
    steno_value_id s, z, y;
    float scale;
    uint8_t zero;
    for (int32_t i = 0; i < j->g->n_nodes; i++) {
        const struct steno_node *n = &j->g->nodes[i];
        if (!n->dead && steno_pass_is(n, "QuantizeLinear") && n->in[0] == x)
            for (int32_t k = 0; k < j->g->n_nodes; k++)
                if (!j->g->nodes[k].dead && steno_pass_is(&j->g->nodes[k], "DequantizeLinear") &&
                    j->g->nodes[k].in[0] == n->out[0])
                    return j->g->nodes[k].out[0];
    }
    lo = fminf(lo, 0);
    hi = fmaxf(hi, 0);
    scale = hi > lo ? (hi - lo) / 255 : 1;
    zero = (uint8_t)rintf(fminf(255, fmaxf(0, -lo / scale)));
    s = add_number(j, name, STENO_F32, &scale);
    z = s == STENO_NONE ? s : add_number(j, name, STENO_U8, &zero);
    q = z == STENO_NONE
            ? NULL
            : steno_quantize_node(j, "", "QuantizeLinear", 13, name, 3, 1, 0, STENO_NONE);
    if (!q)
        return STENO_NONE;
    q->in[0] = x;
    q->in[1] = s;
    q->in[2] = z;
    y = q->out[0];
    q = steno_quantize_node(j, "", "DequantizeLinear", 13, name, 3, 1, 0, STENO_NONE);
    if (!q)
        return STENO_NONE;
    q->in[0] = y;
    q->in[1] = s;
    q->in[2] = z;
    return q->out[0];
}

steno_status steno_quantize_static(struct steno_quantize_job *j, int32_t at,
                                   const struct steno_tensor *w, struct steno_quantize_product *p)
{
    const struct steno_node old = j->g->nodes[at];
    const bool conv = !strcmp(old.op_type, "Conv");
    const int64_t channels = w->shape.dim[conv ? 0 : 1];
    steno_value_id wq, ws, wz, xd, wd;
    struct steno_node *n;
    void *zeros = NULL;
    if (eight_bits(j, old.name, w, conv, 1, &wq, &ws, p))
        return STENO_ERR_NOMEM;
    wz = steno_quantize_const(j, old.name, STENO_U8, 1, &channels, &zeros);
    if (wz == STENO_NONE)
        return STENO_ERR_NOMEM;
    memset(zeros, middle, (size_t)channels);
    xd = there_and_back(j, old.in[0], old.name, p->lo, p->hi);
    n = xd == STENO_NONE
            ? NULL
            : steno_quantize_node(j, "", "DequantizeLinear", 13, old.name, 3, 1, 1, STENO_NONE);
    if (!n)
        return STENO_ERR_NOMEM;
    steno_pass_set_int(j->g, n, 0, "axis", conv ? 0 : 1);
    n->in[0] = wq;
    n->in[1] = ws;
    n->in[2] = wz;
    wd = n->out[0];
    n = conv ? steno_quantize_node(j, "", "Conv", 11, old.name, old.n_in, 1, old.n_attr, old.out[0])
             : steno_quantize_node(j, "", "MatMul", 13, old.name, 2, 1, 0, old.out[0]);
    if (!n)
        return STENO_ERR_NOMEM;
    if (conv)
        copy_attributes(n, &old);
    n->in[0] = xd;
    n->in[1] = wd;
    if (conv && old.n_in > 2)
        n->in[2] = old.in[2];
    return STENO_OK;
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
    static const char *const attrs[] = {"K", "N", "bits", "block_size"};
    const char *name = j->g->nodes[at].name;
    size_t rows = (size_t)w->shape.dim[0], cols = (size_t)w->shape.dim[1];
    size_t block = (size_t)j->opt->block, count = (rows + block - 1) / block;
    size_t bytes = block * (size_t)j->opt->bits / 8;
    const int64_t dims[3] = {(int64_t)cols, (int64_t)count, (int64_t)bytes};
    const int64_t n_scales = (int64_t)(cols * count);
    const int64_t values[] = {(int64_t)rows, (int64_t)cols, j->opt->bits, j->opt->block};
    double noise = 0, square = 0;
    void *q = NULL, *s = NULL;
    struct steno_node *n;
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
    n = steno_quantize_node(j, "com.microsoft", "MatMulNBits", 1, name, 3, 1, 4, y);
    if (!n)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < 4; i++)
        steno_pass_set_int(j->g, n, i, attrs[i], values[i]);
    n->in[0] = x;
    n->in[1] = wq;
    n->in[2] = ws;
    return STENO_OK;
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
    struct steno_node *n;
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
    n = steno_quantize_node(j, "", "Cast", 13, name, 1, 1, 1, STENO_NONE);
    if (!n)
        return STENO_ERR_NOMEM;
    steno_pass_set_int(j->g, n, 0, "to", STENO_F32);
    n->in[0] = wh;
    j->g->nodes[at].in[in] = n->out[0];
    return STENO_OK;
}
