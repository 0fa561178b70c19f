#include "nn/passes/norm.h"

#include "nn/passes/cone.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIT_ROWS 4
#define CHECK_ROWS 3
#define MAX_EPS 8

struct norm {
    struct steno_cone *c;
    int64_t n; /* length of a row */
    bool rms;
    double eps;
    double *x, *y, *z;         /* input row, the cone's result, the normalised row: [n] each */
    double *gamma, *beta;      /* [n] */
    double *out;               /* [nodes, n]: results of the cone's nodes */
    bool full[STENO_CONE_MAX]; /* the result is a row; false: one number */
};

static int64_t row_length(const struct steno_graph *g, const struct steno_cone *c)
{
    const struct steno_shape *s = &g->values[c->node[0]->out[0]].shape;
    return s->rank >= 1 ? s->dim[s->rank - 1] : 0;
}

/* One element, or one per element of a row; at most as many axes as the rows have. */
static bool number(const struct steno_graph *g, const struct steno_cone *c, steno_value_id v)
{
    const struct steno_tensor *t = g->values[v].constant;
    size_t n = t && t->data && t->dtype == STENO_F32 ? steno_numel(t) : 0;
    if (!n || t->shape.rank > g->values[c->node[0]->out[0]].shape.rank)
        return false;
    return n == 1 ||
           ((int64_t)n == row_length(g, c) && t->shape.dim[t->shape.rank - 1] == (int64_t)n);
}

static bool reduces_last(const struct steno_graph *g, const struct steno_node *n)
{
    int rank = g->values[n->in[0]].shape.rank;
    size_t count;
    const int64_t *axes = steno_node_ints(n, "axes", &count);
    double v;
    if ((!steno_pass_is(n, "ReduceMean") && !steno_pass_is(n, "ReduceSum")) || rank < 1 ||
        steno_node_int(n, "keepdims", 1) != 1)
        return false;
    if (axes)
        return count == 1 && (axes[0] == -1 || axes[0] == rank - 1);
    return n->n_in > 1 && n->in[1] != STENO_NONE && steno_pass_scalar(g, n->in[1], &v) &&
           (v == -1 || v == rank - 1) && steno_numel(g->values[n->in[1]].constant) == 1;
}

static bool normalises_last(const struct steno_graph *g, const struct steno_node *n)
{
    int rank = g->values[n->in[0]].shape.rank;
    int64_t axis = steno_node_int(n, "axis", -1);
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE && g->values[n->out[i]].uses)
            return false;
    return steno_pass_is(n, "LayerNormalization") && rank >= 1 &&
           (axis == -1 || axis == rank - 1) &&
           steno_pass_vector(g, n->in[1], g->values[n->in[0]].shape.dim[rank - 1]) &&
           (n->n_in < 3 || n->in[2] == STENO_NONE ||
            steno_pass_vector(g, n->in[2], g->values[n->in[0]].shape.dim[rank - 1]));
}

static bool takes(const struct steno_graph *g, const struct steno_cone *c,
                  const struct steno_node *n)
{
    (void)c;
    return steno_cone_code(n) || reduces_last(g, n) || normalises_last(g, n);
}

/* ---- computing the cone ---- */

static double mean(const double *x, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += x[i];
    return s / (double)n;
}

/* z = (x - mean) / sqrt(variance + eps); rms: x / sqrt(mean of squares + eps). */
static void normalise(const double *x, double *z, int64_t n, bool rms, double eps)
{
    double m = rms ? 0 : mean(x, n), v = 0;
    for (int64_t i = 0; i < n; i++)
        v += (x[i] - m) * (x[i] - m) / (double)n;
    for (int64_t i = 0; i < n; i++)
        z[i] = (x[i] - m) / sqrt(v + eps);
}

