#include "nn/exec/infer.h"

#include <string.h>

#include "base/hash.h"

const struct steno_node *steno_infer_node(const struct steno_infer *ic)
{
    return ic->node;
}

static const struct steno_known *known_input(const struct steno_infer *ic, int in)
{
    if (in < 0 || in >= ic->node->n_in || ic->node->in[in] == STENO_NONE)
        return NULL;
    return &ic->known[ic->node->in[in]];
}

bool steno_infer_has(const struct steno_infer *ic, int in)
{
    return known_input(ic, in) != NULL;
}

steno_dtype steno_infer_dtype(const struct steno_infer *ic, int in)
{
    const struct steno_known *k = known_input(ic, in);
    return k ? k->dtype : STENO_DT_NONE;
}

struct steno_shape steno_infer_shape(const struct steno_infer *ic, int in)
{
    const struct steno_known *k = known_input(ic, in);
    struct steno_shape none = {.rank = STENO_RANK_ANY};
    return k ? k->shape : none;
}

const struct steno_tensor *steno_infer_value(const struct steno_infer *ic, int in)
{
    const struct steno_known *k = known_input(ic, in);
    return k ? k->value : NULL;
}

bool steno_infer_ints(const struct steno_infer *ic, int in, int64_t *out, size_t max, size_t *n)
{
    const struct steno_tensor *t = steno_infer_value(ic, in);
    size_t count = t ? steno_numel(t) : 0;
    if (!t || count > max || (t->dtype != STENO_I64 && t->dtype != STENO_I32))
        return false;
    for (size_t i = 0; i < count; i++)
        out[i] =
            t->dtype == STENO_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
    *n = count;
    return true;
}

void steno_infer_set(struct steno_infer *ic, int out, steno_dtype dtype,
                     const struct steno_shape *shape)
{
    struct steno_known *k;
    if (out < 0 || out >= ic->node->n_out || ic->node->out[out] == STENO_NONE)
        return;
    k = &ic->known[ic->node->out[out]];
    k->dtype = dtype;
    if (shape)
        k->shape = *shape;
    else
        k->shape.rank = STENO_RANK_ANY;
    if (k->shape.rank > STENO_MAX_RANK)
        k->shape.rank = STENO_RANK_ANY;
}

int64_t steno_infer_new_dim(struct steno_infer *ic)
{
    return -(2 + (*ic->next_dim)++);
}

static void forget_outputs(struct steno_infer *ic, const struct steno_node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        struct steno_known *k = n->out[i] != STENO_NONE ? &ic->known[n->out[i]] : NULL;
        if (!k)
            continue;
        k->dtype = STENO_DT_NONE;
        k->shape.rank = STENO_RANK_ANY;
        k->value = NULL;
        k->part = NULL;
    }
}

steno_status steno_infer_one(struct steno_infer *ic, const struct steno_node *n, steno_err *err)
{
    steno_status st;
    ic->node = n;
    ic->sub = NULL;
    forget_outputs(ic, n);
    for (int i = 0; !n->op && i < n->n_out; i++) {
        const struct steno_tensor *given =
            n->out[i] == STENO_NONE ? NULL : ic->g->values[n->out[i]].given;
        if (given)
            steno_infer_set(ic, i, given->dtype, &given->shape);
    }
    if (!n->op || !n->op->infer)
        return STENO_OK;
    st = n->op->infer(ic, err);
    if (st)
        return steno_fail_in(err, st, "node '%s' (%s)", n->name, n->op_type);
    if (ic->symbols)
        steno_infer_partial(ic);
    return STENO_OK;
}

/* An extent of a graph input without a name is the same one wherever it is passed on. */
static void name_extents(struct steno_infer *ic, int32_t input)
{
    struct steno_shape *s = &ic->known[input].shape;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] == STENO_DIM_ANY)
            s->dim[i] = steno_infer_new_dim(ic);
}

