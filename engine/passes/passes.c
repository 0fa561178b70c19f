#include "passes/passes.h"

#include <string.h>

#define MAX_ROUNDS 20

/* Order: what makes the graph smaller first, so that later passes meet plain patterns. */
const struct steno_pass steno_passes[] = {
    {"dead", 1, 0, steno_pass_dead, "nodes whose outputs nobody reads"},
    {"fold", 1, 0, steno_pass_fold, "nodes with constant inputs become constants"},
    {"if", 1, 0, steno_pass_if, "If with a constant condition: the branch taken, inlined"},
    {"identity", 1, 0, steno_pass_identity, "nodes that pass their input on unchanged"},
    {"shape", 1, 0, steno_pass_shape, "shape arithmetic whose result is known becomes constant"},
    {"reshape", 1, 0, steno_pass_reshape, "constant targets of Reshape, chains of views into one"},
    {"transpose", 1, 0, steno_pass_transpose, "Transpose of Transpose into one"},
    {"constants", 1, 0, steno_pass_constants, "equal constants become one"},
    {"cse", 2, 0, steno_pass_cse, "nodes that compute the same from the same become one"},
    {"swish", 2, 1, steno_pass_swish, "x * Sigmoid(x)"},
    {"glu", 2, 1, steno_pass_glu, "Split in two, a * Sigmoid(b)"},
    {"layernorm", 2, 1, steno_pass_layernorm, "LayerNormalization written as nine nodes"},
    {"gelu", 2, 1, steno_pass_gelu, "x * 0.5 * (1 + Erf(x / sqrt 2))"},
    {"softmax", 2, 1, steno_pass_softmax, "Softmax between two Where of one mask"},
    {"relshift", 2, 1, steno_pass_relshift, "the shift of relative positions"},
    {"int8", 2, 1, steno_pass_int8, "MatMulInteger, Cast, Mul by scales, Add of a bias"},
    {"convact", 3, 2, steno_pass_convact, "Conv with activation"},
    {"linear", 3, 2, steno_pass_linear, "MatMul by a constant with bias, activation, residual"},
    {"depthwise", 3, 2, steno_pass_depthwise, "depthwise Conv between two Transposes"},
    {"dead", 1, 2, steno_pass_dead, "what the fusions left over"},
    {0},
};

struct body_walk {
    const struct steno_pass *pass;
    const struct steno_pass_env *env;
    int *changed;
    steno_err *err;
    steno_status st;
};

static int on_body(struct steno_graph *g, void *arg);

static void on_graph(struct steno_graph *g, struct body_walk *w)
{
    for (int32_t i = 0; !w->st && i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            steno_node_each_graph(&g->nodes[i], on_body, w);
    if (!w->st)
        w->st = w->pass->run(g, w->env, w->changed, w->err);
}

static int on_body(struct steno_graph *g, void *arg)
{
    struct body_walk *w = arg;
    on_graph(g, w);
    return w->st != STENO_OK;
}

static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (!strncmp(p, name, n) && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

static steno_status check_names(const char *list, steno_err *err)
{
    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',') {
        size_t n = strcspn(p, ",");
        bool known = false;
        for (const struct steno_pass *s = steno_passes; s->name; s++)
            known = known || (strlen(s->name) == n && !strncmp(s->name, p, n));
        if (!known)
            return steno_fail(err, STENO_ERR_INVAL, "there is no pass '%.*s'", (int)n, p);
    }
    return STENO_OK;
}

static steno_status run_one(struct steno_graph *g, int i, const struct steno_pass_env *env,
                            int *total, struct steno_pass_counts *counts, steno_err *err)
{
    int changed = 0;
    struct body_walk w = {.pass = &steno_passes[i], .env = env, .changed = &changed, .err = err};
    on_graph(g, &w);
    if (w.st)
        return steno_fail_in(err, w.st, "pass %s", steno_passes[i].name);
    if (!changed)
        return STENO_OK;
    *total += changed;
    if (counts)
        counts->changed[i] += changed;
    w.st = steno_graph_sort(g, err); /* drops dead nodes, counts uses */
    return w.st ? w.st : env->infer(env->arg, g, err);
}

steno_status steno_passes_run(struct steno_graph *g, int level, const char *disabled,
                              const char *only, const struct steno_pass_env *env,
                              struct steno_pass_counts *counts, steno_err *err)
{
    steno_status st = check_names(disabled, err);
    if (!st)
        st = check_names(only, err);
    if (!st)
        st = env->infer(env->arg, g, err);
    for (int phase = 0; !st && phase < 4; phase++)
        for (int round = 0, total = 1; !st && total && round < MAX_ROUNDS; round++) {
            total = 0;
            for (int i = 0; !st && steno_passes[i].name; i++)
                if (steno_passes[i].phase == phase && steno_passes[i].level <= level &&
                    !listed(disabled, steno_passes[i].name) &&
                    (!only || listed(only, steno_passes[i].name)))
                    st = run_one(g, i, env, &total, counts, err);
        }
    return st;
}
