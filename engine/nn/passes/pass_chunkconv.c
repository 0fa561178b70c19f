/* Before: z = Concat(cache, [Where([Expand] mask, 0,] Transpose(x; 1,2,0)[)]; axis 2)
 *         y = Transpose(Conv(z; w1) + Conv(Slice(z from L on); w2) * scale [C, T]; 2,0,1)
 *         cache' = Slice(z, its last L)
 *         both Convs depthwise: the first with L + 1 taps, the second with K / 2 zeros at both ends
 * After:  y, cache' = ai.steno:ChunkConv(x, mask, cache, w1, b1, w2, b2, scale), with the Glu
 *         before it and the Swoosh after it   (nn/ops/op_fused_chunkconv.c)
 * The convolution of a streaming Zipformer. */
#include "nn/passes/passes.h"

#include "nn/kernels/kernels.h"

#include <string.h>

struct match {
    struct steno_node *add, *mul, *causal, *chunk, *tail, *cat, *new_cache, *last;
    steno_value_id x, mask, scale;
    int64_t c, left_context, t;
};

/* Return the taps of a depthwise Conv of stride 1, `centred` or without padding; 0 for other
 * nodes. */
static int64_t taps(const struct steno_graph *g, const struct steno_node *n, bool centred)
{
    const struct steno_tensor *w = g->values[n->in[1]].constant;
    int64_t k;
    if (!w || !w->data || w->dtype != STENO_F32 || w->shape.rank != 3 || w->shape.dim[1] != 1 ||
        steno_node_int(n, "group", 1) != w->shape.dim[0] ||
        !steno_pass_ints_are(n, "strides", 1, 1) || !steno_pass_ints_are(n, "dilations", 1, 1) ||
        strcmp(steno_node_str(n, "auto_pad", "NOTSET"), "NOTSET"))
        return 0;
    k = w->shape.dim[2];
    if (!steno_pass_vector_or_none(g, n, 2, w->shape.dim[0]))
        return 0;
    return steno_pass_ints_are(n, "pads", centred ? k / 2 : 0, 0) && (!centred || k % 2) ? k : 0;
}

/* True for a Slice of axis 2 from `from` to the end in steps of one. */
static bool cuts(const struct steno_graph *g, const struct steno_node *n, int64_t from,
                 int64_t extent)
{
    struct steno_pass_cut c;
    return steno_pass_cut_of(g, n, &c) && (c.axis == 2 || c.axis == -1) &&
           c.end >= (double)extent &&
           (c.start == (double)from || c.start == (double)(from - extent));
}

/* Match what follows the cache: [a mask on] the transposed x. */
static bool matches_input(struct steno_graph *g, steno_value_id v, struct match *m)
{
    struct steno_node *where = steno_pass_only_use(g, v, "Where"), *transpose, *wide;
    double zero;
    m->mask = STENO_NONE;
    if (where) {
        const struct steno_shape *s;
        if (!steno_pass_scalar(g, where->in[1], &zero) || zero != 0)
            return false;
        m->mask = where->in[0];
        wide = steno_pass_producer(g, m->mask);
        if (steno_pass_is(wide, "Expand"))
            m->mask = wide->in[0];
        s = &g->values[m->mask].shape;
        v = where->in[2];
        if (s->rank != 3 || s->dim[1] != 1 || s->dim[2] != m->t ||
            !steno_same_dim(s->dim[0], g->values[v].shape.dim[0]))
            return false;
    }
    transpose = steno_pass_producer(g, v);
    if (!steno_pass_permutes(transpose, 3, (const int64_t[]){1, 2, 0}))
        return false;
    m->x = transpose->in[0];
    return true;
}

/* Find the new cache. z has three readers at most: the two convolutions and the Slice that keeps
 * its last columns. */
static bool find_new_cache(struct steno_graph *g, struct match *m)
{
    steno_value_id z = m->cat->out[0];
    uint32_t others = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct steno_node *n = &g->nodes[i];
        if (n->dead || n == m->causal || n == m->tail)
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] == z) {
                others++;
                m->new_cache = n;
            }
    }
    if (others > 1 || g->values[z].is_output)
        return false;
    return !others || (steno_pass_is(m->new_cache, "Slice") && m->new_cache->in[0] == z &&
                       cuts(g, m->new_cache, m->t, m->left_context + m->t));
}

