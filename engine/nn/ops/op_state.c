/* Operators of language models with a state, of opsets 24 to 28: TensorScatter (a cache that is
 * written at an index), CausalConvWithState, LinearAttention; and SwiGLU. */
#include "nn/ops/internal.h"
#include "nn/ops/families.h"

#include <math.h>

/* ---- TensorScatter ---- */
static steno_status run_tensor_scatter(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *node = steno_op_node(ctx);
    bool circular = !strcmp(steno_node_str(node, "mode", "linear"), "circular");
    const struct steno_tensor *past = steno_op_in(ctx, 0), *update = steno_op_in(ctx, 1),
                              *at = steno_op_in(ctx, 2);
    struct steno_shape s;
    struct steno_tensor *y;
    size_t outer, have, fresh, row;
    int axis;
    steno_status st;
    s = update->shape;
    if (!steno_ops_axis(steno_node_int(node, "axis", -2), past->shape.rank, &axis) || !axis)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "axis out of range");
    if (s.rank == past->shape.rank)
        s.dim[axis] = past->shape.dim[axis];
    if (!steno_shape_equal(&s, &past->shape) || update->dtype != past->dtype ||
        update->shape.dim[axis] > past->shape.dim[axis] ||
        (at &&
         (at->dtype != STENO_I64 || at->shape.rank != 1 || at->shape.dim[0] != past->shape.dim[0])))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the update does not fit the cache");
    st = steno_op_out(ctx, 0, past->dtype, &past->shape, &y, err);
    if (st || !steno_numel(y))
        return st;
    memcpy(y->data, past->data, steno_numel(y) * steno_dtype_size(y->dtype));
    have = (size_t)past->shape.dim[axis];
    fresh = (size_t)update->shape.dim[axis];
    outer = steno_ops_prod(&s, 0, axis);
    row = steno_ops_prod(&s, axis + 1, s.rank) * steno_dtype_size(y->dtype);
    for (size_t o = 0; o < outer; o++) {
        size_t b = o / (outer / (size_t)s.dim[0]);
        int64_t from = at ? ((const int64_t *)at->data)[b] : 0;
        if (from < 0 || (circular ? from > INT64_MAX / 2 : (uint64_t)from > have - fresh))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "write index %lld of %zu rows",
                                 (long long)from, have);
        for (size_t k = 0; k < fresh; k++)
            memcpy((char *)y->data + (o * have + ((size_t)from + k) % have) * row,
                   (const char *)update->data + (o * fresh + k) * row, row);
    }
    return STENO_OK;
}

/* ---- SwiGLU ---- */
static steno_status run_swiglu(struct steno_op_ctx *ctx, steno_err *err)
{
    double alpha = (double)steno_node_float(steno_op_node(ctx), "alpha", 1);
    const struct steno_tensor *a = steno_op_in(ctx, 0), *b = steno_op_in(ctx, 1);
    struct steno_tensor *y;
    size_t n;
    steno_status st;
    if (!steno_ops_is_float(a->dtype))
        return steno_ops_bad_type(ctx, err, a->dtype);
    if (b->dtype != a->dtype || !steno_shape_equal(&a->shape, &b->shape))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the inputs differ in type or shape");
    st = steno_op_out(ctx, 0, a->dtype, &a->shape, &y, err);
    if (st)
        return st;
    n = steno_numel(y);
    if (a->dtype == STENO_F64) {
        const double *pa = a->data, *pb = b->data;
        double *py = y->data;
        for (size_t i = 0; i < n; i++)
            py[i] = pa[i] / (1 + exp(-alpha * pa[i])) * pb[i];
    } else {
        const float *pa = steno_ops_as_f32(ctx, a), *pb = steno_ops_as_f32(ctx, b);
        float *py = steno_ops_out_f32(ctx, y);
        if (!pa || !pb || !py)
            return steno_ops_nomem(ctx, err);
        steno_ops_gate_f32(steno_op_kernels(ctx), py, pa, n, (float)alpha, 0);
        for (size_t i = 0; i < n; i++)
            py[i] *= pb[i];
        steno_ops_put_f32(y, py);
    }
    return STENO_OK;
}

