#include "nn/passes/passes.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void steno_pass_refuse(const struct steno_pass_env *env, const char *pass,
                       const struct steno_node *n, const char *fmt, ...)
{
    char why[256];
    va_list ap;
    if (!env->refused)
        return;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    env->refused(env->refused_arg, pass, n->name, why);
}

struct steno_node *steno_pass_producer(struct steno_graph *g, steno_value_id v)
{
    if (v == STENO_NONE || g->values[v].producer == STENO_NONE)
        return NULL;
    return g->nodes[g->values[v].producer].dead ? NULL : &g->nodes[g->values[v].producer];
}

bool steno_pass_is_finite(const struct steno_graph *g, steno_value_id v)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : g->values[v].constant;
    const char *bytes = t && t->dtype == STENO_F32 ? steno_constant_bytes(t) : NULL;
    size_t n = bytes ? steno_numel(t) : 0;
    for (size_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, bytes + i * sizeof f, sizeof f);
        if (!isfinite(f))
            return false;
    }
    return true;
}

bool steno_pass_replace(struct steno_graph *g, steno_value_id from, steno_value_id to)
{
    struct steno_node *p;
    to = steno_graph_replacement_of(g, to);
    if (from == to)
        return false;
    if (!g->values[from].is_output) {
        steno_graph_replace_uses(g, from, to);
        g->values[to].uses += g->values[from].uses;
        g->values[from].uses = 0;
        return true;
    }
    /* `from` has the name of the graph output, so its producer must write it */
    p = steno_pass_producer(g, to);
    if (!p || g->values[to].is_output)
        return false;
    for (int i = 0; i < p->n_out; i++)
        if (p->out[i] == to)
            p->out[i] = from;
    steno_graph_replace_uses(g, to, from);
    g->values[from].producer = g->values[to].producer;
    g->values[from].uses += g->values[to].uses;
    g->values[to].uses = 0;
    g->values[to].producer = STENO_NONE;
    return true;
}

bool steno_pass_is(const struct steno_node *n, const char *type)
{
    return n && !*n->domain && !strcmp(n->op_type, type);
}

bool steno_pass_is_any(const struct steno_node *n, const char *types)
{
    return n && !*n->domain && steno_op_type_in(n->op_type, types);
}

bool steno_pass_is_ours(const struct steno_node *n, const char *type)
{
    return n && !strcmp(n->domain, "ai.steno") && !strcmp(n->op_type, type);
}

const struct steno_tensor *steno_pass_const(const struct steno_graph *g, const struct steno_node *n,
                                            int i)
{
    const steno_value_id v = steno_node_in(n, i);
    return v == STENO_NONE ? NULL : g->values[v].constant;
}

bool steno_pass_one_element(const struct steno_graph *g, steno_value_id v)
{
    const struct steno_shape *s = &g->values[v].shape;
    return s->rank == 0 || (s->rank == 1 && s->dim[0] == 1);
}

bool steno_pass_read_once(const struct steno_graph *g, steno_value_id v)
{
    return g->values[v].uses == 1 && !g->values[v].is_output;
}

bool steno_pass_one_output(const struct steno_graph *g, const struct steno_node *n)
{
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE && g->values[n->out[i]].uses)
            return false;
    return true;
}

/* Readers that a pass changed since the last recount are not seen; the next round finds them. */
struct steno_node *steno_pass_only_reader(struct steno_graph *g, steno_value_id v)
{
    struct steno_node *n;
    if (v == STENO_NONE || !steno_pass_read_once(g, v) ||
        g->values[v].reader == STENO_NONE) /* NONE: a body graph reads it */
        return NULL;
    n = &g->nodes[g->values[v].reader];
    for (int k = 0; !n->dead && k < n->n_in; k++)
        if (n->in[k] == v)
            return n;
    return NULL;
}

struct steno_node *steno_pass_only_use(struct steno_graph *g, steno_value_id v, const char *type)
{
    struct steno_node *n = steno_pass_producer(g, v);
    return steno_pass_is(n, type) && steno_pass_read_once(g, v) ? n : NULL;
}

