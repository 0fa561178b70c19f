#include "nn/passes/local.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NODES 4096
#define MAX_TEXT ((size_t)1 << 20)
#define MAX_BYTES ((size_t)64 << 20) /* of one node's results, whatever a file asks for */

void steno_moved_fixed(const struct steno_graph *g, steno_value_id also, bool *fixed)
{
    for (int32_t v = 0; v < g->n_values; v++)
        fixed[v] = v == also || (g->values[v].constant && g->values[v].constant->data);
    for (int32_t i = 0; i < g->n_nodes; i++) { /* nodes are in order */
        const struct steno_node *n = &g->nodes[i];
        bool all = !n->dead && n->op && n->op->run && !(n->op->flags & STENO_OP_IMPURE);
        for (int k = 0; all && k < n->n_attr; k++)
            all = n->attr[k].kind != STENO_ATTR_GRAPH;
        for (int k = 0; all && k < n->n_in; k++)
            all = n->in[k] == STENO_NONE || fixed[n->in[k]] ||
                  (k == 0 && n->op->flags & STENO_OP_SHAPE_ONLY);
        for (int k = 0; all && k < n->n_out; k++)
            if (n->out[k] != STENO_NONE)
                fixed[n->out[k]] = true;
    }
}

/* True for a product with weights or a sum with a bias: such results are leaves. */
static bool is_projection(const struct steno_graph *g, const struct steno_node *n)
{
    for (int k = 0; k < 2 && n->n_in == 2; k++) {
        const struct steno_value *v = &g->values[n->in[k]];
        if (v->constant && ((steno_pass_is(n, "MatMul") && v->shape.rank == 2) ||
                            (steno_pass_is(n, "Add") && v->shape.rank == 1)))
            return true;
    }
    return false;
}

bool steno_moved_takes(const struct steno_graph *g, const bool *fixed, bool by_condition,
                       const struct steno_node *n)
{
    static const char *const types[] = {"Reshape",   "Transpose",
                                        "Slice",     "Concat",
                                        "Pad",       "Gather",
                                        "GatherND",  "GatherElements",
                                        "ScatterND", "ScatterElements",
                                        "Expand",    "Squeeze",
                                        "Flatten",   "Unsqueeze",
                                        "Split",     "Identity",
                                        "Tile",      "MatMul",
                                        "Einsum",    "Add",
                                        "Sub",       "Mul",
                                        "Neg"};
    if (!n || n->dead || *n->domain || !n->op || !n->op->run || is_projection(g, n))
        return false;
    if (!strcmp(n->op_type, "Where"))
        return by_condition || fixed[n->in[0]];
    if (!strcmp(n->op_type, "Div"))
        return fixed[n->in[1]];
    if (n->n_attr && !strncmp(n->op_type, "Scatter", 7) &&
        strcmp(steno_node_str(n, "reduction", "none"), "none"))
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(n->op_type, types[i]))
            return true;
    return false;
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool add_node(struct steno_moved *p, int32_t at)
{
    if (p->n == p->room) {
        int room = p->room ? 2 * p->room : 64;
        int32_t *more = room <= MAX_NODES ? realloc(p->node, (size_t)room * sizeof *more) : NULL;
        if (!more)
            return false;
        p->node = more;
        p->room = room;
    }
    p->node[p->n++] = at;
    return true;
}

/* True for a mask that depends on lengths alone: it is a leaf, too, since its elements are not
 * those that the part's formula names. */
static bool is_mask(const struct steno_moved *p, steno_value_id v)
{
    static const char *const made[] = {
        "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Not", "And", "Or", "Cast"};
    const struct steno_value *x = &p->g->values[v];
    const struct steno_node *n = &p->g->nodes[x->producer];
    if (!p->fixed[v])
        return false;
    if (x->dtype == STENO_F32)
        return steno_pass_is(n, "Where") && !p->g->values[n->in[0]].constant;
    for (size_t i = 0; x->dtype == STENO_BOOL && p->by_condition && i < sizeof made / sizeof *made;
         i++)
        if (steno_pass_is(n, made[i]))
            return true;
    return false;
}

