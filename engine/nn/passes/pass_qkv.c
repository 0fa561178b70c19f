/* Before: q = Linear(x, Wq, bq), k = Linear(x, Wk, bk), v = Linear(x, Wv, bv), Attention(q, k, v)
 * After:  a = Linear(x, [Wq Wk Wv], [bq bk bv]), Attention(a, a, a) from columns 0, ...
 * The same for K and V alone (attention to a memory), and for IntLinear, whose scales and zero
 * points become one per column.
 * Before: q, k, v = Split(a; last axis), Attention(q, k, v)       After: Attention(a, a, a)
 * Before: any of q, k, v = Slice(a; constant columns)             After: a in its place
 * One product instead of three reads x once and copies its rows for the kernel once. */
#include "nn/passes/passes.h"

#include <string.h>

enum { X, W, LINEAR_BIAS, RESIDUAL, SCALE, ZERO };          /* inputs of Linear */
enum { Q, QW, Q_ZERO, W_ZERO, Q_SCALE, W_SCALE, INT_BIAS }; /* of IntLinear */

static const char *const at[] = {"q_at", "k_at", "v_at"}; /* attributes of Attention */

struct merge {
    struct steno_node *part[3];
    int n;
    bool is_int;   /* of IntLinear */
    bool is_bytes; /* of Linear with 8-bit weights */
    int64_t rows, cols[3], total;
    struct steno_node *attention;
    int first; /* number of the attention's input that part 0 computes */
};

/* True if p is a product with a bias and nothing else, and only the attention reads it. */
static bool qkv_fits(struct steno_graph *g, const struct merge *m, struct steno_node *p, int in)
{
    const struct steno_tensor *w;
    bool is_int = steno_pass_is_ours(p, "IntLinear");
    if (!is_int && !steno_pass_is_ours(p, "Linear"))
        return false;
    w = steno_pass_const(g, p, W);
    if (!w || !w->data || w->shape.rank != 2 || !steno_pass_read_once(g, p->out[0]) ||
        g->values[p->out[0]].shape.rank != 3 || steno_node_int(m->attention, at[in], 0) ||
        steno_node_int(m->attention, "apart", 0) >> in & 1)
        return false;
    if (is_int)
        return steno_node_in(p, INT_BIAS + 1) == STENO_NONE && steno_pass_const(g, p, W_SCALE) &&
               (steno_node_in(p, W_ZERO) == STENO_NONE || steno_pass_const(g, p, W_ZERO)) &&
               steno_pass_vector_or_none(g, p, INT_BIAS, w->shape.dim[1]);
    return steno_node_in(p, RESIDUAL) == STENO_NONE && !steno_node_int(p, "act", STENO_ACT_NONE) &&
           (w->dtype == STENO_F32 || steno_node_in(p, SCALE) != STENO_NONE) &&
           steno_pass_vector_or_none(g, p, LINEAR_BIAS, w->shape.dim[1]);
}

/* True if both multiply the same x, quantized the same way. */
static bool alike(const struct steno_graph *g, const struct steno_node *a,
                  const struct steno_node *b)
{
    if (strcmp(a->op_type, b->op_type) || a->in[0] != b->in[0] ||
        g->values[a->in[1]].dtype != g->values[b->in[1]].dtype || a->n_attr != b->n_attr)
        return false;
    return !steno_pass_is_ours(a, "IntLinear") ||
           (a->in[Q_ZERO] == b->in[Q_ZERO] && a->in[Q_SCALE] == b->in[Q_SCALE]);
}

static bool match_qkv(struct steno_graph *g, struct steno_node *attention, struct merge *m)
{
    m->attention = attention;
    for (m->first = 0; m->first < 2; m->first++) {
        m->n = m->total = 0;
        for (int in = m->first; in < 3; in++) {
            struct steno_node *p = steno_pass_producer(g, attention->in[in]);
            if (!p || !qkv_fits(g, m, p, in) || (m->n && !alike(g, m->part[0], p)))
                break;
            m->cols[m->n] = g->values[p->in[1]].shape.dim[1];
            m->total += m->cols[m->n];
            m->part[m->n++] = p;
        }
        if (m->n == 3 - m->first)
            break;
    }
    if (m->first == 2)
        return false;
    m->is_int = steno_pass_is_ours(m->part[0], "IntLinear");
    m->is_bytes = !m->is_int && steno_node_in(m->part[0], SCALE) != STENO_NONE;
    m->rows = g->values[m->part[0]->in[1]].shape.dim[0];
    return m->total < INT32_MAX;
}

