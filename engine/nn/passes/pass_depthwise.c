/* Before: Conv depthwise, stride 1, on Transpose(x; 0,2,1)
 * After:  Transpose(ai.steno:DepthwiseConv1d(x); 0,2,1)      (nn/ops/op_fused.c)
 * Before: DepthwiseConv1d, Relu|Sigmoid|Tanh|Swish
 * After:  DepthwiseConv1d(act)
 * Time stays the outer axis throughout. The new Transpose cancels against the next one (pass
 * transpose) or moves on (pass pointwise). */
#include "nn/passes/passes.h"

#include <string.h>

static bool plain_depthwise(const struct steno_graph *g, const struct steno_node *c)
{
    const struct steno_tensor *w = c->n_in > 1 ? g->values[c->in[1]].constant : NULL;
    const char *pad = steno_node_str(c, "auto_pad", "NOTSET");
    size_t n;
    const int64_t *pads = steno_node_ints(c, "pads", &n);
    return w && w->data && w->dtype == STENO_F32 && w->shape.rank == 3 && w->shape.dim[1] == 1 &&
           w->shape.dim[2] > 0 && steno_node_int(c, "group", 1) == w->shape.dim[0] &&
           (c->n_in < 3 || c->in[2] == STENO_NONE ||
            steno_pass_vector(g, c->in[2], w->shape.dim[0])) &&
           steno_pass_ints_are(c, "strides", 1, 1) && steno_pass_ints_are(c, "dilations", 1, 1) &&
           (!pads || (n == 2 && pads[0] >= 0 && pads[1] >= 0 && pads[0] < w->shape.dim[2] &&
                      pads[1] < w->shape.dim[2])) &&
           (!strcmp(pad, "NOTSET") || (!strcmp(pad, "VALID") && !pads)) &&
           g->values[c->in[0]].shape.rank == 3 &&
           g->values[c->in[0]].shape.dim[1] == w->shape.dim[0];
}

static steno_status convolution(struct steno_graph *g, int32_t at, steno_value_id x, steno_err *err)
{
    static const int64_t none[2] = {0, 0};
    struct steno_node *c = &g->nodes[at], *y;
    size_t n;
    const int64_t *pads = steno_node_ints(c, "pads", &n);
    steno_value_id out = c->out[0], v;
    steno_status st = steno_graph_add_value(g, c->name, &v, err);
    if (st)
        return st;
    c = &g->nodes[at];
    c->dead = true;
    y = steno_pass_add_node(g, "ai.steno", "DepthwiseConv1d", 1, c->name, 3, 1, 2, err);
    if (!y)
        return STENO_ERR_NOMEM;
    c = &g->nodes[at]; /* the array may have moved */
    y->attr[0] = (struct steno_attr){
        .name = "pads", .kind = STENO_ATTR_INTS, .n = 2, .ints = pads ? pads : none};
    steno_pass_set_int(g, y, 1, "act", STENO_ACT_NONE);
    y->in[0] = x;
    y->in[1] = c->in[1];
    y->in[2] = c->n_in > 2 ? c->in[2] : STENO_NONE;
    y->out[0] = v;
    return steno_pass_swap_after(g, v, out, c->name, err);
}

static bool take_act(struct steno_graph *g, struct steno_node *c)
{
    struct steno_node *r = steno_pass_only_reader(g, c->out[0]);
    float p[2];
    enum steno_activation act = r ? steno_pass_act(g, r, p) : STENO_ACT_NONE;
    if (act == STENO_ACT_NONE || act > STENO_ACT_SILU || c->attr[1].i != STENO_ACT_NONE)
        return false;
    c->attr[1].i = act;
    c->out[0] = r->out[0];
    r->dead = true;
    return true;
}

steno_status steno_pass_depthwise(struct steno_graph *g, const struct steno_pass_env *env,
                                  int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, n = g->n_nodes; i < n; i++) {
        struct steno_node *c = &g->nodes[i], *before;
        steno_status st;
        if (c->dead)
            continue;
        if (steno_pass_is_ours(c, "DepthwiseConv1d")) {
            /* attributes of a node from a file may have another order: leave the node as it is */
            *changed += c->n_attr == 2 && !strcmp(c->attr[1].name, "act") && take_act(g, c);
            continue;
        }
        if (*c->domain || strcmp(c->op_type, "Conv") ||
            !(before = steno_pass_swapped(g, c->in[0])) || !plain_depthwise(g, c) ||
            !steno_pass_is_finite(g, c->in[1])) /* the padding is left out: 0 times infinity */
            continue;
        st = convolution(g, i, before->in[0], err);
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