/* Note value v, which the part reads: put its node on the list, or make it a leaf. */
static bool visit_local(struct steno_moved *p, steno_value_id v, steno_value_id stop, bool *seen)
{
    const struct steno_graph *g = p->g;
    int32_t at;
    if (v == STENO_NONE || seen[v])
        return true;
    seen[v] = true;
    if (g->values[v].constant && g->values[v].constant->data)
        return true;
    at = g->values[v].producer;
    if (v != stop && at != STENO_NONE && (p->whole || !is_mask(p, v)) &&
        (p->fixed[v] || steno_moved_takes(g, p->fixed, p->by_condition, &g->nodes[at]))) {
        for (int k = 0; k < g->nodes[at].n_out; k++)
            if (g->nodes[at].out[k] != STENO_NONE)
                seen[g->nodes[at].out[k]] = true;
        return add_node(p, at);
    }
    if (p->n_leaf == STENO_MOVED_LEAVES)
        return false;
    p->leaf[p->n_leaf++] = v;
    return true;
}

/* ---- text ---- */

static bool put_local(struct steno_moved *p, const void *bytes, size_t n)
{
    return !n || steno_buf_add(&p->text, bytes, n) == STENO_OK;
}

static bool put_number(struct steno_moved *p, int64_t v)
{
    return put_local(p, &v, sizeof v);
}

static bool put_attr(struct steno_moved *p, const struct steno_attr *a)
{
    size_t bytes;
    if (!put_local(p, a->name, strlen(a->name) + 1) || !put_number(p, (int64_t)a->kind))
        return false;
    switch (a->kind) {
    case STENO_ATTR_INT:
        return put_number(p, a->i);
    case STENO_ATTR_FLOAT:
        return put_local(p, &a->f, sizeof a->f);
    case STENO_ATTR_STRING:
        return put_local(p, a->s, strlen(a->s) + 1);
    case STENO_ATTR_INTS:
        return put_number(p, (int64_t)a->n) && put_local(p, a->ints, a->n * sizeof *a->ints);
    case STENO_ATTR_TENSOR:
        return a->t && a->t->data && !steno_shape_bytes(&a->t->shape, a->t->dtype, &bytes) &&
               put_local(p, &a->t->shape, sizeof a->t->shape) &&
               put_number(p, (int64_t)a->t->dtype) && put_local(p, a->t->data, bytes);
    default:
        return false;
    }
}

/* What stands for value v: the number of a constant, of a leaf, or of an output of a node. */
static bool put_value(struct steno_moved *p, steno_value_id v, const int32_t *order)
{
    const struct steno_value *x = v == STENO_NONE ? NULL : &p->g->values[v];
    if (!x)
        return put_local(p, "-", 1);
    for (int i = 0; i < p->n_leaf; i++)
        if (p->leaf[i] == v)
            return put_local(p, "l", 1) && put_number(p, i);
    if (x->constant && x->constant->data)
        return put_local(p, "c", 1) && put_number(p, v);
    for (int k = 0; k < p->g->nodes[x->producer].n_out; k++)
        if (p->g->nodes[x->producer].out[k] == v)
            return put_local(p, "n", 1) && put_number(p, order[x->producer]) && put_number(p, k);
    return false;
}

/* Symbols are numbered as they come: another layer may have others. */
static bool put_dim(struct steno_moved *p, int64_t d)
{
    int i = 0;
    if (d >= 0)
        return put_number(p, d);
    while (i < p->n_symbols && p->symbol[i] != d)
        i++;
    if (i == (int)(sizeof p->symbol / sizeof *p->symbol) || d == STENO_DIM_ANY)
        return false;
    p->symbol[i] = d;
    p->n_symbols += i == p->n_symbols;
    return put_number(p, -1 - i);
}

static bool put_shape(struct steno_moved *p, steno_value_id v)
{
    const struct steno_shape *s = &p->g->values[v].shape;
    bool ok = put_number(p, (int64_t)p->g->values[v].dtype) && put_number(p, s->rank);
    for (int i = 0; ok && i < s->rank; i++)
        ok = put_dim(p, s->dim[i]);
    return ok;
}

/* The nodes are in the order in which they were found from the end on, which does not depend on
 * where they are in the graph. */
