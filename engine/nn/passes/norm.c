#include "nn/passes/norm.h"

#include "base/arena.h"
#include "nn/passes/cone.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Each node's result is a sum of terms c x^i m^j q^k s^l: x is an element of the row, m the row's
 * mean, q the mean of its squares, s the root sqrt(q - m^2 + eps), or sqrt(q + eps). A node outside
 * this algebra (Clip, Min, Cast, a second root) ends the attempt. So a match holds for every x, and
 * no row has to be tried. */
#define MAX_TERMS 12
#define MAX_POWER 4
#define ROUNDING 3e-7 /* relative, in f32 constants such as 1 / n */

struct term {
    int x, m, q, s;
    double one;        /* the factor, if row is NULL */
    const double *row; /* [n]: a factor for each element of the row */
};

struct form {
    int n;
    struct term t[MAX_TERMS];
};

enum root { NO_ROOT, LAYER, RMS };

struct norm {
    struct steno_cone *c;
    steno_arena *rows;
    int64_t n; /* length of a row */
    enum root root;
    double eps;
    const double *gamma, *beta; /* [n]; beta is NULL without a shift */
    struct form *out;           /* results of the cone's nodes */
    bool short_of_memory;
};

static int64_t row_length(const struct steno_graph *g, const struct steno_cone *c)
{
    const struct steno_shape *s = &g->values[c->node[0]->out[0]].shape;
    return s->rank >= 1 ? s->dim[s->rank - 1] : 0;
}

/* One element, or one per element of a row; at most as many axes as the rows have. */
static bool norm_number(const struct steno_graph *g, const struct steno_cone *c, steno_value_id v)
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
    return steno_pass_scalar(g, steno_node_in(n, 1), &v) && (v == -1 || v == rank - 1) &&
           steno_numel(g->values[n->in[1]].constant) == 1;
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
           steno_pass_vector_or_none(g, n, 2, g->values[n->in[0]].shape.dim[rank - 1]);
}

/* Elementwise operators of the algebra. Piecewise ones (Clip, Min, Max, Relu, Abs) are not. */
static bool is_arithmetic(const struct steno_node *n)
{
    return steno_pass_is_any(n, "Add Sub Mul Div Neg Pow Sqrt Reciprocal") && steno_cone_code(n);
}

static bool norm_takes(const struct steno_graph *g, const struct steno_cone *c,
                       const struct steno_node *n)
{
    (void)c;
    return is_arithmetic(n) || reduces_last(g, n) || normalises_last(g, n);
}

/* ---- factors: a norm_number, or one for each element of a row ---- */

static double at(const struct term *t, int64_t i)
{
    return t->row ? t->row[i] : t->one;
}

static double *new_row(struct norm *m)
{
    double *r = steno_arena_calloc(m->rows, (size_t)m->n, sizeof *r);
    m->short_of_memory = m->short_of_memory || !r;
    return r;
}

/* Add b's factor to a's. A difference within rounding is zero, for each element. */
static bool factor_add(struct norm *m, struct term *a, const struct term *b)
{
    int64_t count = a->row || b->row ? m->n : 1;
    double *r = count > 1 ? new_row(m) : &a->one;
    if (!r)
        return false;
    for (int64_t i = 0; i < count; i++) {
        double v = at(a, i), w = at(b, i);
        r[i] = fabs(v + w) <= ROUNDING * fmax(fabs(v), fabs(w)) ? 0 : v + w;
    }
    a->row = count > 1 ? r : NULL;
    return true;
}

static bool factor_mul(struct norm *m, struct term *a, const struct term *b)
{
    int64_t count = a->row || b->row ? m->n : 1;
    double *r = count > 1 ? new_row(m) : &a->one;
    if (!r)
        return false;
    for (int64_t i = 0; i < count; i++)
        r[i] = at(a, i) * at(b, i);
    a->row = count > 1 ? r : NULL;
    return true;
}

static bool is_zero(const struct norm *m, const struct term *t)
{
    for (int64_t i = 0; i < (t->row ? m->n : 1); i++)
        if (at(t, i) != 0)
            return false;
    return true;
}

/* ---- the algebra ---- */

static bool same_powers(const struct term *a, const struct term *b)
{
    return a->x == b->x && a->m == b->m && a->q == b->q && a->s == b->s;
}

/* f += t */
static bool add_term(struct norm *m, struct form *f, const struct term *t)
{
    int i = 0;
    while (i < f->n && !same_powers(&f->t[i], t))
        i++;
    if (i == f->n) {
        if (f->n == MAX_TERMS)
            return false;
        f->t[f->n++] = *t;
    } else if (!factor_add(m, &f->t[i], t)) {
        return false;
    }
    if (is_zero(m, &f->t[i]))
        f->t[i] = f->t[--f->n];
    return true;
}

