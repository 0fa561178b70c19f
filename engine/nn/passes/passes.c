#include "nn/passes/passes.h"

#include <string.h>

/* A stack of layers needs a round for each, where what is found in one makes the next one's lengths
 * known. */
#define MAX_ROUNDS 100

#define GRAPH(NAME) #NAME, steno_pass_##NAME, NULL
#define NODES(NAME) #NAME, NULL, steno_pass_##NAME
/* Passes that make the graph smaller come first, so that later passes see simple patterns. */
const struct steno_pass steno_passes[] = {
    {GRAPH(dead), 1, 0, "nodes whose outputs are not read"},
    {GRAPH(widen), 2, 0, "arithmetic in 16 bits: f32 between Casts"},
    {GRAPH(qdq), 2, 0, "DequantizeLinear of both factors of a product: integers"},
    {GRAPH(fold), 1, 0, "nodes with constant inputs become constants"},
    {NODES(modern), 1, 0, "Slice of opsets before 10: attributes become inputs"},
    {NODES(if), 1, 0, "If with a constant condition: the branch taken, inlined"},
    {NODES(identity), 1, 0, "nodes that pass their input on unchanged"},
    {NODES(again), 1, 0, "Relu of Relu, Neg of Neg, Where of Not, ArgMax of Softmax"},
    {NODES(ones), 1, 0, "lengths counted by a sum of ones"},
    {NODES(shape), 1, 0, "shape arithmetic whose result is known becomes constant"},
    {NODES(transpose), 1, 0, "Transpose of Transpose into one"},
    {NODES(reshape), 1, 0, "constant targets of Reshape, chains of views into one"},
    {NODES(flat), 2, 0, "Gemm between Reshapes that flatten and restore: MatMul"},
    {NODES(reduce), 1, 0, "Reduce without keepdims, Unsqueeze of its axes"},
    {NODES(einsum), 1, 0, "Einsum that is a matrix product"},
    {GRAPH(constants), 1, 0, "equal constants become one"},
    {GRAPH(cse), 2, 0, "equal nodes with equal inputs become one"},
    {NODES(outer), 2, 1, "masks of all pairs of which few rows are read"},
    {NODES(again), 1, 1, "masks that now follow each other"},
    {NODES(spectrum), 2, 1, "a Fourier transform written as a convolution"},
    {NODES(convint), 2, 1, "ConvInteger: products of frames, or f32"},
    {NODES(pad), 1, 1, "Pad into Conv, MaxPool, AveragePool"},
    {NODES(affine), 1, 1, "BatchNormalization, factors, summands into Conv and Gemm"},
    {NODES(logsoftmax), 1, 1, "Log of Softmax"},
    {GRAPH(swish), 2, 1, "x * Sigmoid(a x), HardSwish, Mish"},
    {GRAPH(swoosh), 2, 1, "Zipformer's activations"},
    {NODES(biasnorm), 2, 1, "Zipformer's normalization"},
    {NODES(bypass), 2, 1, "a + (b - a) * scale by channel"},
    {NODES(glu), 2, 1, "Split in two, a * Sigmoid(b)"},
    {NODES(relwindow), 2, 1, "Zipformer's shift of relative positions"},
    {NODES(weights), 2, 1, "Zipformer's attention: weights, products with them"},
    {NODES(chunkconv), 3, 1, "Zipformer's convolution of one chunk"},
    {GRAPH(layernorm), 2, 1, "LayerNormalization in any spelling"},
    {GRAPH(rmsnorm), 2, 1, "RMSNormalization in any spelling"},
    {GRAPH(gelu), 2, 1, "Gelu by Erf or by Tanh"},
    {NODES(pointwise), 3, 1, "Conv of kernel 1 and activations move before a Transpose"},
    {NODES(depthwise), 3, 1, "depthwise Conv and its activation move before a Transpose"},
    {NODES(transpose), 1, 1, "Transposes that now follow each other"},
    {NODES(identity), 1, 1, "Transposes that cancel"},
    {NODES(softmax), 2, 1, "Softmax between two Where of one mask"},
    {NODES(relshift), 2, 1, "the shift of relative positions"},
    {GRAPH(dead), 1, 1, "shape arithmetic that only the shift needed"},
    {NODES(past), 2, 1, "attention to rows of a cache and to new ones"},
    {GRAPH(attention), 2, 1, "scores, softmax and values of attention in one"},
    {GRAPH(fold), 2, 1, "positions that attention has turned"},
    {GRAPH(cse), 2, 1, "masks that the layers share"},
    {GRAPH(int8), 2, 1, "MatMulInteger, Cast, Mul by scales, Add of a bias"},
    {NODES(concat), 1, 2, "Concat of Concat into one"},
    {NODES(slice), 1, 2, "Slice of Slice into one"},
    {GRAPH(nhwc), 3, 2, "2-D Conv and the nodes between: channels last"},
    {NODES(transpose), 1, 2, "Transposes that now follow each other"},
    {NODES(identity), 1, 2, "Transposes that cancel"},
    {NODES(convact), 3, 2, "Conv with activation: FusedConv"},
    {NODES(linear), 3, 2, "MatMul by a constant with bias, activation, residual"},
    {NODES(foldtranspose), 3, 2, "Transpose before a product: reorders rows of its weights"},
    {GRAPH(dead), 1, 2, "nodes that the fusions left over"},
    {NODES(absorb), 3, 3, "attention of a decoder step: weight absorption"},
    {NODES(qkv), 3, 3, "products of one input for one attention become one"},
    {GRAPH(dead), 1, 3, "their old weights"},
    {NODES(embed), 2, 3, "sum of embeddings and LayerNormalization"},
    {GRAPH(layers), 3, 4, "blocks and layers become regions"},
    {NODES(absorbnorm), 3, 5, "LayerNormalization before absorbed attention"},
    {NODES(window), 3, 5, "attention of a chunk to its left context"},
    {NODES(groups), 2, 5, "heads of keys and values that several queries share"},
    {GRAPH(dead), 1, 5, "Splits that only the window read, repeated heads"},
    {NODES(rowtile), 3, 5, "Conv of Conv: a few rows of the first at a time"},
    {NODES(skipnorm), 2, 5, "Add and LayerNormalization or RMSNormalization"},
    {NODES(biasgelu), 2, 5, "Add of a bias and Gelu"},
    {NODES(matmul), 2, 5, "Transpose and a factor into MatMul"},
    {GRAPH(signs), 1, 5, "8-bit weights get the signedness of their activations"},
    {GRAPH(share), 1, 5, "equal constants of different graphs become one"},
    {0},
};

_Static_assert(sizeof steno_passes / sizeof *steno_passes <=
                   sizeof((struct steno_pass_counts *)0)->changed / sizeof(int),
               "a count for every pass");

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
    if (!w->st && w->pass->run)
        w->st = w->pass->run(g, w->env, w->changed, w->err);
    for (int32_t i = 0, n = g->n_nodes; !w->st && w->pass->each && i < n; i++)
        if (!g->nodes[i].dead)
            w->st = w->pass->each(g, w->env, &g->nodes[i], w->changed, w->err);
    steno_graph_apply_replacements(g);
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
    steno_graph_rest_map(g);
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
    for (int phase = 0; !st && phase < 6; phase++)
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
