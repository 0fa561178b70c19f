/* Before: p = Pad(x; zeros, spatial axes only), y = Conv(p, W, b; pads)
 * After:  y = Conv(x, W, b; pads + those of Pad)
 * Before: p = Pad(x; -inf, or anything below the range of f32), y = MaxPool(p; pads 0)
 *         p = Pad(x; zeros), y = AveragePool(p; pads 0 or count_include_pad)
 * After:  the Pool with pads, an AveragePool with count_include_pad 1 */
#include "nn/passes/passes.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Read the paddings before and after each axis; false if they are unknown or the mode is not
 * constant. */
static bool read_pads(const struct steno_graph *g, const struct steno_node *n, int rank,
                      const int64_t **pads, double *value)
{
    const struct steno_tensor *t;
    size_t count;
    *value = 0;
    if (strcmp(steno_node_str(n, "mode", "constant"), "constant"))
        return false;
    if (n->opset < 11) {
        *value = (double)steno_node_float(n, "value", 0);
        *pads = steno_node_ints(n, "pads", &count);
        return *pads && count == 2 * (size_t)rank;
    }
    t = steno_pass_const(g, n, 1);
    if (steno_node_in(n, 2) != STENO_NONE && !steno_pass_scalar(g, n->in[2], value))
        return false;
    if (!t || !t->data || t->dtype != STENO_I64 || steno_numel(t) != 2 * (size_t)rank ||
        steno_node_in(n, 3) != STENO_NONE)
        return false;
    *pads = t->data;
    return true;
}

static bool pad_plain(const struct steno_node *n)
{
    return !strcmp(steno_node_str(n, "auto_pad", "NOTSET"), "NOTSET") ||
           !strcmp(steno_node_str(n, "auto_pad", "NOTSET"), "VALID");
}

static bool zero(const int64_t *v, size_t n)
{
    for (size_t i = 0; v && i < n; i++)
        if (v[i])
            return false;
    return true;
}

/* True if the operator gives the same result with these paddings as its own. */
static bool pad_fits(const struct steno_graph *g, const struct steno_node *op, double value)
{
    size_t count;
    const int64_t *own = steno_node_ints(op, "pads", &count);
    if (!pad_plain(op))
        return false;
    if (steno_pass_is(op,
                      "Conv")) /* 0 times an infinite weight is NaN, its own padding is skipped */
        return value == 0 && g->values[op->in[0]].dtype == STENO_F32 &&
               steno_pass_is_finite(g, op->in[1]);
    if (steno_node_int(op, "ceil_mode", 0)) /* a window may reach past the paddings */
        return false;
    if (steno_pass_is(op, "MaxPool")) /* Indices would count the padding */
        return value <= -(double)FLT_MAX && zero(own, count) &&
               (op->n_out < 2 || op->out[1] == STENO_NONE);
    return steno_pass_is(op, "AveragePool") && value == 0 &&
           (zero(own, count) || steno_node_int(op, "count_include_pad", 0)) && op->opset >= 7;
}

/* A window of a Pool must reach beyond its paddings. */
static bool windows_reach(const struct steno_node *op, const int64_t *pads, int axes)
{
    size_t count, own_count;
    const int64_t *kernel = steno_node_ints(op, "kernel_shape", &count);
    const int64_t *own = steno_node_ints(op, "pads", &own_count);
    if (steno_pass_is(op, "Conv"))
        return true;
    for (int i = 0; kernel && (int)count == axes && i < 2 * axes; i++)
        if ((own ? own[i] : 0) + pads[i < axes ? i + 2 : i + 4] >= kernel[i % axes])
            return false;
    return kernel && (int)count == axes;
}

/* Set the attributes pads and, for a mean, count_include_pad. */
static steno_status set_pads(struct steno_graph *g, struct steno_node *op, const int64_t *pads,
                             int axes, steno_err *err)
{
    bool mean = steno_pass_is(op, "AveragePool");
    struct steno_attr *a = steno_graph_alloc(g, (size_t)op->n_attr + 2, sizeof *a, err);
    int64_t *sum = steno_graph_alloc(g, 2 * (size_t)axes, sizeof *sum, err);
    size_t count;
    const int64_t *own = steno_node_ints(op, "pads", &count);
    int n = 0;
    if (!a || !sum)
        return STENO_ERR_NOMEM;
    /* pads: [before each axis, after each axis], with two more axes */
    for (int i = 0; i < 2 * axes; i++)
        sum[i] = (own ? own[i] : 0) + pads[i < axes ? i + 2 : i + 4];
    for (int i = 0; i < op->n_attr; i++)
        if (strcmp(op->attr[i].name, "pads") && strcmp(op->attr[i].name, "auto_pad") &&
            strcmp(op->attr[i].name, "count_include_pad"))
            a[n++] = op->attr[i];
    a[n++] = (struct steno_attr){
        .name = "pads", .kind = STENO_ATTR_INTS, .n = 2 * (size_t)axes, .ints = sum};
    if (mean)
        a[n++] = (struct steno_attr){.name = "count_include_pad", .kind = STENO_ATTR_INT, .i = 1};
    op->attr = a;
    op->n_attr = n;
    return STENO_OK;
}

steno_status steno_pass_pad(struct steno_graph *g, const struct steno_pass_env *env,
                            struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *pad;
    const int64_t *pads, *own;
    double value;
    bool ok = true;
    size_t count;
    int rank;
    (void)env;
    if (!n->n_in || n->in[0] == STENO_NONE || !(pad = steno_pass_only_use(g, n->in[0], "Pad")))
        return STENO_OK;
    rank = g->values[n->in[0]].shape.rank;
    if (rank < 3 || !read_pads(g, pad, rank, &pads, &value) || !pad_fits(g, n, value))
        return STENO_OK;
    own = steno_node_ints(n, "pads", &count);
    if (own && count != 2 * (size_t)(rank - 2))
        return STENO_OK;
    for (int k = 0; k < 2 * rank; k++)
        ok = ok && pads[k] >= 0 && pads[k] < INT32_MAX / 2 && (k % rank >= 2 || !pads[k]);
    for (size_t k = 0; own && k < count; k++)
        ok = ok && own[k] >= 0 && own[k] < INT32_MAX / 2;
    if (!ok || !windows_reach(n, pads, rank - 2))
        return STENO_OK;
    if (set_pads(g, n, pads, rank - 2, err))
        return STENO_ERR_NOMEM;
    n->in[0] = pad->in[0];
    pad->dead = true;
    ++*changed;
    return STENO_OK;
}
