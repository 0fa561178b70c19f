/* RandomNormal, RandomUniform and their Like forms, Bernoulli.
 *
 * ONNX names no generator, so the numbers are not those of another runtime. The same seed, shape
 * and type give the same numbers in every run and on every machine. Without a seed, the node's name
 * is the seed: two nodes differ, and two runs of a network do not. */
#include "base/hash.h"
#include "nn/ops/internal.h"
#include "nn/rare_ops/families.h"

#include <math.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Uniform in [0, 1). */
static double uniform(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

static uint64_t seed_of(const struct steno_node *n)
{
    const struct steno_attr *a = steno_node_attr(n, "seed");
    uint32_t bits;
    if (a && a->kind == STENO_ATTR_FLOAT) {
        memcpy(&bits, &a->f, sizeof bits);
        return bits;
    }
    return steno_hash_text(1469598103934665603u, n->name);
}

static void fill_random(const struct steno_node *n, double *y, size_t count)
{
    bool normal = !strncmp(n->op_type, "RandomNormal", 12);
    double a = (double)steno_node_float(n, normal ? "mean" : "low", 0);
    double b = (double)steno_node_float(n, normal ? "scale" : "high", 1);
    uint64_t state = seed_of(n);
    for (size_t i = 0; i < count; i++) {
        double u = uniform(&state);
        if (normal) /* Box and Muller 1958 */
            y[i] = a + b * sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * uniform(&state));
        else
            y[i] = a + (b - a) * u;
    }
}

static const char *random_type(const struct steno_node *n, steno_dtype like, steno_dtype *t)
{
    bool of_input = strstr(n->op_type, "Like") != NULL;
    *t = (steno_dtype)steno_node_int(n, "dtype", of_input ? (int64_t)like : STENO_F32);
    return *t == STENO_DT_NONE || steno_ops_is_float(*t) ? NULL : "the type is not a float";
}

static const char *given_shape(const struct steno_node *n, struct steno_shape *s)
{
    size_t rank;
    const int64_t *dims = steno_node_ints(n, "shape", &rank);
    if (!dims || rank > STENO_MAX_RANK)
        return "it has no shape, or one of too many dimensions";
    s->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        s->dim[i] = dims[i];
        if (dims[i] < 0)
            return "a dimension is negative";
    }
    return NULL;
}

static steno_status infer_random(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    bool like = strstr(n->op_type, "Like") != NULL;
    struct steno_shape s = steno_infer_shape(ic, 0);
    steno_dtype t;
    const char *wrong = random_type(n, steno_infer_dtype(ic, 0), &t);
    if (!wrong && !like)
        wrong = given_shape(n, &s);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    steno_infer_set(ic, 0, t, &s);
    return STENO_OK;
}

static steno_status run_random(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    bool like = strstr(n->op_type, "Like") != NULL;
    const struct steno_tensor *x = like ? steno_op_in(ctx, 0) : NULL;
    struct steno_shape s = {.rank = 0};
    struct steno_tensor *y;
    const char *wrong;
    steno_dtype t;
    double *p;
    steno_status st;
    wrong = random_type(n, x ? x->dtype : STENO_F32, &t);
    if (!wrong && !x)
        wrong = given_shape(n, &s);
    if (wrong || !t)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong ? wrong : "it has no type");
    st = steno_ops_float_output(ctx, t, x ? &x->shape : &s, &y, &p, err);
    if (st)
        return st;
    fill_random(n, p, steno_numel(y));
    steno_ops_put_f64(y, p);
    return STENO_OK;
}

static steno_status infer_bernoulli(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t t = steno_node_int(steno_infer_node(ic), "dtype", (int64_t)steno_infer_dtype(ic, 0));
    (void)err;
    steno_infer_set(ic, 0, (steno_dtype)t, &s);
    return STENO_OK;
}

static steno_status run_bernoulli(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    uint64_t state = seed_of(n);
    const struct steno_tensor *x = steno_op_in(ctx, 0);
    struct steno_tensor *y;
    const double *px;
    steno_dtype t;
    size_t count, e;
    steno_status st;
    t = (steno_dtype)steno_node_int(n, "dtype", (int64_t)x->dtype);
    if (!steno_ops_is_float(x->dtype) ||
        (!steno_ops_is_float(t) && !steno_ops_is_int(t) && t != STENO_BOOL))
        return steno_ops_bad_type(ctx, err, t);
    st = steno_op_out(ctx, 0, t, &x->shape, &y, err);
    if (st)
        return st;
    px = steno_ops_as_f64(ctx, x);
    if (!px)
        return steno_ops_nomem(ctx, err);
    count = steno_numel(x);
    e = steno_dtype_size(t);
    for (size_t i = 0; i < count; i++)
        steno_ops_store_f64((char *)y->data + i * e, t, &(double){uniform(&state) < px[i]}, 1);
    return STENO_OK;
}

const struct steno_op steno_ops_random[] = {
    {"", "Bernoulli", 15, 0, STENO_OP_IMPURE, infer_bernoulli, NULL, NULL, run_bernoulli},
    {"", "RandomNormal", 1, 0, STENO_OP_IMPURE, infer_random, NULL, NULL, run_random},
    {"", "RandomNormalLike", 1, 0, STENO_OP_IMPURE | STENO_OP_SHAPE_ONLY, infer_random, NULL, NULL,
     run_random},
    {"", "RandomUniform", 1, 0, STENO_OP_IMPURE, infer_random, NULL, NULL, run_random},
    {"", "RandomUniformLike", 1, 0, STENO_OP_IMPURE | STENO_OP_SHAPE_ONLY, infer_random, NULL, NULL,
     run_random},
    {0},
};
