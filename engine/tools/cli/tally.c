#include "tools/cli/tally.h"

#include <stdlib.h>
#include <string.h>

struct walk {
    struct tally *t;
    int which;
};

static void nodes(struct tally *t, const struct steno_graph *g, int which);

static int body(struct steno_graph *g, void *arg)
{
    const struct walk *w = arg;
    nodes(w->t, g, w->which);
    return 0;
}

static void add_operator(struct tally *t, const char *domain, const char *type, int which)
{
    int k = 0;
    t->nodes[which]++;
    while (k < t->n_rows && (strcmp(t->row[k].type, type) || strcmp(t->row[k].domain, domain)))
        k++;
    if (k == TALLY_MAX)
        return;
    if (k == t->n_rows)
        t->row[t->n_rows++] = (struct tally_row){.domain = domain, .type = type};
    t->row[k].n[which]++;
}

/* A region counts as one node of its type; its nodes are adjacent. */
static void nodes(struct tally *t, const struct steno_graph *g, int which)
{
    struct walk w = {t, which};
    int32_t last = STENO_NONE;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct steno_node *n = &g->nodes[i];
        int32_t r;
        if (n->dead)
            continue;
        r = steno_node_top_region(g, n);
        t->steps[which]++;
        if (r == STENO_NONE)
            add_operator(t, n->domain, n->op_type, which);
        else if (r != last)
            add_operator(t, "ai.steno", g->regions[r].type, which);
        last = r;
        steno_node_each_graph(n, body, &w);
    }
}

void tally_graph(struct tally *t, const struct steno_graph *g, int which)
{
    nodes(t, g, which);
    for (int32_t i = 0; i < g->n_consts; i++) /* the main graph also lists those of its bodies */
        if (g->consts[i]->refs > 0)
            t->params[which] += steno_numel(&g->consts[i]->t);
}

static int by_count(const void *a, const void *b)
{
    const struct tally_row *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x->n[i] != y->n[i])
            return y->n[i] - x->n[i];
    return strcmp(x->type, y->type);
}

void tally_sort(struct tally *t)
{
    qsort(t->row, (size_t)t->n_rows, sizeof t->row[0], by_count);
}
