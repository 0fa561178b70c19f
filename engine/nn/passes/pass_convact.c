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
    bool found =
        steno_pass_is_ours(n, "ConvNhwc") && g->values[v].uses == 1 && !g->values[v].is_output;
    return found ? n : NULL;
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
    for (int side = 0; side < 2 && !*n->domain && !strcmp(n->op_type, "Add"); side++) {
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
                                int *changed, steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct steno_node *act = &g->nodes[i], *conv, *y;
        const char *name = act->name, *type = act->op_type;
        float *params, p[2];
        size_t n_params;
        steno_value_id out;
        int32_t at;
        int n;
        if (act->dead || !act->n_in || act->in[0] == STENO_NONE || into_nhwc(g, act, changed) ||
            !(conv = steno_pass_only_use(g, act->in[0], "Conv")) ||
            g->values[conv->in[0]].dtype != STENO_F32 || !activation(g, act, p, &n_params))
            continue;
        params = steno_graph_alloc(g, 2, sizeof *params, err);
        if (!params)
            return STENO_ERR_NOMEM;
        memcpy(params, p, n_params * sizeof *p);
        at = (int32_t)(conv - g->nodes);
        out = act->out[0];
        act->dead = conv->dead = true;
        y = steno_pass_add_node(g, "com.microsoft", "FusedConv", 1, name, conv->n_in, 1,
                                conv->n_attr + 1 + (n_params > 0), err);
        if (!y)
            return STENO_ERR_NOMEM;
        conv = &g->nodes[at]; /* the array may have moved */
        for (int k = 0; k < conv->n_in; k++)
            y->in[k] = conv->in[k];
        for (n = 0; n < conv->n_attr; n++)
            y->attr[n] = conv->attr[n];
        y->attr[n++] =
            (struct steno_attr){.name = "activation", .kind = STENO_ATTR_STRING, .s = type};
        if (n_params)
            y->attr[n] = (struct steno_attr){.name = "activation_params",
                                             .kind = STENO_ATTR_FLOATS,
                                             .n = n_params,
                                             .floats = params};
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
