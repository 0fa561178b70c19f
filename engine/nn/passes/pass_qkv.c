/* Before: q = Linear(x, Wq, bq), k = Linear(x, Wk, bk), v = Linear(x, Wv, bv), Attention(q, k, v)
 * After:  a = Linear(x, [Wq Wk Wv], [bq bk bv]), Attention(a, a, a) from columns 0, ...
 * The same for K and V alone (attention to a memory), and for IntLinear, whose scales and zero
 * points become one per column.
 * Before: q, k, v = Split(a; last axis), Attention(q, k, v)       After: Attention(a, a, a)
 * Before: any of q, k, v = Slice(a; constant columns)             After: a in its place
 * One product instead of three reads x once and copies its rows for the kernel once. */
#include "nn/passes/passes.h"

#include <stdlib.h>
#include <string.h>

enum { X, W, LINEAR_BIAS, RESIDUAL, SCALE, ZERO };          /* inputs of Linear */
enum { Q, QW, Q_ZERO, W_ZERO, Q_SCALE, W_SCALE, INT_BIAS }; /* of IntLinear */

struct merge {
    struct steno_node *part[3];
    int n;
    bool is_int;   /* of IntLinear */
    bool is_bytes; /* of Linear with 8-bit weights */
    int64_t rows, cols[3], total;
    struct steno_node *attention;
    int first; /* number of the attention's input that part 0 computes */
};

static bool has(const struct steno_node *n, int in)
{
    return in < n->n_in && n->in[in] != STENO_NONE;
}

/* True if p is a product with a bias and nothing else, and only the attention reads it. */
static bool qkv_fits(struct steno_graph *g, const struct merge *m, struct steno_node *p, int in)
{
    static const char *const at[] = {"q_at", "k_at", "v_at"};
    const struct steno_value *w, *y;
    bool is_int = steno_pass_is_ours(p, "IntLinear");
    if (!is_int && !steno_pass_is_ours(p, "Linear"))
        return false;
    w = &g->values[p->in[1]];
    y = &g->values[p->out[0]];
    if (!w->constant || !w->constant->data || w->shape.rank != 2 || y->uses != 1 || y->is_output ||
        y->shape.rank != 3 || steno_node_int(m->attention, at[in], 0) ||
        steno_node_int(m->attention, "apart", 0) >> in & 1)
        return false;
    if (is_int)
        return !has(p, INT_BIAS + 1) && has(p, W_SCALE) && g->values[p->in[W_SCALE]].constant &&
               (!has(p, W_ZERO) || g->values[p->in[W_ZERO]].constant) &&
               (!has(p, INT_BIAS) || steno_pass_vector(g, p->in[INT_BIAS], w->shape.dim[1]));
    return !has(p, RESIDUAL) && !steno_node_int(p, "act", STENO_ACT_NONE) &&
           (w->dtype == STENO_F32 || has(p, SCALE)) &&
           (!has(p, LINEAR_BIAS) || steno_pass_vector(g, p->in[LINEAR_BIAS], w->shape.dim[1]));
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
    m->is_bytes = !m->is_int && has(m->part[0], SCALE);
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
    struct steno_tensor out = {.dtype = t, .shape = {.rank = 1, .dim = {m->total}}};
    size_t esize = steno_dtype_size(t), at = 0;
    const char *name = "";
    steno_status st;
    out.data = steno_aligned_alloc((size_t)m->total * esize);
    if (!out.data)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    memset(out.data, 0, (size_t)m->total * esize);
    for (int p = 0; p < m->n; p++) {
        const struct steno_tensor *c =
            has(m->part[p], in) ? g->values[m->part[p]->in[in]].constant : NULL;
        size_t cols = (size_t)m->cols[p], one = c && steno_numel(c) == 1;
        for (size_t i = 0; c && i < cols; i++) {
            char *d = (char *)out.data + (at + i) * esize;
            memcpy(d, (const char *)c->data + (one ? 0 : i) * esize, esize);
            if (factor)
                *(float *)(void *)d *= factor[p];
        }
        name = c ? g->values[m->part[p]->in[in]].name : name;
        at += cols;
    }
    st = steno_graph_take_const(g, name, &out, to, err);
    if (st)
        steno_aligned_free(out.data);
    return st;
}

