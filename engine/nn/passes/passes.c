#include "nn/passes/passes.h"

#include <string.h>

/* A stack of layers needs a round for each, where what is found in one makes the next one's lengths
 * known. */
#define MAX_ROUNDS 100

/* Passes that make the graph smaller come first, so that later passes see simple patterns. */
const struct steno_pass steno_passes[] = {
    {"dead", 1, 0, steno_pass_dead, "nodes whose outputs are not read"},
    {"widen", 2, 0, steno_pass_widen, "arithmetic in 16 bits: f32 between Casts"},
    {"qdq", 2, 0, steno_pass_qdq, "DequantizeLinear of both factors of a product: integers"},
    {"fold", 1, 0, steno_pass_fold, "nodes with constant inputs become constants"},
    {"modern", 1, 0, steno_pass_modern, "Slice of opsets before 10: attributes become inputs"},
    {"if", 1, 0, steno_pass_if, "If with a constant condition: the branch taken, inlined"},
    {"identity", 1, 0, steno_pass_identity, "nodes that pass their input on unchanged"},
    {"again", 1, 0, steno_pass_again, "Relu of Relu, Neg of Neg, Where of Not, ArgMax of Softmax"},
    {"ones", 1, 0, steno_pass_ones, "lengths counted by a sum of ones"},
    {"shape", 1, 0, steno_pass_shape, "shape arithmetic whose result is known becomes constant"},
    {"transpose", 1, 0, steno_pass_transpose, "Transpose of Transpose into one"},
    {"reshape", 1, 0, steno_pass_reshape, "constant targets of Reshape, chains of views into one"},
    {"flat", 2, 0, steno_pass_flat, "Gemm between Reshapes that flatten and restore: MatMul"},
    {"reduce", 1, 0, steno_pass_reduce, "Reduce without keepdims, Unsqueeze of its axes"},
    {"einsum", 1, 0, steno_pass_einsum, "Einsum that is a matrix product"},
    {"constants", 1, 0, steno_pass_constants, "equal constants become one"},
    {"cse", 2, 0, steno_pass_cse, "equal nodes with equal inputs become one"},
    {"outer", 2, 1, steno_pass_outer, "masks of all pairs of which few rows are read"},
    {"again", 1, 1, steno_pass_again, "masks that now follow each other"},
    {"spectrum", 2, 1, steno_pass_spectrum, "a Fourier transform written as a convolution"},
    {"convint", 2, 1, steno_pass_convint, "ConvInteger: products of frames, or f32"},
    {"pad", 1, 1, steno_pass_pad, "Pad into Conv, MaxPool, AveragePool"},
    {"affine", 1, 1, steno_pass_affine, "BatchNormalization, factors, summands into Conv and Gemm"},
    {"logsoftmax", 1, 1, steno_pass_logsoftmax, "Log of Softmax"},
    {"swish", 2, 1, steno_pass_swish, "x * Sigmoid(a x), HardSwish, Mish"},
    {"swoosh", 2, 1, steno_pass_swoosh, "Zipformer's activations"},
    {"biasnorm", 2, 1, steno_pass_biasnorm, "Zipformer's normalization"},
    {"bypass", 2, 1, steno_pass_bypass, "a + (b - a) * scale by channel"},
    {"glu", 2, 1, steno_pass_glu, "Split in two, a * Sigmoid(b)"},
    {"relwindow", 2, 1, steno_pass_relwindow, "Zipformer's shift of relative positions"},
    {"weights", 2, 1, steno_pass_weights, "Zipformer's attention: weights, products with them"},
    {"chunkconv", 3, 1, steno_pass_chunkconv, "Zipformer's convolution of one chunk"},
    {"layernorm", 2, 1, steno_pass_layernorm, "LayerNormalization in any spelling"},
    {"rmsnorm", 2, 1, steno_pass_rmsnorm, "RMSNormalization in any spelling"},
    {"gelu", 2, 1, steno_pass_gelu, "Gelu by Erf or by Tanh"},
    {"pointwise", 3, 1, steno_pass_pointwise,
     "Conv of kernel 1 and activations move before a Transpose"},
    {"depthwise", 3, 1, steno_pass_depthwise,
     "depthwise Conv and its activation move before a Transpose"},
    {"transpose", 1, 1, steno_pass_transpose, "Transposes that now follow each other"},
    {"identity", 1, 1, steno_pass_identity, "Transposes that cancel"},
    {"softmax", 2, 1, steno_pass_softmax, "Softmax between two Where of one mask"},
    {"relshift", 2, 1, steno_pass_relshift, "the shift of relative positions"},
    {"dead", 1, 1, steno_pass_dead, "shape arithmetic that only the shift needed"},
    {"past", 2, 1, steno_pass_past, "attention to rows of a cache and to new ones"},
    {"attention", 2, 1, steno_pass_attention, "scores, softmax and values of attention in one"},
    {"cse", 2, 1, steno_pass_cse, "masks that the layers share"},
    {"int8", 2, 1, steno_pass_int8, "MatMulInteger, Cast, Mul by scales, Add of a bias"},
    {"concat", 1, 2, steno_pass_concat, "Concat of Concat into one"},
    {"slice", 1, 2, steno_pass_slice, "Slice of Slice into one"},
    {"nhwc", 3, 2, steno_pass_nhwc, "2-D Conv and the nodes between: channels last"},
    {"transpose", 1, 2, steno_pass_transpose, "Transposes that now follow each other"},
    {"identity", 1, 2, steno_pass_identity, "Transposes that cancel"},
    {"convact", 3, 2, steno_pass_convact, "Conv with activation: FusedConv"},
    {"linear", 3, 2, steno_pass_linear, "MatMul by a constant with bias, activation, residual"},
    {"foldtranspose", 3, 2, steno_pass_foldtranspose,
     "Transpose before a product: reorders rows of its weights"},
    {"dead", 1, 2, steno_pass_dead, "nodes that the fusions left over"},
    {"absorb", 3, 3, steno_pass_absorb, "attention of a decoder step: weight absorption"},
    {"qkv", 3, 3, steno_pass_qkv, "products of one input for one attention become one"},
    {"dead", 1, 3, steno_pass_dead, "their old weights"},
    {"embed", 2, 3, steno_pass_embed, "sum of embeddings and LayerNormalization"},
    {"layers", 3, 4, steno_pass_layers, "blocks and layers become regions"},
    {"absorbnorm", 3, 5, steno_pass_absorbnorm, "LayerNormalization before absorbed attention"},
    {"window", 3, 5, steno_pass_window, "attention of a chunk to its left context"},
    {"groups", 2, 5, steno_pass_groups, "heads of keys and values that several queries share"},
    {"dead", 1, 5, steno_pass_dead, "Splits that only the window read, repeated heads"},
    {"rowtile", 3, 5, steno_pass_rowtile, "Conv of Conv: a few rows of the first at a time"},
    {"skipnorm", 2, 5, steno_pass_skipnorm, "Add and LayerNormalization or RMSNormalization"},
    {"biasgelu", 2, 5, steno_pass_biasgelu, "Add of a bias and Gelu"},
    {"matmul", 2, 5, steno_pass_matmul, "Transpose and a factor into MatMul"},
    {"signs", 1, 5, steno_pass_signs, "8-bit weights get the signedness of their activations"},
    {"share", 1, 5, steno_pass_share, "equal constants of different graphs become one"},
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
    if (!w->st)
        w->st = w->pass->run(g, w->env, w->changed, w->err);
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
