#include "nn/graph/graph.h"

#include "nn/graph/mapped.h"

#include <stdlib.h>
#include <string.h>

static steno_status no_memory(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory for the graph, or over its limit");
}

void *steno_graph_alloc(struct steno_graph *g, size_t n, size_t size, steno_err *err)
{
    void *p = steno_arena_calloc(g->arena, n, size);
    if (!p)
        (void)no_memory(err);
    return p;
}

/* Make room for one more in an arena array. It doubles; the old array stays in the arena. */
static bool grow(struct steno_graph *g, void *array, int32_t *cap, int32_t n, size_t size)
{
    void *old, *p;
    int32_t want;
    if (n < *cap)
        return true;
    if (*cap > INT32_MAX / 2)
        return false;
    want = *cap ? *cap * 2 : 16;
    p = steno_arena_calloc(g->arena, (size_t)want, size);
    if (!p)
        return false;
    memcpy(&old, array, sizeof old);
    if (n)
        memcpy(p, old, (size_t)n * size);
    memcpy(array, &p, sizeof p);
    *cap = want;
    return true;
}

struct steno_graph *steno_graph_new(struct steno_graph *parent)
{
    steno_arena *a = parent ? parent->arena : steno_arena_new(0);
    struct steno_graph *g = a ? steno_arena_alloc(a, sizeof *g) : NULL;
    if (!g) {
        if (!parent)
            steno_arena_free(a);
        return NULL;
    }
    g->arena = a;
    g->parent = parent;
    g->depth = parent ? parent->depth + 1 : 0;
    g->name = "";
    return g;
}

void steno_graph_free(struct steno_graph *g)
{
    if (!g)
        return;
    for (int32_t i = 0; i < g->n_consts; i++)
        steno_constant_release(g->consts[i]);
    steno_map_close(&g->map);
    steno_arena_free(g->arena);
}

steno_status steno_graph_add_value(struct steno_graph *g, const char *name, steno_value_id *out,
                                   steno_err *err)
{
    struct steno_value *v;
    const char *copy = name && *name ? steno_arena_strdup(g->arena, name) : "";
    if (!copy || !grow(g, &g->values, &g->cap_values, g->n_values, sizeof *v))
        return no_memory(err);
    v = &g->values[g->n_values];
    v->name = copy;
    v->shape.rank = STENO_RANK_ANY;
    v->producer = STENO_NONE;
    v->captured_from = STENO_NONE;
    v->reader = STENO_NONE;
    v->alias = STENO_NONE;
    v->equals = STENO_NONE;
    *out = g->n_values++;
    return STENO_OK;
}

static steno_value_id *vids(struct steno_graph *g, int n)
{
    steno_value_id *p = steno_arena_calloc(g->arena, (size_t)n, sizeof *p);
    if (p)
        for (int i = 0; i < n; i++)
            p[i] = STENO_NONE;
    return p;
}

steno_status steno_graph_add_node(struct steno_graph *g, const char *domain, const char *op_type,
                                  const char *name, int n_in, int n_out, int n_attr, int32_t *out,
                                  steno_err *err)
{
    struct steno_node n = {.n_in = n_in, .n_out = n_out, .n_attr = n_attr, .region = STENO_NONE};
    if (!strcmp(domain, "ai.onnx"))
        domain = "";
    n.domain = *domain ? steno_arena_strdup(g->arena, domain) : "";
    n.op_type = steno_arena_strdup(g->arena, op_type);
    n.name = steno_arena_strdup(g->arena, name);
    n.in = vids(g, n_in);
    n.out = vids(g, n_out);
    n.attr = steno_arena_calloc(g->arena, (size_t)n_attr, sizeof *n.attr);
    if (!n.domain || !n.op_type || !n.name || !n.in || !n.out || !n.attr ||
        !grow(g, &g->nodes, &g->cap_nodes, g->n_nodes, sizeof n))
        return no_memory(err);
    g->nodes[g->n_nodes] = n;
    *out = g->n_nodes++;
    return STENO_OK;
}

