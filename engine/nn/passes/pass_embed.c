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
    return steno_same_dim(s->dim[0], y->dim[0]) && steno_same_dim(s->dim[1], y->dim[1]);
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
    e->norm = n;
    return steno_pass_norm_of_rows(g, n, false) && g->values[n->in[0]].shape.rank == 3 &&
           steno_node_in(n, 2) != STENO_NONE && summands(g, e, n->in[0], 0) && arrange(g, e);
}

steno_status steno_pass_embed(struct steno_graph *g, const struct steno_pass_env *env,
                              struct steno_node *n, int *changed, steno_err *err)
{
    struct embed e = {.n = 0};
    steno_value_id kinds = STENO_NONE, segments = STENO_NONE;
    (void)env;
    if (!match_embed(g, n, &e))
        return STENO_OK;
    if (e.n == 3) {
        kinds = e.gather[2]->in[1];
        segments = e.gather[2]->in[0];
    }
    n->dead = true;
    for (int k = 0; k < e.n; k++)
        e.gather[k]->dead = true;
    for (int k = 0; k < 2 && e.add[k]; k++)
        e.add[k]->dead = true;
    ++*changed;
    return steno_pass_put(
        g, n->name,
        STENO_NODE(
            "com.microsoft", "EmbedLayerNormalization", 1,
            .in = STENO_VALUES(e.gather[0]->in[1], kinds, e.gather[0]->in[0], e.gather[1]->in[0],
                               segments, n->in[1], n->in[2], STENO_NONE, e.gather[1]->in[1]),
            .out = STENO_VALUES(n->out[0]),
            .attr = STENO_ATTRS(STENO_FLOAT_ATTR("epsilon", steno_node_float(n, "epsilon", 1e-5f))),
            .region_of = n),
        err);
}