static bool scale(struct norm *m, struct form *f, double by)
{
    for (int i = 0; i < f->n; i++)
        if (!factor_mul(m, &f->t[i], &(struct term){.one = by}))
            return false;
    return true;
}

static bool add_norm(struct norm *m, const struct form *a, const struct form *b, double sign,
                     struct form *out)
{
    struct form c = *b;
    *out = *a;
    if (!scale(m, &c, sign))
        return false;
    for (int i = 0; i < c.n; i++)
        if (!add_term(m, out, &c.t[i]))
            return false;
    return true;
}

static bool multiply_norm(struct norm *m, const struct form *a, const struct form *b,
                          struct form *out)
{
    struct form y = {0};
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            struct term t = a->t[i];
            t.x += b->t[k].x;
            t.m += b->t[k].m;
            t.q += b->t[k].q;
            t.s += b->t[k].s;
            if (t.x > MAX_POWER || t.m > MAX_POWER || t.q > MAX_POWER || abs(t.s) > MAX_POWER ||
                !factor_mul(m, &t, &b->t[k]) || !add_term(m, &y, &t))
                return false;
        }
    *out = y;
    return true;
}

/* 1 / f for a power of the root with a factor; the root is positive. */
static bool invert(struct norm *m, const struct form *f, struct form *out)
{
    struct term t = f->t[0];
    int64_t count = t.row ? m->n : 1;
    double *r;
    if (f->n != 1 || t.x || t.m || t.q)
        return false;
    r = t.row ? new_row(m) : &t.one;
    if (!r)
        return false;
    for (int64_t i = 0; i < count; i++) {
        r[i] = 1 / at(&f->t[0], i);
        if (!isfinite(r[i]))
            return false;
    }
    t.row = t.row ? r : NULL;
    t.s = -t.s;
    *out = (struct form){.n = 1, .t = {t}};
    return true;
}

/* Far from 1, x times a factor would leave the range of f32 where the operator does not. */
static bool is_moderate(double v)
{
    return fabs(v) > 1e-8 && fabs(v) < 1e8;
}

/* The mean of f over the row, `times` a number. */
static bool mean(struct norm *m, const struct form *f, double times, struct form *out)
{
    bool row = false;
    *out = (struct form){0};
    for (int i = 0; i < f->n; i++) {
        struct term t = f->t[i];
        if (t.row || t.x > 2 || !is_moderate(t.one))
            return false;
        row = row || t.x;
        t.m += t.x == 1;
        t.q += t.x == 2;
        t.x = 0;
        t.one *= times;
        if (!add_term(m, out, &t))
            return false;
    }
    return row; /* the mean of one number is not in any pattern */
}

/* Is s the root of the cone, or the first one found? */
static bool agree_on_root(struct norm *m, enum root root, double eps)
{
    if (m->root == NO_ROOT) {
        m->root = root;
        m->eps = eps;
    }
    return m->root == root && fabs(m->eps - eps) <= ROUNDING * eps;
}

/* f is a q [- a m^2] + e: its root is sqrt(a) s with eps = e / a. */
static bool root_of(struct norm *m, const struct form *f, struct form *out)
{
    double a = 0, b = 0, e = 0;
    for (int i = 0; i < f->n; i++) {
        const struct term *t = &f->t[i];
        double *to = t->x || t->s                     ? NULL
                     : t->q == 1 && !t->m             ? &a
                     : !t->q && t->m == 2             ? &b
                     : !t->q && !t->m && t->one > 0.0 ? &e
                                                      : NULL;
        if (!to || t->row)
            return false;
        *to = t->one;
    }
    if (!is_moderate(a) || a < 0 || !(e > 0) || !(e / a >= (double)FLT_MIN) ||
        (b != 0 && !(fabs(a + b) <= ROUNDING * a)) ||
        !agree_on_root(m, b != 0 ? LAYER : RMS, e / a))
        return false;
    *out = (struct form){.n = 1, .t = {{.s = 1, .one = sqrt(a)}}};
    return true;
}

static bool power(struct norm *m, const struct form *f, const struct form *exponent,
                  struct form *out)
{
    double p = exponent->n == 1 && !exponent->t[0].row ? exponent->t[0].one : 0;
    struct form y;
    if (exponent->n == 1 &&
        (exponent->t[0].x || exponent->t[0].m || exponent->t[0].q || exponent->t[0].s))
        return false;
    if (p == 2)
        return multiply_norm(m, f, f, out);
    if (p == 0.5)
        return root_of(m, f, out);
    if (p == -0.5)
        return root_of(m, f, &y) && invert(m, &y, out);
    return p == -1 && invert(m, f, out);
}

