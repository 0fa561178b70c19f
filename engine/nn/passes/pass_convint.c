/* Before: q, sx, zx = DynamicQuantizeLinear(x), c = Cast(ConvInteger(q, W, zx, zw), f32),
 *         y = Mul(c, Mul(sx, sw)), in a network opened in any precision but f32
 * After:  - kernel 1 over one axis, one group: the same product of Transpose(x; 0,2,1), as
 *           MatMulInteger, which pass int8 gives a range for each frame
 *         - depthwise, or few weights: Conv(x, (W - zw) * sw) of f32
 * One range for all frames of all recordings in a run makes their results depend on each other.
 * Ranges per frame do not, and are more accurate. Sums of few terms are not worth the 8 bits: a
 * depthwise convolution has 9 to 33, and a convolution of the spectrogram runs in f32 about as
 * fast. */
#include "nn/passes/passes.h"

#define F32_WEIGHTS ((int64_t)1 << 17) /* weights that may become f32: 512 KiB */

struct found {
    struct steno_node *conv, *quantize, *cast, *scales, *mul;
    steno_value_id x, w_scale, y;
    bool pointwise;
};

static bool is_bytes(const struct steno_tensor *t)
{
    return t && t->data && steno_dtype_is_byte(t->dtype);
}

/* A constant of f32 with one number, or one for each of n channels along axis 1 of the output. */
static bool is_scale(const struct steno_graph *g, steno_value_id v, int64_t n)
{
    const struct steno_tensor *t = g->values[v].constant;
    if (!t || !t->data || t->dtype != STENO_F32)
        return false;
    return steno_numel(t) == 1 || (steno_numel(t) == (size_t)n && t->shape.rank >= 2 &&
                                   t->shape.rank <= 4 && t->shape.dim[0] != 1);
}

static bool convint_weights(const struct steno_graph *g, const struct steno_node *n)
{
    const struct steno_tensor *w = steno_pass_const(g, n, 1), *z = steno_pass_const(g, n, 3);
    return is_bytes(w) && steno_numel(w) && w->shape.rank >= 3 && w->shape.rank <= 4 &&
           (steno_node_in(n, 3) == STENO_NONE ||
            (is_bytes(z) && z->dtype == w->dtype && steno_numel(z) == 1));
}

static bool is_pointwise(const struct steno_graph *g, const struct steno_node *n)
{
    const struct steno_shape *w = &g->values[n->in[1]].constant->shape;
    return w->rank == 3 && w->dim[2] == 1 && steno_node_int(n, "group", 1) == 1 &&
           steno_pass_ints_are(n, "strides", 1, 1) && steno_pass_ints_are(n, "pads", 0, 0);
}

static bool match_convint(struct steno_graph *g, struct steno_node *n, struct found *f)
{
    const struct steno_tensor *w;
    *f = (struct found){.conv = n};
    if (!steno_pass_is(n, "ConvInteger") || steno_node_in(n, 2) == STENO_NONE ||
        !convint_weights(g, n))
        return false;
    w = g->values[n->in[1]].constant;
    f->quantize = steno_pass_producer(g, n->in[0]);
    f->cast = steno_pass_only_reader(g, n->out[0]);
    if (!steno_pass_is(f->quantize, "DynamicQuantizeLinear") || n->in[0] != f->quantize->out[0] ||
        n->in[2] != f->quantize->out[2] || !steno_pass_is(f->cast, "Cast") ||
        steno_node_int(f->cast, "to", 0) != STENO_F32)
        return false;
    f->mul = steno_pass_only_reader(g, f->cast->out[0]);
    if (!steno_pass_is(f->mul, "Mul"))
        return false;
    f->scales = steno_pass_producer(g, f->mul->in[f->mul->in[0] == f->cast->out[0]]);
    if (!steno_pass_is(f->scales, "Mul"))
        return false;
    f->w_scale = f->scales->in[f->scales->in[0] == f->quantize->out[1]];
    if (f->scales->in[f->scales->in[1] == f->w_scale ? 0 : 1] != f->quantize->out[1] ||
        !is_scale(g, f->w_scale, w->shape.dim[0]))
        return false;
    f->x = f->quantize->in[0];
    f->y = f->mul->out[0];
    f->pointwise = is_pointwise(g, n);
    return g->values[f->x].dtype == STENO_F32 &&
           (f->pointwise || w->shape.dim[1] == 1 || (int64_t)steno_numel(w) <= F32_WEIGHTS);
}