bool steno_pass_same_shape(const struct steno_graph *g, steno_value_id a, steno_value_id b)
{
    const struct steno_shape *x = &g->values[a].shape, *y = &g->values[b].shape;
    if (x->rank < 0 || x->rank != y->rank)
        return false;
    for (int i = 0; i < x->rank; i++)
        if (!steno_same_dim(x->dim[i], y->dim[i]))
            return false;
    return true;
}

const float *steno_pass_vector(const struct steno_graph *g, steno_value_id v, int64_t n)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : g->values[v].constant;
    if (!t || !t->data || t->dtype != STENO_F32 || t->shape.rank != 1 || t->shape.dim[0] != n)
        return NULL;
    return t->data;
}

bool steno_pass_vector_or_none(const struct steno_graph *g, const struct steno_node *n, int i,
                               int64_t len)
{
    const steno_value_id v = steno_node_in(n, i);
    return v == STENO_NONE || steno_pass_vector(g, v, len);
}

bool steno_pass_norm_of_rows(const struct steno_graph *g, const struct steno_node *n, bool rms)
{
    const struct steno_shape *s;
    int64_t axis;
    if (!steno_pass_is(n, rms ? "RMSNormalization" : "LayerNormalization"))
        return false;
    s = &g->values[n->in[0]].shape;
    axis = steno_node_int(n, "axis", -1);
    return s->rank > 0 && (axis == -1 || axis == s->rank - 1) && n->n_in > 1 &&
           steno_pass_vector(g, n->in[1], s->dim[s->rank - 1]) &&
           steno_pass_vector_or_none(g, n, 2, s->dim[s->rank - 1]) && steno_pass_one_output(g, n);
}

/* The elements may lie in the mapped file, unaligned. */
static bool element(const struct steno_tensor *t, size_t i, double *out)
{
    const char *p = (const char *)t->data + i * steno_dtype_size(t->dtype);
    float f;
    int64_t l;
    int32_t n;
    switch (t->dtype) {
    case STENO_F32:
        memcpy(&f, p, sizeof f);
        *out = (double)f;
        return true;
    case STENO_F64:
        memcpy(out, p, sizeof *out);
        return true;
    case STENO_I64:
        memcpy(&l, p, sizeof l);
        *out = (double)l;
        return true;
    case STENO_I32:
        memcpy(&n, p, sizeof n);
        *out = n;
        return true;
    case STENO_BOOL:
    case STENO_U8:
        *out = ((const uint8_t *)t->data)[i];
        return true;
    default:
        return false;
    }
}

bool steno_pass_scalar(const struct steno_graph *g, steno_value_id v, double *out)
{
    const struct steno_tensor *t = v == STENO_NONE ? NULL : g->values[v].constant;
    size_t n = t && steno_constant_bytes(t) ? steno_numel(t) : 0;
    double first, x;
    if (!n || !element(t, 0, &first))
        return false;
    for (size_t i = 1; i < n; i++)
        if (!element(t, i, &x) || memcmp(&x, &first, sizeof x))
            return false;
    *out = first;
    return true;
}

bool steno_pass_fills(const struct steno_node *n, steno_dtype type, double with)
{
    const struct steno_attr *a;
    double x;
    if (!steno_pass_is(n, "ConstantOfShape"))
        return false;
    a = steno_node_attr(n, "value");
    if (!a)
        return type == STENO_F32 && with == 0;
    return a->kind == STENO_ATTR_TENSOR && a->t && a->t->dtype == type && a->t->data &&
           steno_numel(a->t) == 1 && element(a->t, 0, &x) && x == with;
}

bool steno_pass_ints_are(const struct steno_node *n, const char *attr, int64_t want,
                         int64_t otherwise)
{
    size_t count;
    const int64_t *v = steno_node_ints(n, attr, &count);
    for (size_t i = 0; v && i < count; i++)
        if (v[i] != want)
            return false;
    return v || otherwise == want;
}

bool steno_pass_cut_of(const struct steno_graph *g, const struct steno_node *n,
                       struct steno_pass_cut *out)
{
    double step = 1;
    return n->opset >= 10 && n->n_in >= 4 && steno_pass_scalar(g, n->in[1], &out->start) &&
           steno_pass_scalar(g, n->in[2], &out->end) &&
           steno_pass_scalar(g, n->in[3], &out->axis) &&
           steno_numel(g->values[n->in[1]].constant) == 1 &&
           (n->n_in < 5 || n->in[4] == STENO_NONE || steno_pass_scalar(g, n->in[4], &step)) &&
           step == 1;
}

