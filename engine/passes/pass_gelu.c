/* Before: e = Erf(x / sqrt 2 or x * sqrt 0.5), y = x * (e + 1) * 0.5 or (x * 0.5) * (e + 1)
 * After:  y = Gelu(x) (opset 20) */
#include "passes/passes.h"

#include <math.h>
#include <string.h>

static bool is(const struct steno_node *n, const char *type)
{
    return n && !*n->domain && !strcmp(n->op_type, type);
}

/* The operand of n that is not a constant equal to `want`; STENO_NONE when n is not of that form.
 */
static steno_vid beside(const struct steno_graph *g, const struct steno_node *n, double want)
{
    double v;
    for (int k = 0; k < 2; k++)
        if (steno_pass_scalar(g, n->in[k], &v) && fabs(v - want) < 1e-6 * want &&
            (k == 1 || strcmp(n->op_type, "Div")) &&
            steno_pass_same_shape(g, n->in[1 - k], n->out[0]))
            return n->in[1 - k];
    return STENO_NONE;
}

struct gelu {
    struct steno_node *inner, *erf, *one, *mul, *half;
    steno_vid x, out;
};

/* From Erf's reader downwards: the additions and products in either order. */
static bool match_tail(struct steno_graph *g, struct gelu *m)
{
    steno_vid other;
    m->one = steno_pass_only_reader(g, m->erf->out[0]);
    if (!is(m->one, "Add") || beside(g, m->one, 1) != m->erf->out[0])
        return false;
    m->mul = steno_pass_only_reader(g, m->one->out[0]);
    if (!is(m->mul, "Mul"))
        return false;
    other = m->mul->in[m->mul->in[0] == m->one->out[0]];
    if (other == m->x) {
        m->half = steno_pass_only_reader(g, m->mul->out[0]);
        m->out = m->half ? m->half->out[0] : STENO_NONE;
        return is(m->half, "Mul") && beside(g, m->half, 0.5) == m->mul->out[0];
    }
    m->half = steno_pass_only_use(g, other, "Mul");
    m->out = m->mul->out[0];
    return m->half && beside(g, m->half, 0.5) == m->x;
}

static bool match(struct steno_graph *g, struct steno_node *erf, struct gelu *m)
{
    m->erf = erf;
    m->inner = steno_pass_producer(g, erf->in[0]);
    if (!m->inner || g->values[erf->in[0]].uses != 1 || g->values[erf->in[0]].is_output)
        return false;
    if (is(m->inner, "Div"))
        m->x = beside(g, m->inner, sqrt(2));
    else if (is(m->inner, "Mul"))
        m->x = beside(g, m->inner, sqrt(0.5));
    else
        return false;
    return m->x != STENO_NONE && g->values[m->x].dtype == STENO_F32 && match_tail(g, m);
}

steno_status steno_pass_gelu(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                             steno_err *err)
{
    (void)env;
    if (!steno_op_find("", "Gelu", 20))
        return STENO_OK;
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct gelu m = {0};
        struct steno_node *y;
        if (g->nodes[i].dead || !is(&g->nodes[i], "Erf") || !match(g, &g->nodes[i], &m))
            continue;
        m.inner->dead = m.erf->dead = m.one->dead = m.mul->dead = m.half->dead = true;
        y = steno_pass_add_node(g, "", "Gelu", 20, g->nodes[i].name, 1, 1, 0, err);
        if (!y)
            return STENO_ERR_NOMEM;
        y->in[0] = m.x;
        y->out[0] = m.out;
        ++*changed;
    }
    return STENO_OK;
}