/* ---- f32 ------------------------------------------------------------------------------------- */

static float byte_of(const struct steno_tensor *t, size_t i)
{
    return t->dtype == STENO_I8 ? ((const int8_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

/* The weights in f32. STENO_NONE: err is set. */
static steno_value_id dequantized(struct steno_graph *g, const struct found *f, steno_err *err)
{
    const struct steno_tensor *w = steno_pass_const(g, f->conv, 1),
                              *z = steno_pass_const(g, f->conv, 3);
    const struct steno_tensor *s = g->values[f->w_scale].constant;
    const float zero = z ? byte_of(z, 0) : 0, *scale = s->data;
    const size_t count = steno_numel(w), each = count / (size_t)w->shape.dim[0];
    steno_value_id v = STENO_NONE;
    float *to = steno_graph_new_const(g, f->conv->name, STENO_F32, &w->shape, &v, err);
    for (size_t i = 0; to && i < count; i++)
        to[i] = (byte_of(w, i) - zero) * scale[steno_numel(s) > 1 ? i / each : 0];
    return v;
}

static steno_status in_f32(struct steno_graph *g, const struct found *f, steno_err *err)
{
    const steno_value_id w = dequantized(g, f, err);
    return w == STENO_NONE
               ? STENO_ERR_NOMEM
               : steno_pass_put(g, f->conv->name,
                                STENO_NODE("", "Conv", 11, .in = STENO_VALUES(f->x, w),
                                           .out = STENO_VALUES(f->y), .attrs_of = f->conv),
                                err);
}

/* ---- products of frames ---------------------------------------------------------------------- */

/* W [O, C, 1] as [C, O]. */
static steno_value_id transposed(struct steno_pass_writer *p, const struct steno_tensor *w)
{
    const size_t rows = (size_t)w->shape.dim[0], cols = (size_t)w->shape.dim[1];
    const struct steno_shape s = {.rank = 2, .dim = {w->shape.dim[1], w->shape.dim[0]}};
    const uint8_t *from = w->data;
    steno_value_id v = STENO_NONE;
    uint8_t *to = steno_graph_new_const(p->g, p->name, w->dtype, &s, &v, p->err);
    for (size_t i = 0; to && i < rows; i++)
        for (size_t k = 0; k < cols; k++)
            to[k * rows + i] = from[i * cols + k];
    p->st = to ? STENO_OK : STENO_ERR_NOMEM;
    return v;
}

/* The scale of the weights by the last axis. */
static steno_value_id last_axis(struct steno_pass_writer *p, steno_value_id scale)
{
    const struct steno_tensor *c = p->g->values[scale].constant;
    const int64_t n = (int64_t)steno_numel(c);
    return n == 1 ? scale
                  : steno_pass_new_const(p, p->g->values[scale].name, c->dtype, 1, &n, c->data);
}

static steno_status by_frames(struct steno_graph *g, const struct found *f, steno_err *err)
{
    struct steno_pass_writer p = {g, f->conv->name, err, STENO_OK};
    const steno_value_id zero = steno_node_in(f->conv, 3);
    const steno_value_id w = transposed(&p, steno_pass_const(g, f->conv, 1));
    const steno_value_id scale = last_axis(&p, f->w_scale), x = steno_pass_new_value(&p),
                         y = steno_pass_new_value(&p);
    steno_value_id q[3], sum;
    for (int i = 0; i < 3; i++)
        q[i] = steno_pass_new_value(&p);
    steno_pass_write_swapped(&p, f->x, x);
    steno_pass_write(
        &p, STENO_NODE("", "DynamicQuantizeLinear", 11, .in = STENO_VALUES(x), .out = {q, 3}));
    sum = steno_pass_write_new(
        &p, STENO_NODE("", "MatMulInteger", 10, .in = STENO_VALUES(q[0], w, q[2], zero)));
    steno_pass_write_scaled(&p, sum, q[1], scale, STENO_NONE, y);
    steno_pass_write_swapped(&p, y, f->y);
    return p.st;
}

steno_status steno_pass_convint(struct steno_graph *g, const struct steno_pass_env *env,
                                struct steno_node *n, int *changed, steno_err *err)
{
    struct found f;
    if (!env->rows_in_8_bits || !match_convint(g, n, &f))
        return STENO_OK;
    n->dead = f.cast->dead = f.mul->dead = true;
    ++*changed;
    return f.pointwise ? by_frames(g, &f, err) : in_f32(g, &f, err);
}