/* Limits of a Clip, from attributes (before opset 11) or constants of one element. */
static bool clip(const struct steno_graph *g, const struct steno_node *n, float limits[2])
{
    limits[0] = steno_node_float(n, "min", -FLT_MAX);
    limits[1] = steno_node_float(n, "max", FLT_MAX);
    for (int i = 1; i < n->n_in && i < 3; i++) {
        double v;
        if (n->in[i] == STENO_NONE)
            continue;
        if (!steno_pass_scalar(g, n->in[i], &v))
            return false;
        limits[i - 1] = (float)v;
    }
    return true;
}

bool steno_pass_act_has_parameters(enum steno_activation act)
{
    return act == STENO_ACT_CLIP || act == STENO_ACT_SWOOSH || act == STENO_ACT_HARD_SIGMOID ||
           act == STENO_ACT_LEAKY_RELU || act == STENO_ACT_ELU;
}

enum steno_activation steno_pass_act(const struct steno_graph *g, const struct steno_node *n,
                                     float p[2])
{
    static const struct {
        const char *type;
        enum steno_activation act;
        float alpha, beta; /* defaults of the attributes */
    } acts[] = {{"Relu", STENO_ACT_RELU, 0, 0},
                {"Sigmoid", STENO_ACT_SIGMOID, 0, 0},
                {"Tanh", STENO_ACT_TANH, 0, 0},
                {"HardSwish", STENO_ACT_HARD_SWISH, 0, 0},
                {"Softplus", STENO_ACT_SOFTPLUS, 0, 0},
                {"Softsign", STENO_ACT_SOFTSIGN, 0, 0},
                {"Mish", STENO_ACT_MISH, 0, 0},
                {"HardSigmoid", STENO_ACT_HARD_SIGMOID, 0.2f, 0.5f},
                {"LeakyRelu", STENO_ACT_LEAKY_RELU, 0.01f, 0},
                {"Elu", STENO_ACT_ELU, 1, 1}};
    p[0] = p[1] = 0;
    if (steno_pass_is_ours(n, "Swoosh")) {
        p[0] = steno_node_float(n, "shift", 0);
        p[1] = steno_node_float(n, "offset", 0);
        return STENO_ACT_SWOOSH;
    }
    if (steno_pass_is(n, "Clip") && clip(g, n, p))
        return STENO_ACT_CLIP;
    if (steno_pass_is(n, "Swish") && steno_node_float(n, "alpha", 1) == 1)
        return STENO_ACT_SILU;
    if (steno_pass_is(n, "Gelu") && !strcmp(steno_node_str(n, "approximate", "none"), "none"))
        return STENO_ACT_GELU;
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (steno_pass_is(n, acts[i].type)) {
            p[0] = steno_node_float(n, "alpha", acts[i].alpha);
            p[1] = steno_node_float(n, "beta", acts[i].beta);
            return acts[i].act;
        }
    return STENO_ACT_NONE;
}

bool steno_pass_permutes(const struct steno_node *n, int rank, const int64_t *perm)
{
    size_t count = 0;
    const int64_t *p = steno_pass_is(n, "Transpose") ? steno_node_ints(n, "perm", &count) : NULL;
    return p && (int)count == rank && !memcmp(p, perm, count * sizeof *p);
}

bool steno_pass_swaps_last_two(const struct steno_node *n, int rank)
{
    int64_t perm[STENO_MAX_RANK];
    if (rank < 2 || rank > STENO_MAX_RANK)
        return false;
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return steno_pass_permutes(n, rank, perm);
}

struct steno_node *steno_pass_swapped(struct steno_graph *g, steno_value_id v)
{
    struct steno_node *n = steno_pass_producer(g, v);
    return steno_pass_swaps_last_two(n, 3) ? n : NULL;
}

void steno_pass_reroute(struct steno_graph *g, struct steno_node *n, int k, steno_value_id v)
{
    g->values[n->in[k]].uses--;
    n->in[k] = v;
    g->values[v].uses++;
}

