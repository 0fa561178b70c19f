/* Before: c1 in one graph = c2 in another (main graph, branches, loop bodies; type, shape, bytes)
 * After:  both values have one copy of the bytes, so their packed form is one, too
 * Within one graph pass `constants` does this. This pass runs last, since fusions make constants:
 * the joined projections of attention in each branch of a merged decoder, for example. */
#include "nn/passes/passes.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct entry {
    struct steno_graph *g;
    steno_value_id v;
    size_t bytes;
    uint64_t hash;
};

struct list {
    struct entry *e;
    size_t n, cap;
    int graphs;
    bool failed;
};

static int by_hash(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    if (x->g->depth != y->g->depth)
        return x->g->depth - y->g->depth;
    return x->v < y->v ? -1 : x->v > y->v;
}

static bool add_share(struct list *l, struct steno_graph *g, steno_value_id v)
{
    const struct steno_tensor *t = g->values[v].constant;
    size_t bytes;
    if (steno_shape_bytes(&t->shape, t->dtype, &bytes))
        return true;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 256;
        struct entry *more = realloc(l->e, cap * sizeof *more);
        if (!more)
            return false;
        l->e = more;
        l->cap = cap;
    }
    l->e[l->n++] = (struct entry){.g = g, .v = v, .bytes = bytes};
    return true;
}

static int collect_share(struct steno_graph *g, void *arg)
{
    struct list *l = arg;
    l->graphs++;
    for (int32_t v = 0; !l->failed && v < g->n_values; v++)
        if (g->values[v].constant && g->values[v].uses)
            l->failed = !add_share(l, g, v);
    for (int32_t i = 0; !l->failed && i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            steno_node_each_graph(&g->nodes[i], collect_share, l);
    return l->failed;
}

/* Hash the constant's bytes; those that were made from others go again. False: they cannot be
 * made, and the constant is not compared. */
static bool hash(struct entry *e)
{
    const struct steno_tensor *t = e->g->values[e->v].constant;
    const void *data = steno_constant_bytes(t);
    if (!data)
        return false;
    e->hash = XXH3_64bits_withSeed(data, e->bytes, (uint64_t)t->dtype);
    steno_graph_unfetch(e->g, e->v);
    return true;
}

static bool equal(const struct entry *a, const struct entry *b)
{
    const struct steno_tensor *x = a->g->values[a->v].constant, *y = b->g->values[b->v].constant;
    const void *p, *q;
    bool same;
    if (a->hash != b->hash || a->bytes != b->bytes || x->dtype != y->dtype ||
        !steno_shape_equal(&x->shape, &y->shape))
        return false;
    p = steno_constant_bytes(x);
    q = steno_constant_bytes(y);
    same = p && q && !memcmp(p, q, a->bytes);
    steno_graph_unfetch(a->g, a->v);
    steno_graph_unfetch(b->g, b->v);
    return same;
}

static void share(struct list *l, int *changed)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (hash(&l->e[i]))
            l->e[n++] = l->e[i];
    if (!n)
        return; /* qsort takes no NULL */
    qsort(l->e, n, sizeof *l->e, by_hash);
    for (size_t i = 0, first = 0; i < n; i++) {
        struct entry *a = &l->e[first], *b = &l->e[i];
        if (!i || a->hash != b->hash) {
            first = i;
            continue;
        }
        if (a->g->values[a->v].constant == b->g->values[b->v].constant || !equal(a, b))
            continue;
        steno_graph_share_const(b->g, b->v, a->g->values[a->v].constant);
        ++*changed;
    }
}

steno_status steno_pass_share(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    struct list l = {.n = 0};
    steno_status st = STENO_OK;
    (void)env;
    if (g->parent)
        return STENO_OK;
    (void)collect_share(g, &l);
    if (l.failed)
        st = steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    else if (l.graphs > 1)
        share(&l, changed);
    steno_graph_rest_map(g);
    free(l.e);
    return st;
}
