/* Before: z = Concat(cache, new; axis 1), cache' = Slice(z, its last rows)
 *         y = Attention(Q, K, V), K and V columns of z [by Split]; Q and new may be columns of one
 *         product [by Split]
 * After:  y, cache' = ai.steno.run:WindowAttention(Q, new, cache)   (nn/ops/op_window_attention.c)
 * A streaming encoder's attention to its left context. Only for networks that are run: files keep
 * the standard operators. */
#include "nn/passes/passes.h"

enum { Q, K, V, MASK, N_IN };

/* Columns of a value. */
struct columns {
    steno_value_id of;
    int64_t from;
};

struct match {
    struct steno_node *cat, *cut;
    struct columns q, new_kv, k, v;
    steno_value_id cache;
};

static bool rank3(const struct steno_graph *g, steno_value_id v)
{
    return g->values[v].shape.rank == 3 && g->values[v].dtype == STENO_F32;
}

/* Find the value that v is columns of by a Split of the last axis; v itself without one. */
static bool columns_of(struct steno_graph *g, steno_value_id v, int64_t at, struct columns *out)
{
    const struct steno_node *s = steno_pass_producer(g, v);
    int64_t axis;
    *out = (struct columns){v, at};
    if (!rank3(g, v))
        return false;
    if (!steno_pass_is(s, "Split"))
        return true;
    axis = steno_node_int(s, "axis", 0);
    if (axis != 2 && axis != -1)
        return true;
    for (int k = 0; k < s->n_out; at += g->values[s->out[k]].shape.dim[2], k++) {
        if (s->out[k] == v) {
            *out = (struct columns){s->in[0], at};
            return true;
        }
        if (s->out[k] == STENO_NONE || g->values[s->out[k]].shape.dim[2] < 0)
            break;
    }
    return true;
}

/* Return the Slice that keeps the last `cached` of z's cached + t rows. */
static struct steno_node *cache_slice(struct steno_graph *g, steno_value_id z, int64_t cached,
                                      int64_t t)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_pass_cut c;
        struct steno_node *n = &g->nodes[i];
        if (!n->dead && steno_pass_is(n, "Slice") && n->in[0] == z && steno_pass_cut_of(g, n, &c))
            return (c.axis == 1 || c.axis == -2) && c.end >= (double)(cached + t) &&
                           (c.start == (double)t || c.start == (double)-cached)
                       ? n
                       : NULL;
    }
    return NULL;
}

/* True if only the attention and the Slice read z or parts of it. */
static bool read_by_us(struct steno_graph *g, const struct steno_node *a, steno_value_id z)
{
    uint32_t ours = 1; /* the Slice */
    const struct steno_node *seen = NULL;
    if (g->values[z].is_output)
        return false;
    for (int in = K; in <= V; in++) {
        const struct steno_node *s = steno_pass_producer(g, a->in[in]);
        if (a->in[in] == z) {
            ours++;
        } else if (g->values[a->in[in]].uses > 1 || g->values[a->in[in]].is_output) {
            return false;
        } else if (s != seen) {
            for (int k = 0; k < s->n_out; k++)
                if (s->out[k] != a->in[K] && s->out[k] != a->in[V] && s->out[k] != STENO_NONE &&
                    g->values[s->out[k]].uses)
                    return false;
            ours++;
            seen = s;
        }
    }
    return g->values[z].uses == ours;
}

static bool match_window(struct steno_graph *g, const struct steno_node *a, struct match *m)
{
    const struct steno_shape *q, *new_kv, *cache;
    if (a->n_in < 3 || steno_node_int(a, "apart", 0))
        return false;
    for (int i = N_IN; i < a->n_in; i++)
        if (a->in[i] != STENO_NONE)
            return false;
    if (!columns_of(g, a->in[Q], steno_node_int(a, "q_at", 0), &m->q) ||
        !columns_of(g, a->in[K], steno_node_int(a, "k_at", 0), &m->k) ||
        !columns_of(g, a->in[V], steno_node_int(a, "v_at", 0), &m->v) || m->k.of != m->v.of)
        return false;
    m->cat = steno_pass_producer(g, m->k.of);
    if (!steno_pass_is(m->cat, "Concat") || m->cat->n_in != 2 ||
        (steno_node_int(m->cat, "axis", 0) != 1 && steno_node_int(m->cat, "axis", 0) != -2))
        return false;
    m->cache = m->cat->in[0];
    if (!rank3(g, m->cache) || g->values[m->cache].constant ||
        !columns_of(g, m->cat->in[1], 0, &m->new_kv))
        return false;
    q = &g->values[m->q.of].shape;
    new_kv = &g->values[m->new_kv.of].shape;
    cache = &g->values[m->cache].shape;
    if (cache->dim[1] < 1 || cache->dim[2] < 1 || new_kv->dim[1] < 1 ||
        new_kv->dim[1] != q->dim[1] || cache->dim[0] == STENO_DIM_ANY ||
        cache->dim[0] != q->dim[0] || cache->dim[0] != new_kv->dim[0])
        return false;
    m->cut = cache_slice(g, m->k.of, cache->dim[1], new_kv->dim[1]);
    return m->cut && read_by_us(g, a, m->k.of);
}

static steno_status build_window(struct steno_graph *g, struct steno_node *a, const struct match *m,
                                 steno_err *err)
{
    const struct steno_attr attrs[] = {STENO_INT_ATTR("heads", steno_node_int(a, "heads", 1)),
                                       STENO_INT_ATTR("size", steno_node_int(a, "size", 1)),
                                       STENO_INT_ATTR("v_size", steno_node_int(a, "v_size", 1)),
                                       STENO_INT_ATTR("q_at", m->q.from),
                                       STENO_INT_ATTR("k_at", m->k.from),
                                       STENO_INT_ATTR("v_at", m->v.from),
                                       STENO_INT_ATTR("new_at", m->new_kv.from),
                                       STENO_FLOAT_ATTR("scale", steno_node_float(a, "scale", 1)),
                                       STENO_FLOAT_ATTR("fill", steno_node_float(a, "fill", 0))};
    m->cut->dead = m->cat->dead = true;
    for (int i = K; i <= V; i++) {
        struct steno_node *split = a->in[i] == m->k.of ? NULL : steno_pass_producer(g, a->in[i]);
        if (split) /* marked once here: both may come from one Split */
            split->dead = true;
    }
    return steno_pass_become(
        g, a,
        STENO_NODE("ai.steno.run", "WindowAttention", 1,
                   .in = STENO_VALUES(m->q.of, m->new_kv.of, m->cache, steno_node_in(a, MASK)),
                   .out = STENO_VALUES(a->out[0], m->cut->out[0]),
                   .attr = {attrs, steno_node_attr(a, "fill") ? 9 : 8}),
        err);
}

steno_status steno_pass_window(struct steno_graph *g, const struct steno_pass_env *env,
                               struct steno_node *n, int *changed, steno_err *err)
{
    struct match m;
    if (!env->to_run || !steno_pass_is_ours(n, "Attention") || steno_node_int(n, "no_nan", 0) ||
        !match_window(g, n, &m))
        return STENO_OK;
    ++*changed;
    return build_window(g, n, &m, err);
}