/* ---- constants ---- */

static struct steno_constant *const_of(const struct steno_tensor *t)
{
    return steno_constant_of(t);
}

steno_status steno_graph_set_const(struct steno_graph *g, steno_value_id v,
                                   const struct steno_tensor *t, bool owned, steno_err *err)
{
    struct steno_graph *root = steno_graph_root(g);
    struct steno_constant *c;
    size_t bytes;
    steno_status st = steno_shape_bytes(&t->shape, t->dtype, &bytes);
    if (st)
        return steno_fail(err, st, "constant '%s': its shape has no size", g->values[v].name);
    c = steno_arena_alloc(g->arena, sizeof *c);
    if (!c || !grow(root, &root->consts, &root->cap_consts, root->n_consts, sizeof *root->consts))
        return no_memory(err);
    steno_graph_drop_const(g, v);
    c->t = *t;
    c->owned = owned ? t->data : NULL;
    c->bytes = bytes;
    c->refs = 1;
    root->consts[root->n_consts++] = c;
    g->values[v].constant = &c->t;
    g->values[v].dtype = t->dtype;
    g->values[v].shape = t->shape;
    return STENO_OK;
}

steno_status steno_graph_take_const(struct steno_graph *g, const char *name,
                                    const struct steno_tensor *t, steno_value_id *out,
                                    steno_err *err)
{
    steno_value_id v;
    steno_status st = steno_graph_add_value(g, name, &v, err);
    if (!st)
        st = steno_graph_set_const(g, v, t, true, err);
    if (!st)
        *out = v;
    return st;
}

void *steno_graph_new_const(struct steno_graph *g, const char *name, steno_dtype dtype,
                            const struct steno_shape *shape, steno_value_id *out, steno_err *err)
{
    struct steno_tensor t = {.dtype = dtype, .shape = *shape};
    size_t bytes;
    steno_status st = steno_shape_bytes(shape, dtype, &bytes);
    if (!st && !(t.data = steno_aligned_alloc(bytes)))
        st = STENO_ERR_NOMEM;
    if (st) {
        (void)steno_fail(err, st, "no memory for constant '%s'", name);
        return NULL;
    }
    if (!steno_graph_take_const(g, name, &t, out, err))
        return t.data;
    steno_aligned_free(t.data);
    return NULL;
}

steno_status steno_graph_add_const(struct steno_graph *g, const char *name,
                                   const struct steno_tensor *t, bool borrow, steno_value_id *out,
                                   steno_err *err)
{
    struct steno_tensor c = *t;
    size_t bytes;
    steno_value_id v;
    steno_status st = steno_shape_bytes(&t->shape, t->dtype, &bytes);
    if (st)
        return steno_fail(err, st, "constant '%s': its shape has no size", name);
    if (!borrow) {
        c.data = steno_arena_alloc_tensor(g->arena, bytes);
        if (!c.data)
            return no_memory(err);
        if (bytes)
            memcpy(c.data, t->data, bytes);
    }
    st = steno_graph_add_value(g, name, &v, err);
    if (!st)
        st = steno_graph_set_const(g, v, &c, false, err);
    if (!st)
        *out = v;
    return st;
}

void steno_graph_share_const(struct steno_graph *g, steno_value_id v,
                             const struct steno_tensor *constant)
{
    struct steno_constant *c = const_of(constant);
    if (g->values[v].constant == &c->t)
        return;
    steno_graph_drop_const(g, v);
    c->refs++;
    g->values[v].constant = &c->t;
    g->values[v].dtype = c->t.dtype;
    g->values[v].shape = c->t.shape;
}

void steno_graph_drop_const(struct steno_graph *g, steno_value_id v)
{
    struct steno_constant *c;
    if (!g->values[v].constant)
        return;
    c = const_of(g->values[v].constant);
    g->values[v].constant = NULL;
    if (--c->refs > 0)
        return;
    steno_constant_release(c);
    c->file = NULL;
    c->join = NULL;
    c->maker = NULL;
    c->bytes = 0;
    c->t.data = NULL;
}