/* Join the parts' weights by columns. */
static steno_status qkv_weights(struct steno_graph *g, const struct merge *m, steno_value_id *to,
                                steno_err *err)
{
    struct steno_join_part part[STENO_JOIN_MAX];
    for (int p = 0; p < m->n; p++)
        part[p] = (struct steno_join_part){
            .from = m->part[p]->in[1],
            .factor = m->is_int || m->is_bytes ? 1 : steno_node_float(m->part[p], "alpha", 1)};
    return steno_graph_join(g, g->values[part[m->n - 1].from].name, part, m->n, to, err);
}

/* Make one constant of all columns. A part without one, or with only one number, repeats it for its
 * columns. */
static steno_status side_by_side(struct steno_graph *g, const struct merge *m, int in,
                                 steno_dtype t, const float *factor, steno_value_id *to,
                                 steno_err *err)
{
    const struct steno_shape s = {.rank = 1, .dim = {m->total}};
    const size_t esize = steno_dtype_size(t);
    const char *name = "";
    char *d;
    for (int p = 0; p < m->n; p++)
        if (steno_node_in(m->part[p], in) != STENO_NONE)
            name = g->values[m->part[p]->in[in]].name;
    d = steno_graph_new_const(g, name, t, &s, to, err);
    if (!d)
        return STENO_ERR_NOMEM;
    memset(d, 0, (size_t)m->total * esize);
    for (int p = 0; p < m->n; p++) {
        const struct steno_tensor *c = steno_pass_const(g, m->part[p], in);
        const size_t step = c && steno_numel(c) > 1 ? esize : 0;
        for (size_t i = 0; i < (size_t)m->cols[p]; i++, d += esize) {
            if (c)
                memcpy(d, (const char *)c->data + i * step, esize);
            if (c && factor)
                *(float *)(void *)d *= factor[p];
        }
    }
    return STENO_OK;
}

static bool any(const struct merge *m, int in)
{
    for (int p = 0; p < m->n; p++)
        if (steno_node_in(m->part[p], in) != STENO_NONE)
            return true;
    return false;
}

static steno_status merged_inputs(struct steno_graph *g, const struct merge *m, steno_value_id *in,
                                  steno_err *err)
{
    float alpha[3];
    steno_status st;
    for (int i = 0; i < 7; i++)
        in[i] = STENO_NONE;
    in[0] = m->part[0]->in[0];
    if (m->is_int) {
        steno_dtype t = g->values[m->part[0]->in[QW]].dtype;
        in[Q_ZERO] = m->part[0]->in[Q_ZERO];
        in[Q_SCALE] = m->part[0]->in[Q_SCALE];
        st = qkv_weights(g, m, &in[QW], err);
        if (!st && any(m, W_ZERO))
            st = side_by_side(g, m, W_ZERO, t, NULL, &in[W_ZERO], err);
        if (!st)
            st = side_by_side(g, m, W_SCALE, STENO_F32, NULL, &in[W_SCALE], err);
        if (!st && any(m, INT_BIAS))
            st = side_by_side(g, m, INT_BIAS, STENO_F32, NULL, &in[INT_BIAS], err);
        return st;
    }
    for (int p = 0; p < m->n; p++)
        alpha[p] = steno_node_float(m->part[p], "alpha", 1);
    st = qkv_weights(g, m, &in[W], err);
    if (!st && m->is_bytes)
        st = side_by_side(g, m, SCALE, STENO_F32, alpha, &in[SCALE], err);
    if (!st && m->is_bytes && any(m, ZERO))
        st = side_by_side(g, m, ZERO, g->values[in[W]].dtype, NULL, &in[ZERO], err);
    if (!st && any(m, LINEAR_BIAS))
        st = side_by_side(g, m, LINEAR_BIAS, STENO_F32, NULL, &in[LINEAR_BIAS], err);
    return st;
}

/* Set an attribute that is there. */
static void set_column(struct steno_node *n, const char *name, int64_t v)
{
    for (int i = 0; i < n->n_attr; i++)
        if (!strcmp(n->attr[i].name, name))
            n->attr[i].i = v;
}

