/* In a graph that is written for other runtimes:
 * Before: MatMulInteger, ConvInteger, QLinearMatMul, ... (x of u8, W constant of i8, zero), or
 *         MatMul, Gemm, Conv of DequantizeLinear(x of u8), DequantizeLinear(W of i8)
 * After:  the same with W + 128 in u8, zero + 128
 * Before: MatMulInteger, ConvInteger (x of i8, W constant of u8, zero)
 * After:  the same with W - 128 in i8, zero - 128
 * ONNX Runtime adds products of bytes of two signednesses in 16 bits on CPUs with AVX2 and without
 * VNNI, and these sums saturate (MatMulInteger and its relatives for u8 times i8, ConvInteger for
 * i8 times u8). Equal signednesses are exact on every CPU. */
#include "nn/passes/passes.h"

#include <string.h>

/* A product of bytes: its inputs with the activations, the weights, and the weights' scale and zero
 * point. */
struct product {
    const char *domain, *type;
    int x, w, scale, zero; /* x -1: quantized inside, to u8; scale -1: the node has none */
};

static const struct product products[] = {
    {"", "MatMulInteger", 0, 1, -1, 3},
    {"", "ConvInteger", 0, 1, -1, 3},
    {"", "QLinearMatMul", 0, 3, 4, 5},
    {"", "QLinearConv", 0, 3, 4, 5},
    {"ai.steno", "IntLinear", 0, 1, -1, 3},
    {"com.microsoft", "MatMulIntegerToFloat", 0, 1, 3, 5},
    {"com.microsoft", "DynamicQuantizeMatMul", -1, 1, 2, 3},
    {"com.microsoft", "QGemm", 0, 3, 4, 5},
    {"com.microsoft", "QAttention", 0, 1, 4, 7},
    {"com.microsoft", "DynamicQuantizeLSTM", -1, 1, 8, 9},
    {"com.microsoft", "DynamicQuantizeLSTM", -1, 2, 10, 11},
};
static const struct product dequantize = {"", "DequantizeLinear", -1, 0, 1, 2};

struct job {
    struct steno_graph *g;
    steno_err *err;
    int *changed;
    steno_value_id *flipped; /* by value: the same with the other signedness, or STENO_NONE */
    steno_value_id zero[2];  /* scalars: the number 0 of a flipped constant in i8, in u8 */
    int32_t n_values;        /* extent of flipped */
};

/* A constant of n bytes of this type, all `with`; from: or those, with the sign bit changed. */
static steno_status add_bytes(struct job *j, const char *name, steno_dtype t,
                              const struct steno_shape *shape, uint8_t with, const uint8_t *from,
                              steno_value_id *out)
{
    const size_t n = steno_numel(&(struct steno_tensor){.shape = *shape});
    uint8_t *to = steno_graph_new_const(j->g, name, t, shape, out, j->err);
    for (size_t i = 0; to && i < n; i++)
        to[i] = from ? from[i] ^ 0x80 : with;
    return to ? STENO_OK : STENO_ERR_NOMEM;
}

/* Constant v of bytes with the other signedness: the same numbers plus or minus 128. */
static steno_status flip(struct job *j, steno_value_id v, steno_value_id *out)
{
    const struct steno_value *old = &j->g->values[v];
    const uint8_t *from;
    steno_status st;
    if (v < j->n_values && j->flipped[v] != STENO_NONE) {
        *out = j->flipped[v];
        return STENO_OK;
    }
    from = steno_constant_bytes(old->constant);
    if (!from && steno_numel(old->constant))
        return steno_fail(j->err, STENO_ERR_NOMEM, "out of memory for '%s'", old->name);
    st = add_bytes(j, old->name, old->dtype == STENO_I8 ? STENO_U8 : STENO_I8,
                   &old->constant->shape, 0, from, out);
    steno_graph_unfetch(j->g, v);
    if (!st && v < j->n_values)
        j->flipped[v] = *out;
    return st;
}

/* The zero point of weights that have none, once they are of type t. scale: shapes it; NULL: a
 * scalar. */
static steno_status new_zero(struct job *j, steno_dtype t, const struct steno_tensor *scale,
                             steno_value_id *out)
{
    const struct steno_shape scalar = {.rank = 0};
    steno_value_id *shared = &j->zero[t == STENO_U8];
    steno_status st;
    if (scale && scale->shape.rank)
        return add_bytes(j, "zero", t, &scale->shape, 0x80, NULL, out);
    st = *shared == STENO_NONE ? add_bytes(j, "zero", t, &scalar, 0x80, NULL, shared) : STENO_OK;
    *out = *shared;
    return st;
}