/* ---- CausalConvWithState ---- */
static steno_status infer_causal(struct steno_infer *ic, steno_err *err)
{
    struct steno_shape x = steno_infer_shape(ic, 0), w = steno_infer_shape(ic, 1), s = x;
    if ((x.rank >= 0 && x.rank != 3) || (w.rank >= 0 && w.rank != 3) || (w.rank == 3 && !w.dim[2]))
        return steno_fail(err, STENO_ERR_INVAL, "input and weight must have rank 3");
    if (x.rank == 3)
        s.dim[2] = w.rank == 3 && w.dim[2] > 0 ? w.dim[2] - 1 : steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &x);
    steno_infer_set(ic, 1, steno_infer_dtype(ic, 0), &s);
    return STENO_OK;
}

/* The row of one channel behind its state: y[t] = act(bias + sum_j w[j] z[t + j]). */
static void convolve(const double *z, const double *w, size_t k, double bias, bool gate, double *y,
                     size_t n)
{
    for (size_t t = 0; t < n; t++) {
        double sum = bias;
        for (size_t j = 0; j < k; j++)
            sum += w[j] * z[t + j];
        y[t] = gate ? sum / (1 + exp(-sum)) : sum;
    }
}

static bool causal_fits(const struct steno_tensor *x, const struct steno_tensor *w,
                        const struct steno_tensor *bias, const struct steno_tensor *past)
{
    int64_t b, c, k;
    if (x->shape.rank != 3 || w->shape.rank != 3)
        return false;
    b = x->shape.dim[0];
    c = x->shape.dim[1];
    k = w->shape.dim[2];
    return k > 0 && w->shape.dim[0] == c && w->shape.dim[1] == 1 &&
           (!bias || (bias->shape.rank == 1 && bias->shape.dim[0] == c)) &&
           (!past || steno_shape_equal(&past->shape, &(struct steno_shape){3, {b, c, k - 1}}));
}

static steno_status run_causal(struct steno_op_ctx *ctx, steno_err *err)
{
    const char *act = steno_node_str(steno_op_node(ctx), "activation", "none");
    const struct steno_tensor *x = steno_op_in(ctx, 0), *w = steno_op_in(ctx, 1),
                              *bias = steno_op_in(ctx, 2), *past = steno_op_in(ctx, 3);
    struct steno_tensor *y, *state;
    struct steno_shape s;
    const double *px, *pw, *pb = NULL, *pp = NULL;
    double *py, *ps, *z;
    size_t rows, n, k, channels;
    steno_status st;
    if (!steno_ops_is_float(x->dtype))
        return steno_ops_bad_type(ctx, err, x->dtype);
    if (!causal_fits(x, w, bias, past))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "the inputs' shapes do not fit");
    s = x->shape;
    s.dim[2] = w->shape.dim[2] - 1;
    st = steno_op_out(ctx, 0, x->dtype, &x->shape, &y, err);
    if (!st)
        st = steno_op_out(ctx, 1, x->dtype, &s, &state, err);
    if (st)
        return st;
    n = (size_t)x->shape.dim[2];
    k = (size_t)w->shape.dim[2];
    channels = (size_t)x->shape.dim[1];
    rows = (size_t)x->shape.dim[0] * channels;
    px = steno_ops_as_f64(ctx, x);
    pw = steno_ops_as_f64(ctx, w);
    py = steno_ops_out_f64(ctx, y);
    ps = steno_ops_out_f64(ctx, state);
    z = steno_op_scratch(ctx, (n + k) * sizeof *z);
    if (!px || !pw || !py || !ps || !z || (bias && !(pb = steno_ops_as_f64(ctx, bias))) ||
        (past && !(pp = steno_ops_as_f64(ctx, past))))
        return steno_ops_nomem(ctx, err);
    for (size_t r = 0; r < rows; r++) {
        size_t c = r % channels;
        for (size_t j = 0; j + 1 < k; j++)
            z[j] = pp ? pp[r * (k - 1) + j] : 0;
        if (n)
            memcpy(z + k - 1, px + r * n, n * sizeof *z);
        convolve(z, pw + c * k, k, pb ? pb[c] : 0, strcmp(act, "none") != 0, py + r * n, n);
        if (k > 1)
            memcpy(ps + r * (k - 1), z + n, (k - 1) * sizeof *z);
    }
    steno_ops_put_f64(y, py);
    steno_ops_put_f64(state, ps);
    return STENO_OK;
}

/* ---- LinearAttention ---- */
struct linear {
    size_t batch, length, heads, groups; /* groups: key/value heads */
    size_t dk, dv, n_decay, n_beta;      /* n_*: entries of a row */
    float scale;
    const float *q, *k, *v, *decay, *beta; /* decay, beta: NULL if the rule has none */
};

