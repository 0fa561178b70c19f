/* Before: x -> Op -> y1, x -> Op -> y2 (same attributes)
 * After:  one Op, both read y1
 * Before: two ways to compute the same dimensions (steno_value.equals)
 * After:  the first of them
 * Nodes with bodies and impure nodes stay. */
#include "base/hash.h"
#include "nn/passes/passes.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PROBES 64

static uint64_t hash(const struct steno_node *n)
{
    const uint64_t h = steno_hash_text(STENO_HASH, n->op_type);
    return n->n_in ? steno_hash_bytes(h, n->in, (size_t)n->n_in * sizeof *n->in) : h;
}

static bool equal_attr(const struct steno_attr *a, const struct steno_attr *b)
{
    size_t bytes;
    if (a->kind != b->kind || strcmp(a->name, b->name))
        return false;
    switch (a->kind) {
    case STENO_ATTR_INT:
        return a->i == b->i;
    case STENO_ATTR_FLOAT:
        return !memcmp(&a->f, &b->f, sizeof a->f);
    case STENO_ATTR_STRING:
        return !strcmp(a->s, b->s);
    case STENO_ATTR_INTS:
        return a->n == b->n && !memcmp(a->ints, b->ints, a->n * sizeof *a->ints);
    case STENO_ATTR_FLOATS:
        return a->n == b->n && !memcmp(a->floats, b->floats, a->n * sizeof *a->floats);
    case STENO_ATTR_TENSOR:
        return a->t->dtype == b->t->dtype && steno_shape_equal(&a->t->shape, &b->t->shape) &&
               !steno_shape_bytes(&a->t->shape, a->t->dtype, &bytes) &&
               !memcmp(a->t->data, b->t->data, bytes);
    default:
        return false;
    }
}

static bool equal(const struct steno_node *a, const struct steno_node *b)
{
    if (strcmp(a->op_type, b->op_type) || strcmp(a->domain, b->domain) || a->op != b->op ||
        a->n_in != b->n_in || a->n_out != b->n_out || a->n_attr != b->n_attr ||
        (a->n_in && memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in)))
        return false;
    for (int i = 0; i < a->n_attr; i++) {
        const struct steno_attr *x = steno_node_attr(b, a->attr[i].name);
        if (!x || !equal_attr(&a->attr[i], x))
            return false;
    }
    return true;
}

/* True if `first` writes every output of n that is read. */
static bool covers(const struct steno_graph *g, const struct steno_node *first,
                   const struct steno_node *n)
{
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i] == STENO_NONE)
            continue;
        if (g->values[n->out[i]].is_output ||
            (g->values[n->out[i]].uses && first->out[i] == STENO_NONE))
            return false;
    }
    return true;
}

static bool fit(const struct steno_node *n)
{
    if (n->dead || !n->op || (n->op->flags & STENO_OP_IMPURE) || !n->n_in)
        return false;
    for (int i = 0; i < n->n_attr; i++)
        if (n->attr[i].kind == STENO_ATTR_GRAPH)
            return false;
    return true;
}

/* Replace integers that shape inference knows to equal an earlier value. */
static bool known_before(struct steno_graph *g, struct steno_node *n)
{
    const struct steno_value *v;
    if (n->n_out != 1 || n->out[0] == STENO_NONE)
        return false;
    v = &g->values[n->out[0]];
    if (v->equals == STENO_NONE || v->is_output || !v->uses ||
        !steno_pass_replace(g, n->out[0], v->equals))
        return false;
    n->dead = true;
    return true;
}

static void merge(struct steno_graph *g, const struct steno_node *first, struct steno_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE && g->values[n->out[i]].uses)
            /* not an output, so it cannot refuse */
            (void)steno_pass_replace(g, n->out[i], first->out[i]);
    n->dead = true;
}

/* Find the node in the table that computes what n does, or insert n: open addressing. MAX_PROBES
 * bounds the search in long runs of equal nodes that cannot be merged because each writes a graph
 * output. */
static struct steno_node *find_cse(struct steno_graph *g, int32_t *table, size_t mask, int32_t i)
{
    size_t at = (size_t)hash(&g->nodes[i]) & mask;
    for (int probe = 0; probe < MAX_PROBES; probe++, at = (at + 1) & mask) {
        struct steno_node *n;
        if (!table[at]) {
            table[at] = i + 1;
            return NULL;
        }
        n = &g->nodes[table[at] - 1];
        if (equal(n, &g->nodes[i]) && covers(g, n, &g->nodes[i]))
            return n;
    }
    return NULL;
}

steno_status steno_pass_cse(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                            steno_err *err)
{
    size_t size = 16;
    int32_t *table;
    (void)env;
    while (size < 2 * (size_t)g->n_nodes)
        size *= 2;
    table = calloc(size, sizeof *table); /* node number + 1 */
    if (!table)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int32_t i = 0; i < g->n_nodes; i++) { /* sorted: inputs are merged first */
        struct steno_node *n = &g->nodes[i], *first;
        if (!fit(n))
            continue;
        if (known_before(g, n)) {
            ++*changed;
            continue;
        }
        for (int k = 0; k < n->n_in; k++)
            n->in[k] = steno_graph_replacement_of(g, n->in[k]);
        first = find_cse(g, table, size - 1, i);
        if (first) {
            merge(g, first, n);
            ++*changed;
        }
    }
    free(table);
    return STENO_OK;
}