static steno_status set_input(struct job *j, struct steno_node *n, int at, steno_value_id v)
{
    if (at >= n->n_in) {
        steno_value_id *in = steno_graph_alloc(j->g, (size_t)at + 1, sizeof *in, j->err);
        if (!in)
            return STENO_ERR_NOMEM;
        for (int i = 0; i <= at; i++)
            in[i] = steno_node_in(n, i);
        n->in = in;
        n->n_in = at + 1;
    }
    n->in[at] = v;
    return STENO_OK;
}

/* True if n's weights are constants of bytes and not of type t, and can be. */
static bool may_become(const struct steno_graph *g, const struct steno_node *n,
                       const struct product *p, steno_dtype t)
{
    const steno_value_id w = steno_node_in(n, p->w), z = steno_node_in(n, p->zero),
                         s = steno_node_in(n, p->scale);
    const struct steno_tensor *c = w == STENO_NONE ? NULL : g->values[w].constant;
    if (!c || c->dtype != (t == STENO_U8 ? STENO_I8 : STENO_U8))
        return false;
    if (z != STENO_NONE)
        return g->values[z].constant && g->values[z].constant->dtype == c->dtype;
    return p->scale < 0 || (s != STENO_NONE && g->values[s].constant);
}

/* Let n, node number `at`, have its weights in type t. */
static steno_status become(struct job *j, int32_t at, const struct product *p, steno_dtype t)
{
    struct steno_node *n = &j->g->nodes[at]; /* constants do not move nodes */
    const steno_value_id z = steno_node_in(n, p->zero), s = steno_node_in(n, p->scale);
    steno_value_id w, zero;
    steno_status st = flip(j, n->in[p->w], &w);
    if (!st)
        st = z != STENO_NONE
                 ? flip(j, z, &zero)
                 : new_zero(j, t, p->scale < 0 ? NULL : j->g->values[s].constant, &zero);
    if (!st)
        st = set_input(j, n, p->zero, zero);
    if (st)
        return st;
    n->in[p->w] = w;
    ++*j->changed;
    return STENO_OK;
}

/* ---- DequantizeLinear of both factors ---- */

static struct steno_node *dequantized(struct steno_graph *g, steno_value_id v)
{
    struct steno_node *n = v == STENO_NONE ? NULL : steno_pass_producer(g, v);
    if (steno_pass_is(n, "Transpose"))
        n = steno_pass_producer(g, n->in[0]);
    return steno_pass_is(n, "DequantizeLinear") ? n : NULL;
}

/* Only u8: a runtime that fuses these nodes has no products of i8 by u8. */
static steno_status of_dequantized(struct job *j, const struct steno_node *n)
{
    struct steno_graph *g = j->g;
    const struct steno_node *x = dequantized(g, steno_node_in(n, 0)),
                            *w = dequantized(g, steno_node_in(n, 1));
    if (!x || !w || g->values[x->in[0]].dtype != STENO_U8 ||
        !may_become(g, w, &dequantize, STENO_U8))
        return STENO_OK;
    return become(j, (int32_t)(w - g->nodes), &dequantize, STENO_U8);
}

/* The type that the weights of product p, which is node n, should have. */
static steno_dtype wanted(const struct steno_graph *g, const struct steno_node *n,
                          const struct product *p)
{
    const steno_value_id x = steno_node_in(n, p->x);
    steno_dtype t = p->x < 0 ? STENO_U8 : STENO_DT_NONE;
    if (x != STENO_NONE)
        t = g->values[x].dtype;
    return t == STENO_U8 || t == STENO_I8 ? t : STENO_DT_NONE;
}

static steno_status visit_signs(struct job *j, int32_t at)
{
    const struct steno_node *n = &j->g->nodes[at];
    steno_status st = STENO_OK;
    if (steno_pass_is_any(n, "MatMul Gemm Conv"))
        return of_dequantized(j, n);
    for (size_t i = 0; !st && i < sizeof products / sizeof *products; i++) {
        const struct product *p = &products[i];
        steno_dtype t;
        if (strcmp(n->domain, p->domain) || strcmp(n->op_type, p->type))
            continue;
        t = wanted(j->g, n, p);
        if (t && may_become(j->g, n, p, t))
            st = become(j, at, p, t);
    }
    return st;
}

steno_status steno_pass_signs(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                              steno_err *err)
{
    struct job j = {.g = g,
                    .err = err,
                    .changed = changed,
                    .zero = {STENO_NONE, STENO_NONE},
                    .n_values = g->n_values};
    steno_status st = STENO_OK;
    if (!env->to_write)
        return STENO_OK;
    j.flipped = steno_graph_alloc(g, (size_t)g->n_values + 1, sizeof *j.flipped, err);
    if (!j.flipped)
        return STENO_ERR_NOMEM;
    for (int32_t v = 0; v < g->n_values; v++)
        j.flipped[v] = STENO_NONE;
    for (int32_t i = 0; !st && i < g->n_nodes; i++)
        if (!g->nodes[i].dead)
            st = visit_signs(&j, i);
    return st;
}
