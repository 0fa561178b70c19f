/* Before: Q, R = Transpose(Reshape(columns of x); 2,1,0,3)
 *         K = Transpose(Reshape(Concat(cache, columns of x)); 2,1,3,0), cache' = Slice(Concat)
 *         A = Softmax([Where(mask, fill,] Q K + ai.steno:RelativeWindow(R P) [)])
 * After:  A, cache' = ai.steno:AttentionWeights(x, cache, P, mask)
 *
 * Before: y = Reshape(Transpose(A Transpose(Reshape(Concat(cache, v)); 2,1,0,3); 2,1,0,3))
 * After:  y, cache' = ai.steno:WeightedValues(A, v, cache)
 *
 * Before: y = g * Reshape(Transpose(A[0] Concat(cache, Transpose(Reshape(u * Tanh(s))))))
 *         s, u, g: thirds of x
 * After:  y, cache' = ai.steno:NonlinAttention(A, x, cache)
 * Attention of a streaming Zipformer: one set of weights, three products
 * (nn/ops/op_fused_weights.c). */
#include "nn/passes/passes.h"

static bool is_perm(const struct steno_node *n, int64_t c, int64_t d)
{
    return steno_pass_permutes(n, 4, (const int64_t[]){2, 1, c, d});
}

/* True if rank-3 a and rank-4 b have the same rows and streams, and b's last two extents multiply
 * to a's last. */
static bool splits(const struct steno_shape *a, const struct steno_shape *b)
{
    return a->rank == 3 && b->rank == 4 && steno_same_dim(a->dim[0], b->dim[0]) &&
           steno_same_dim(a->dim[1], b->dim[1]) && b->dim[2] > 0 && b->dim[3] > 0 &&
           b->dim[2] < 65536 && b->dim[3] < 65536 && a->dim[2] == b->dim[2] * b->dim[3];
}

struct heads {
    steno_value_id rows; /* [T, N, h d] */
    int64_t n, size;
};

/* True if v [h, N, T, d], or [h, N, d, T] if `transposed`, is made from rows. */
static bool heads_of(struct steno_graph *g, steno_value_id v, bool transposed, struct heads *h)
{
    struct steno_node *t = steno_pass_producer(g, v), *r;
    if (!is_perm(t, transposed ? 3 : 0, transposed ? 0 : 3))
        return false;
    r = steno_pass_producer(g, t->in[0]);
    if (!steno_pass_is(r, "Reshape") ||
        !splits(&g->values[r->in[0]].shape, &g->values[r->out[0]].shape))
        return false;
    h->rows = r->in[0];
    h->n = g->values[r->out[0]].shape.dim[2];
    h->size = g->values[r->out[0]].shape.dim[3];
    return true;
}

/* Return the value that v is columns of, from column *at on. */
static steno_value_id columns_of(struct steno_graph *g, steno_value_id v, int64_t *at)
{
    struct steno_node *n = steno_pass_producer(g, v);
    struct steno_pass_cut c;
    *at = 0;
    if (!steno_pass_is(n, "Slice") || !steno_pass_cut_of(g, n, &c) || c.start < 0 ||
        (c.axis != 2 && c.axis != -1))
        return v;
    *at = (int64_t)c.start;
    return n->in[0];
}

struct cache {
    steno_value_id old, added, updated; /* updated: the new cache, or STENO_NONE */
    struct steno_node *slice;
};

/* Match v = Concat(old, added) along `axis`, or added alone. Besides one node, only a Slice of as
 * many last rows as the cache has may read v. */
static bool cache_of(struct steno_graph *g, steno_value_id v, int axis, struct cache *c)
{
    struct steno_node *cat = steno_pass_producer(g, v);
    struct steno_pass_cut cut;
    int64_t all, left_context;
    *c = (struct cache){.old = STENO_NONE, .added = v, .updated = STENO_NONE};
    if (!steno_pass_is(cat, "Concat") || steno_node_int(cat, "axis", 0) != axis)
        return true;
    all = g->values[v].shape.dim[axis];
    left_context =
        g->values[cat->in[0]].shape.rank > axis ? g->values[cat->in[0]].shape.dim[axis] : -1;
    if (cat->n_in != 2 || g->values[v].is_output || g->values[v].uses > 2 || left_context < 1 ||
        all <= left_context)
        return false;
    c->old = cat->in[0];
    c->added = cat->in[1];
    for (int32_t i = 0; g->values[v].uses == 2 && !c->slice && i < g->n_nodes; i++)
        if (!g->nodes[i].dead && steno_pass_is(&g->nodes[i], "Slice") && g->nodes[i].in[0] == v)
            c->slice = &g->nodes[i];
    if (g->values[v].uses == 1)
        return true;
    if (!c->slice || !steno_pass_cut_of(g, c->slice, &cut) || cut.axis != axis ||
        cut.end < (double)all ||
        (cut.start != (double)-left_context && cut.start != (double)(all - left_context)))
        return false;
    c->updated = c->slice->out[0];
    return true;
}