static bool any(const struct merge *m, int in)
{
    for (int p = 0; p < m->n; p++)
        if (has(m->part[p], in))
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

static void set_column(struct steno_node *n, const char *name, int64_t v)
{
    for (int i = 0; i < n->n_attr; i++)
        if (!strcmp(n->attr[i].name, name))
            n->attr[i].i = v;
}

/* Make the attention read Q, K and V in place if they are parts of one Split along columns. */
static bool from_split(struct steno_graph *g, struct steno_node *attention)
{
    static const char *const at[] = {"q_at", "k_at", "v_at"};
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
    double start, axis, step = 1;
    if (!steno_pass_is(n, "Slice") || n->opset < 10 || n->n_in < 4 ||
        g->values[n->in[0]].shape.rank != 3 || g->values[n->in[0]].dtype != STENO_F32 ||
        !steno_pass_scalar(g, n->in[1], &start) || !steno_pass_scalar(g, n->in[3], &axis) ||
        steno_numel(g->values[n->in[1]].constant) != 1 ||
        (has(n, 4) && !steno_pass_scalar(g, n->in[4], &step)))
        return false;
    *from = (int64_t)start;
    return step == 1 && (axis == -1 || axis == 2) && start >= 0 && start <= INT32_MAX;
}

/* Note in attribute parts that these inputs are some columns of a wider one: for the first columns
 * nothing else tells the writer of a body so. */
static steno_status note_parts(struct steno_graph *g, struct steno_node *attention, int64_t inputs,
                               steno_err *err)
{
    const bool there = steno_node_attr(attention, "parts") != NULL;
    const size_t n = (size_t)attention->n_attr;
    struct steno_attr *attrs;
    if (there) {
        set_column(attention, "parts", inputs | steno_node_int(attention, "parts", 0));
        return STENO_OK;
    }
    attrs = steno_graph_alloc(g, n + 1, sizeof *attrs, err);
    if (!attrs)
        return STENO_ERR_NOMEM;
    memcpy(attrs, attention->attr, n * sizeof *attrs);
    attrs[n] = (struct steno_attr){.name = "parts", .kind = STENO_ATTR_INT, .i = inputs};
    attention->attr = attrs;
    attention->n_attr++;
    return STENO_OK;
}

/* Make the attention read Q, K or V in place if a Slice cuts it from columns. */
static steno_status from_slices(struct steno_graph *g, struct steno_node *attention, bool *any,
                                steno_err *err)
{
    static const char *const at[] = {"q_at", "k_at", "v_at"};
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
    return inputs ? note_parts(g, attention, inputs, err) : STENO_OK;
}

static steno_status build_qkv(struct steno_graph *g, struct merge *m, steno_err *err)
{
    static const char *const at[] = {"q_at", "k_at", "v_at"};
    int32_t attention = (int32_t)(m->attention - g->nodes);
    const char *name = m->part[0]->name;
    struct steno_node *y;
    steno_value_id in[7], out;
    steno_status st = merged_inputs(g, m, in, err);
    int64_t column = 0;
    if (!st)
        st = steno_graph_add_value(g, name, &out, err);
    if (st)
        return st;
    for (int p = 0; p < m->n; p++)
        m->part[p]->dead = true;
    y = steno_pass_add_node(g, "ai.steno", m->is_int ? "IntLinear" : "Linear", 1, name,
                            m->is_int     ? 7
                            : m->is_bytes ? 6
                                          : 4,
                            1, m->is_int ? 0 : 2, err);
    if (!y)
        return STENO_ERR_NOMEM;
    memcpy(y->in, in, (size_t)y->n_in * sizeof *in);
    y->out[0] = out;
    if (!m->is_int) {
        steno_pass_set_int(g, y, 0, "act", STENO_ACT_NONE);
        steno_pass_set_float(g, y, 1, "alpha", 1);
    }
    for (int p = 0; p < m->n; p++) {
        g->nodes[attention].in[m->first + p] = out;
        set_column(&g->nodes[attention], at[m->first + p], column);
        column += m->cols[p];
    }
    return STENO_OK;
}

steno_status steno_pass_qkv(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                            steno_err *err)
{
    (void)env;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct merge m;
        steno_status st = STENO_OK;
        bool cut;
        if (g->nodes[i].dead || !steno_pass_is_ours(&g->nodes[i], "Attention"))
            continue;
        cut = from_split(g, &g->nodes[i]);
        if (!cut)
            st = from_slices(g, &g->nodes[i], &cut, err);
        if (!st && !cut) {
            if (!match_qkv(g, &g->nodes[i], &m))
                continue;
            st = build_qkv(g, &m, err);
        }
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
