/* Before: q, sx, zx = DynamicQuantizeLinear(x), c = Cast(ConvInteger(q, W, zx, zw), f32),
 *         y = Mul(c, Mul(sx, sw)), in a network opened in any precision but f32
 * After:  - kernel 1 over one axis, one group: the same product of Transpose(x; 0,2,1), as
 *           MatMulInteger, which pass int8 gives a range for each frame
 *         - depthwise, or few weights: Conv(x, (W - zw) * sw) of f32
 * One range for all frames of all recordings in a run makes their results depend on each other.
 * Ranges per frame do not, and are more accurate. Sums of few terms are not worth the 8 bits: a
 * depthwise convolution has 9 to 33, and a convolution of the spectrogram runs in f32 about as
 * fast. */
#include <stdlib.h>
#include <string.h>

#include "nn/passes/passes.h"

#define F32_WEIGHTS ((int64_t)1 << 17) /* weights that may become f32: 512 KiB */

struct found {
    int32_t conv;
    struct steno_node *quantize, *cast, *scales, *mul;
    steno_value_id x, w_scale, y;
    bool pointwise;
};

static bool is_bytes(const struct steno_tensor *t)
{
    return t && t->data && (t->dtype == STENO_U8 || t->dtype == STENO_I8);
}

static const struct steno_tensor *input_const(const struct steno_graph *g,
                                              const struct steno_node *n, int i)
{
    return i < n->n_in && n->in[i] != STENO_NONE ? g->values[n->in[i]].constant : NULL;
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
    const struct steno_tensor *w = input_const(g, n, 1), *z = input_const(g, n, 3);
    const bool zero = n->n_in > 3 && n->in[3] != STENO_NONE;
    return is_bytes(w) && steno_numel(w) && w->shape.rank >= 3 && w->shape.rank <= 4 &&
           (!zero || (is_bytes(z) && z->dtype == w->dtype && steno_numel(z) == 1));
}

static bool is_pointwise(const struct steno_graph *g, const struct steno_node *n)
{
    const struct steno_shape *w = &g->values[n->in[1]].constant->shape;
    return w->rank == 3 && w->dim[2] == 1 && steno_node_int(n, "group", 1) == 1 &&
           steno_pass_ints_are(n, "strides", 1, 1) && steno_pass_ints_are(n, "pads", 0, 0);
}

static bool match_convint(struct steno_graph *g, int32_t at, struct found *f)
{
    struct steno_node *n = &g->nodes[at];
    const struct steno_tensor *w;
    *f = (struct found){.conv = at};
    if (n->dead || !steno_pass_is(n, "ConvInteger") || n->n_in < 3 || n->in[2] == STENO_NONE ||
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

static steno_status dequantize(struct steno_graph *g, const struct found *f, steno_value_id *out,
                               steno_err *err)
{
    const struct steno_node *n = &g->nodes[f->conv];
    const struct steno_tensor *w = g->values[n->in[1]].constant, *z = input_const(g, n, 3);
    const struct steno_tensor *s = g->values[f->w_scale].constant;
    const float zero = z ? byte_of(z, 0) : 0, *scale = s->data;
    const size_t count = steno_numel(w), each = count / (size_t)w->shape.dim[0];
    struct steno_tensor c = {.dtype = STENO_F32, .shape = w->shape};
    float *data = malloc(count * sizeof *data);
    steno_status st;
    if (!data)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < count; i++)
        data[i] = (byte_of(w, i) - zero) * scale[steno_numel(s) > 1 ? i / each : 0];
    c.data = data;
    st = steno_graph_add_const(g, n->name, &c, false, out, err);
    free(data);
    return st;
}

static steno_status in_f32(struct steno_graph *g, const struct found *f, steno_err *err)
{
    const struct steno_node n = g->nodes[f->conv];
    steno_value_id w;
    struct steno_node *y;
    steno_status st = dequantize(g, f, &w, err);
    if (st)
        return st;
    y = steno_pass_add_node(g, "", "Conv", 11, n.name, 2, 1, n.n_attr, err);
    if (!y)
        return STENO_ERR_NOMEM;
    if (n.n_attr)
        memcpy(y->attr, n.attr, (size_t)n.n_attr * sizeof *n.attr);
    y->in[0] = f->x;
    y->in[1] = w;
    y->out[0] = f->y;
    return STENO_OK;
}

/* ---- products of frames ---------------------------------------------------------------------- */

/* W [O, C, 1] as [C, O]. */
static steno_status transpose_convint(struct steno_graph *g, const struct steno_tensor *w,
                                      const char *name, steno_value_id *out, steno_err *err)
{
    const size_t rows = (size_t)w->shape.dim[0], cols = (size_t)w->shape.dim[1];
    struct steno_tensor c = {.dtype = w->dtype,
                             .shape = {.rank = 2, .dim = {w->shape.dim[1], w->shape.dim[0]}}};
    const uint8_t *from = w->data;
    uint8_t *data = malloc(rows * cols);
    steno_status st;
    if (!data)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < cols; k++)
            data[k * rows + i] = from[i * cols + k];
    c.data = data;
    st = steno_graph_add_const(g, name, &c, false, out, err);
    free(data);
    return st;
}