static bool write_text(struct steno_moved *p)
{
    int32_t *order = calloc((size_t)p->g->n_nodes, sizeof *order);
    bool ok = order != NULL;
    for (int i = 0; ok && i < p->n; i++)
        order[p->node[i]] = i;
    for (int i = 0; ok && i < p->n_leaf; i++)
        ok = put_shape(p, p->leaf[i]);
    ok = ok && put_value(p, p->end, order);
    for (int i = 0; ok && i < p->n; i++) {
        const struct steno_node *n = &p->g->nodes[p->node[i]];
        ok = put_local(p, &n->op, sizeof n->op) && put_number(p, n->opset) &&
             put_number(p, n->n_in) && put_number(p, n->n_attr);
        for (int k = 0; ok && k < n->n_attr; k++)
            ok = put_attr(p, &n->attr[k]);
        for (int k = 0; ok && k < n->n_in; k++)
            ok = k == 0 && n->op->flags & STENO_OP_SHAPE_ONLY ? put_shape(p, n->in[k])
                                                              : put_value(p, n->in[k], order);
    }
    free(order);
    return ok;
}

void steno_moved_free(struct steno_moved *p)
{
    free(p->node);
    p->node = NULL;
    steno_buf_free(&p->text);
}

bool steno_moved_find(struct steno_moved *p, steno_value_id stop)
{
    bool *seen = calloc((size_t)p->g->n_values, sizeof *seen);
    bool ok = seen && visit_local(p, p->end, stop, seen);
    for (int i = 0; ok && i < p->n; i++) {
        const struct steno_node *n = &p->g->nodes[p->node[i]];
        for (int k = 0; ok && k < n->n_in; k++)
            if (!(k == 0 && n->op->flags & STENO_OP_SHAPE_ONLY))
                ok = visit_local(p, n->in[k], stop, seen);
    }
    free(seen);
    steno_buf_init(&p->text, MAX_TEXT);
    if (ok && !write_text(p))
        p->text.len = 0;
    if (ok && p->n)
        qsort(p->node, (size_t)p->n, sizeof *p->node, by_number);
    return ok && p->n;
}

/* ---- run ---- */

/* Memory of one node's results. Views of them share it. */
struct held {
    steno_arena *mem;
    int users; /* values that are still to be read */
};

struct run {
    const struct steno_moved *p;
    const struct steno_pass_env *env;
    const struct steno_moved_sizes *sizes;
    struct steno_tensor *value; /* [n_values]; no type: not computed */
    int32_t *reads;             /* [n_values]: reads that are left */
    int32_t *owner;             /* [n_values]: index in held, or -1 */
    struct held *held;          /* [p->n] */
};

int64_t steno_moved_extent(const struct steno_moved_sizes *s, int64_t d)
{
    for (int i = 0; i < STENO_MOVED_SYMBOLS; i++)
        if (d < 0 && d == s->symbol[i])
            return s->extent[i];
    return d >= 0 ? d : -1;
}

static void let_go(struct run *r, steno_value_id v)
{
    struct held *h = r->owner[v] >= 0 ? &r->held[r->owner[v]] : NULL;
    if (--r->reads[v] || !h || --h->users)
        return;
    steno_arena_free(h->mem);
    h->mem = NULL;
}

/* The tensor of input k of n; *made is used for one that has a shape only. NULL: unknown. */
static const struct steno_tensor *local_input(const struct run *r, const struct steno_node *n,
                                              int k, struct steno_tensor *made)
{
    const struct steno_value *v = &r->p->g->values[n->in[k]];
    if (v->constant && v->constant->data)
        return v->constant;
    if (r->value[n->in[k]].dtype)
        return &r->value[n->in[k]];
    if (k || !(n->op->flags & STENO_OP_SHAPE_ONLY) || v->shape.rank < 0)
        return NULL;
    made->dtype = v->dtype;
    made->shape = v->shape;
    for (int i = 0; i < v->shape.rank; i++) {
        made->shape.dim[i] = steno_moved_extent(r->sizes, v->shape.dim[i]);
        if (made->shape.dim[i] < 0)
            return NULL;
    }
    return made;
}

