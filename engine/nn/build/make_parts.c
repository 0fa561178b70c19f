/* Layers that every architecture has, and tables of positions. */
#include "nn/build/make_internal.h"

#include "base/pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values --------------------------------------------------------------------------------- */

steno_value_id steno_make_cast(struct steno_make *m, steno_value_id x, int64_t onnx_type)
{
    const struct steno_attr a = STENO_INT_ATTR("to", onnx_type);
    return steno_make_node(m, "Cast", 1, &x, 1, &a);
}

steno_value_id steno_make_range(struct steno_make *m, steno_value_id n)
{
    const steno_value_id in[] = {steno_make_int(m, 0), steno_make_squeeze(m, n, 0),
                                 steno_make_int(m, 1)};
    return steno_make_node(m, "Range", 3, in, 0, NULL);
}

steno_value_id steno_make_present(struct steno_make *m, steno_value_id n, steno_value_id length)
{
    return steno_make_2(m, "Less", steno_make_range(m, n), steno_make_unsqueeze(m, length, 1));
}

/* ---- parts --------------------------------------------------------------------------------- */

/* [out, in] -> [in, out], in tiles that a cache holds. */
static void transpose_tiles(const float *x, int64_t rows, int64_t cols, float *to)
{
    enum { TILE = 32 };
    for (int64_t i = 0; i < rows; i += TILE)
        for (int64_t j = 0; j < cols; j += TILE)
            for (int64_t a = i; a < i + TILE && a < rows; a++)
                for (int64_t b = j; b < j + TILE && b < cols; b++)
                    to[b * rows + a] = x[a * cols + b];
}

/* A matrix [out, in] that becomes [in, out] when it is packed. */
struct late {
    struct steno_make_weights w;
    const struct steno_torch_tensor *t;
    int64_t in, out;
};

static bool make_late(const void *arg, void *to)
{
    const struct late *l = arg;
    const size_t in = (size_t)l->in, out = (size_t)l->out;
    enum { STRIP = 32 };
    float *strip = malloc(STRIP * in * sizeof *strip), *x = to;
    if (!strip)
        return false;
    for (size_t at = 0, n; at < out; at += n) {
        n = out - at < STRIP ? out - at : STRIP;
        steno_make_read_weight(&l->w, l->t, at * in, n * in, strip);
        for (size_t i = 0; i < in; i++)
            for (size_t r = 0; r < n; r++)
                x[i * out + at + r] = strip[r * in + i];
    }
    free(strip);
    if (l->w.map && l->w.map->n) /* else the file is resident beside the packed weights */
        steno_pages_rest(l->w.map->p, l->w.map->n);
    return true;
}

static steno_value_id turned_late(struct steno_make *m, const char *name, const char *full,
                                  int rank, int64_t in, int64_t out)
{
    const struct steno_torch_tensor *t = steno_make_find(m, name, rank, (int64_t[]){out, in, 1});
    const struct steno_tensor shape = {.dtype = STENO_F32, .shape = {.rank = 2, .dim = {in, out}}};
    struct late *l = t ? steno_graph_alloc(m->g, 1, sizeof *l, m->err) : NULL;
    const struct steno_maker maker = {make_late, l};
    steno_value_id v = STENO_NONE;
    if (t && !l)
        m->st = STENO_ERR_NOMEM;
    if (!l)
        return v;
    *l = (struct late){m->w, t, in, out};
    m->st = steno_graph_add_made(m->g, full, &shape, &maker, &v, m->err);
    return v;
}

/* rank 3: of a convolution with one tap, [out, in, 1]. */
static steno_value_id turned(struct steno_make *m, const char *name, int rank, int64_t in,
                             int64_t out)
{
    char part[STENO_MAKE_NAME], full[STENO_MAKE_NAME];
    steno_value_id v = STENO_NONE;
    float *x, *to;
    snprintf(part, sizeof part, "%s.weight", name);
    steno_make_const_name(m, part, full);
    if (m->w.late)
        return m->st ? v : turned_late(m, part, full, rank, in, out);
    x = steno_make_read(m, part, rank, (int64_t[]){out, in, 1});
    to = x ? steno_make_new_const(m, full, 2, (int64_t[]){in, out}, &v) : NULL;
    if (to)
        transpose_tiles(x, out, in, to);
    free(x);
    return v;
}