static bool matches_sum(struct steno_graph *g, struct match *m, int side)
{
    const struct steno_shape *s, *z;
    m->mul = steno_pass_only_use(g, m->add->in[side], "Mul");
    m->causal = steno_pass_only_use(g, m->add->in[1 - side], "Conv");
    for (int k = 0; m->mul && !m->chunk && k < 2; k++) {
        m->chunk = steno_pass_only_use(g, m->mul->in[k], "Conv");
        m->scale = m->mul->in[1 - k];
    }
    if (!m->chunk || !m->causal)
        return false;
    m->tail = steno_pass_only_use(g, m->chunk->in[0], "Slice");
    m->cat = steno_pass_producer(g, m->causal->in[0]);
    if (!m->tail || !steno_pass_is(m->cat, "Concat") || m->cat->n_in != 2 ||
        m->tail->in[0] != m->cat->out[0] || !taps(g, m->chunk, true))
        return false;
    s = &g->values[m->scale].shape;
    z = &g->values[m->cat->out[0]].shape;
    m->left_context = taps(g, m->causal, false) - 1;
    if (!g->values[m->scale].constant || g->values[m->scale].dtype != STENO_F32 || s->rank != 2 ||
        z->rank != 3 || m->left_context < 0 ||
        (steno_node_int(m->cat, "axis", 0) != 2 && steno_node_int(m->cat, "axis", 0) != -1))
        return false;
    m->c = s->dim[0];
    m->t = s->dim[1];
    return z->dim[1] == m->c && z->dim[2] == m->left_context + m->t &&
           g->values[m->cat->in[0]].shape.dim[2] == m->left_context &&
           g->values[m->chunk->in[1]].shape.dim[0] == m->c &&
           cuts(g, m->tail, m->left_context, m->left_context + m->t);
}

static bool chunkconv_matches(struct steno_graph *g, struct steno_node *last, struct match *m)
{
    struct steno_node *add = steno_pass_only_use(g, last->in[0], "Add");
    for (int side = 0; add && side < 2; side++) {
        *m = (struct match){.add = add, .last = last};
        if (matches_sum(g, m, side) && matches_input(g, m->cat->in[1], m) && find_new_cache(g, m) &&
            g->values[m->x].dtype == STENO_F32)
            return true;
    }
    return false;
}

static struct steno_node *ours(struct steno_node *n, const char *type)
{
    return steno_pass_is_ours(n, type) ? n : NULL;
}

/* True if one Transpose reads v, and all other reads are for its shape. */
static bool transposed_once(const struct steno_graph *g, steno_value_id v)
{
    uint32_t n = g->values[v].uses;
    for (int32_t i = 0; n > 1 && i < g->n_nodes; i++)
        if (!g->nodes[i].dead && steno_pass_is(&g->nodes[i], "Shape") && g->nodes[i].in[0] == v)
            n--;
    return n == 1 && !g->values[v].is_output;
}

static steno_status replace_chunkconv(struct steno_graph *g, const struct match *m, steno_err *err)
{
    struct steno_node *glu = ours(steno_pass_producer(g, m->x), "Glu");
    struct steno_node *act = ours(steno_pass_only_reader(g, m->last->out[0]), "Swoosh");
    glu = glu && !glu->n_attr && transposed_once(g, m->x) ? glu : NULL;
    if (act)
        act->dead = true;
    m->last->dead = m->add->dead = m->mul->dead = m->causal->dead = m->chunk->dead = true;
    m->tail->dead = m->cat->dead = true;
    if (m->new_cache)
        m->new_cache->dead = true;
    return steno_pass_put(
        g, m->causal->name,
        STENO_NODE("ai.steno", "ChunkConv", 1,
                   .in = STENO_VALUES(glu ? glu->in[0] : m->x, m->mask, m->cat->in[0],
                                      m->causal->in[1], steno_node_in(m->causal, 2),
                                      m->chunk->in[1], steno_node_in(m->chunk, 2), m->scale),
                   .out = STENO_VALUES((act ? act : m->last)->out[0],
                                       m->new_cache ? m->new_cache->out[0] : STENO_NONE),
                   .attr = STENO_ATTRS(
                       STENO_INT_ATTR("glu", glu != NULL),
                       STENO_INT_ATTR("act", act ? STENO_ACT_SWOOSH : STENO_ACT_NONE),
                       STENO_FLOAT_ATTR("act_min", act ? steno_node_float(act, "shift", 0) : 0),
                       STENO_FLOAT_ATTR("act_max", act ? steno_node_float(act, "offset", 0) : 0))),
        err);
}

steno_status steno_pass_chunkconv(struct steno_graph *g, const struct steno_pass_env *env,
                                  struct steno_node *n, int *changed, steno_err *err)
{
    struct match m;
    (void)env;
    if (!steno_pass_permutes(n, 3, (const int64_t[]){2, 0, 1}) || !chunkconv_matches(g, n, &m))
        return STENO_OK;
    ++*changed;
    return replace_chunkconv(g, &m, err);
}
