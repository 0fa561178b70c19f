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