/* Input k of node i: a row, or one number (*step 0). */
static const double *source(const struct steno_graph *g, const struct norm *m, int i, int k,
                            double *scratch, size_t *step)
{
    const struct steno_node *n = m->c->node[i];
    const struct steno_tensor *t = g->values[n->in[k]].constant;
    int from = steno_cone_find(m->c, n->in[k]);
    *step = n->in[k] == m->c->x || (from >= 0 && m->full[from]);
    if (n->in[k] == m->c->x)
        return m->x;
    if (from >= 0)
        return m->out + from * m->n;
    *step = steno_numel(t) > 1;
    for (size_t e = 0; e < steno_numel(t); e++)
        scratch[e] = (double)((const float *)t->data)[e];
    return scratch;
}

static bool elementwise(const struct steno_graph *g, struct norm *m, int i, double *scratch)
{
    const struct steno_node *n = m->c->node[i];
    const double *in[3] = {NULL};
    size_t step[3] = {0};
    for (int k = 0; k < n->n_in; k++) {
        if (n->in[k] == STENO_NONE)
            continue;
        in[k] = source(g, m, i, k, scratch + k * m->n, &step[k]);
        m->full[i] = m->full[i] || step[k];
    }
    for (int64_t e = 0; e < (m->full[i] ? m->n : 1); e++) {
        double v[3] = {0};
        for (int k = 0; k < n->n_in; k++)
            v[k] = in[k] ? in[k][step[k] * (size_t)e] : 0;
        m->out[i * m->n + e] = steno_cone_value(m->c, i, v);
    }
    return true;
}

static bool reduced(const struct steno_graph *g, struct norm *m, int i, double *scratch)
{
    const struct steno_node *n = m->c->node[i];
    size_t step;
    const double *x = source(g, m, i, 0, scratch, &step);
    double *y = m->out + i * m->n;
    if (!step)
        return false; /* the mean of one number is not in any pattern */
    if (steno_pass_is(n, "LayerNormalization")) {
        const float *gamma = steno_pass_vector(g, n->in[1], m->n);
        const float *beta =
            n->n_in > 2 && n->in[2] != STENO_NONE ? steno_pass_vector(g, n->in[2], m->n) : NULL;
        normalise(x, y, m->n, false, (double)steno_node_float(n, "epsilon", 1e-5f));
        for (int64_t e = 0; e < m->n; e++)
            y[e] = y[e] * (double)gamma[e] + (beta ? (double)beta[e] : 0);
        m->full[i] = true;
        return true;
    }
    y[0] = steno_cone_f32(mean(x, m->n) * (steno_pass_is(n, "ReduceSum") ? (double)m->n : 1));
    return true;
}

/* Compute the cone's result for m->x in m->y; false if it is not a row. */
static bool evaluate(const struct steno_graph *g, struct norm *m)
{
    double *scratch = m->out + m->c->n * m->n;
    for (int i = m->c->n - 1; i >= 0; i--) {
        m->full[i] = false;
        if (!(m->c->code[i] ? elementwise(g, m, i, scratch) : reduced(g, m, i, scratch)))
            return false;
    }
    memcpy(m->y, m->out, (size_t)m->n * sizeof *m->y);
    return m->full[0];
}

/* Fill m->x for row number r: numbers in [-1, 1] times `size`, with an offset. */
static void fill(struct norm *m, uint32_t r, double size)
{
    uint32_t s = 2463534242u + r * 7919u;
    for (int64_t i = 0; i < m->n; i++) {
        s ^= s << 13; /* xorshift32, Marsaglia 2003 */
        s ^= s >> 17;
        s ^= s << 5;
        m->x[i] = size * ((double)s / 2147483648.0 - 1 + 0.25 * r);
    }
}

