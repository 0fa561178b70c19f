/* Before: a graph that computes in f16 or bf16
 * After:  the same in f32; a Cast at each graph input and output of 16 bits; constants in f32
 * The engine computes 16-bit operators in f32 and rounds each result. Without that rounding every
 * fusion for f32 applies, and results are nearer to those of the f32 network the file was made of.
 * What differs is rounding, and what overflows in 16 bits only. A single number that is the
 * rounding of a constant that activations have (sqrt 2, 1.702, ...) becomes that constant again.
 *
 * A graph without arithmetic in 16 bits stays as it is, such as one with 16-bit weights behind a
 * Cast. A Cast of wider floating point numbers to 16 bits rounds on purpose, and may overflow: it
 * stays in every graph, with a Cast back behind it. */
#include "nn/passes/passes.h"

#include "nn/ops/internal.h"

#include <string.h>

struct widen {
    const struct steno_pass_env *env;
    int *changed;
    steno_err *err;
    steno_status st;
};

static bool touches(const struct steno_graph *g, const struct steno_node *n)
{
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] != STENO_NONE && steno_ops_is_half(g->values[n->in[k]].dtype))
            return true;
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k] != STENO_NONE && steno_ops_is_half(g->values[n->out[k]].dtype))
            return true;
    return false;
}

/* ---- what to do ---- */

struct look {
    steno_dtype computes; /* the type if some node other than a Cast writes 16 bits */
    bool unknown;         /* a node that cannot be changed reads or writes them */
};

static int look_at(struct steno_graph *g, void *arg)
{
    struct look *l = arg;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        if (n->dead)
            continue;
        steno_node_each_graph(n, look_at, l);
        for (int k = 0; k < n->n_out && !steno_pass_is(n, "Cast"); k++)
            if (n->out[k] != STENO_NONE && steno_ops_is_half(g->values[n->out[k]].dtype))
                l->computes = g->values[n->out[k]].dtype;
        for (int k = 0; k < n->n_out; k++)
            l->unknown = l->unknown ||
                         (n->out[k] != STENO_NONE && !g->values[n->out[k]].dtype && touches(g, n));
        l->unknown =
            l->unknown || ((!n->op || !n->op->run) && touches(g, n)) || steno_pass_is(n, "BitCast");
    }
    return 0;
}

/* True for a Cast of wider floating point numbers, other than constants, to 16 bits. */
static bool rounds(const struct steno_graph *g, const struct steno_node *n)
{
    const struct steno_value *v =
        n->n_out == 1 && n->out[0] != STENO_NONE ? &g->values[n->out[0]] : NULL;
    const steno_dtype from = v ? g->values[n->in[0]].dtype : STENO_DT_NONE;
    return steno_pass_is(n, "Cast") && v && steno_ops_is_half(v->dtype) &&
           (from == STENO_F32 || from == STENO_F64) && !g->values[n->in[0]].constant;
}

/* ---- doing it ---- */