steno_value_id steno_make_linear_rows(struct steno_make *m, steno_value_id x, const char *name,
                                      int64_t in, int64_t out, int64_t from, int64_t to)
{
    const int64_t rows = to - from;
    char part[STENO_MAKE_NAME];
    steno_value_id v = STENO_NONE, b;
    float *w, *turn;
    snprintf(part, sizeof part, "%s.weight", name);
    w = steno_make_read(m, part, 2, (int64_t[]){out, in});
    turn = w ? steno_make_new_const(m, "", 2, (int64_t[]){in, rows}, &v) : NULL;
    if (turn)
        transpose_tiles(w + from * in, rows, in, turn);
    free(w);
    snprintf(part, sizeof part, "%s.bias", name);
    w = steno_make_read(m, part, 1, &out);
    b = steno_make_floats(m, "", 1, &rows, w ? w + from : NULL);
    free(w);
    return steno_make_add(m, steno_make_2(m, "MatMul", x, v), b);
}

static steno_value_id part_of(struct steno_make *m, const char *name, const char *role, int64_t d)
{
    char part[STENO_MAKE_NAME];
    snprintf(part, sizeof part, "%s.%s", name, role);
    return steno_make_param(m, part, 1, &d);
}

steno_value_id steno_make_linear(struct steno_make *m, steno_value_id x, const char *name,
                                 int64_t in, int64_t out, bool bias)
{
    steno_value_id w = turned(m, name, 2, in, out), y = steno_make_2(m, "MatMul", x, w);
    return bias ? steno_make_add(m, y, part_of(m, name, "bias", out)) : y;
}

steno_value_id steno_make_pointwise(struct steno_make *m, steno_value_id x, const char *name,
                                    int64_t in, int64_t out)
{
    steno_value_id w = turned(m, name, 3, in, out), y = steno_make_2(m, "MatMul", x, w);
    return steno_make_add(m, y, part_of(m, name, "bias", out));
}

steno_value_id steno_make_norm(struct steno_make *m, steno_value_id x, const char *name, int64_t d,
                               float epsilon)
{
    const struct steno_attr attr[] = {STENO_INT_ATTR("axis", -1),
                                      {.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = epsilon}};
    const steno_value_id in[] = {x, part_of(m, name, "weight", d), part_of(m, name, "bias", d)};
    return steno_make_node(m, "LayerNormalization", 3, in, 2, attr);
}

steno_value_id steno_make_channel_norm(struct steno_make *m, steno_value_id x, const char *name,
                                       int64_t d, float epsilon)
{
    const struct steno_attr a = {.name = "epsilon", .kind = STENO_ATTR_FLOAT, .f = epsilon};
    const steno_value_id in[] = {x, part_of(m, name, "weight", d), part_of(m, name, "bias", d)};
    return steno_make_node(m, "InstanceNormalization", 3, in, 1, &a);
}

/* Scale filters and biases [out] as the batch normalization behind them does at inference. */
static void fold_norm(struct steno_make *m, const struct steno_make_conv *c, size_t filter,
                      float *w, float *b)
{
    static const char *const roles[] = {"weight", "bias", "running_mean", "running_var"};
    float *part[4] = {0};
    for (int i = 0; i < 4; i++) {
        char name[STENO_MAKE_NAME];
        snprintf(name, sizeof name, "%s.%s", c->batch_norm, roles[i]);
        part[i] = steno_make_read(m, name, 1, &c->out);
    }
    for (int64_t o = 0; o < c->out && !m->st; o++) {
        const double by = (double)part[0][o] / sqrt((double)part[3][o] + 1e-5);
        const double mean = (double)part[2][o], shift = (double)part[1][o];
        for (size_t k = 0; k < filter; k++)
            w[(size_t)o * filter + k] = (float)((double)w[(size_t)o * filter + k] * by);
        b[o] = (float)(((double)b[o] - mean) * by + shift);
    }
    for (int i = 0; i < 4; i++)
        free(part[i]);
}