/* ---- weights ---- */

struct weights {
    struct heads q, k, r;
    struct cache cache;
    steno_value_id x, p, mask;
    int64_t q_at, k_at, p_at;
    double fill;
};

static bool match_sum(struct steno_graph *g, struct weights *w, struct steno_node *sum, int side)
{
    struct steno_node *qk = steno_pass_only_use(g, sum->in[side], "MatMul"), *rp;
    struct steno_node *window = steno_pass_producer(g, sum->in[1 - side]);
    const struct steno_shape *p;
    if (!qk || !steno_pass_is_ours(window, "RelativeWindow"))
        return false;
    rp = steno_pass_only_use(g, window->in[0], "MatMul");
    if (!rp || !heads_of(g, qk->in[0], false, &w->q) || !heads_of(g, qk->in[1], true, &w->k) ||
        !heads_of(g, rp->in[0], false, &w->r) || !cache_of(g, w->k.rows, 0, &w->cache))
        return false;
    w->p = rp->in[1];
    p = &g->values[w->p].shape;
    w->x = columns_of(g, w->q.rows, &w->q_at);
    return w->q.n == w->k.n && w->q.n == w->r.n && w->q.size == w->k.size && p->rank == 4 &&
           p->dim[0] == w->q.n && p->dim[1] == 1 && p->dim[2] == w->r.size &&
           columns_of(g, w->cache.added, &w->k_at) == w->x &&
           columns_of(g, w->r.rows, &w->p_at) == w->x && g->values[w->x].dtype == STENO_F32;
}

static bool match_weights(struct steno_graph *g, const struct steno_node *softmax,
                          struct weights *w)
{
    const struct steno_shape *s = &g->values[softmax->out[0]].shape, *m;
    int64_t axis = steno_node_int(softmax, "axis", softmax->opset >= 13 ? -1 : 1);
    struct steno_node *where = steno_pass_only_use(g, softmax->in[0], "Where"), *sum;
    w->mask = STENO_NONE;
    w->fill = 0;
    if (s->rank != 4 || (axis != 3 && axis != -1))
        return false;
    if (where) {
        w->mask = where->in[0];
        m = &g->values[w->mask].shape;
        if (!steno_pass_scalar(g, where->in[1], &w->fill) || m->rank != 3 || m->dim[1] != 1 ||
            !steno_same_dim(m->dim[2], s->dim[3]) ||
            (m->dim[0] != 1 && !steno_same_dim(m->dim[0], s->dim[1])))
            return false;
    }
    sum = steno_pass_only_use(g, where ? where->in[2] : softmax->in[0], "Add");
    return sum && (match_sum(g, w, sum, 0) || match_sum(g, w, sum, 1));
}

/* The cache's Slice is not needed any more. */
static void take_cache(const struct cache *c)
{
    if (c->slice)
        c->slice->dead = true;
}

static steno_status make_weights(struct steno_graph *g, struct steno_node *softmax,
                                 const struct weights *w, steno_err *err)
{
    softmax->dead = true;
    take_cache(&w->cache);
    return steno_pass_put(
        g, softmax->name,
        STENO_NODE("ai.steno", "AttentionWeights", 1,
                   .in = STENO_VALUES(w->x, w->cache.old, w->p, w->mask),
                   .out = STENO_VALUES(softmax->out[0], w->cache.updated),
                   .attr = STENO_ATTRS(
                       STENO_INT_ATTR("heads", w->q.n), STENO_INT_ATTR("size", w->q.size),
                       STENO_INT_ATTR("p_size", w->r.size), STENO_INT_ATTR("q_at", w->q_at),
                       STENO_INT_ATTR("k_at", w->k_at), STENO_INT_ATTR("p_at", w->p_at),
                       STENO_FLOAT_ATTR("fill", (float)w->fill))),
        err);
}

/* ---- products with them ---- */

static bool is_weights(struct steno_graph *g, steno_value_id v)
{
    return steno_pass_is_ours(steno_pass_producer(g, v), "AttentionWeights");
}

/* Return the Reshape that restores [T, N, h d] from [h, N, T, d], or NULL. */
static struct steno_node *joined(struct steno_graph *g, steno_value_id v)
{
    struct steno_node *t = steno_pass_only_reader(g, v);
    struct steno_node *r = is_perm(t, 0, 3) ? steno_pass_only_reader(g, t->out[0]) : NULL;
    return steno_pass_is(r, "Reshape") && r->in[0] == t->out[0] &&
                   splits(&g->values[r->out[0]].shape, &g->values[t->out[0]].shape)
               ? r
               : NULL;
}