static int drop_body(struct steno_graph *g, void *arg)
{
    (void)arg;
    for (int32_t i = 0; i < g->n_values; i++)
        steno_graph_drop_const(g, i);
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            steno_graph_drop_bodies(&g->nodes[i]);
    return 0;
}

void steno_graph_drop_bodies(const struct steno_node *n)
{
    (void)steno_node_each_graph(n, drop_body, NULL);
}

size_t steno_graph_const_bytes(const struct steno_graph *g)
{
    size_t sum = 0;
    for (int32_t i = 0; i < g->n_consts; i++)
        sum += g->consts[i]->bytes;
    return sum;
}

int64_t steno_graph_symbol(struct steno_graph *g, const char *dim_param)
{
    struct steno_graph *root = steno_graph_root(g);
    const char *copy;
    for (int i = 0; i < root->n_symbols; i++)
        if (!strcmp(root->symbols[i].name, dim_param))
            return -(2 + (int64_t)i);
    copy = steno_arena_strdup(root->arena, dim_param);
    if (!copy ||
        !grow(root, &root->symbols, &root->cap_symbols, root->n_symbols, sizeof *root->symbols))
        return STENO_DIM_ANY;
    root->symbols[root->n_symbols].name = copy;
    return -(2 + (int64_t)root->n_symbols++);
}

/* ---- attributes ---- */

const struct steno_attr *steno_node_attr(const struct steno_node *n, const char *name)
{
    for (int i = 0; i < n->n_attr; i++)
        if (n->attr[i].name && !strcmp(n->attr[i].name, name))
            return &n->attr[i];
    return NULL;
}

static const struct steno_attr *attr_of_kind(const struct steno_node *n, const char *name,
                                             enum steno_attr_kind kind)
{
    const struct steno_attr *a = steno_node_attr(n, name);
    return a && a->kind == kind ? a : NULL;
}

int64_t steno_node_int(const struct steno_node *n, const char *name, int64_t fallback)
{
    const struct steno_attr *a = attr_of_kind(n, name, STENO_ATTR_INT);
    return a ? a->i : fallback;
}

float steno_node_float(const struct steno_node *n, const char *name, float fallback)
{
    const struct steno_attr *a = attr_of_kind(n, name, STENO_ATTR_FLOAT);
    return a ? a->f : fallback;
}

const char *steno_node_str(const struct steno_node *n, const char *name, const char *fallback)
{
    const struct steno_attr *a = attr_of_kind(n, name, STENO_ATTR_STRING);
    return a ? a->s : fallback;
}

struct steno_graph *steno_node_graph(const struct steno_node *n, const char *name)
{
    const struct steno_attr *a = steno_node_attr(n, name);
    return a && a->kind == STENO_ATTR_GRAPH ? a->g : NULL;
}

const int64_t *steno_node_ints(const struct steno_node *n, const char *name, size_t *count)
{
    const struct steno_attr *a = attr_of_kind(n, name, STENO_ATTR_INTS);
    *count = a ? a->n : 0;
    return a ? a->ints : NULL;
}

int steno_node_each_graph(const struct steno_node *n, int (*fn)(struct steno_graph *g, void *arg),
                          void *arg)
{
    for (int i = 0; i < n->n_attr; i++) {
        int r = n->attr[i].kind == STENO_ATTR_GRAPH ? fn(n->attr[i].g, arg) : 0;
        if (r)
            return r;
    }
    return 0;
}

/* ---- structure ---- */

steno_status steno_graph_capture(struct steno_graph *g, steno_value_id outer, steno_value_id *out,
                                 steno_err *err)
{
    steno_value_id v;
    steno_status st;
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i].captured_from == outer) {
            *out = i;
            return STENO_OK;
        }
    st = steno_graph_add_value(g, g->parent->values[outer].name, &v, err);
    if (st)
        return st;
    g->values[v].captured_from = outer;
    *out = v;
    return STENO_OK;
}