/* Make the attention read Q, K and V in place if they are parts of one Split along columns. */
static bool from_split(struct steno_graph *g, struct steno_node *attention)
{
    const struct steno_node *s = steno_pass_producer(g, attention->in[0]);
    int64_t column[3], from = 0, axis;
    int found = 0;
    if (!steno_pass_is(s, "Split") || (steno_node_int(attention, "apart", 0) & 7) ||
        g->values[s->in[0]].shape.rank != 3)
        return false;
    axis = steno_node_int(s, "axis", 0);
    for (int k = 0; k < s->n_out; k++) {
        int64_t d = s->out[k] == STENO_NONE ? -1 : g->values[s->out[k]].shape.dim[2];
        for (int in = 0; in < 3; in++)
            if (s->out[k] == attention->in[in] && s->out[k] != STENO_NONE) {
                column[in] = from + steno_node_int(attention, at[in], 0);
                found |= 1 << in;
            }
        if (d < 0 || d > INT32_MAX || from > INT32_MAX)
            return false;
        from += d;
    }
    if ((axis != 2 && axis != -1) || found != 7)
        return false;
    for (int in = 0; in < 3; in++) {
        attention->in[in] = s->in[0];
        set_column(attention, at[in], column[in]);
    }
    return true;
}

/* Get the first column of Slice(x [B, T, .]; from, to; last axis). */
static bool columns(const struct steno_graph *g, const struct steno_node *n, int64_t *from)
{
    struct steno_pass_cut c;
    if (!steno_pass_is(n, "Slice") || g->values[n->in[0]].shape.rank != 3 ||
        g->values[n->in[0]].dtype != STENO_F32 || !steno_pass_cut_of(g, n, &c))
        return false;
    *from = (int64_t)c.start;
    return (c.axis == -1 || c.axis == 2) && c.start >= 0 && c.start <= INT32_MAX;
}

/* Make the attention read Q, K or V in place if a Slice cuts it from columns. */
static steno_status from_slices(struct steno_graph *g, struct steno_node *attention, bool *any,
                                steno_err *err)
{
    int64_t inputs = 0;
    for (int in = 0; in < 3; in++) {
        const struct steno_node *s = steno_pass_producer(g, attention->in[in]);
        int64_t from;
        if ((steno_node_int(attention, "apart", 0) >> in & 1) || !columns(g, s, &from))
            continue;
        attention->in[in] = s->in[0];
        set_column(attention, at[in], from + steno_node_int(attention, at[in], 0));
        inputs |= 1 << in;
    }
    *any = inputs != 0;
    /* Attribute parts: some columns of a wider input. For the first columns nothing else tells the
     * writer of a body so. */
    return !inputs
               ? STENO_OK
               : steno_pass_set_attr(g, attention,
                                     &(struct steno_attr)STENO_INT_ATTR(
                                         "parts", inputs | steno_node_int(attention, "parts", 0)),
                                     err);
}

static steno_status build_qkv(struct steno_graph *g, struct merge *m, steno_err *err)
{
    struct steno_pass_writer w = {g, m->part[0]->name, err, STENO_OK};
    struct steno_node *a = m->attention;
    steno_value_id in[7], out;
    int64_t column = 0;
    w.st = merged_inputs(g, m, in, err);
    out = steno_pass_new_value(&w);
    for (int p = 0; p < m->n; p++) {
        m->part[p]->dead = true;
        a->in[m->first + p] = out;
        set_column(a, at[m->first + p], column);
        column += m->cols[p];
    }
    steno_pass_write(
        &w, STENO_NODE("ai.steno", m->is_int ? "IntLinear" : "Linear", 1,
                       .in = {in, m->is_int     ? 7
                                  : m->is_bytes ? 6
                                                : 4},
                       .out = STENO_VALUES(out),
                       .attr = {(const struct steno_attr[]){STENO_INT_ATTR("act", STENO_ACT_NONE),
                                                            STENO_FLOAT_ATTR("alpha", 1)},
                                m->is_int ? 0 : 2}));
    return w.st;
}

steno_status steno_pass_qkv(struct steno_graph *g, const struct steno_pass_env *env,
                            struct steno_node *n, int *changed, steno_err *err)
{
    struct merge m;
    steno_status st = STENO_OK;
    bool cut;
    (void)env;
    if (!steno_pass_is_ours(n, "Attention"))
        return STENO_OK;
    cut = from_split(g, n);
    if (!cut)
        st = from_slices(g, n, &cut, err);
    if (!st && !cut) {
        if (!match_qkv(g, n, &m))
            return STENO_OK;
        st = build_qkv(g, &m, err);
    }
    ++*changed;
    return st;
}