static steno_status values(struct steno_graph *g, struct steno_node *product, int *changed,
                           steno_err *err)
{
    struct steno_node *end = joined(g, product->out[0]);
    struct heads v;
    struct cache c;
    steno_value_id x;
    int64_t at;
    if (!end || !heads_of(g, product->in[1], false, &v) || !cache_of(g, v.rows, 0, &c) ||
        g->values[product->in[0]].shape.dim[0] != v.n)
        return STENO_OK;
    x = columns_of(g, c.added, &at);
    end->dead = true;
    take_cache(&c);
    ++*changed;
    return steno_pass_put(
        g, product->name,
        STENO_NODE("ai.steno", "WeightedValues", 1, .in = STENO_VALUES(product->in[0], x, c.old),
                   .out = STENO_VALUES(end->out[0], c.updated),
                   .attr = STENO_ATTRS(STENO_INT_ATTR("heads", v.n), STENO_INT_ATTR("size", v.size),
                                       STENO_INT_ATTR("v_at", at))),
        err);
}

/* Return x if v is third number `i` of x [T, N, 3 w], else STENO_NONE. */
static steno_value_id third_of(struct steno_graph *g, steno_value_id v, int i, int64_t w)
{
    int64_t at;
    steno_value_id x = columns_of(g, v, &at);
    return at == i * w && g->values[x].shape.rank == 3 && g->values[x].shape.dim[2] == 3 * w
               ? x
               : STENO_NONE;
}

static bool first_head(struct steno_graph *g, const struct steno_node *n)
{
    struct steno_pass_cut c;
    return steno_pass_is(n, "Slice") && steno_pass_cut_of(g, n, &c) && c.axis == 0 &&
           c.start == 0 && c.end == 1;
}

/* Return x if v [1, N, T, w] is u * tanh(s) of its thirds. */
static steno_value_id gated(struct steno_graph *g, steno_value_id v)
{
    struct heads h;
    struct steno_node *mul, *tanh;
    if (!heads_of(g, v, false, &h) || h.n != 1)
        return STENO_NONE;
    mul = steno_pass_only_use(g, h.rows, "Mul");
    for (int k = 0; mul && k < 2; k++) {
        steno_value_id x = third_of(g, mul->in[1 - k], 1, h.size);
        tanh = steno_pass_only_use(g, mul->in[k], "Tanh");
        if (tanh && x != STENO_NONE && third_of(g, tanh->in[0], 0, h.size) == x)
            return x;
    }
    return STENO_NONE;
}

static steno_status nonlin(struct steno_graph *g, struct steno_node *product, int *changed,
                           steno_err *err)
{
    struct steno_node *end = joined(g, product->out[0]);
    struct steno_node *mul = end ? steno_pass_only_reader(g, end->out[0]) : NULL;
    const struct steno_node *head = steno_pass_producer(g, product->in[0]);
    struct cache c;
    steno_value_id x;
    int64_t w = g->values[product->out[0]].shape.dim[3];
    if (!steno_pass_is(mul, "Mul") || !cache_of(g, product->in[1], 2, &c) || w < 1 || w > 65535 ||
        (x = gated(g, c.added)) == STENO_NONE ||
        third_of(g, mul->in[mul->in[0] == end->out[0]], 2, w) != x ||
        g->values[x].dtype != STENO_F32)
        return STENO_OK;
    mul->dead = true;
    take_cache(&c);
    ++*changed;
    return steno_pass_put(g, product->name,
                          STENO_NODE("ai.steno", "NonlinAttention", 1,
                                     .in = STENO_VALUES(head->in[0], x, c.old),
                                     .out = STENO_VALUES(mul->out[0], c.updated),
                                     .attr = STENO_ATTRS(STENO_INT_ATTR("size", w))),
                          err);
}

steno_status steno_pass_weights(struct steno_graph *g, const struct steno_pass_env *env,
                                struct steno_node *n, int *changed, steno_err *err)
{
    const struct steno_node *head;
    struct weights w;
    (void)env;
    if (steno_pass_is(n, "Softmax") && match_weights(g, n, &w)) {
        ++*changed;
        return make_weights(g, n, &w, err);
    }
    if (!steno_pass_is(n, "MatMul"))
        return STENO_OK;
    if (is_weights(g, n->in[0]))
        return values(g, n, changed, err);
    head = steno_pass_producer(g, n->in[0]);
    return first_head(g, head) && is_weights(g, head->in[0]) ? nonlin(g, n, changed, err)
                                                             : STENO_OK;
}