/* Set the entries of the values that no node writes. */
static void start_values(struct steno_infer *ic)
{
    for (int32_t i = 0; i < ic->g->n_values; i++) {
        const struct steno_value *v = &ic->g->values[i];
        struct steno_known *k = &ic->known[i];
        if (v->captured_from != STENO_NONE && ic->up) {
            *k = ic->up->known[v->captured_from];
            continue;
        }
        k->dtype = v->dtype;
        k->shape = v->shape;
        k->value = v->constant && v->constant->data ? v->constant : NULL;
    }
    for (int i = 0; ic->into_graph && !ic->up && i < ic->g->n_inputs; i++)
        name_extents(ic, ic->g->inputs[i]);
}

/* Store a value that inference computed, for passes. Without memory it stays unknown. */
static void remember(struct steno_graph *g, struct steno_value *v, const struct steno_tensor *t)
{
    struct steno_tensor *copy = steno_arena_alloc(g->arena, sizeof *copy);
    size_t bytes;
    if (!copy || steno_shape_bytes(&t->shape, t->dtype, &bytes))
        return;
    *copy = *t;
    copy->data = steno_arena_alloc(g->arena, bytes + 1);
    if (!copy->data)
        return;
    memcpy(copy->data, t->data, bytes);
    v->inferred = copy;
}

static bool same_elements(const struct steno_known *a, const struct steno_known *b)
{
    if (a->shape.rank != b->shape.rank || a->part->n != b->part->n)
        return false;
    for (int i = 0; i < a->part->n; i++)
        if (a->part->v[i] != b->part->v[i] || a->part->sym[i] != b->part->sym[i])
            return false;
    return true;
}

/* Facts of an earlier inference must not outlive it: a branch that is not inferred again may have
 * changed since. */
static int forget_equal(struct steno_graph *g, void *arg)
{
    for (int32_t i = 0; i < g->n_values; i++)
        g->values[i].equals = STENO_NONE;
    for (int32_t i = 0; i < g->n_nodes; i++)
        steno_node_each_graph(&g->nodes[i], forget_equal, arg);
    return 0;
}

/* Integer vectors whose elements are the same dimensions: all but the first refer to the first. */
static void note_equal(struct steno_infer *ic)
{
    size_t size = 16;
    steno_value_id *table;
    while (size < 2 * (size_t)ic->g->n_nodes)
        size *= 2;
    table = steno_arena_calloc(ic->mem, size, sizeof *table); /* value id + 1 */
    for (int32_t i = 0; table && i < ic->g->n_nodes; i++) {
        const struct steno_node *n = &ic->g->nodes[i];
        const struct steno_known *k;
        uint64_t h = STENO_HASH;
        size_t at;
        bool whole;
        if (n->dead || n->n_out != 1 || n->out[0] == STENO_NONE || !ic->known[n->out[0]].part)
            continue;
        k = &ic->known[n->out[0]];
        whole = k->part->n > 0 && k->shape.rank >= 0;
        for (int e = 0; e < k->part->n; e++) {
            h = steno_hash_add(h, (uint64_t)k->part->v[e]);
            whole = whole && !(k->part->sym[e] && k->part->v[e] == STENO_DIM_ANY);
        }
        at = (size_t)(h ^ h >> 32) & (size - 1);
        while (whole && table[at] && !same_elements(&ic->known[table[at] - 1], k))
            at = (at + 1) & (size - 1);
        if (whole && table[at])
            ic->g->values[n->out[0]].equals = table[at] - 1;
        else if (whole)
            table[at] = n->out[0] + 1;
    }
}