/* The number of an activation that x is the rounding of in type t, or x. */
static float unrounded(float x, steno_dtype t)
{
    static const float known[] = {
        1.41421356f, 0.70710678f,  0.79788456f,  0.044715f, /* Gelu */
        1.702f,      0.166666667f, 0.333333333f,            /* quick Gelu, HardSwish */
        0.08f,       0.035f,       0.313261687f             /* Swoosh */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (float sign = -1; sign <= 1; sign += 2) {
            float y = sign * known[i];
            y = t == STENO_F16 ? steno_ops_f16_to_f32(steno_ops_f32_to_f16(y))
                               : steno_ops_nearest_bf16(y);
            if (y == x)
                return sign * known[i];
        }
    return x;
}

/* Constant v in f32. */
static steno_status widened(struct steno_graph *g, steno_value_id v, steno_value_id *out,
                            steno_err *err)
{
    const struct steno_tensor *c = g->values[v].constant;
    const void *bytes = steno_constant_bytes(c);
    float *to;
    if (!bytes && steno_numel(c)) { /* made on demand */
        steno_status st = steno_graph_add_value(g, g->values[v].name, out, err);
        return st ? st : steno_pass_put_cast(g, g->values[v].name, v, *out, STENO_F32, err);
    }
    to = steno_graph_new_const(g, g->values[v].name, STENO_F32, &c->shape, out, err);
    if (!to)
        return STENO_ERR_NOMEM;
    steno_ops_load_f32(to, bytes, c->dtype, steno_numel(c));
    if (steno_numel(c) == 1)
        *to = unrounded(*to, c->dtype);
    return STENO_OK;
}

/* Attributes that name a type, and the number of ConstantOfShape. */
static steno_status widen_attrs(struct steno_graph *g, struct steno_node *n, steno_err *err)
{
    static const char *const names[] = {"to", "dtype", "output_datatype", "output_dtype"};
    struct steno_attr *a = steno_graph_alloc(g, (size_t)n->n_attr + 1, sizeof *a, err);
    if (!a)
        return STENO_ERR_NOMEM;
    memcpy(a, n->attr, (size_t)n->n_attr * sizeof *a);
    for (int k = 0; k < n->n_attr; k++) {
        struct steno_tensor *t;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (a[k].kind == STENO_ATTR_INT && !strcmp(a[k].name, names[i]) &&
                steno_ops_is_half((steno_dtype)a[k].i))
                a[k].i = STENO_F32;
        if (a[k].kind != STENO_ATTR_TENSOR || !a[k].t || !steno_ops_is_half(a[k].t->dtype))
            continue;
        t = steno_graph_alloc(g, 1, sizeof *t, err);
        if (!t)
            return STENO_ERR_NOMEM;
        *t = *a[k].t;
        t->dtype = STENO_F32;
        t->data = steno_graph_alloc(g, steno_numel(t) + 1, sizeof(float), err);
        if (!t->data)
            return STENO_ERR_NOMEM;
        steno_ops_load_f32(t->data, a[k].t->data, a[k].t->dtype, steno_numel(t));
        a[k].t = t;
    }
    n->attr = a;
    return STENO_OK;
}

/* Fill to[v]: what is read in place of v, or v. */
static steno_status make_sources(struct steno_graph *g, const bool *stays, steno_value_id *to,
                                 int32_t count, const steno_value_id *parents, steno_err *err)
{
    steno_status st = STENO_OK;
    for (steno_value_id v = 0; !st && v < count; v++) {
        const bool captured = g->values[v].captured_from != STENO_NONE;
        to[v] = v;
        if (captured && parents)
            g->values[v].captured_from = parents[g->values[v].captured_from];
        if (!steno_ops_is_half(g->values[v].dtype))
            continue;
        if (g->values[v].constant && !captured) {
            st = widened(g, v, &to[v], err);
        } else if (stays[v] || (g->values[v].is_input && !g->parent)) {
            st = steno_graph_add_value(g, g->values[v].name, &to[v], err);
            if (!st)
                st = steno_pass_put_cast(g, g->values[v].name, v, to[v], STENO_F32, err);
        } else if (g->values[v].is_output && !g->parent) { /* a Cast writes it */
            st = steno_graph_add_value(g, "", &to[v], err);
            if (!st)
                st = steno_pass_put_cast(g, g->values[v].name, to[v], v, g->values[v].dtype, err);
        } else {
            g->values[v].dtype = STENO_F32;
        }
        if (!st && to[v] != v) {
            g->values[to[v]].dtype = STENO_F32;
            g->values[to[v]].shape = g->values[v].shape;
        }
    }
    return st;
}

struct bodies {
    struct widen *w;
    const steno_value_id *to;
};

static void widen_graph(struct steno_graph *g, struct widen *w, const steno_value_id *parents);

static int widen_body(struct steno_graph *g, void *arg)
{
    const struct bodies *b = arg;
    if (!b->w->st)
        widen_graph(g, b->w, b->to);
    return b->w->st != STENO_OK;
}

static void widen_graph(struct steno_graph *g, struct widen *w, const steno_value_id *parents)
{
    const int32_t nodes = g->n_nodes, values = g->n_values;
    steno_value_id *to = steno_graph_alloc(g, (size_t)values + 1, sizeof *to, w->err);
    bool *stays = steno_graph_alloc(g, (size_t)values + 1, sizeof *stays, w->err);
    struct bodies b = {w, to};
    if (!to || !stays) {
        w->st = STENO_ERR_NOMEM;
        return;
    }
    memset(stays, 0, (size_t)values * sizeof *stays);
    for (int32_t i = 0; i < nodes; i++)
        if (!g->nodes[i].dead && rounds(g, &g->nodes[i]))
            stays[g->nodes[i].out[0]] = true;
    w->st = make_sources(g, stays, to, values, parents, w->err);
    for (int32_t i = 0; !w->st && i < nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        if (n->dead)
            continue;
        if (n->n_out != 1 || n->out[0] == STENO_NONE || !stays[n->out[0]])
            w->st = widen_attrs(g, n, w->err);
        n = &g->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != STENO_NONE)
                n->in[k] = to[n->in[k]];
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] != STENO_NONE && !stays[n->out[k]])
                n->out[k] = to[n->out[k]];
        if (!w->st)
            steno_node_each_graph(n, widen_body, &b);
    }
    for (int k = 0; g->parent && k < g->n_outputs && !w->st; k++)
        g->outputs[k] = to[g->outputs[k]];
}

steno_status steno_pass_widen(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    struct widen w = {env, changed, err, STENO_OK};
    struct look l = {STENO_DT_NONE, false};
    if (g->parent)
        return STENO_OK;
    (void)look_at(g, &l);
    if (!l.computes || l.unknown)
        return STENO_OK;
    widen_graph(g, &w, NULL);
    g->halves = l.computes;
    ++*changed;
    return w.st;
}
