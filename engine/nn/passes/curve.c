#include "nn/passes/curve.h"

#include "nn/passes/cone.h"

#include <math.h>

#define MAX_BREAKS 12

/* ---- the cone's value ---- */

/* The cone's result if its input is x. equal: the node of an Equal that counts as true, or -1. */
static double evaluate(const struct steno_graph *g, const struct steno_cone *c, double x, int equal)
{
    double out[STENO_CONE_NODES] = {0};
    for (int i = c->n - 1; i >= 0; i--) {
        const struct steno_node *n = c->node[i];
        double in[3] = {0};
        for (int k = 0; k < n->n_in; k++) {
            int from = n->in[k] == STENO_NONE ? -1 : steno_cone_find(c, n->in[k]);
            if (n->in[k] == c->x)
                in[k] = x;
            else if (from >= 0)
                in[k] = out[from];
            else if (n->in[k] != STENO_NONE)
                (void)steno_pass_scalar(g, n->in[k], &in[k]);
        }
        out[i] = i == equal ? 1 : steno_cone_value(c, i, in);
    }
    return out[0];
}

/* ---- where the cone may break ---- */

/* Trials decide only between analytic functions. So the real line is cut where a piecewise operator
 * (Clip, Max, Abs, Equal ...) changes its branch, which must be a root of an affine function of x,
 * and within a piece no operator may have a pole or a branch point (Div, Log, Sqrt of what is not
 * positive). A cone for which that can't be shown is not a curve. */
enum sign { ANY, NONNEGATIVE, POSITIVE };

struct part { /* what is known of a value on a piece */
    bool affine;
    double a, b; /* a x + b */
    enum sign sign;
};

struct walk {
    const struct steno_graph *g;
    const struct steno_cone *c;
    double at[MAX_BREAKS]; /* breakpoints */
    int equal[MAX_BREAKS]; /* the node of an Equal that is true there, or -1 */
    int n;
};

struct piece {
    double lo, hi;
    struct part v[STENO_CONE_NODES];
};

static struct part affine(double a, double b, const struct piece *p)
{
    double lo = a == 0 ? b : a * p->lo + b, hi = a == 0 ? b : a * p->hi + b;
    double least = fmin(lo, hi);
    return (struct part){true, a, b, least > 0 ? POSITIVE : least >= 0 ? NONNEGATIVE : ANY};
}

static struct part curve_input(const struct walk *w, const struct piece *p,
                               const struct steno_node *n, int k)
{
    steno_value_id v = steno_node_in(n, k);
    int from = v == STENO_NONE ? -1 : steno_cone_find(w->c, v);
    double c = 0;
    if (v == w->c->x && v != STENO_NONE)
        return affine(1, 0, p);
    if (from >= 0)
        return p->v[from];
    (void)steno_pass_scalar(w->g, v, &c);
    return affine(0, c, p);
}

static bool walk(struct walk *w, const struct piece *p, int i);

/* True if `d` does not change its sign within p: *side gets it. Otherwise cuts p there and walks on
 * from node i; *st is the result. */
static bool one_sided(struct walk *w, const struct piece *p, int i, struct part d, int equal,
                      double *side, bool *st)
{
    double root, middle;
    *st = false;
    if (!d.affine)
        return false;
    root = d.a == 0 ? p->lo : -d.b / d.a;
    if (root > p->lo && root < p->hi) {
        struct piece half = *p;
        if (w->n == MAX_BREAKS)
            return false;
        w->at[w->n] = root;
        w->equal[w->n++] = equal;
        half.hi = root;
        *st = walk(w, &half, i);
        half = *p;
        half.lo = root;
        *st = *st && walk(w, &half, i);
        return false;
    }
    middle = isinf(p->lo) && isinf(p->hi) ? 0
             : isinf(p->lo)               ? p->hi - 1 - fabs(p->hi)
             : isinf(p->hi)               ? p->lo + 1 + fabs(p->lo)
                                          : (p->lo + p->hi) / 2;
    *side = d.a * middle + d.b;
    return true;
}

static struct part minus(struct part a, struct part b, const struct piece *p)
{
    return a.affine && b.affine ? affine(a.a - b.a, a.b - b.b, p) : (struct part){0};
}