/* The scale of the weights by the last axis. */
static steno_status last_axis(struct steno_graph *g, steno_value_id *scale, steno_err *err)
{
    struct steno_tensor c = *g->values[*scale].constant;
    if (steno_numel(&c) == 1)
        return STENO_OK;
    c.shape = (struct steno_shape){.rank = 1, .dim = {(int64_t)steno_numel(&c)}};
    return steno_graph_add_const(g, g->values[*scale].name, &c, false, scale, err);
}

/* The node's output, a new value unless `out` is one. */
static steno_status add_convint(struct steno_graph *g, const char *type, int opset,
                                const char *name, const steno_value_id *in, int n_in, int n_out,
                                steno_value_id *out, steno_err *err)
{
    struct steno_node *n =
        steno_pass_add_node(g, "", type, opset, name, n_in, n_out, !strcmp(type, "Cast"), err);
    const int32_t at = g->n_nodes - 1;
    if (!n)
        return STENO_ERR_NOMEM;
    memcpy(n->in, in, (size_t)n_in * sizeof *in);
    for (int i = 0; i < n_out; i++) {
        if (out[i] == STENO_NONE && steno_graph_add_value(g, name, &out[i], err))
            return STENO_ERR_NOMEM;
        g->nodes[at].out[i] = out[i];
    }
    if (!strcmp(type, "Cast"))
        steno_pass_set_int(g, &g->nodes[at], 0, "to", STENO_F32);
    return STENO_OK;
}

static steno_status by_frames(struct steno_graph *g, const struct found *f, steno_err *err)
{
    const struct steno_node n = g->nodes[f->conv];
    const char *name = n.name;
    steno_value_id x, w, q[3] = {STENO_NONE, STENO_NONE, STENO_NONE};
    steno_value_id sum = STENO_NONE, cast = STENO_NONE, factor = STENO_NONE, y = STENO_NONE;
    steno_value_id scale = f->w_scale;
    steno_status st = transpose_convint(g, g->values[n.in[1]].constant, name, &w, err);
    if (!st)
        st = last_axis(g, &scale, err);
    if (!st)
        st = steno_graph_add_value(g, name, &x, err);
    if (!st)
        st = steno_pass_swap_after(g, f->x, x, name, err);
    if (!st)
        st = add_convint(g, "DynamicQuantizeLinear", 11, name, &x, 1, 3, q, err);
    if (!st)
        st = add_convint(g, "MatMulInteger", 10, name,
                         (const steno_value_id[]){q[0], w, q[2], n.n_in > 3 ? n.in[3] : STENO_NONE},
                         4, 1, &sum, err);
    if (!st)
        st = add_convint(g, "Cast", 13, name, &sum, 1, 1, &cast, err);
    if (!st)
        st = add_convint(g, "Mul", 13, name, (const steno_value_id[]){q[1], scale}, 2, 1, &factor,
                         err);
    if (!st)
        st = add_convint(g, "Mul", 13, name, (const steno_value_id[]){cast, factor}, 2, 1, &y, err);
    return st ? st : steno_pass_swap_after(g, y, f->y, name, err);
}

steno_status steno_pass_convint(struct steno_graph *g, const struct steno_pass_env *env,
                                int *changed, steno_err *err)
{
    for (int32_t i = 0, count = g->n_nodes; env->rows_in_8_bits && i < count; i++) {
        struct found f;
        steno_status st;
        if (!match_convint(g, i, &f))
            continue;
        f.cast->dead = f.mul->dead = true;
        g->nodes[i].dead = true;
        st = f.pointwise ? by_frames(g, &f, err) : in_f32(g, &f, err);
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
