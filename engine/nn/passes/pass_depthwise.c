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
    const struct steno_tensor *w = steno_pass_const(g, c, 1);
    const char *pad = steno_node_str(c, "auto_pad", "NOTSET");
    size_t n;
    const int64_t *pads = steno_node_ints(c, "pads", &n);
    return w && w->data && w->dtype == STENO_F32 && w->shape.rank == 3 && w->shape.dim[1] == 1 &&
           w->shape.dim[2] > 0 && steno_node_int(c, "group", 1) == w->shape.dim[0] &&
           steno_pass_vector_or_none(g, c, 2, w->shape.dim[0]) &&
           steno_pass_ints_are(c, "strides", 1, 1) && steno_pass_ints_are(c, "dilations", 1, 1) &&
           (!pads || (n == 2 && pads[0] >= 0 && pads[1] >= 0 && pads[0] < w->shape.dim[2] &&
                      pads[1] < w->shape.dim[2])) &&
           (!strcmp(pad, "NOTSET") || (!strcmp(pad, "VALID") && !pads)) &&
           g->values[c->in[0]].shape.rank == 3 &&
           g->values[c->in[0]].shape.dim[1] == w->shape.dim[0];
}

static steno_status convolution(struct steno_graph *g, struct steno_node *c, steno_value_id x,
                                steno_err *err)
{
    static const int64_t none[2] = {0, 0};
    struct steno_pass_writer w = {g, c->name, err, STENO_OK};
    const steno_value_id out = c->out[0];
    size_t n;
    const int64_t *pads = steno_node_ints(c, "pads", &n);
    c->dead = true;
    steno_pass_write_swapped(
        &w,
        steno_pass_write_new(
            &w, STENO_NODE("ai.steno", "DepthwiseConv1d", 1,
                           .in = STENO_VALUES(x, c->in[1], steno_node_in(c, 2)),
                           .attr = STENO_ATTRS(STENO_INTS_ATTR("pads", 2, pads ? pads : none),
                                               STENO_INT_ATTR("act", STENO_ACT_NONE)))),
        out);
    return w.st;
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
                                  struct steno_node *n, int *changed, steno_err *err)
{
    const struct steno_node *before;
    (void)env;
    if (steno_pass_is_ours(n, "DepthwiseConv1d")) {
        /* attributes of a node from a file may have another order: leave the node as it is */
        *changed += n->n_attr == 2 && !strcmp(n->attr[1].name, "act") && take_act(g, n);
        return STENO_OK;
    }
    if (!steno_pass_is(n, "Conv") || !(before = steno_pass_swapped(g, n->in[0])) ||
        !plain_depthwise(g, n) ||
        !steno_pass_is_finite(g, n->in[1])) /* the padding is left out: 0 times infinity */
        return STENO_OK;
    ++*changed;
    return convolution(g, n, before->in[0], err);
}