static struct part arithmetic(enum steno_cone_op op, struct part a, struct part b,
                              const struct piece *p)
{
    enum sign least = a.sign < b.sign ? a.sign : b.sign;
    switch (op) {
    case STENO_CONE_ADD:
        if (a.affine && b.affine)
            return affine(a.a + b.a, a.b + b.b, p);
        return (struct part){.sign = !least ? ANY : a.sign > b.sign ? a.sign : b.sign};
    case STENO_CONE_SUB:
        return minus(a, b, p);
    default: /* a product */
        if (a.affine && b.affine && (a.a == 0 || b.a == 0))
            return affine(a.a * b.b + b.a * a.b, a.b * b.b, p);
        return (struct part){.sign = least};
    }
}

/* What n computes of smooth operators; false if it may have a pole or a branch point. */
static bool smooth(enum steno_cone_op op, const struct steno_node *n, struct part a, struct part b,
                   const struct piece *p, struct part *y)
{
    *y = (struct part){0};
    switch (op) {
    case STENO_CONE_ERF:
    case STENO_CONE_TANH:
        return true;
    case STENO_CONE_SIGMOID:
    case STENO_CONE_EXP:
    case STENO_CONE_SOFTPLUS:
        y->sign = POSITIVE;
        return true;
    case STENO_CONE_LOG:
        return a.sign == POSITIVE;
    case STENO_CONE_SQRT:
    case STENO_CONE_RECIPROCAL:
        y->sign = POSITIVE;
        return a.sign == POSITIVE;
    case STENO_CONE_NEG:
        *y = minus(affine(0, 0, p), a, p);
        return true;
    case STENO_CONE_ADD:
    case STENO_CONE_SUB:
    case STENO_CONE_MUL:
        *y = arithmetic(op, a, b, p);
        if (op == STENO_CONE_MUL && n->in[0] == n->in[1] && y->sign == ANY)
            y->sign = NONNEGATIVE;
        return true;
    case STENO_CONE_DIV:
        if (b.affine && b.a == 0 && b.b != 0)
            *y = arithmetic(STENO_CONE_MUL, a, affine(0, 1 / b.b, p), p);
        else
            y->sign = a.sign;
        return b.sign == POSITIVE || (b.affine && b.a == 0 && b.b != 0);
    case STENO_CONE_POW:
        y->sign = a.sign == POSITIVE ? POSITIVE : ANY;
        if (b.affine && b.a == 0 && b.b >= 0 && b.b == floor(b.b)) {
            if (fmod(b.b, 2) == 0 && y->sign == ANY)
                y->sign = NONNEGATIVE;
            return true;
        }
        return a.sign == POSITIVE;
    default:
        return false;
    }
}

/* Limits of a Clip: false when there is none on this side. */
static bool limit(const struct walk *w, const struct steno_node *n, int side, double *v)
{
    const char *name = side ? "max" : "min";
    if (n->opset < 11) {
        *v = (double)steno_node_float(n, name, 0);
        return steno_node_attr(n, name) != NULL;
    }
    return n->n_in > 1 + side && n->in[1 + side] != STENO_NONE &&
           steno_pass_scalar(w->g, n->in[1 + side], v);
}

/* Keep a within limits, one after the other: *y is what is left on piece p. False: *st decides. */
static bool limited(struct walk *w, const struct piece *p, int i, struct part a,
                    const double lim[2], const bool has[2], struct part *y, bool *st)
{
    *y = a;
    for (int k = 0; k < 2; k++) {
        double side;
        if (!has[k])
            continue;
        if (!one_sided(w, p, i, minus(*y, affine(0, lim[k], p), p), -1, &side, st))
            return false;
        if (k ? side > 0 : side < 0)
            *y = affine(0, lim[k], p);
    }
    return true;
}

