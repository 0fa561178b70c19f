/* Before: c = Conv(x, W, b), y = activation(c)
 * After:  y = com.microsoft:FusedConv(x, W, b; activation, activation_params)
 * Relu, Sigmoid, Tanh, LeakyRelu, HardSigmoid, Elu, Softplus, Softsign, ThresholdedRelu, Swish,
 * Gelu by Erf, Clip (so Relu6), HardSwish. Activations that the kernels know cost nothing more.
 *
 * Before: c = ai.steno:ConvNhwc(x, W, b), y = act(c), act a steno_pass_act
 * After:  y = ai.steno:ConvNhwc(x, W, b; act, act_min, act_max)
 * Before: y = c + r
 * After:  y = ai.steno:ConvNhwc(..., r) */
#include "nn/passes/passes.h"

#include <float.h>
#include <string.h>

/* Get the parameters of an activation. params: [2]; false for other nodes, and for limits that are
 * not constant. */
static bool activation(const struct steno_graph *g, const struct steno_node *n, float *params,
                       size_t *count)
{
    static const struct {
        const char *type, *attr[2];
        float otherwise[2];
    } rows[] = {{"Relu", {NULL, NULL}, {0, 0}},
                {"Sigmoid", {NULL, NULL}, {0, 0}},
                {"Tanh", {NULL, NULL}, {0, 0}},
                {"Softplus", {NULL, NULL}, {0, 0}},
                {"Softsign", {NULL, NULL}, {0, 0}},
                {"HardSwish", {NULL, NULL}, {0, 0}},
                {"LeakyRelu", {"alpha", NULL}, {0.01f, 0}},
                {"Elu", {"alpha", NULL}, {1, 0}},
                {"ThresholdedRelu", {"alpha", NULL}, {1, 0}},
                {"HardSigmoid", {"alpha", "beta"}, {0.2f, 0.5f}},
                {"Clip", {"min", "max"}, {-FLT_MAX, FLT_MAX}}};
    *count = 0;
    if (steno_pass_is(n, "Swish"))
        return steno_node_float(n, "alpha", 1) == 1;
    if (steno_pass_is(n, "Gelu"))
        return !strcmp(steno_node_str(n, "approximate", "none"), "none");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!steno_pass_is(n, rows[i].type))
            continue;
        for (int k = 0; k < 2 && rows[i].attr[k]; k++) {
            double v = (double)steno_node_float(n, rows[i].attr[k], rows[i].otherwise[k]);
            if (n->n_in > k + 1 && n->in[k + 1] != STENO_NONE &&
                !steno_pass_scalar(g, n->in[k + 1], &v)) /* Clip from opset 11 on */
                return false;
            params[(*count)++] = (float)v;
        }
        return true;
    }
    return false;
}

/* Return the channels-last convolution that writes v if v has one reader, else NULL. */
static struct steno_node *nhwc(struct steno_graph *g, steno_value_id v)
{
    struct steno_node *n = steno_pass_producer(g, v);
    return steno_pass_is_ours(n, "ConvNhwc") && steno_pass_read_once(g, v) ? n : NULL;
}

static void absorb(struct steno_node *conv, struct steno_node *after, int *changed)
{
    conv->out[0] = after->out[0];
    after->dead = true;
    ++*changed;
}

/* Attributes act, act_min, act_max are the first three (pass nhwc). */
static bool into_nhwc(struct steno_graph *g, struct steno_node *n, int *changed)
{
    float p[2];
    enum steno_activation act = steno_pass_act(g, n, p);
    struct steno_node *conv = act ? nhwc(g, n->in[0]) : NULL;
    if (conv && conv->attr[0].i == STENO_ACT_NONE && conv->in[3] == STENO_NONE) {
        conv->attr[0].i = act;
        conv->attr[1].f = p[0];
        conv->attr[2].f = p[1];
        absorb(conv, n, changed);
        return true;
    }
    for (int side = 0; side < 2 && steno_pass_is(n, "Add"); side++) {
        steno_value_id other = n->in[1 - side];
        conv = nhwc(g, n->in[side]);
        if (conv && conv->in[3] == STENO_NONE && g->values[other].dtype == STENO_F32 &&
            steno_pass_same_shape(g, other, n->in[side])) {
            conv->in[3] = other;
            absorb(conv, n, changed);
            return true;
        }
    }
    return false;
}

steno_status steno_pass_convact(struct steno_graph *g, const struct steno_pass_env *env,
                                struct steno_node *n, int *changed, steno_err *err)
{
    struct steno_attr more[2] = {{.name = "activation", .kind = STENO_ATTR_STRING, .s = n->op_type},
                                 {.name = "activation_params", .kind = STENO_ATTR_FLOATS}};
    struct steno_node *conv;
    float *params, p[2];
    (void)env;
    if (!n->n_in || n->in[0] == STENO_NONE || into_nhwc(g, n, changed) ||
        !(conv = steno_pass_only_use(g, n->in[0], "Conv")) ||
        g->values[conv->in[0]].dtype != STENO_F32 || !activation(g, n, p, &more[1].n))
        return STENO_OK;
    params = steno_graph_alloc(g, 2, sizeof *params, err);
    if (!params)
        return STENO_ERR_NOMEM;
    memcpy(params, p, more[1].n * sizeof *p);
    more[1].floats = params;
    n->dead = conv->dead = true;
    ++*changed;
    return steno_pass_put(g, n->name,
                          STENO_NODE("com.microsoft", "FusedConv", 1, .in = {conv->in, conv->n_in},
                                     .out = STENO_VALUES(n->out[0]),
                                     .attr = {more, 1 + (more[1].n > 0)}, .attrs_of = conv),
                          err);
}
