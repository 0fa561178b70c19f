/* Topological order of a graph (Kahn 1962), stable: among ready nodes the model's own order
 * decides. So a sorted file keeps its order, and with it the memory use that its exporter saw. */
#include "nn/graph/graph.h"

#include <stdlib.h>
#include <string.h>

struct edges {
    struct steno_graph *g;
    int32_t node;
    int32_t *first, *next, *to; /* adjacency lists: producer -> reader */
    int32_t *pending;           /* number of unsorted producers of each node */
    int32_t n, cap;
    int32_t *as;         /* the node as which each is sorted: the first of its outermost region */
    const char *missing; /* a value that is read but not written */
    const char *twice;   /* a value with two writers */
};

static bool add_dep(struct edges *e, steno_value_id v)
{
    const struct steno_value *val = &e->g->values[v];
    int32_t from;
    if (val->producer == STENO_NONE) {
        if (!val->is_input && !val->constant && !val->elements &&
            val->captured_from == STENO_NONE && !e->missing)
            e->missing = val->name;
        return true;
    }
    from = e->as[val->producer];
    if (from == e->node && e->g->nodes[from].region != STENO_NONE)
        return true; /* within a region the array's order holds */
    if (e->n == e->cap) {
        int32_t cap = e->cap ? e->cap * 2 : 256;
        int32_t *a = e->cap > INT32_MAX / 2 ? NULL : realloc(e->next, (size_t)cap * sizeof *a), *b;
        if (!a)
            return false;
        e->next = a;
        b = realloc(e->to, (size_t)cap * sizeof *b);
        if (!b)
            return false;
        e->to = b;
        e->cap = cap;
    }
    e->to[e->n] = e->node;
    e->next[e->n] = e->first[from];
    e->first[from] = e->n++;
    e->pending[e->node]++;
    return true;
}

static int add_captures(struct steno_graph *body, void *arg)
{
    struct edges *e = arg;
    for (int32_t i = 0; i < body->n_values; i++)
        if (body->values[i].captured_from != STENO_NONE &&
            !add_dep(e, body->values[i].captured_from))
            return 1;
    return 0;
}

static bool collect(struct edges *e)
{
    for (int32_t i = 0; i < e->g->n_nodes; i++) {
        const struct steno_node *n = &e->g->nodes[i];
        e->node = e->as[i];
        if (n->dead)
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != STENO_NONE && !add_dep(e, n->in[k]))
                return false;
        if (steno_node_each_graph(n, add_captures, e))
            return false;
        for (int k = 0; k < n->n_out; k++) /* recount left the last writer there */
            if (n->out[k] != STENO_NONE && e->g->values[n->out[k]].producer != i)
                e->twice = e->g->values[n->out[k]].name;
    }
    return true;
}

/* Binary min-heap of node numbers. */
static void heap_push(int32_t *h, int32_t *n, int32_t x)
{
    int32_t i = (*n)++;
    while (i && h[(i - 1) / 2] > x) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = x;
}

static int32_t heap_pop(int32_t *h, int32_t *n)
{
    int32_t top = h[0], x = h[--*n], i = 0, c;
    while ((c = 2 * i + 1) < *n) {
        if (c + 1 < *n && h[c + 1] < h[c])
            c++;
        if (h[c] >= x)
            break;
        h[i] = h[c];
        i = c;
    }
    h[i] = x;
    return top;
}

/* Write the order of live nodes to `order` and return their number. Fewer than all: there is a
 * cycle. */
static int32_t kahn(struct edges *e, int32_t *order, int32_t *heap)
{
    int32_t n_heap = 0, n = 0;
    for (int32_t i = 0; i < e->g->n_nodes; i++)
        if (!e->g->nodes[i].dead && e->as[i] == i && !e->pending[i])
            heap_push(heap, &n_heap, i);
    while (n_heap) {
        int32_t i = heap_pop(heap, &n_heap);
        order[n++] = i;
        for (int32_t k = e->first[i]; k >= 0; k = e->next[k])
            if (!--e->pending[e->to[k]])
                heap_push(heap, &n_heap, e->to[k]);
    }
    return n;
}

/* Return a region on the cycle: it is not convex. STENO_NONE: the graph itself has a cycle. */
static int32_t bent_region(const struct edges *e)
{
    for (int32_t i = 0; i < e->g->n_nodes; i++)
        if (!e->g->nodes[i].dead && e->as[i] == i && e->pending[i] &&
            e->g->nodes[i].region != STENO_NONE)
            return steno_node_top_region(e->g, &e->g->nodes[i]);
    return STENO_NONE;
}

/* Write nodes in the order of what they are sorted as; those of a region in the array's own
 * order. */
static void spread(const struct edges *e, const int32_t *order, int32_t n, int32_t *next,
                   struct steno_node *sorted)
{
    const struct steno_graph *g = e->g;
    int32_t k = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        next[i] = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        next[e->as[i]] += !g->nodes[i].dead;
    for (int32_t i = 0; i < n; i++) { /* counts become places */
        int32_t count = next[order[i]];
        next[order[i]] = k;
        k += count;
    }
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            sorted[next[e->as[i]]++] = g->nodes[i];
}

