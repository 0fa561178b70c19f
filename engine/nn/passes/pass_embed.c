/* Before: e = Gather(words, ids) + Gather(positions, places) [+ Gather(segments, kinds)],
 *         y = LayerNormalization(e, gamma, beta)
 * After:  y = com.microsoft:EmbedLayerNormalization(ids, kinds, words, positions, segments, gamma,
 *         beta, , places)
 * The start of BERT. ids are [batch, length], tables constant, e is read once. */
#include "nn/passes/passes.h"

struct embed {
    struct steno_node *norm, *add[2], *gather[3];
    int n; /* tables */
};

static bool is_table(const struct steno_graph *g, const struct steno_node *n)
{
    const struct steno_tensor *t = n ? g->values[n->in[0]].constant : NULL;
    steno_dtype ids;
    if (!t || !t->data || !steno_pass_is(n, "Gather") || t->dtype != STENO_F32 ||
        t->shape.rank != 2 || steno_node_int(n, "axis", 0))
        return false;
    ids = g->values[n->in[1]].dtype;
    return g->values[n->in[1]].shape.rank == 2 && (ids == STENO_I64 || ids == STENO_I32);
}

/* Collect the summands of v: at most three, each read once. */
static bool summands(struct steno_graph *g, struct embed *e, steno_value_id v, int depth)
{
    struct steno_node *add = steno_pass_only_use(g, v, "Add");
    struct steno_node *gather = steno_pass_only_use(g, v, "Gather");
    if (gather && is_table(g, gather) && e->n < 3 && gather->region == e->norm->region) {
        e->gather[e->n++] = gather;
        return true;
    }
    if (!add || depth > 1 || add->region != e->norm->region)
        return false;
    e->add[depth] = add;
    return summands(g, e, add->in[0], depth + 1) && summands(g, e, add->in[1], depth + 1);
}

/* True if the ids of gather k cover the whole batch. */
static bool embed_whole(const struct steno_graph *g, const struct embed *e, int k)
{
    const struct steno_shape *s = &g->values[e->gather[k]->in[1]].shape;
    const struct steno_shape *y = &g->values[e->norm->out[0]].shape;
    return s->dim[0] == y->dim[0] && s->dim[1] == y->dim[1] && s->dim[0] != STENO_DIM_ANY &&
           s->dim[1] != STENO_DIM_ANY;
}

/* Words first, positions second: positions may be [1, length]. */
static bool arrange(const struct steno_graph *g, struct embed *e)
{
    const struct steno_shape *y = &g->values[e->norm->out[0]].shape;
    int once = -1;
    struct steno_node *t;
    if (e->n < 2 || y->rank != 3)
        return false;
    for (int k = 0; k < e->n; k++) {
        const struct steno_shape *s = &g->values[e->gather[k]->in[1]].shape;
        if (embed_whole(g, e, k))
            continue;
        /* A table that is sliced at the length has a symbol of its own. That the sum is as long as
         * the words shows that it fits (steno_infer_meet). */
        if (once >= 0 || s->dim[0] != 1 || (s->dim[1] != y->dim[1] && s->dim[1] >= STENO_DIM_ANY))
            return false;
        once = k;
    }
    once = once < 0 ? 1 : once;
    t = e->gather[once];
    e->gather[once] = e->gather[1];
    e->gather[1] = t;
    return true;
}

static bool match_embed(struct steno_graph *g, struct steno_node *n, struct embed *e)
{
    const struct steno_shape *s = n->n_in ? &g->values[n->in[0]].shape : NULL;
    int64_t axis = steno_node_int(n, "axis", -1);
    e->norm = n;
    if (!steno_pass_is(n, "LayerNormalization") || s->rank != 3 || n->n_in < 3 ||
        (axis != -1 && axis != 2) || !steno_pass_vector(g, n->in[1], s->dim[2]) ||
        n->in[2] == STENO_NONE || !steno_pass_vector(g, n->in[2], s->dim[2]) ||
        !summands(g, e, n->in[0], 0))
        return false;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE && g->values[n->out[i]].uses)
            return false;
    return arrange(g, e);
}

steno_status steno_pass_embed(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct embed e = {.n = 0};
        struct steno_node *y;
        const char *name = g->nodes[i].name;
        steno_value_id in[9] = {STENO_NONE, STENO_NONE, STENO_NONE, STENO_NONE, STENO_NONE,
                                STENO_NONE, STENO_NONE, STENO_NONE, STENO_NONE};
        steno_value_id out;
        int32_t region;
        float eps;
        if (g->nodes[i].dead || !match_embed(g, &g->nodes[i], &e))
            continue;
        in[0] = e.gather[0]->in[1];
        in[2] = e.gather[0]->in[0];
        in[3] = e.gather[1]->in[0];
        in[8] = e.gather[1]->in[1];
        if (e.n == 3) {
            in[1] = e.gather[2]->in[1];
            in[4] = e.gather[2]->in[0];
        }
        in[5] = e.norm->in[1];
        in[6] = e.norm->in[2];
        out = e.norm->out[0];
        region = e.norm->region;
        eps = steno_node_float(e.norm, "epsilon", 1e-5f);
        e.norm->dead = true;
        for (int k = 0; k < e.n; k++)
            e.gather[k]->dead = true;
        for (int k = 0; k < 2 && e.add[k]; k++)
            e.add[k]->dead = true;
        y = steno_pass_add_node(g, "com.microsoft", "EmbedLayerNormalization", 1, name, 9, 1, 1,
                                err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->region = region;
        steno_pass_set_float(g, y, 0, "epsilon", eps);
        for (int k = 0; k < 9; k++)
            y->in[k] = in[k];
        y->out[0] = out;
        ++*changed;
    }
    return STENO_OK;
}