static int recount_body(struct steno_graph *g, void *arg)
{
    (void)arg;
    steno_graph_recount(g);
    return 0;
}

static int count_captures(struct steno_graph *body, void *arg)
{
    struct steno_graph *g = arg;
    for (int32_t i = 0; i < body->n_values; i++)
        if (body->values[i].captured_from != STENO_NONE && body->values[i].uses)
            g->values[body->values[i].captured_from].uses++;
    return 0;
}

void steno_graph_recount(struct steno_graph *g)
{
    for (int32_t i = 0; i < g->n_values; i++) {
        g->values[i].uses = 0;
        g->values[i].producer = STENO_NONE;
        g->values[i].reader = STENO_NONE;
        g->values[i].is_output = false;
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        if (n->dead)
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != STENO_NONE) {
                g->values[n->in[k]].uses++;
                g->values[n->in[k]].reader = i;
            }
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] != STENO_NONE)
                g->values[n->out[k]].producer = i;
        steno_node_each_graph(n, recount_body, NULL);
        steno_node_each_graph(n, count_captures, g);
    }
    for (int i = 0; i < g->n_outputs; i++) {
        g->values[g->outputs[i]].uses++;
        g->values[g->outputs[i]].is_output = true;
    }
}

steno_value_id steno_graph_replacement_of(struct steno_graph *g, steno_value_id v)
{
    steno_value_id end = v;
    if (v == STENO_NONE || g->values[v].alias == STENO_NONE)
        return v;
    while (g->values[end].alias != STENO_NONE)
        end = g->values[end].alias;
    while (g->values[v].alias != STENO_NONE) { /* shorten the chain for the next walk */
        steno_value_id next = g->values[v].alias;
        g->values[v].alias = end;
        v = next;
    }
    return end;
}

void steno_graph_replace_uses(struct steno_graph *g, steno_value_id from, steno_value_id to)
{
    from = steno_graph_replacement_of(g, from);
    to = steno_graph_replacement_of(g, to);
    if (from == to)
        return;
    g->values[from].alias = to;
    g->aliased = true;
}

static int replace_captures(struct steno_graph *body, void *arg)
{
    for (int32_t i = 0; i < body->n_values; i++)
        body->values[i].captured_from =
            steno_graph_replacement_of(arg, body->values[i].captured_from);
    return 0;
}

void steno_graph_apply_replacements(struct steno_graph *g)
{
    if (!g->aliased)
        return;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            n->in[k] = steno_graph_replacement_of(g, n->in[k]);
        steno_node_each_graph(n, replace_captures, g);
    }
    for (int i = 0; i < g->n_outputs; i++)
        g->outputs[i] = steno_graph_replacement_of(g, g->outputs[i]);
    for (int32_t i = 0; i < g->n_values; i++)
        g->values[i].alias = STENO_NONE;
    g->aliased = false;
}

static int count_body(struct steno_graph *g, void *arg)
{
    size_t *n = arg;
    *n += steno_graph_count_nodes(g);
    return 0;
}

size_t steno_graph_count_nodes(const struct steno_graph *g)
{
    size_t n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead) {
            n++;
            steno_node_each_graph(&g->nodes[i], count_body, &n);
        }
    return n;
}

/* ---- regions ---- */

steno_status steno_graph_add_region(struct steno_graph *g, const char *type, const char *name,
                                    int32_t parent, int32_t *out, steno_err *err)
{
    struct steno_region r = {.parent = parent};
    r.type = steno_arena_strdup(g->arena, type);
    r.name = steno_arena_strdup(g->arena, name);
    if (!r.type || !r.name ||
        !grow(g, &g->regions, &g->cap_regions, g->n_regions, sizeof *g->regions))
        return no_memory(err);
    g->regions[g->n_regions] = r;
    *out = g->n_regions++;
    return STENO_OK;
}

bool steno_op_type_in(const char *type, const char *types)
{
    const size_t n = strlen(type);
    for (const char *p = types; n && (p = strstr(p, type)); p += n)
        if ((p == types || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}