/* Fit gamma and beta by least squares over some rows; false if a column did not vary. */
static bool fit(const struct steno_graph *g, struct norm *m)
{
    double *sum = calloc((size_t)m->n * 4, sizeof *sum); /* sums of z, y, z z, z y */
    bool ok = sum != NULL;
    for (uint32_t r = 0; ok && r < FIT_ROWS; r++) {
        fill(m, r, 1);
        normalise(m->x, m->z, m->n, m->rms, m->eps);
        ok = evaluate(g, m);
        for (int64_t i = 0; i < m->n; i++) {
            sum[4 * i] += m->z[i];
            sum[4 * i + 1] += m->y[i];
            sum[4 * i + 2] += m->z[i] * m->z[i];
            sum[4 * i + 3] += m->z[i] * m->y[i];
        }
    }
    for (int64_t i = 0; ok && i < m->n; i++) {
        const double *s = sum + 4 * i;
        double zz = s[2] - s[0] * s[0] / FIT_ROWS, zy = s[3] - s[0] * s[1] / FIT_ROWS;
        m->gamma[i] = zy / zz;
        m->beta[i] = (s[1] - m->gamma[i] * s[0]) / FIT_ROWS;
        if (fabs(m->beta[i]) < 1e-10 * (1 + fabs(m->gamma[i])))
            m->beta[i] = 0;
        ok = zz > 1e-6 && isfinite(m->gamma[i]) && isfinite(m->beta[i]) &&
             (!m->rms || m->beta[i] == 0);
    }
    free(sum);
    return ok;
}

/* Check other rows: of the usual size, so small that eps matters, and large. */
static bool agrees(const struct steno_graph *g, struct norm *m)
{
    double size[CHECK_ROWS] = {1, sqrt(m->eps), 100};
    for (uint32_t r = 0; r < CHECK_ROWS; r++) {
        fill(m, FIT_ROWS + r, size[r]);
        normalise(m->x, m->z, m->n, m->rms, m->eps);
        if (!evaluate(g, m))
            return false;
        for (int64_t i = 0; i < m->n; i++) {
            double want = m->gamma[i] * m->z[i] + m->beta[i];
            if (!(fabs(m->y[i] - want) <= 1e-6 * fmax(1, fabs(want))))
                return false;
        }
    }
    return true;
}

/* ---- finding it ---- */

/* Collect the numbers that may be eps: those that are added to something. */
static int epsilons(const struct steno_graph *g, const struct steno_cone *c, double *eps)
{
    int n = 0;
    for (int i = 0; i < c->n && n < MAX_EPS; i++) {
        double v;
        if (steno_pass_is(c->node[i], "LayerNormalization"))
            eps[n++] = (double)steno_node_float(c->node[i], "epsilon", 1e-5f);
        for (int k = 0; steno_pass_is(c->node[i], "Add") && k < 2 && n < MAX_EPS; k++)
            if (c->node[i]->in[k] != STENO_NONE && steno_pass_scalar(g, c->node[i]->in[k], &v) &&
                v > 0 && v < 0.1)
                eps[n++] = v;
    }
    return n;
}

static bool worth_a_try(const struct steno_cone *c)
{
    int means = 0, roots = 0;
    for (int i = 0; i < c->n; i++) {
        means += !strncmp(c->node[i]->op_type, "Reduce", 6);
        roots += steno_pass_is(c->node[i], "Sqrt") || steno_pass_is(c->node[i], "Pow");
        if (steno_pass_is(c->node[i], "LayerNormalization"))
            return c->n > 1; /* with factors and summands after it */
    }
    return means > 0 && roots > 0;
}

/* True if the cone in m->c is a normalisation; sets eps, gamma, beta. */
static bool matches(const struct steno_graph *g, struct norm *m)
{
    double eps[MAX_EPS];
    int n = epsilons(g, m->c, eps);
    for (int i = 0; i < n; i++) {
        m->eps = eps[i];
        if (fit(g, m) && agrees(g, m))
            return true;
    }
    return false;
}

