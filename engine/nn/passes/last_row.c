#include "nn/passes/last_row.h"

#include <string.h>

/* True if each row of n's output follows from the same row of its input 0 alone. */
static bool is_product_of_rows(const struct steno_graph *g, const struct steno_node *n)
{
    static const struct {
        const char *domain, *type;
        int weights; /* inputs after x that are constant */
        bool scales; /* they are one number, or one for each column */
    } rows[] = {{"", "MatMul", 1, false},
                {"", "Cast", 0, false},
                {"", "Mul", 1, true},
                {"", "Div", 1, true},
                {"ai.steno", "Linear", 1, false},
                {"ai.steno", "IntLinear", 1, false},
                {"com.microsoft", "MatMulNBits", 3, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool ok = !strcmp(n->domain, rows[i].domain) && !strcmp(n->op_type, rows[i].type) &&
                  g->values[n->in[0]].shape.rank == 3;
        for (int k = 1; ok && k < n->n_in; k++) {
            const struct steno_value *v = n->in[k] == STENO_NONE ? NULL : &g->values[n->in[k]];
            const bool small = v && (v->shape.rank == 0 || v->shape.rank == 1);
            ok = !v || (k <= rows[i].weights ? v->constant && (small || !rows[i].scales) : small);
        }
        if (ok)
            return true;
    }
    return false;
}

steno_status steno_last_row(struct steno_graph *g, const struct steno_pass_env *env, steno_err *err)
{
    static const int64_t start[] = {-1}, end[] = {INT64_MAX}, axis[] = {1};
    struct steno_pass_writer w = {.g = g, .err = err};
    steno_value_id whole = g->outputs[0], last, x;
    struct steno_node *n = steno_pass_producer(g, whole);
    steno_status st;
    if (!n || g->values[whole].shape.rank != 3)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "output '%s' is not computed, or has not three dimensions",
                          g->values[whole].name);
    st = steno_graph_add_value(g, g->values[whole].name, &last, err);
    if (st)
        return st;
    g->outputs[0] = last;
    while (n && g->values[whole].uses <= 1 && is_product_of_rows(g, n)) {
        x = n->in[0];
        st = steno_graph_add_value(g, g->values[x].name, &n->in[0], err);
        if (st)
            return st;
        n->out[0] = last;
        last = n->in[0];
        whole = x;
        n = steno_pass_producer(g, whole);
    }
    w.name = g->values[last].name;
    steno_pass_write_slice(&w, whole, (const int64_t *[]){start, end, axis, NULL}, 1, last);
    st = w.st ? w.st : steno_graph_sort(g, err);
    return st ? st : env->infer(env->arg, g, err);
}
