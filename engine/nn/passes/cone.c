#include "nn/passes/cone.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- values ---- */

double steno_cone_f32(double v)
{
    return v > (double)FLT_MAX    ? HUGE_VAL
           : v < -(double)FLT_MAX ? -HUGE_VAL
           : fabs(v) < 7e-46      ? v * 0
                                  : v;
}

int steno_cone_code(const struct steno_node *n)
{
    static const struct {
        const char *type;
        enum steno_cone_op code;
        int least, most; /* inputs */
    } rows[] = {{"Erf", STENO_CONE_ERF, 1, 1},
                {"Tanh", STENO_CONE_TANH, 1, 1},
                {"Sigmoid", STENO_CONE_SIGMOID, 1, 1},
                {"Exp", STENO_CONE_EXP, 1, 1},
                {"Log", STENO_CONE_LOG, 1, 1},
                {"Sqrt", STENO_CONE_SQRT, 1, 1},
                {"Softplus", STENO_CONE_SOFTPLUS, 1, 1},
                {"Relu", STENO_CONE_RELU, 1, 1},
                {"Neg", STENO_CONE_NEG, 1, 1},
                {"Reciprocal", STENO_CONE_RECIPROCAL, 1, 1},
                {"HardSigmoid", STENO_CONE_HARD_SIGMOID, 1, 1},
                {"Add", STENO_CONE_ADD, 2, 2},
                {"Sub", STENO_CONE_SUB, 2, 2},
                {"Mul", STENO_CONE_MUL, 2, 2},
                {"Div", STENO_CONE_DIV, 2, 2},
                {"Pow", STENO_CONE_POW, 2, 2},
                {"Max", STENO_CONE_MAX, 2, 2},
                {"Min", STENO_CONE_MIN, 2, 2},
                {"Clip", STENO_CONE_CLIP, 1, 3},
                {"Abs", STENO_CONE_ABS, 1, 1},
                {"Equal", STENO_CONE_EQUAL, 2, 2},
                {"Where", STENO_CONE_WHERE, 3, 3}};
    if (*n->domain || n->n_out != 1)
        return STENO_CONE_NONE;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (n->n_in >= rows[i].least && n->n_in <= rows[i].most &&
            !strcmp(n->op_type, rows[i].type))
            return (int)rows[i].code;
    return STENO_CONE_NONE;
}

static double clip(const struct steno_node *n, const double *in)
{
    double low = n->n_in > 1 && n->in[1] != STENO_NONE ? in[1] : -(double)FLT_MAX;
    double high = n->n_in > 2 && n->in[2] != STENO_NONE ? in[2] : (double)FLT_MAX;
    if (n->opset < 11) {
        low = (double)steno_node_float(n, "min", -FLT_MAX);
        high = (double)steno_node_float(n, "max", FLT_MAX);
    }
    return fmin(high, fmax(low, in[0]));
}

static double hard_sigmoid(const struct steno_node *n, double x)
{
    double a = (double)steno_node_float(n, "alpha", 0.2f);
    double b = (double)steno_node_float(n, "beta", 0.5f);
    return fmax(0, fmin(1, a * x + b));
}

static double cone_value_of(enum steno_cone_op code, const struct steno_node *n, const double *in)
{
    switch (code) {
    case STENO_CONE_ERF:
        return erf(in[0]);
    case STENO_CONE_TANH:
        return tanh(in[0]);
    case STENO_CONE_SIGMOID:
        return 1 / (1 + exp(-in[0]));
    case STENO_CONE_EXP:
        return exp(in[0]);
    case STENO_CONE_LOG:
        return log(in[0]);
    case STENO_CONE_SQRT:
        return sqrt(in[0]);
    case STENO_CONE_SOFTPLUS:
        return fmax(in[0], 0) + log1p(exp(-fabs(in[0])));
    case STENO_CONE_RELU:
        return in[0] > 0 ? in[0] : 0;
    case STENO_CONE_NEG:
        return -in[0];
    case STENO_CONE_RECIPROCAL:
        return 1 / in[0];
    case STENO_CONE_HARD_SIGMOID:
        return hard_sigmoid(n, in[0]);
    case STENO_CONE_ADD:
        return in[0] + in[1];
    case STENO_CONE_SUB:
        return in[0] - in[1];
    case STENO_CONE_MUL:
        return in[0] * in[1];
    case STENO_CONE_DIV:
        return in[0] / in[1];
    case STENO_CONE_POW:
        return in[1] == 2 ? in[0] * in[0] : pow(in[0], in[1]);
    case STENO_CONE_MAX:
        return fmax(in[0], in[1]);
    case STENO_CONE_MIN:
        return fmin(in[0], in[1]);
    case STENO_CONE_CLIP:
        return clip(n, in);
    case STENO_CONE_ABS:
        return fabs(in[0]);
    case STENO_CONE_EQUAL: /* true is 1, false is 0 here */
        return in[0] == in[1];
    case STENO_CONE_WHERE:
        return in[0] != 0 ? in[1] : in[2];
    case STENO_CONE_NONE:
        break;
    }
    return (double)NAN;
}

double steno_cone_value(const struct steno_cone *c, int i, const double *in)
{
    return steno_cone_f32(cone_value_of((enum steno_cone_op)c->code[i], c->node[i], in));
}

/* ---- cones ---- */

void steno_cone_start(struct steno_cone *c, struct steno_node *end)
{
    c->node[0] = end;
    c->code[0] = steno_cone_code(end);
    c->n = 1;
}

int steno_cone_inputs(const struct steno_node *n)
{
    return !strncmp(n->op_type, "Reduce", 6) || steno_pass_is(n, "LayerNormalization") ? 1
                                                                                       : n->n_in;
}

int steno_cone_find(const struct steno_cone *c, steno_value_id v)
{
    for (int i = 0; i < c->n; i++)
        if (c->node[i]->out[0] == v)
            return i;
    return -1;
}

static uint32_t reads_in(const struct steno_cone *c, steno_value_id v)
{
    uint32_t n = 0;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->node[i]->n_in; k++)
            n += c->node[i]->in[k] == v;
    return n;
}

int steno_cone_leaves(const struct steno_graph *g, const struct steno_cone *c, steno_value_id *last)
{
    int count = 0;
    *last = STENO_NONE;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < steno_cone_inputs(c->node[i]); k++) {
            steno_value_id v = c->node[i]->in[k];
            if (v == STENO_NONE || v == *last || c->number(g, c, v) || steno_cone_find(c, v) >= 0)
                continue;
            if (*last == STENO_NONE || g->values[v].producer > g->values[*last].producer)
                *last = v;
            count++;
        }
    return count;
}

bool steno_cone_widen(struct steno_graph *g, struct steno_cone *c, steno_value_id v)
{
    struct steno_node *n = steno_pass_producer(g, v);
    if (c->n == STENO_CONE_NODES || !n || !c->takes(g, c, n) || g->values[v].is_output ||
        g->values[v].uses != reads_in(c, v))
        return false;
    c->node[c->n] = n;
    c->code[c->n++] = steno_cone_code(n);
    return true;
}
