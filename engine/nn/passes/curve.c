#include "nn/passes/curve.h"

#include "nn/passes/cone.h"

#include <math.h>

/* The cone's result if its input is x. */
static double evaluate(const struct steno_graph *g, const struct steno_cone *c, double x)
{
    double out[STENO_CONE_MAX] = {0};
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
        out[i] = steno_cone_value(c, i, in);
    }
    return out[0];
}

/* Dense points first, 1/4 apart where the curves bend, then points far out. Constants that were
 * rounded to f32 differ by less than the bound. */
static bool matches(const struct steno_graph *g, const struct steno_cone *c,
                    const struct steno_curve *f, double *p)
{
    *p = f->find ? f->find(evaluate(g, c, 1)) : 0;
    if (!(fabs(*p) < 1e6))
        return false;
    for (int i = 0; i < 160; i++) {
        double x = i < 128 ? (i - 64) * 0.25 + 0.01 : (i % 2 ? -1 : 1) * pow(10, (i - 128) / 2 * 2);
        double want = steno_cone_f32(f->f(x, *p)), have = evaluate(g, c, x);
        if (!(fabs(have - want) <= 2e-6 * fmax(1, fabs(want))))
            return false;
    }
    return true;
}

/* A constant of one element that does not raise the rank of the other operand. */
static bool number(const struct steno_graph *g, const struct steno_cone *c, steno_value_id v)
{
    const struct steno_tensor *t = g->values[v].constant;
    int rank = g->values[c->node[0]->out[0]].shape.rank;
    return t && t->data && t->dtype == STENO_F32 && steno_numel(t) == 1 && rank >= 0 &&
           t->shape.rank <= rank;
}

static bool takes(const struct steno_graph *g, const struct steno_cone *c,
                  const struct steno_node *n)
{
    (void)g;
    (void)c;
    return steno_cone_code(n) != 0;
}

/* The largest cone above `end` that is one of the curves. */
static const struct steno_curve *find(struct steno_graph *g, struct steno_node *end,
                                      const struct steno_curve *curves, struct steno_cone *best,
                                      double *p)
{
    const struct steno_curve *found = NULL;
    struct steno_cone c = {.takes = takes, .number = number};
    steno_value_id last;
    double param;
    steno_cone_start(&c, end);
    do {
        if (steno_cone_leaves(g, &c, &last) == 1 && c.n > 1 && g->values[last].dtype == STENO_F32 &&
            steno_pass_same_shape(g, last, end->out[0])) {
            c.x = last;
            for (const struct steno_curve *f = curves; f->type; f++)
                if (steno_op_find(f->domain ? f->domain : "", f->type, f->opset) &&
                    matches(g, &c, f, &param)) {
                    found = f;
                    *best = c;
                    *p = param;
                }
        }
    } while (last != STENO_NONE && steno_cone_widen(g, &c, last));
    return found;
}

static steno_status replace(struct steno_graph *g, const struct steno_cone *c,
                            const struct steno_curve *f, double p, steno_err *err)
{
    const char *name = c->node[0]->name;
    steno_value_id out = c->node[0]->out[0];
    int attr = f->fixed[0].name ? 2 : f->form || (f->attr && fabs(p - 1) > 1e-6);
    struct steno_node *y;
    for (int i = 0; i < c->n; i++)
        c->node[i]->dead = true;
    y = steno_pass_add_node(g, f->domain ? f->domain : "", f->type, f->opset, name, 1, 1, attr,
                            err);
    if (!y)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < 2 && f->fixed[0].name; i++)
        steno_pass_set_float(g, y, i, f->fixed[i].name, f->fixed[i].v);
    if (f->form)
        y->attr[0] =
            (struct steno_attr){.name = "approximate", .kind = STENO_ATTR_STRING, .s = f->form};
    else if (attr == 1)
        steno_pass_set_float(g, y, 0, f->attr, (float)p);
    y->in[0] = c->x;
    y->out[0] = out;
    return STENO_OK;
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
            g->nodes[i].out[0] == STENO_NONE || !(f = find(g, &g->nodes[i], curves, &c, &p)))
            continue;
        st = replace(g, &c, f, p, err);
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
