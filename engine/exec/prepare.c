/* Preparing operators: attribute checks, packed weights. Weights are held once: a constant that
 * every reader has packed is dropped. */
#include "exec/internal.h"

#include <stdlib.h>

struct steno_prep {
    struct steno_graph *g;
    const struct steno_node *node;
    const steno_kernels *k;
    uint32_t *consumed; /* by value number: readers that have their own copy; NULL: not counted */
    size_t packed;
};

const struct steno_node *steno_prep_node(const struct steno_prep *pc)
{
    return pc->node;
}

static const struct steno_value *value(const struct steno_prep *pc, int in)
{
    if (in < 0 || in >= pc->node->n_in || pc->node->in[in] == STENO_NONE)
        return NULL;
    return &pc->g->values[pc->node->in[in]];
}

const struct steno_tensor *steno_prep_const(const struct steno_prep *pc, int in)
{
    const struct steno_value *v = value(pc, in);
    return v ? v->constant : NULL;
}

struct steno_shape steno_prep_shape(const struct steno_prep *pc, int in)
{
    const struct steno_value *v = value(pc, in);
    struct steno_shape none = {.rank = STENO_RANK_ANY};
    return v ? v->shape : none;
}

steno_dtype steno_prep_dtype(const struct steno_prep *pc, int in)
{
    const struct steno_value *v = value(pc, in);
    return v ? v->dtype : STENO_DT_NONE;
}

const steno_kernels *steno_prep_kernels(const struct steno_prep *pc)
{
    return pc->k;
}

void steno_prep_consumed(struct steno_prep *pc, int in)
{
    if (pc->consumed && value(pc, in))
        pc->consumed[pc->node->in[in]]++;
}

void steno_prep_packed(struct steno_prep *pc, size_t bytes)
{
    pc->packed += bytes;
}

static void drop_consumed(struct steno_prep *pc, const struct steno_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        steno_vid v = n->in[i];
        if (v != STENO_NONE && pc->consumed[v] && pc->consumed[v] == pc->g->values[v].uses)
            steno_graph_drop_const(pc->g, v);
    }
}

static steno_status prepare(struct steno_prep *pc, struct steno_node *n, steno_err *err)
{
    steno_status st;
    if (!n->op->prepare)
        return STENO_OK;
    pc->node = n;
    st = n->op->prepare(pc, &n->priv, err);
    return st ? steno_fail_in(err, st, "node '%s' (%s)", n->name, n->op_type) : STENO_OK;
}

steno_status steno_prepare_node(struct steno_graph *g, struct steno_node *n, const steno_kernels *k,
                                steno_err *err)
{
    struct steno_prep pc = {.g = g, .k = k};
    return prepare(&pc, n, err);
}

steno_status steno_prepare_graph(struct steno_graph *g, const steno_kernels *k, size_t *packed,
                                 steno_err *err)
{
    struct steno_prep pc = {.g = g, .k = k};
    steno_status st = STENO_OK;
    pc.consumed = calloc((size_t)g->n_values + 1, sizeof *pc.consumed);
    if (!pc.consumed)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory while packing weights");
    for (int32_t i = 0; !st && i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        st = prepare(&pc, n, err);
        if (!st)
            drop_consumed(&pc, n);
        for (int k2 = 0; !st && k2 < n->n_attr; k2++)
            if (n->attr[k2].kind == STENO_ATTR_GRAPH)
                st = steno_prepare_graph(n->attr[k2].g, k, packed, err);
    }
    *packed += pc.packed;
    free(pc.consumed);
    return st;
}

static int release_body(struct steno_graph *g, void *arg)
{
    (void)arg;
    steno_release_graph(g);
    return 0;
}

void steno_release_graph(struct steno_graph *g)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        if (n->priv && n->op && n->op->release)
            n->op->release(n->priv);
        n->priv = NULL;
        steno_node_each_graph(n, release_body, NULL);
    }
}
