/* Before: Transpose(x; 0,2,1) -> Conv depthwise, stride 1, no padding -> Transpose(0,2,1)
 * After:  ai.steno:DepthwiseConv1d(x)      (ops/op_fused.c): time stays the slow axis throughout */
#include "passes/passes.h"

#include <string.h>

static bool swaps_last_two(const struct steno_node *t)
{
    size_t n;
    const int64_t *p = steno_node_ints(t, "perm", &n);
    return p && n == 3 && p[0] == 0 && p[1] == 2 && p[2] == 1;
}

static bool all(const struct steno_node *n, const char *attr, int64_t want)
{
    size_t count;
    const int64_t *v = steno_node_ints(n, attr, &count);
    for (size_t i = 0; i < count; i++)
        if (v[i] != want)
            return false;
    return true;
}

static bool plain_depthwise(const struct steno_graph *g, const struct steno_node *c)
{
    const struct steno_tensor *w = c->n_in > 1 ? g->values[c->in[1]].constant : NULL;
    const char *pad = steno_node_str(c, "auto_pad", "NOTSET");
    return w && w->data && w->dtype == STENO_F32 && w->shape.rank == 3 && w->shape.dim[1] == 1 &&
           w->shape.dim[2] > 0 && steno_node_int(c, "group", 1) == w->shape.dim[0] &&
           (c->n_in < 3 || c->in[2] == STENO_NONE ||
            steno_pass_vector(g, c->in[2], w->shape.dim[0])) &&
           all(c, "strides", 1) && all(c, "dilations", 1) && all(c, "pads", 0) &&
           (!strcmp(pad, "NOTSET") || !strcmp(pad, "VALID")) &&
           g->values[c->in[0]].shape.rank == 3 &&
           g->values[c->in[0]].shape.dim[1] == w->shape.dim[0];
}

steno_status steno_pass_depthwise(struct steno_graph *g, const struct steno_pass_env *env,
                                  int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, n = g->n_nodes; i < n; i++) {
        struct steno_node *after = &g->nodes[i], *conv, *before, *y;
        steno_vid x, w, b, out;
        if (after->dead || *after->domain || strcmp(after->op_type, "Transpose") ||
            !swaps_last_two(after))
            continue;
        conv = steno_pass_only_use(g, after->in[0], "Conv");
        before = conv ? steno_pass_producer(g, conv->in[0]) : NULL;
        if (!before || *before->domain || strcmp(before->op_type, "Transpose") ||
            !swaps_last_two(before) || !plain_depthwise(g, conv))
            continue;
        x = before->in[0];
        w = conv->in[1];
        b = conv->n_in > 2 ? conv->in[2] : STENO_NONE;
        out = after->out[0];
        after->dead = conv->dead = true; /* `before` may have other readers: pass dead decides */
        y = steno_pass_add_node(g, "ai.steno", "DepthwiseConv1d", 1, conv->name, 3, 1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->in[0] = x;
        y->in[1] = w;
        y->in[2] = b;
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