steno_value_id steno_make_convolve(struct steno_make *m, steno_value_id x, const char *name,
                                   const struct steno_make_conv *c)
{
    const int64_t groups = c->groups ? c->groups : 1, dilation = c->dilation ? c->dilation : 1;
    const int64_t dim[4] = {c->out, c->in / groups, c->kernel, c->kernel};
    const int64_t kernel[] = {c->kernel, c->kernel}, dilations[] = {dilation, dilation};
    const int64_t stride[] = {c->stride, c->stride}, pad[] = {c->pad, c->pad, c->pad, c->pad};
    const size_t filter = (size_t)(dim[1] * c->kernel) * (c->rank == 2 ? (size_t)c->kernel : 1);
    const struct steno_attr attr[] = {
        STENO_INTS_ATTR("kernel_shape", c->rank, kernel),
        STENO_INTS_ATTR("strides", c->rank, c->strides ? c->strides : stride),
        STENO_INTS_ATTR("pads", 2 * c->rank, c->pads ? c->pads : pad),
        STENO_INTS_ATTR("dilations", c->rank, dilations), STENO_INT_ATTR("group", groups)};
    char weight[STENO_MAKE_NAME], bias[STENO_MAKE_NAME];
    steno_value_id in[3] = {x, STENO_NONE, STENO_NONE};
    const bool has_bias = c->bias || c->batch_norm;
    float *w, *b = NULL;
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    w = steno_make_read(m, weight, 2 + c->rank, dim);
    if (c->bias)
        b = steno_make_read(m, bias, 1, &c->out);
    else if (has_bias && !(b = calloc((size_t)c->out, sizeof *b)))
        steno_make_no_memory(m);
    if (c->batch_norm && w && b)
        fold_norm(m, c, filter, w, b);
    in[1] = steno_make_floats(m, weight, 2 + c->rank, dim, w);
    if (has_bias)
        in[2] = steno_make_floats(m, bias, 1, &c->out, b);
    free(w);
    free(b);
    return steno_make_node(m, "Conv", has_bias ? 3 : 2, in, 5, attr);
}

static steno_value_id gelu(struct steno_make *m, steno_value_id x)
{
    steno_value_id e =
        steno_make_1(m, "Erf", steno_make_2(m, "Div", x, steno_make_number(m, (float)M_SQRT2)));
    e = steno_make_add(m, e, steno_make_number(m, 1));
    return steno_make_scale(m, steno_make_2(m, "Mul", x, e), 0.5f);
}

/* Both halves come from one Split, because the engine's passes do not see such a unit in two Slices
 * along axis 1. */
steno_value_id steno_make_glu(struct steno_make *m, steno_value_id x, int64_t axis)
{
    const struct steno_attr a = STENO_INT_ATTR("axis", axis);
    steno_value_id half[2];
    steno_make_outputs(m, "Split", 1, &x, 2, half, 1, &a);
    return steno_make_2(m, "Mul", half[0], steno_make_1(m, "Sigmoid", half[1]));
}

steno_value_id steno_make_activation(struct steno_make *m, steno_value_id x, const char *name)
{
    if (!strcmp(name, "relu"))
        return steno_make_1(m, "Relu", x);
    if (!strcmp(name, "tanh"))
        return steno_make_1(m, "Tanh", x);
    if (!strcmp(name, "swish") || !strcmp(name, "silu"))
        return steno_make_2(m, "Mul", x, steno_make_1(m, "Sigmoid", x));
    if (!strcmp(name, "gelu"))
        return gelu(m, x);
    if (!m->st)
        m->st =
            steno_fail(m->err, STENO_ERR_UNSUPPORTED,
                       "%s: activation '%s'; known are relu, swish, gelu, tanh", m->asked, name);
    return STENO_NONE;
}

void steno_make_sinusoid_table(float *x, int64_t n, int64_t d, double first, double step)
{
    for (int64_t k = 0; k < d; k++) {
        /* in f32, as PyTorch computes exp(k * -(ln(10000) / d)) */
        const float by = expf((float)(k - k % 2) * (float)-(log(10000.0) / (double)d));
        for (int64_t r = 0; r < n; r++) {
            const float angle = (float)(first + step * (double)r) * by;
            x[r * d + k] = k % 2 ? cosf(angle) : sinf(angle);
        }
    }
}

steno_value_id steno_make_sinusoids(struct steno_make *m, const char *name, int64_t n, int64_t d,
                                    double first, double step)
{
    steno_value_id v;
    float *x = steno_make_new_const(m, name, 3, (int64_t[]){1, n, d}, &v);
    if (!x)
        return STENO_NONE;
    steno_make_sinusoid_table(x, n, d, first, step);
    return v;
}

steno_value_id steno_make_relative(struct steno_make *m, const char *name, int64_t most, int64_t d,
                                   steno_value_id n)
{
    const int64_t center = most - 1;
    steno_value_id table = steno_make_sinusoids(m, name, 2 * most - 1, d, (double)center, -1);
    return steno_make_cut(m, table, 1, steno_make_2(m, "Sub", steno_make_ints(m, 1, &most), n),
                          steno_make_add(m, steno_make_ints(m, 1, &center), n));
}