/* ---- the forms of a cone ---- */

static bool norm_constant(const struct steno_graph *g, struct norm *m, steno_value_id v,
                          struct form *out)
{
    const struct steno_tensor *t = g->values[v].constant;
    struct term c = {0};
    double *r;
    if (steno_pass_scalar(g, v, &c.one)) {
        *out = (struct form){.n = c.one != 0, .t = {c}};
        return isfinite(c.one);
    }
    r = new_row(m);
    if (!r)
        return false;
    for (int64_t i = 0; i < m->n; i++) {
        float f;
        memcpy(&f, (const char *)t->data + (size_t)i * sizeof f, sizeof f);
        r[i] = (double)f;
        if (!isfinite(f))
            return false;
    }
    c.row = r;
    *out = (struct form){.n = 1, .t = {c}};
    return true;
}

static bool norm_input(const struct steno_graph *g, struct norm *m, const struct steno_node *n,
                       int k, struct form *out)
{
    int from = steno_cone_find(m->c, n->in[k]);
    if (n->in[k] == m->c->x)
        *out = (struct form){.n = 1, .t = {{.x = 1, .one = 1}}};
    else if (from >= 0)
        *out = m->out[from];
    else
        return n->in[k] != STENO_NONE && norm_constant(g, m, n->in[k], out);
    return true;
}

/* gamma (x - m) / s + beta, of x itself */
static bool normalised(const struct steno_graph *g, struct norm *m, const struct steno_node *n,
                       const struct form *in, struct form *out)
{
    struct form gamma,
        beta = {0}, z = {.n = 2, .t = {{.x = 1, .s = -1, .one = 1}, {.m = 1, .s = -1, .one = -1}}};
    double eps = (double)steno_node_float(n, "epsilon", 1e-5f);
    return in->n == 1 && in->t[0].x == 1 && !in->t[0].m && !in->t[0].q && !in->t[0].s &&
           !in->t[0].row && in->t[0].one == 1 && eps > 0 && agree_on_root(m, LAYER, eps) &&
           norm_constant(g, m, n->in[1], &gamma) &&
           (n->n_in < 3 || n->in[2] == STENO_NONE || norm_constant(g, m, n->in[2], &beta)) &&
           multiply_norm(m, &z, &gamma, &z) && add_norm(m, &z, &beta, 1, out);
}

static bool result(const struct steno_graph *g, struct norm *m, int i)
{
    const struct steno_node *n = m->c->node[i];
    struct form a, b = {0}, *y = &m->out[i];
    if (!norm_input(g, m, n, 0, &a))
        return false;
    if (steno_pass_is(n, "ReduceMean"))
        return mean(m, &a, 1, y);
    if (steno_pass_is(n, "ReduceSum"))
        return mean(m, &a, (double)m->n, y);
    if (steno_pass_is(n, "LayerNormalization"))
        return normalised(g, m, n, &a, y);
    if (steno_cone_inputs(n) > 1 && !norm_input(g, m, n, 1, &b))
        return false;
    if (steno_pass_is_any(n, "Add Sub"))
        return add_norm(m, &a, &b, steno_pass_is(n, "Sub") ? -1 : 1, y);
    if (steno_pass_is(n, "Mul"))
        return multiply_norm(m, &a, &b, y);
    if (steno_pass_is(n, "Div"))
        return invert(m, &b, &b) && multiply_norm(m, &a, &b, y);
    if (steno_pass_is(n, "Neg"))
        return add_norm(m, &(struct form){0}, &a, -1, y);
    if (steno_pass_is(n, "Pow"))
        return power(m, &a, &b, y);
    return steno_pass_is(n, "Sqrt") ? root_of(m, &a, y)
                                    : steno_pass_is(n, "Reciprocal") && invert(m, &a, y);
}

/* The factor of x^i m^j s^l in f, or zero. */
static struct term take_norm(const struct form *f, int x, int mean_power, int s, int *left)
{
    for (int i = 0; i < f->n; i++)
        if (f->t[i].x == x && f->t[i].m == mean_power && !f->t[i].q && f->t[i].s == s) {
            --*left;
            return f->t[i];
        }
    return (struct term){0};
}

static const double *full_row(struct norm *m, const struct term *t)
{
    double *r = new_row(m);
    for (int64_t i = 0; r && i < m->n; i++) {
        r[i] = at(t, i);
        if (!(fabs(r[i]) <= (double)FLT_MAX))
            return NULL;
    }
    return r;
}

/* True if the cone in m->c is gamma (x - m) / s + beta, or gamma x / s; sets root, eps, gamma,
 * beta. */
