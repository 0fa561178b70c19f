#include "nn/passes/trial.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NODES 4096
#define MAX_BYTES ((size_t)64 << 20) /* of one node's results, whatever a file asks for */

void steno_trial_fixed(const struct steno_graph *g, steno_value_id also, bool *fixed)
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

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool add_node(struct steno_trial *p, int32_t at)
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

/* Note value v, which the part reads: put its node on the list. False: it depends on more. */
static bool visit_value(struct steno_trial *p, steno_value_id v, bool *seen)
{
    const struct steno_graph *g = p->g;
    const int32_t at = v == STENO_NONE ? STENO_NONE : g->values[v].producer;
    if (v == STENO_NONE || seen[v])
        return true;
    seen[v] = true;
    if (v == p->from || (g->values[v].constant && g->values[v].constant->data))
        return true;
    if (at == STENO_NONE || !p->fixed[v])
        return false;
    for (int k = 0; k < g->nodes[at].n_out; k++)
        if (g->nodes[at].out[k] != STENO_NONE)
            seen[g->nodes[at].out[k]] = true;
    return add_node(p, at);
}

void steno_trial_free(struct steno_trial *p)
{
    free(p->node);
    p->node = NULL;
}

bool steno_trial_find(struct steno_trial *p)
{
    bool *seen = calloc((size_t)p->g->n_values, sizeof *seen);
    bool ok = seen && visit_value(p, p->end, seen);
    for (int i = 0; ok && i < p->n; i++) {
        const struct steno_node *n = &p->g->nodes[p->node[i]];
        for (int k = 0; ok && k < n->n_in; k++)
            if (!(k == 0 && n->op->flags & STENO_OP_SHAPE_ONLY))
                ok = visit_value(p, n->in[k], seen);
    }
    ok = ok && p->n && seen[p->from];
    free(seen);
    if (ok)
        qsort(p->node, (size_t)p->n, sizeof *p->node, by_number);
    return ok;
}

/* ---- run ---- */

/* Memory of one node's results. Views of them share it. */
struct held {
    steno_arena *mem;
    int users; /* values that are still to be read */
};

struct run {
    const struct steno_trial *p;
    const struct steno_pass_env *env;
    const struct steno_trial_sizes *sizes;
    struct steno_tensor *value; /* [n_values]; no type: not computed */
    int32_t *reads;             /* [n_values]: reads that are left */
    int32_t *owner;             /* [n_values]: index in held, or -1 */
    struct held *held;          /* [p->n] */
};

static int64_t extent_of(const struct steno_trial_sizes *s, int64_t d)
{
    for (int i = 0; i < STENO_TRIAL_SYMBOLS; i++)
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
static const struct steno_tensor *trial_input(const struct run *r, const struct steno_node *n,
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
        made->shape.dim[i] = extent_of(r->sizes, v->shape.dim[i]);
        if (made->shape.dim[i] < 0)
            return NULL;
    }
    return made;
}

/* Keep the results of node number i of the part. */
static void keep_results(struct run *r, const struct steno_node *n, int i,
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
        if (n->in[k] != STENO_NONE && !(in[k] = trial_input(r, n, k, &shape)))
            return false;
    for (int k = 0; k < n->n_out; k++)
        wanted[k] = n->out[k] != STENO_NONE && r->reads[n->out[k]];
    if (r->env->eval(r->env->arg, g, n, in, out, wanted, mem, NULL))
        return false;
    keep_results(r, n, i, out);
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

bool steno_trial_run(const struct steno_trial *p, const struct steno_pass_env *env,
                     const struct steno_trial_sizes *sizes, const struct steno_tensor *from,
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
    if (ok)
        r.value[p->from] = *from;
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
