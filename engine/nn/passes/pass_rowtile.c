/* Before: c = ai.steno:ConvNhwc(x, W0, b0), y = ai.steno:ConvNhwc(c, W1, b1)
 * After:  y = ai.steno.run:ConvRowTiles(x, W0, b0, W1, b1)    (nn/ops/op_conv_row_tiles.c)
 * c is the largest result of many encoders (in the subsampling); it never exists as a whole. Only
 * for networks that are run: files keep the standard operators. */
#include "nn/passes/passes.h"

#include <string.h>

enum { STAGES = 2, IN_W = 1, IN_BIAS = 2, IN_RESIDUAL = 3 };

/* True for a channels-last convolution of two axes with explicit paddings and without a
 * residual. */
static bool rowtile_fits(const struct steno_graph *g, const struct steno_node *n)
{
    const char *pad;
    const struct steno_tensor *w;
    if (!steno_pass_is_ours(n, "ConvNhwc") || n->in[IN_RESIDUAL] != STENO_NONE)
        return false;
    pad = steno_node_str(n, "auto_pad", "NOTSET");
    w = g->values[n->in[IN_W]].constant;
    return w && w->shape.rank == 4 && (!strcmp(pad, "NOTSET") || !strcmp(pad, "VALID"));
}

/* Return the convolution whose result only n reads, or NULL. */
static struct steno_node *first_of(struct steno_graph *g, const struct steno_node *n)
{
    struct steno_node *first = steno_pass_producer(g, n->in[0]);
    return steno_pass_read_once(g, n->in[0]) && rowtile_fits(g, first) ? first : NULL;
}

/* Collect attribute `name` of both, `count` integers each. */
static bool ints_of(struct steno_graph *g, const struct steno_node *const *n, const char *name,
                    size_t count, int64_t otherwise, struct steno_attr *to, steno_err *err)
{
    int64_t *v = steno_graph_alloc(g, STAGES * count, sizeof *v, err);
    const bool pads = !strcmp(name, "pads");
    if (!v)
        return false;
    for (size_t i = 0; i < STAGES; i++) {
        size_t given;
        const int64_t *from = steno_node_ints(n[i], name, &given);
        const bool none = pads && !strcmp(steno_node_str(n[i], "auto_pad", "NOTSET"), "VALID");
        for (size_t k = 0; k < count; k++)
            v[i * count + k] = count == 1      ? steno_node_int(n[i], name, otherwise)
                               : from && !none ? from[k]
                                               : otherwise;
    }
    *to =
        (struct steno_attr){.name = name, .kind = STENO_ATTR_INTS, .n = STAGES * count, .ints = v};
    return true;
}

static bool floats_of(struct steno_graph *g, const struct steno_node *const *n, const char *name,
                      struct steno_attr *to, steno_err *err)
{
    float *v = steno_graph_alloc(g, STAGES, sizeof *v, err);
    for (size_t i = 0; v && i < STAGES; i++)
        v[i] = steno_node_float(n[i], name, 0);
    *to = (struct steno_attr){.name = name, .kind = STENO_ATTR_FLOATS, .n = STAGES, .floats = v};
    return v != NULL;
}

/* Make n, the second convolution, compute both. */
static steno_status build_rowtile(struct steno_graph *g, struct steno_node *first,
                                  struct steno_node *n, steno_err *err)
{
    const struct steno_node *const both[STAGES] = {first, n};
    struct steno_attr at[7];
    if (!ints_of(g, both, "strides", 2, 1, &at[0], err) ||
        !ints_of(g, both, "dilations", 2, 1, &at[1], err) ||
        !ints_of(g, both, "pads", 4, 0, &at[2], err) ||
        !ints_of(g, both, "group", 1, 1, &at[3], err) ||
        !ints_of(g, both, "act", 1, STENO_ACT_NONE, &at[4], err) ||
        !floats_of(g, both, "act_min", &at[5], err) || !floats_of(g, both, "act_max", &at[6], err))
        return STENO_ERR_NOMEM;
    first->dead = true;
    return steno_pass_become(
        g, n,
        STENO_NODE("ai.steno.run", "ConvRowTiles", 1,
                   .in = STENO_VALUES(first->in[0], first->in[IN_W], first->in[IN_BIAS],
                                      n->in[IN_W], n->in[IN_BIAS]),
                   .out = STENO_VALUES(n->out[0]), .attr = {at, 7}),
        err);
}

steno_status steno_pass_rowtile(struct steno_graph *g, const struct steno_pass_env *env,
                                struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_node *first = env->to_run && rowtile_fits(g, n) ? first_of(g, n) : NULL;
    *changed += first != NULL;
    return first ? build_rowtile(g, first, n, err) : STENO_OK;
}