/* Go on with node i on piece p; true if the cone is analytic on each piece of it. */
static bool walk(struct walk *w, const struct piece *from, int i)
{
    struct piece p = *from;
    for (; i >= 0; i--) {
        const struct steno_node *n = w->c->node[i];
        struct part a = curve_input(w, &p, n, 0), b = curve_input(w, &p, n, 1), d, *y = &p.v[i];
        double side, x;
        bool st;
        switch ((enum steno_cone_op)w->c->code[i]) {
        case STENO_CONE_RELU:
        case STENO_CONE_ABS:
            if (a.sign != ANY) {
                *y = a;
                break;
            }
            if (!one_sided(w, &p, i, a, -1, &side, &st))
                return st;
            *y = side >= 0                               ? a
                 : w->c->code[i] == (int)STENO_CONE_RELU ? affine(0, 0, &p)
                                                         : minus(affine(0, 0, &p), a, &p);
            break;
        case STENO_CONE_MAX:
        case STENO_CONE_MIN:
            if (!one_sided(w, &p, i, minus(a, b, &p), -1, &side, &st))
                return st;
            *y = (side > 0) == (w->c->code[i] == (int)STENO_CONE_MAX) ? a : b;
            break;
        case STENO_CONE_CLIP: {
            double lim[2] = {0};
            bool has[2] = {limit(w, n, 0, &lim[0]), limit(w, n, 1, &lim[1])};
            if (!limited(w, &p, i, a, lim, has, &d, &st))
                return st;
            *y = d;
            break;
        }
        case STENO_CONE_HARD_SIGMOID: {
            double alpha = (double)steno_node_float(n, "alpha", 0.2f);
            double beta = (double)steno_node_float(n, "beta", 0.5f);
            d = a.affine ? affine(alpha * a.a, alpha * a.b + beta, &p) : a;
            if (!limited(w, &p, i, d, (const double[2]){0, 1}, (const bool[2]){true, true}, &d,
                         &st))
                return st;
            *y = d;
            break;
        }
        case STENO_CONE_EQUAL:
            *y = (struct part){0}; /* of infinity: true only beyond the range of f32 */
            if (steno_pass_scalar(w->g, n->in[0], &x) || steno_pass_scalar(w->g, n->in[1], &x))
                if (isinf(x))
                    break;
            if (!one_sided(w, &p, i, minus(a, b, &p), i, &side, &st))
                return st;
            *y = affine(0, side == 0, &p);
            break;
        case STENO_CONE_WHERE:
            *y = (struct part){0};
            if (steno_cone_find(w->c, n->in[0]) < 0)
                return false;
            if (a.affine)
                *y = a.b != 0 ? b : curve_input(w, &p, n, 2);
            break;
        default:
            if (!smooth((enum steno_cone_op)w->c->code[i], n, a, b, &p, y))
                return false;
        }
    }
    return true;
}

/* ---- comparing ---- */

struct trial {
    const struct steno_graph *g;
    const struct steno_cone *c;
    const struct steno_curve *f;
    double p;
};

/* Constants that were rounded to f32 differ by less than the bound. */
static bool same_at(const struct trial *t, double x, int equal)
{
    double want = steno_cone_f32(t->f->f(x, t->p)), have = evaluate(t->g, t->c, x, equal);
    double scale = fmax(t->f->scale, fmax(fabs(x), fabs(want)));
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(have) : have == want;
    return fabs(have - want) <= 5e-7 * scale;
}

/* x, the floats beside it, and numbers near it */
static bool same_around(const struct trial *t, double x)
{
    float f = (float)x;
    if (!isfinite(f))
        return true;
    return same_at(t, (double)f, -1) && same_at(t, (double)nextafterf(f, -HUGE_VALF), -1) &&
           same_at(t, (double)nextafterf(f, HUGE_VALF), -1) &&
           same_at(t, x - 1e-3 * fmax(1, fabs(x)), -1) &&
           same_at(t, x + 1e-3 * fmax(1, fabs(x)), -1);
}

/* Points 1/4 apart where the curves bend, 2 apart where an exponential leaves the range of f32,
 * then magnitudes from 1e-30 to 1e30. (Beyond, a factor of 2 in another place overflows.) */
static bool same_on_grid(const struct trial *t)
{
    for (int i = -64; i < 64; i++)
        if (!same_at(t, i * 0.25 + 0.01, -1))
            return false;
    for (double x = 16; x < 128; x += 2)
        if (!same_at(t, x, -1) || !same_at(t, -x, -1))
            return false;
    for (double x = 128; x < 4e30; x *= 4)
        if (!same_at(t, x, -1) || !same_at(t, -x, -1))
            return false;
    for (double x = 0.1; x > 1e-31; x /= 10)
        if (!same_at(t, x, -1) || !same_at(t, -x, -1))
            return false;
    return same_at(t, 0, -1) && same_at(t, HUGE_VAL, -1) && same_at(t, -HUGE_VAL, -1) &&
           same_at(t, (double)NAN, -1);
}