/* Keep the results of node number i of the part. */
static void keep_local(struct run *r, const struct steno_node *n, int i,
                       const struct steno_tensor *out)
{
    for (int k = 0; k < n->n_out; k++) {
        steno_value_id v = n->out[k];
        int32_t owner = i;
        if (v == STENO_NONE || !r->reads[v])
            continue;
        for (int j = 0; j < n->n_in; j++) /* a view lives in its input's memory */
            if (n->in[j] != STENO_NONE && r->value[n->in[j]].data == out[k].data)
                owner = r->owner[n->in[j]];
        for (int j = 0; j < n->n_in; j++)
            if (n->in[j] != STENO_NONE && r->p->g->values[n->in[j]].constant &&
                r->p->g->values[n->in[j]].constant->data == out[k].data)
                owner = -1;
        r->value[v] = out[k];
        r->owner[v] = owner;
        if (owner >= 0)
            r->held[owner].users++;
    }
}

static bool one_node(struct run *r, int i)
{
    struct steno_graph *g = r->p->g;
    struct steno_node *n = &g->nodes[r->p->node[i]];
    steno_arena *mem = r->held[i].mem = steno_arena_new(MAX_BYTES);
    const size_t ins = (size_t)n->n_in + 1, outs = (size_t)n->n_out + 1;
    const struct steno_tensor **in = mem ? steno_arena_calloc(mem, ins, sizeof *in) : NULL;
    struct steno_tensor *out = mem ? steno_arena_calloc(mem, outs, sizeof *out) : NULL;
    bool *wanted = mem ? steno_arena_calloc(mem, outs, sizeof *wanted) : NULL;
    struct steno_tensor shape = {0};
    if (!in || !out || !wanted)
        return false;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] != STENO_NONE && !(in[k] = local_input(r, n, k, &shape)))
            return false;
    for (int k = 0; k < n->n_out; k++)
        wanted[k] = n->out[k] != STENO_NONE && r->reads[n->out[k]];
    if (r->env->eval(r->env->arg, g, n, in, out, wanted, mem, NULL))
        return false;
    keep_local(r, n, i, out);
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k] != STENO_NONE && r->value[n->in[k]].dtype)
            let_go(r, n->in[k]);
    if (r->held[i].mem && !r->held[i].users) { /* every result is a view */
        steno_arena_free(r->held[i].mem);
        r->held[i].mem = NULL;
    }
    return true;
}

/* Copy the result out of memory that goes away. */
static bool copy(const struct steno_tensor *from, struct steno_tensor *to, steno_arena *mem)
{
    size_t bytes;
    if (!from->dtype || steno_shape_bytes(&from->shape, from->dtype, &bytes))
        return false;
    *to = *from;
    to->data = steno_arena_alloc_tensor(mem, bytes);
    if (to->data && bytes)
        memcpy(to->data, from->data, bytes);
    return to->data != NULL;
}

bool steno_moved_run(const struct steno_moved *p, const struct steno_pass_env *env,
                     const struct steno_moved_sizes *sizes, const struct steno_tensor *leaf,
                     struct steno_tensor *out, steno_arena *mem)
{
    const size_t n = (size_t)p->g->n_values;
    struct run r = {.p = p, .env = env, .sizes = sizes};
    bool ok;
    r.value = calloc(n, sizeof *r.value);
    r.reads = calloc(n, sizeof *r.reads);
    r.owner = malloc(n * sizeof *r.owner);
    r.held = calloc((size_t)p->n, sizeof *r.held);
    ok = r.value && r.reads && r.owner && r.held;
    for (size_t v = 0; ok && v < n; v++)
        r.owner[v] = -1;
    for (int i = 0; ok && i < p->n; i++)
        for (int k = 0; k < p->g->nodes[p->node[i]].n_in; k++)
            if (p->g->nodes[p->node[i]].in[k] != STENO_NONE)
                r.reads[p->g->nodes[p->node[i]].in[k]]++;
    if (ok)
        r.reads[p->end]++;
    for (int i = 0; ok && i < p->n_leaf; i++)
        r.value[p->leaf[i]] = leaf[i];
    for (int i = 0; ok && i < p->n; i++)
        ok = one_node(&r, i);
    ok = ok && copy(&r.value[p->end], out, mem);
    for (int i = 0; r.held && i < p->n; i++)
        steno_arena_free(r.held[i].mem);
    free(r.value);
    free(r.reads);
    free(r.owner);
    free(r.held);
    return ok;
}