static steno_status infer_nodes(struct steno_infer *ic, steno_err *err)
{
    for (int32_t i = 0; i < ic->g->n_nodes; i++) {
        steno_status st = ic->g->nodes[i].dead
                              ? STENO_OK
                              : steno_infer_one(ic, &ic->g->nodes[i], ic->up ? NULL : err);
        if (st && !ic->up && !(ic->g->lenient && st == STENO_ERR_UNSUPPORTED))
            return st;
        if (st == STENO_ERR_NOMEM)
            return steno_fail(err, st, "out of memory in shape inference");
        /* A body may never run with these shapes (exporters write If(a dimension is 1){Squeeze}),
         * so an error in it is reported only when it runs. */
        if (st)
            forget_outputs(ic, &ic->g->nodes[i]);
    }
    for (int32_t i = 0; ic->into_graph && i < ic->g->n_values; i++) {
        struct steno_value *v = &ic->g->values[i];
        if (v->constant || (v->is_input && !ic->up))
            continue;
        if (ic->known[i].dtype)
            v->dtype = ic->known[i].dtype;
        v->shape = ic->known[i].shape;
        if (ic->once && ic->known[i].value && v->producer != STENO_NONE && !v->inferred)
            remember(ic->g, v, ic->known[i].value);
    }
    if (ic->into_graph && ic->once)
        note_equal(ic);
    return STENO_OK;
}

steno_status steno_infer_subgraph(struct steno_infer *ic, struct steno_graph *g,
                                  const steno_dtype *in_dtype, const struct steno_shape *in_shape,
                                  int n_in, steno_err *err)
{
    struct steno_infer sub = {.g = g,
                              .up = ic,
                              .next_dim = ic->next_dim,
                              .exprs = ic->exprs,
                              .mem = ic->mem,
                              .into_graph = ic->into_graph,
                              .once = ic->once && !*ic->node->domain &&
                                      !strcmp(ic->node->op_type, "If"),
                              .symbols = ic->symbols};
    steno_status st;
    if (n_in != g->n_inputs)
        return steno_fail(err, STENO_ERR_FORMAT, "body graph '%s' has %d inputs, %d are given",
                          g->name, g->n_inputs, n_in);
    sub.known = steno_arena_calloc(ic->mem, (size_t)g->n_values + 1, sizeof *sub.known);
    if (!sub.known)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory in shape inference");
    start_values(&sub);
    for (int i = 0; i < n_in; i++) {
        struct steno_known *k = &sub.known[g->inputs[i]];
        k->dtype = in_dtype[i];
        k->shape = in_shape[i];
        k->value = NULL;
    }
    st = infer_nodes(&sub, err);
    if (st)
        return st;
    ic->sub = g;
    ic->sub_known = sub.known;
    return STENO_OK;
}

void steno_infer_subgraph_out(const struct steno_infer *ic, int i, steno_dtype *dtype,
                              struct steno_shape *shape)
{
    *dtype = STENO_DT_NONE;
    shape->rank = STENO_RANK_ANY;
    if (ic->sub && i >= 0 && i < ic->sub->n_outputs) {
        *dtype = ic->sub_known[ic->sub->outputs[i]].dtype;
        *shape = ic->sub_known[ic->sub->outputs[i]].shape;
    }
}

steno_status steno_infer_graph(struct steno_graph *g, steno_err *err)
{
    int64_t next = g->n_symbols;
    struct steno_infer ic = {
        .g = g, .next_dim = &next, .into_graph = true, .once = true, .symbols = true};
    steno_status st;
    (void)forget_equal(g, NULL);
    ic.mem = steno_arena_new(0);
    ic.known =
        ic.mem ? steno_arena_calloc(ic.mem, (size_t)g->n_values + 1, sizeof *ic.known) : NULL;
    ic.exprs = ic.known ? steno_expressions_new(ic.mem) : NULL;
    if (ic.exprs) {
        start_values(&ic);
        st = infer_nodes(&ic, err);
        if (st == STENO_ERR_INVAL) /* here it is the file that has contradictory shapes */
            st = steno_fail_in(err, STENO_ERR_FORMAT, "the model contradicts itself");
    } else {
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory in shape inference");
    }
    steno_arena_free(ic.mem);
    return st;
}
