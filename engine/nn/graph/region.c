/* Regions: readers of the graph see whole layers as one node (nn/graph/graph.h). */
#include "nn/graph/graph.h"

#include <stdlib.h>

int32_t steno_node_top_region(const struct steno_graph *g, const struct steno_node *n)
{
    int32_t r = n->region;
    while (r != STENO_NONE && g->regions[r].parent != STENO_NONE)
        r = g->regions[r].parent;
    return r;
}

bool steno_node_in_region(const struct steno_graph *g, const struct steno_node *n, int32_t r)
{
    int32_t in = n->region;
    while (in != STENO_NONE && in != r)
        in = g->regions[in].parent;
    return in == r;
}

void steno_region_dissolve(struct steno_graph *g, int32_t r)
{
    int32_t around = g->regions[r].parent;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].region == r)
            g->nodes[i].region = around;
    for (int32_t i = 0; i < g->n_regions; i++)
        if (g->regions[i].parent == r)
            g->regions[i].parent = around;
}

static int count_body(struct steno_graph *g, void *arg)
{
    size_t *n = arg;
    *n += steno_graph_count_top(g);
    return 0;
}

/* Nodes of a region are adjacent (nn/graph/sort.c). */
size_t steno_graph_count_top(const struct steno_graph *g)
{
    size_t n = 0;
    int32_t last = STENO_NONE;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        int32_t r;
        if (g->nodes[i].dead)
            continue;
        r = steno_node_top_region(g, &g->nodes[i]);
        n += r == STENO_NONE || r != last;
        last = r;
        steno_node_each_graph(&g->nodes[i], count_body, &n);
    }
    return n;
}

enum { INSIDE = 1, LISTED = 2 };

static void list(steno_value_id v, unsigned char *mark, steno_value_id *to, int *n)
{
    if (v == STENO_NONE || (mark[v] & LISTED))
        return;
    mark[v] |= LISTED;
    to[(*n)++] = v;
}

static bool read_outside(const struct steno_graph *g, int32_t r, steno_value_id v)
{
    uint32_t inside = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        for (int k = 0; !n->dead && k < n->n_in && steno_node_in_region(g, n, r); k++)
            inside += n->in[k] == v;
    }
    return g->values[v].uses > inside;
}

steno_status steno_region_interface(struct steno_graph *g, int32_t r, steno_value_id **in,
                                    int *n_in, steno_value_id **out, int *n_out, steno_err *err)
{
    unsigned char *mark = calloc((size_t)g->n_values + 1, 1);
    size_t ins = 0, outs = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead && steno_node_in_region(g, &g->nodes[i], r)) {
            ins += (size_t)g->nodes[i].n_in;
            outs += (size_t)g->nodes[i].n_out;
        }
    *n_in = *n_out = 0;
    *in = mark ? steno_graph_alloc(g, ins + 1, sizeof **in, err) : NULL;
    *out = *in ? steno_graph_alloc(g, outs + 1, sizeof **out, err) : NULL;
    if (!*out) {
        free(mark);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        if (n->dead || !steno_node_in_region(g, n, r))
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != STENO_NONE && !(mark[n->in[k]] & INSIDE))
                list(n->in[k], mark, *in, n_in);
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] != STENO_NONE) {
                mark[n->out[k]] |= INSIDE;
                if (read_outside(g, r, n->out[k]))
                    list(n->out[k], mark, *out, n_out);
            }
    }
    free(mark);
    return STENO_OK;
}