static bool norm_matches(const struct steno_graph *g, struct norm *m, enum root wanted)
{
    struct term gamma, minus, beta;
    int left;
    steno_arena_reset(m->rows);
    m->root = NO_ROOT;
    for (int i = m->c->n - 1; i >= 0; i--)
        if (!result(g, m, i))
            return false;
    left = m->out[0].n;
    gamma = take_norm(&m->out[0], 1, 0, -1, &left);
    minus = take_norm(&m->out[0], 0, 1, -1, &left);
    beta = take_norm(&m->out[0], 0, 0, 0, &left);
    if (left || m->root != wanted || is_zero(m, &gamma) ||
        (wanted == RMS && (!is_zero(m, &minus) || !is_zero(m, &beta))))
        return false;
    for (int64_t i = 0; wanted == LAYER && i < m->n; i++)
        if (!(fabs(at(&gamma, i) + at(&minus, i)) <= ROUNDING * fabs(at(&gamma, i))))
            return false;
    m->gamma = full_row(m, &gamma);
    m->beta = is_zero(m, &beta) ? NULL : full_row(m, &beta);
    return m->gamma && (m->beta || is_zero(m, &beta));
}

/* ---- finding it ---- */

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

/* A constant of n numbers. STENO_NONE: err is set. */
static steno_value_id vector(struct steno_graph *g, const double *v, int64_t n, const char *name,
                             steno_err *err)
{
    const struct steno_shape s = {.rank = 1, .dim = {n}};
    steno_value_id out = STENO_NONE;
    float *p = steno_graph_new_const(g, name, STENO_F32, &s, &out, err);
    for (int64_t i = 0; p && i < n; i++)
        p[i] = (float)v[i];
    return out;
}

static steno_status replace_norm(struct steno_graph *g, const struct norm *m, steno_err *err)
{
    const bool rms = m->root == RMS;
    const steno_value_id gamma = vector(g, m->gamma, m->n, "gamma", err);
    const steno_value_id beta = m->beta ? vector(g, m->beta, m->n, "beta", err) : STENO_NONE;
    if (gamma == STENO_NONE || (m->beta && beta == STENO_NONE))
        return STENO_ERR_NOMEM;
    for (int i = 0; i < m->c->n; i++)
        m->c->node[i]->dead = true;
    return steno_pass_put(
        g, m->c->node[0]->name,
        STENO_NODE("", rms ? "RMSNormalization" : "LayerNormalization", rms ? 23 : 17,
                   .in = {(const steno_value_id[]){m->c->x, gamma, beta}, rms ? 2 : 3},
                   .out = STENO_VALUES(m->c->node[0]->out[0]),
                   .attr = STENO_ATTRS(STENO_INT_ATTR("axis", -1),
                                       STENO_FLOAT_ATTR("epsilon", (float)m->eps))),
        err);
}

/* Widen the cone above `end` while it may be a normalisation; replace the first cone that is
 * one. */
static steno_status try_end(struct steno_graph *g, struct steno_node *end, struct norm *m,
                            enum root wanted, int *changed, steno_err *err)
{
    struct steno_cone c = {.takes = norm_takes, .number = norm_number};
    steno_value_id last;
    bool found = false;
    steno_cone_start(&c, end);
    m->c = &c;
    m->n = row_length(g, &c);
    if (m->n < 2 || g->values[end->out[0]].dtype != STENO_F32)
        return STENO_OK;
    do {
        if (steno_cone_leaves(g, &c, &last) != 1 || !worth_a_try(&c) ||
            g->values[last].dtype != STENO_F32 || !steno_pass_same_shape(g, last, end->out[0]))
            continue;
        c.x = last;
        found = norm_matches(g, m, wanted);
        if (m->short_of_memory)
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    } while (!found && last != STENO_NONE && steno_cone_widen(g, &c, last));
    if (!found)
        return STENO_OK;
    ++*changed;
    return replace_norm(g, m, err);
}

steno_status steno_pass_norms(struct steno_graph *g, bool rms, int *changed, steno_err *err)
{
    struct form forms[STENO_CONE_NODES];
    struct norm m = {.rows = steno_arena_new(0), .out = forms};
    steno_status st = m.rows ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    for (int32_t i = g->n_nodes - 1; !st && i >= 0; i--) { /* from the end: the whole chain */
        const struct steno_node *n = &g->nodes[i];
        if (!n->dead && n->out[0] != STENO_NONE && (steno_pass_is_any(n, "Add Sub Mul Div")))
            st = try_end(g, &g->nodes[i], &m, rms ? RMS : LAYER, changed, err);
    }
    steno_arena_free(m.rows);
    return st;
}