/* ---- inlining ---- */

static int reparent(struct steno_graph *inner, void *arg)
{
    void **a = arg;
    struct steno_graph *g = a[0];
    const steno_value_id *map = a[1];
    inner->parent = g;
    for (int32_t i = 0; i < inner->n_values; i++)
        if (inner->values[i].captured_from != STENO_NONE)
            inner->values[i].captured_from = map[inner->values[i].captured_from];
    return 0;
}

static steno_status map_value(struct steno_graph *g, const struct steno_graph *body, int32_t i,
                              steno_value_id *to, steno_err *err)
{
    const struct steno_value *v = &body->values[i];
    steno_status st;
    if (v->captured_from != STENO_NONE) {
        *to = v->captured_from;
        return STENO_OK;
    }
    st = steno_graph_add_value(g, v->name, to, err);
    if (st)
        return st;
    g->values[*to].dtype = v->dtype;
    g->values[*to].shape = v->shape;
    if (v->constant)
        steno_graph_share_const(g, *to, v->constant);
    return STENO_OK;
}

/* Make body outputs the node's outputs: the body's node writes them directly if it can, else an
 * Identity copies them. */
static steno_status map_outputs(struct steno_graph *g, int32_t at, const struct steno_graph *body,
                                steno_value_id *map, steno_err *err)
{
    steno_status st = STENO_OK;
    for (int k = 0; !st && k < g->nodes[at].n_out && k < body->n_outputs; k++) {
        steno_value_id out = g->nodes[at].out[k], b = body->outputs[k];
        const struct steno_value *v = &body->values[b];
        bool first = true;
        if (out == STENO_NONE)
            continue;
        for (int j = 0; j < k; j++)
            first = first && (body->outputs[j] != b || g->nodes[at].out[j] == STENO_NONE);
        if (v->producer != STENO_NONE && first) {
            map[b] = out;
            continue;
        }
        st = steno_pass_put(
            g, body->name,
            STENO_NODE("", "Identity", 13, .in = STENO_VALUES(map[b]), .out = STENO_VALUES(out)),
            err);
    }
    return st;
}

static steno_status move_node(struct steno_graph *g, const struct steno_node *n,
                              const steno_value_id *map, steno_err *err)
{
    void *arg[2] = {g, NULL};
    struct steno_node copy = *n;
    int32_t at;
    steno_status st =
        steno_graph_add_node(g, n->domain, n->op_type, n->name, n->n_in, n->n_out, 0, &at, err);
    if (st)
        return st;
    copy.in = g->nodes[at].in;
    copy.out = g->nodes[at].out;
    copy.region = STENO_NONE;
    for (int k = 0; k < n->n_in; k++)
        copy.in[k] = n->in[k] == STENO_NONE ? STENO_NONE : map[n->in[k]];
    for (int k = 0; k < n->n_out; k++)
        copy.out[k] = n->out[k] == STENO_NONE ? STENO_NONE : map[n->out[k]];
    memcpy(&arg[1], &map, sizeof map);
    steno_node_each_graph(&copy, reparent, arg);
    g->nodes[at] = copy;
    return STENO_OK;
}

steno_status steno_pass_inline(struct steno_graph *g, int32_t at, struct steno_graph *body,
                               const steno_value_id *in, steno_err *err)
{
    steno_value_id *map = steno_graph_alloc(g, (size_t)body->n_values + 1, sizeof *map, err);
    steno_status st = map ? STENO_OK : STENO_ERR_NOMEM;
    for (int32_t i = 0; !st && i < body->n_values; i++)
        st = map_value(g, body, i, &map[i], err);
    for (int i = 0; !st && i < body->n_inputs; i++)
        map[body->inputs[i]] = in[i];
    if (!st)
        st = map_outputs(g, at, body, map, err);
    for (int32_t i = 0; !st && i < body->n_nodes; i++)
        if (!body->nodes[i].dead) {
            st = move_node(g, &body->nodes[i], map, err);
            body->nodes[i].dead = true; /* its bodies are g's now */
        }
    if (!st)
        g->nodes[at].dead = true;
    return st;
}