/* Around each breakpoint, between each two, and around each constant of the cone. */
static bool same_at_breaks(const struct trial *t, const struct walk *w)
{
    double c;
    for (int i = 0; i < w->n; i++) {
        if (!same_around(t, w->at[i]) || (w->equal[i] >= 0 && !same_at(t, w->at[i], w->equal[i])))
            return false;
        for (int k = 0; k < i; k++)
            for (int s = 1; s < 16; s++)
                if (!same_at(t, w->at[k] + (w->at[i] - w->at[k]) * s / 16, -1))
                    return false;
    }
    for (int i = 0; i < t->c->n; i++)
        for (int k = 0; k < t->c->node[i]->n_in; k++)
            if (t->c->node[i]->in[k] != t->c->x &&
                steno_pass_scalar(t->g, t->c->node[i]->in[k], &c) &&
                (!same_around(t, c) || !same_around(t, -c)))
                return false;
    return true;
}

static bool curve_matches(const struct steno_graph *g, const struct steno_cone *c,
                          const struct steno_curve *f, double *p)
{
    struct trial t = {g, c, f, f->find ? f->find(evaluate(g, c, 1, -1)) : 0};
    struct walk w = {.g = g, .c = c};
    struct piece all = {.lo = -HUGE_VAL, .hi = HUGE_VAL};
    *p = t.p;
    return fabs(t.p) < 1e6 && same_on_grid(&t) && walk(&w, &all, c->n - 1) &&
           same_at_breaks(&t, &w);
}

/* ---- finding it ---- */

/* A constant of one element that does not raise the rank of the other operand. */
static bool curve_number(const struct steno_graph *g, const struct steno_cone *c, steno_value_id v)
{
    const struct steno_tensor *t = g->values[v].constant;
    int rank = g->values[c->node[0]->out[0]].shape.rank;
    return t && t->data && t->dtype == STENO_F32 && steno_numel(t) == 1 && rank >= 0 &&
           t->shape.rank <= rank;
}

static bool curve_takes(const struct steno_graph *g, const struct steno_cone *c,
                        const struct steno_node *n)
{
    (void)g;
    (void)c;
    return steno_cone_code(n) != 0;
}

/* The largest cone above `end` that is one of the curves. */
static const struct steno_curve *find_curve(struct steno_graph *g, struct steno_node *end,
                                            const struct steno_curve *curves,
                                            struct steno_cone *best, double *p)
{
    const struct steno_curve *found = NULL;
    struct steno_cone c = {.takes = curve_takes, .number = curve_number};
    steno_value_id last;
    double param;
    steno_cone_start(&c, end);
    do {
        if (steno_cone_leaves(g, &c, &last) == 1 && c.n > 1 && g->values[last].dtype == STENO_F32 &&
            steno_pass_same_shape(g, last, end->out[0])) {
            c.x = last;
            for (const struct steno_curve *f = curves; f->type; f++)
                if (steno_op_find(f->domain ? f->domain : "", f->type, f->opset) &&
                    curve_matches(g, &c, f, &param)) {
                    found = f;
                    *best = c;
                    *p = param;
                }
        }
    } while (last != STENO_NONE && steno_cone_widen(g, &c, last));
    return found;
}

static steno_status replace_curve(struct steno_graph *g, const struct steno_cone *c,
                                  const struct steno_curve *f, double p, steno_err *err)
{
    struct steno_attr a[2];
    int n = 0;
    for (int i = 0; i < c->n; i++)
        c->node[i]->dead = true;
    for (int i = 0; i < 2 && f->fixed[0].name; i++)
        a[n++] = (struct steno_attr)STENO_FLOAT_ATTR(f->fixed[i].name, f->fixed[i].v);
    if (f->form)
        a[n++] =
            (struct steno_attr){.name = "approximate", .kind = STENO_ATTR_STRING, .s = f->form};
    else if (f->attr && fabs(p - 1) > 1e-6)
        a[n++] = (struct steno_attr)STENO_FLOAT_ATTR(f->attr, (float)p);
    return steno_pass_put(g, c->node[0]->name,
                          STENO_NODE(f->domain ? f->domain : "", f->type, f->opset,
                                     .in = STENO_VALUES(c->x),
                                     .out = STENO_VALUES(c->node[0]->out[0]), .attr = {a, n}),
                          err);
}

steno_status steno_pass_curves(struct steno_graph *g, const struct steno_curve *curves,
                               int *changed, steno_err *err)
{
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) { /* from the end: the largest cone first */
        struct steno_cone c;
        const struct steno_curve *f;
        double p = 0;
        steno_status st;
        if (g->nodes[i].dead || !steno_cone_code(&g->nodes[i]) ||
            g->nodes[i].out[0] == STENO_NONE || !(f = find_curve(g, &g->nodes[i], curves, &c, &p)))
            continue;
        st = replace_curve(g, &c, f, p, err);
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