static bool linear_rows(const struct steno_tensor *t, const struct steno_tensor *q)
{
    return t && t->shape.rank == 3 && t->shape.dim[0] == q->shape.dim[0] &&
           t->shape.dim[1] == q->shape.dim[1] && steno_ops_is_float(t->dtype);
}

/* Check shapes and attributes. Return what is wrong, or NULL. */
static const char *linear_layout(struct steno_op_ctx *ctx, struct linear *l)
{
    const struct steno_node *n = steno_op_node(ctx);
    const char *rule = steno_node_str(n, "update_rule", "gated_delta");
    bool gated = !strncmp(rule, "gated", 5), delta = strstr(rule, "delta") != NULL;
    int64_t heads = steno_node_int(n, "q_num_heads", 0),
            groups = steno_node_int(n, "kv_num_heads", 0);
    const struct steno_tensor *q = steno_op_in(ctx, 0), *k = steno_op_in(ctx, 1);
    const struct steno_tensor *v = steno_op_in(ctx, 2), *past = steno_op_in(ctx, 3);
    const struct steno_tensor *decay = steno_op_in(ctx, 4), *beta = steno_op_in(ctx, 5);
    if (!linear_rows(q, q) || !linear_rows(k, q) || !linear_rows(v, q))
        return "query, key and value must be of floats, [batch, length, heads * width]";
    if (groups < 1 || heads < groups || heads % groups || q->shape.dim[2] % heads ||
        v->shape.dim[2] % groups || k->shape.dim[2] != q->shape.dim[2] / heads * groups)
        return "the numbers of heads do not fit";
    if (gated != (decay != NULL) || delta != (beta != NULL))
        return "decay or beta do not fit the rule";
    l->batch = (size_t)q->shape.dim[0];
    l->length = (size_t)q->shape.dim[1];
    l->heads = (size_t)heads;
    l->groups = (size_t)groups;
    l->dk = (size_t)(q->shape.dim[2] / heads);
    l->dv = (size_t)(v->shape.dim[2] / groups);
    l->n_decay = decay && decay->shape.rank == 3 ? (size_t)decay->shape.dim[2] : 0;
    l->n_beta = beta && beta->shape.rank == 3 ? (size_t)beta->shape.dim[2] : 0;
    if ((decay && (!linear_rows(decay, q) ||
                   (l->n_decay != l->groups && l->n_decay != l->groups * l->dk))) ||
        (beta && (!linear_rows(beta, q) || (l->n_beta != 1 && l->n_beta != l->groups))))
        return "decay or beta have another shape";
    if (past &&
        !steno_shape_equal(
            &past->shape,
            &(struct steno_shape){4, {q->shape.dim[0], groups, (int64_t)l->dk, (int64_t)l->dv}}))
        return "the state has another shape";
    l->scale = steno_node_float(n, "scale", 0);
    if (l->scale == 0)
        l->scale = 1 / sqrtf((float)l->dk);
    return NULL;
}

static steno_status infer_linear(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    int64_t heads = steno_node_int(n, "q_num_heads", 0),
            groups = steno_node_int(n, "kv_num_heads", 0);
    struct steno_shape q = steno_infer_shape(ic, 0), v = steno_infer_shape(ic, 2), y = q;
    struct steno_shape s = {.rank = 4, .dim = {0, groups}};
    steno_dtype t = steno_infer_dtype(ic, 0);
    if (heads < 1 || groups < 1 || (q.rank >= 0 && q.rank != 3) || (v.rank >= 0 && v.rank != 3))
        return steno_fail(err, STENO_ERR_INVAL, "heads or ranks are out of range");
    s.dim[0] = q.rank == 3 ? q.dim[0] : steno_infer_new_dim(ic);
    s.dim[2] = q.rank == 3 && q.dim[2] >= 0 ? q.dim[2] / heads : steno_infer_new_dim(ic);
    s.dim[3] = v.rank == 3 && v.dim[2] >= 0 ? v.dim[2] / groups : steno_infer_new_dim(ic);
    if (y.rank == 3)
        y.dim[2] = s.dim[3] >= 0 && s.dim[3] < INT32_MAX && heads < INT32_MAX
                       ? s.dim[3] * heads
                       : steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, t, &y);
    steno_infer_set(ic, 1, steno_infer_has(ic, 3) ? steno_infer_dtype(ic, 3) : t, &s);
    return STENO_OK;
}

/* One step of one key/value head: decay the state s [dk, dv], write the row, then read it by every
 * query of the group. fresh: scratch [dv]. */