/* *again: a region was dissolved, so the edges must be collected again. */
static steno_status reorder(struct edges *e, bool grouped, bool *again, steno_err *err)
{
    struct steno_graph *g = e->g;
    size_t total = (size_t)g->n_nodes + 1;
    int32_t *order = malloc(total * sizeof *order), *heap = malloc(total * sizeof *heap);
    struct steno_node *sorted = malloc(total * sizeof *sorted);
    steno_status st = STENO_OK;
    int32_t live = 0, n = 0;
    if (!order || !heap || !sorted) {
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory while sorting the graph");
        goto out;
    }
    for (int32_t i = 0; i < g->n_nodes; i++)
        live += !g->nodes[i].dead && e->as[i] == i;
    n = kahn(e, order, heap);
    if (grouped && n < live && bent_region(e) != STENO_NONE) {
        steno_region_dissolve(g, bent_region(e));
        *again = true;
        goto out;
    }
    if (n < live) {
        for (int32_t i = 0; i < g->n_nodes; i++)
            if (!g->nodes[i].dead && e->pending[i]) {
                st = steno_fail(err, STENO_ERR_FORMAT,
                                "node '%s' (%s) is part of a cycle, or reads from one",
                                g->nodes[i].name, g->nodes[i].op_type);
                break;
            }
        goto out;
    }
    spread(e, order, n, heap, sorted);
    for (int32_t i = live = 0; i < g->n_nodes; i++)
        live += !g->nodes[i].dead;
    if (live)
        memcpy(g->nodes, sorted, (size_t)live * sizeof *sorted);
    g->n_nodes = live;
out:
    free(order);
    free(heap);
    free(sorted);
    return st;
}

/* Set as[i]: the first live node of i's outermost region, or i. grouped false: i everywhere. */
static bool by_region(struct edges *e, bool grouped)
{
    const struct steno_graph *g = e->g;
    int32_t *first = malloc(((size_t)g->n_regions + 1) * sizeof *first);
    if (!first)
        return false;
    for (int32_t r = 0; r < g->n_regions; r++)
        first[r] = STENO_NONE;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        int32_t r =
            grouped && !g->nodes[i].dead ? steno_node_top_region(g, &g->nodes[i]) : STENO_NONE;
        if (r != STENO_NONE && first[r] == STENO_NONE)
            first[r] = i;
        e->as[i] = r == STENO_NONE ? i : first[r];
    }
    free(first);
    return true;
}

static steno_status sort_once(struct steno_graph *g, bool grouped, bool *again, steno_err *err)
{
    struct edges e = {.g = g};
    size_t n = (size_t)g->n_nodes + 1;
    steno_status st;
    e.first = malloc(n * sizeof *e.first);
    e.pending = calloc(n, sizeof *e.pending);
    e.as = malloc(n * sizeof *e.as);
    if (e.first)
        for (size_t i = 0; i < n; i++)
            e.first[i] = -1;
    if (!e.first || !e.pending || !e.as || !by_region(&e, grouped) || !collect(&e))
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory while sorting the graph");
    else if (e.missing)
        st = steno_fail(err, STENO_ERR_FORMAT, "value '%s' is read but nothing writes it",
                        e.missing);
    else if (e.twice)
        st = steno_fail(err, STENO_ERR_FORMAT, "value '%s' is written twice", e.twice);
    else
        st = reorder(&e, grouped, again, err);
    free(e.first);
    free(e.pending);
    free(e.as);
    free(e.next);
    free(e.to);
    return st;
}

static steno_status sort_one(struct steno_graph *g, steno_err *err)
{
    bool again = true;
    /* nodes of a region keep the array's order, so that must be topological already: a pass may
     * have appended new ones */
    steno_status st = g->n_regions ? sort_once(g, false, &again, err) : STENO_OK;
    if (!st && g->n_regions)
        steno_graph_recount(g);
    while (!st && again) { /* once, and once more for each region that is dissolved */
        again = false;
        st = sort_once(g, true, &again, err);
    }
    return st;
}

struct sort_arg {
    steno_status st;
    steno_err *err;
};

static int sort_bodies(struct steno_graph *g, void *arg)
{
    struct sort_arg *a = arg;
    a->st = sort_one(g, a->err);
    for (int32_t i = 0; !a->st && i < g->n_nodes; i++)
        steno_node_each_graph(&g->nodes[i], sort_bodies, a);
    return a->st != STENO_OK;
}

steno_status steno_graph_sort(struct steno_graph *g, steno_err *err)
{
    struct sort_arg a = {.err = err};
    steno_graph_recount(g);
    sort_bodies(g, &a);
    if (!a.st)
        steno_graph_recount(g);
    return a.st;
}