static bool buffers(struct norm *m)
{
    double *p = calloc((size_t)m->n * (STENO_CONE_MAX + 8), sizeof *p);
    if (!p)
        return false;
    m->x = p;
    m->y = p + m->n;
    m->z = p + 2 * m->n;
    m->gamma = p + 3 * m->n;
    m->beta = p + 4 * m->n;
    m->out = p + 5 * m->n; /* three rows of scratch follow */
    return true;
}

static steno_status vector(struct steno_graph *g, const double *v, int64_t n, const char *name,
                           steno_value_id *out, steno_err *err)
{
    struct steno_tensor t = {.dtype = STENO_F32, .shape = {.rank = 1, .dim = {n}}};
    float *p = steno_aligned_alloc((size_t)n * sizeof *p);
    steno_status st;
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for a constant");
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)v[i];
    t.data = p;
    st = steno_graph_take_const(g, name, &t, out, err);
    if (st)
        steno_aligned_free(p);
    return st;
}

static steno_status replace(struct steno_graph *g, const struct norm *m, steno_err *err)
{
    const char *name = m->c->node[0]->name;
    steno_value_id out = m->c->node[0]->out[0], gamma, beta = STENO_NONE;
    struct steno_node *y;
    bool shift = false;
    steno_status st = vector(g, m->gamma, m->n, "gamma", &gamma, err);
    for (int64_t i = 0; i < m->n; i++)
        shift = shift || m->beta[i] != 0;
    if (!st && shift)
        st = vector(g, m->beta, m->n, "beta", &beta, err);
    if (st)
        return st;
    for (int i = 0; i < m->c->n; i++)
        m->c->node[i]->dead = true;
    y = steno_pass_add_node(g, "", m->rms ? "RMSNormalization" : "LayerNormalization",
                            m->rms ? 23 : 17, name, m->rms ? 2 : 3, 1, 2, err);
    if (!y)
        return STENO_ERR_NOMEM;
    steno_pass_set_int(g, y, 0, "axis", -1);
    steno_pass_set_float(g, y, 1, "epsilon", (float)m->eps);
    y->in[0] = m->c->x;
    y->in[1] = gamma;
    if (!m->rms)
        y->in[2] = beta;
    y->out[0] = out;
    return STENO_OK;
}

/* Widen the cone above `end` while it may be a normalisation; replace the first cone that is
 * one. */
static steno_status try_end(struct steno_graph *g, struct steno_node *end, bool rms, int *changed,
                            steno_err *err)
{
    struct steno_cone c = {.takes = takes, .number = number};
    struct norm m = {.c = &c, .rms = rms};
    steno_status st = STENO_OK;
    steno_value_id last;
    bool found = false;
    steno_cone_start(&c, end);
    m.n = row_length(g, &c);
    if (m.n < 2 || g->values[end->out[0]].dtype != STENO_F32)
        return STENO_OK;
    do {
        if (steno_cone_leaves(g, &c, &last) != 1 || !worth_a_try(&c) ||
            g->values[last].dtype != STENO_F32 || !steno_pass_same_shape(g, last, end->out[0]))
            continue;
        c.x = last;
        if (!m.x && !buffers(&m))
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
        found = matches(g, &m);
    } while (!found && last != STENO_NONE && steno_cone_widen(g, &c, last));
    if (found) {
        st = replace(g, &m, err);
        ++*changed;
    }
    free(m.x);
    return st;
}

steno_status steno_pass_norms(struct steno_graph *g, bool rms, int *changed, steno_err *err)
{
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) { /* from the end: finds the whole chain */
        const struct steno_node *n = &g->nodes[i];
        steno_status st;
        if (n->dead || n->out[0] == STENO_NONE ||
            (!steno_pass_is(n, "Add") && !steno_pass_is(n, "Sub") && !steno_pass_is(n, "Mul") &&
             !steno_pass_is(n, "Div")))
            continue;
        st = try_end(g, &g->nodes[i], rms, changed, err);
        if (st)
            return st;
    }
    return STENO_OK;
}