static void linear_step(const struct linear *l, size_t row, size_t g, float *s, float *fresh,
                        float *y)
{
    const float *k = l->k + (row * l->groups + g) * l->dk,
                *v = l->v + (row * l->groups + g) * l->dv;
    size_t per = l->heads / l->groups;
    for (size_t d = 0; l->decay && d < l->dk; d++) {
        bool each = l->n_decay != l->groups || l->dk == 1;
        float f = expf(l->decay[row * l->n_decay + (each ? g * l->dk + d : g)]);
        for (size_t m = 0; m < l->dv; m++)
            s[d * l->dv + m] *= f;
    }
    for (size_t m = 0; m < l->dv; m++) {
        float seen = 0;
        for (size_t d = 0; l->beta && d < l->dk; d++)
            seen += s[d * l->dv + m] * k[d];
        fresh[m] =
            l->beta ? l->beta[row * l->n_beta + (l->n_beta == 1 ? 0 : g)] * (v[m] - seen) : v[m];
    }
    for (size_t d = 0; d < l->dk; d++)
        for (size_t m = 0; m < l->dv; m++)
            s[d * l->dv + m] += k[d] * fresh[m];
    for (size_t h = g * per; h < (g + 1) * per; h++) {
        const float *q = l->q + (row * l->heads + h) * l->dk;
        float *out = y + (row * l->heads + h) * l->dv;
        for (size_t m = 0; m < l->dv; m++)
            out[m] = 0;
        for (size_t d = 0; d < l->dk; d++)
            for (size_t m = 0; m < l->dv; m++)
                out[m] += l->scale * q[d] * s[d * l->dv + m];
    }
}

static steno_status run_linear(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *past = steno_op_in(ctx, 3);
    struct steno_tensor *y, *state;
    struct steno_shape s;
    struct linear l = {0};
    float *py, *ps, *fresh;
    const char *wrong;
    size_t each;
    steno_status st;
    wrong = linear_layout(ctx, &l);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    s = steno_op_in(ctx, 0)->shape;
    s.dim[2] = (int64_t)(l.heads * l.dv);
    st = steno_op_out(ctx, 0, steno_op_in(ctx, 0)->dtype, &s, &y, err);
    s = (struct steno_shape){4, {s.dim[0], (int64_t)l.groups, (int64_t)l.dk, (int64_t)l.dv}};
    if (!st)
        st = steno_op_out(ctx, 1, past ? past->dtype : y->dtype, &s, &state, err);
    if (st)
        return st;
    l.q = steno_ops_as_f32(ctx, steno_op_in(ctx, 0));
    l.k = steno_ops_as_f32(ctx, steno_op_in(ctx, 1));
    l.v = steno_ops_as_f32(ctx, steno_op_in(ctx, 2));
    l.decay = l.n_decay ? steno_ops_as_f32(ctx, steno_op_in(ctx, 4)) : NULL;
    l.beta = l.n_beta ? steno_ops_as_f32(ctx, steno_op_in(ctx, 5)) : NULL;
    py = steno_ops_out_f32(ctx, y);
    ps = steno_ops_out_f32(ctx, state);
    fresh = steno_op_scratch(ctx, (l.dv + 1) * sizeof *fresh);
    if (!l.q || !l.k || !l.v || !py || !ps || !fresh || (l.n_decay && !l.decay) ||
        (l.n_beta && !l.beta))
        return steno_ops_nomem(ctx, err);
    if (past)
        steno_ops_load_f32(ps, past->data, past->dtype, steno_numel(past));
    else
        memset(ps, 0, steno_numel(state) * sizeof *ps);
    each = l.dk * l.dv;
    for (size_t b = 0; b < l.batch; b++)
        for (size_t t = 0; t < l.length; t++)
            for (size_t g = 0; g < l.groups; g++)
                linear_step(&l, b * l.length + t, g, ps + (b * l.groups + g) * each, fresh, py);
    steno_ops_put_f32(y, py);
    steno_ops_put_f32(state, ps);
    return STENO_OK;
}

const struct steno_op steno_ops_state[] = {
    {"", "TensorScatter", 24, 0, 0, steno_ops_infer_same, NULL, NULL, run_tensor_scatter},
    {"", "SwiGLU", 28, 0, 0, steno_ops_infer_same, NULL, NULL, run_swiglu},
    {"", "CausalConvWithState", 27, 0, 0, infer_causal, NULL, NULL, run_causal},
    {"", "LinearAttention", 27, 0, 0, infer_linear, NULL, NULL, run_linear},
    {0},
};
