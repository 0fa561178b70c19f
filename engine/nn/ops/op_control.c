/* Control flow: If (opset 1+), Loop (1+), Scan (8+). Bodies run through steno_op_subgraph, which
 * makes plans for them as for any graph. */
#include "nn/ops/internal.h"

#define MAX_CARRIED 256 /* loop-carried values and scan inputs of one node */
/* a loop of more iterations is treated as one that never ends */
#define MAX_ITERATIONS (1 << 24)

static steno_status copy_out(struct steno_op_ctx *ctx, int i, const struct steno_tensor *from,
                             steno_err *err)
{
    struct steno_tensor *y;
    steno_status st;
    if (!steno_op_wants(ctx, i))
        return STENO_OK;
    st = steno_op_out(ctx, i, from->dtype, &from->shape, &y, err);
    if (!st && steno_numel(from))
        memcpy(y->data, from->data, steno_numel(from) * steno_dtype_size(from->dtype));
    return st;
}

static steno_status read_flag(const struct steno_op_ctx *ctx, const struct steno_tensor *t,
                              bool *out, steno_err *err)
{
    if (t->dtype != STENO_BOOL || steno_numel(t) != 1)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "the condition is %s with %zu elements",
                             steno_dtype_name(t->dtype), steno_numel(t));
    *out = *(const uint8_t *)t->data != 0;
    return STENO_OK;
}

/* What both branches agree on: equal dims are kept, others become unknown. */
static struct steno_shape merge_shapes(struct steno_infer *ic, const struct steno_shape *a,
                                       const struct steno_shape *b)
{
    struct steno_shape r = *a;
    if (a->rank < 0 || a->rank != b->rank) {
        r.rank = STENO_RANK_ANY;
        return r;
    }
    for (int i = 0; i < r.rank; i++)
        if (!steno_same_dim(a->dim[i], b->dim[i]))
            r.dim[i] = steno_infer_new_dim(ic);
    return r;
}

/* ---- If ---- */

static steno_status prepare_if(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const char *const names[] = {"then_branch", "else_branch"};
    (void)priv;
    for (int i = 0; i < 2; i++) {
        const struct steno_graph *g = steno_node_graph(n, names[i]);
        if (!g)
            return steno_fail(err, STENO_ERR_FORMAT, "node '%s': %s is missing", n->name, names[i]);
        if (g->n_inputs || g->n_outputs < n->n_out)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "node '%s': %s has %d inputs and %d outputs, expected 0 and %d",
                              n->name, names[i], g->n_inputs, g->n_outputs, n->n_out);
    }
    return n->n_out > MAX_CARRIED
               ? steno_fail(err, STENO_ERR_LIMIT, "node '%s': too many outputs", n->name)
               : STENO_OK;
}

/* A branch that does not fit the present shapes is one that will not be taken (exporters guard
 * Squeeze and similar operators this way), so it is ignored. If both branches fail, that is an
 * error. */
static steno_status infer_if(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    const struct steno_tensor *cond = steno_infer_value(ic, 0);
    struct steno_graph *g[2] = {steno_node_graph(n, "then_branch"),
                                steno_node_graph(n, "else_branch")};
    steno_dtype dtype[MAX_CARRIED] = {STENO_DT_NONE};
    struct steno_shape shape[MAX_CARRIED];
    int outs = n->n_out < MAX_CARRIED ? n->n_out : MAX_CARRIED, seen = 0;
    steno_status st = STENO_OK;
    if (!g[0] || !g[1])
        return steno_fail(err, STENO_ERR_FORMAT, "a branch is missing");
    for (int k = 0; k < 2; k++) {
        steno_status failed;
        if (cond && steno_numel(cond) == 1 && (steno_ops_get_i64(cond, 0) != 0) != (k == 0))
            continue;
        failed = steno_infer_subgraph(ic, g[k], NULL, NULL, 0, seen ? NULL : err);
        if (failed) {
            st = failed;
            continue;
        }
        for (int i = 0; i < outs && i < g[k]->n_outputs; i++) {
            steno_dtype t;
            struct steno_shape s;
            steno_infer_subgraph_out(ic, i, &t, &s);
            if (seen && dtype[i] && t && t != dtype[i])
                return steno_fail(err, STENO_ERR_FORMAT,
                                  "output %d is %s in one branch and %s in the other", i,
                                  steno_dtype_name(dtype[i]), steno_dtype_name(t));
            dtype[i] = t ? t : dtype[i];
            shape[i] = seen ? merge_shapes(ic, &shape[i], &s) : s;
            steno_infer_set(ic, i, dtype[i], &shape[i]);
        }
        seen++;
    }
    return seen ? STENO_OK : st;
}

static steno_status run_if(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_tensor *out[MAX_CARRIED];
    int n = steno_op_n_out(ctx);
    bool cond;
    steno_status st = read_flag(ctx, steno_op_in(ctx, 0), &cond, err);
    if (!st)
        st = steno_op_subgraph(ctx, cond ? "then_branch" : "else_branch", NULL, 0, out, n, err);
    for (int i = 0; i < n && !st; i++)
        st = copy_out(ctx, i, out[i], err);
    return st;
}

/* ---- collecting scan outputs ---- */

struct collector {
    steno_dtype dtype;
    struct steno_shape shape; /* of one element */
    size_t bytes;             /* of one element */
    size_t count, cap;
    char *data; /* scratch of the run */
};

static steno_status collect_control(struct steno_op_ctx *ctx, struct collector *c,
                                    const struct steno_tensor *t, size_t expected, steno_err *err)
{
    if (steno_dtype_is_block(t->dtype))
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "a scan output is of type %s",
                             steno_dtype_name(t->dtype));
    if (!c->count) {
        c->dtype = t->dtype;
        c->shape = t->shape;
        c->bytes = steno_numel(t) * steno_dtype_size(t->dtype);
        if (t->shape.rank >= STENO_MAX_RANK)
            return steno_op_fail(ctx, err, STENO_ERR_LIMIT,
                                 "a scan output has rank %d, which is too high", t->shape.rank);
    } else if (t->dtype != c->dtype || !steno_shape_equal(&t->shape, &c->shape)) {
        return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                             "a scan output changes its shape in iteration %zu", c->count);
    }
    if (c->count == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : (expected && expected < 1024 ? expected : 16), size;
        char *more;
        if (!steno_mul_size(cap, c->bytes, &size) || !(more = steno_op_scratch(ctx, size)))
            return steno_ops_nomem(ctx, err);
        if (c->count && c->bytes)
            memcpy(more, c->data, c->count * c->bytes);
        c->data = more;
        c->cap = cap;
    }
    if (c->bytes)
        memcpy(c->data + c->count * c->bytes, t->data, c->bytes);
    c->count++;
    return STENO_OK;
}

/* Shape of an element when none was produced: as the body declares it, unknown dims 0. */
static void declared(struct collector *c, const struct steno_graph *body, int out)
{
    const struct steno_value *v = &body->values[body->outputs[out]];
    c->dtype = v->dtype ? v->dtype : STENO_F32;
    c->shape = v->shape;
    if (c->shape.rank < 0 || c->shape.rank >= STENO_MAX_RANK)
        c->shape.rank = 0;
    for (int i = 0; i < c->shape.rank; i++)
        if (c->shape.dim[i] < 0)
            c->shape.dim[i] = 0;
}

/* Stack the elements along `axis`; the last comes first when reversed. */
static steno_status stack(struct steno_op_ctx *ctx, int out, const struct collector *c,
                          int64_t axis, bool reverse, steno_err *err)
{
    struct steno_shape s = {.rank = c->shape.rank + 1};
    struct steno_tensor *y;
    size_t outer, inner, esize = steno_dtype_size(c->dtype);
    int at;
    steno_status st;
    if (!steno_op_wants(ctx, out))
        return STENO_OK;
    if (!steno_ops_axis(axis, s.rank, &at))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "scan axis %lld is outside rank %d",
                             (long long)axis, s.rank);
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = i == at ? (int64_t)c->count : c->shape.dim[i - (i > at)];
    st = steno_op_out(ctx, out, c->dtype, &s, &y, err);
    if (st)
        return st;
    outer = steno_ops_prod(&c->shape, 0, at);
    inner = steno_ops_prod(&c->shape, at, c->shape.rank) * esize;
    for (size_t k = 0; k < c->count && inner; k++) {
        const char *from = c->data + (reverse ? c->count - 1 - k : k) * c->bytes;
        for (size_t o = 0; o < outer; o++)
            memcpy((char *)y->data + (o * c->count + k) * inner, from + o * inner, inner);
    }
    return STENO_OK;
}

/* ---- Loop ---- */

static steno_status prepare_loop(struct steno_prepare *pc, void **priv, steno_err *err)
{
    const struct steno_node *n = steno_prepare_node_of(pc);
    const struct steno_graph *g = steno_node_graph(n, "body");
    int carried = n->n_in - 2;
    (void)priv;
    if (!g)
        return steno_fail(err, STENO_ERR_FORMAT, "node '%s': body is missing", n->name);
    if (carried < 0 || carried + 2 > MAX_CARRIED || n->n_out > MAX_CARRIED ||
        g->n_inputs != carried + 2 || g->n_outputs < 1 + n->n_out || n->n_out < carried)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "node '%s': %d inputs and %d outputs do not fit a body with %d and %d",
                          n->name, n->n_in, n->n_out, g->n_inputs, g->n_outputs);
    return STENO_OK;
}

static steno_status infer_loop_body(struct steno_infer *ic, struct steno_graph *g, int carried,
                                    const steno_dtype *dtype, struct steno_shape *shape, bool *same,
                                    steno_err *err)
{
    steno_status st = steno_infer_subgraph(ic, g, dtype, shape, carried + 2, err);
    *same = true;
    for (int i = 0; i < carried && !st; i++) {
        steno_dtype t;
        struct steno_shape s;
        steno_infer_subgraph_out(ic, 1 + i, &t, &s);
        if (!steno_shape_equal(&s, &shape[2 + i])) {
            *same = false;
            shape[2 + i].rank = STENO_RANK_ANY;
        }
    }
    return st;
}

static steno_status infer_loop(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_graph *g = steno_node_graph(n, "body");
    steno_dtype dtype[MAX_CARRIED + 2];
    struct steno_shape shape[MAX_CARRIED + 2];
    int carried = n->n_in - 2;
    bool same;
    steno_status st;
    if (!g || carried < 0 || carried + 2 > MAX_CARRIED || g->n_inputs != carried + 2)
        return steno_fail(err, STENO_ERR_FORMAT, "the body does not fit");
    dtype[0] = STENO_I64;
    dtype[1] = STENO_BOOL;
    shape[0] = shape[1] = (struct steno_shape){0};
    for (int i = 0; i < carried; i++) {
        dtype[2 + i] = steno_infer_dtype(ic, 2 + i);
        shape[2 + i] = steno_infer_shape(ic, 2 + i);
    }
    st = infer_loop_body(ic, g, carried, dtype, shape, &same, err);
    /* a carried value changes its shape between iterations: infer again with that shape unknown */
    if (!st && !same)
        st = infer_loop_body(ic, g, carried, dtype, shape, &same, err);
    if (st)
        return st;
    for (int i = 0; i < n->n_out && 1 + i < g->n_outputs; i++) {
        steno_dtype t;
        struct steno_shape s;
        steno_infer_subgraph_out(ic, 1 + i, &t, &s);
        if (i < carried) {
            steno_infer_set(ic, i, dtype[2 + i] ? dtype[2 + i] : t, same ? &shape[2 + i] : NULL);
        } else if (s.rank >= 0 && s.rank < STENO_MAX_RANK) {
            steno_ops_insert_axis(&s, 0, steno_infer_new_dim(ic));
            steno_infer_set(ic, i, t, &s);
        } else {
            steno_infer_set(ic, i, t, NULL);
        }
    }
    return STENO_OK;
}

static steno_status trip_count(const struct steno_op_ctx *ctx, int64_t *max, steno_err *err)
{
    const struct steno_tensor *m = steno_op_in(ctx, 0);
    *max = INT64_MAX;
    if (!m)
        return STENO_OK;
    if ((m->dtype != STENO_I64 && m->dtype != STENO_I32) || steno_numel(m) != 1)
        return steno_op_fail(ctx, err, STENO_ERR_FORMAT, "the trip count is %s with %zu elements",
                             steno_dtype_name(m->dtype), steno_numel(m));
    *max = steno_ops_get_i64(m, 0);
    return STENO_OK;
}

static steno_status run_loop(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_graph *g = steno_node_graph(steno_op_node(ctx), "body");
    int carried = steno_op_n_in(ctx) - 2, scans = steno_op_n_out(ctx) - carried;
    const struct steno_tensor *in[MAX_CARRIED + 2], *out[MAX_CARRIED + 2];
    struct collector *c = steno_op_scratch(ctx, ((size_t)scans + 1) * sizeof *c);
    int64_t trip = 0, max;
    uint8_t flag = 1;
    bool go = true;
    struct steno_tensor iter = {STENO_I64, {0}, &trip}, cond = {STENO_BOOL, {0}, &flag};
    steno_status st = trip_count(ctx, &max, err);
    if (!c)
        return steno_ops_nomem(ctx, err);
    memset(c, 0, ((size_t)scans + 1) * sizeof *c);
    if (!st && steno_op_in(ctx, 1))
        st = read_flag(ctx, steno_op_in(ctx, 1), &go, err);
    in[0] = &iter;
    in[1] = &cond;
    for (int i = 0; i < carried && !st; i++)
        if (!(in[2 + i] = steno_op_in(ctx, 2 + i)))
            st = steno_op_fail(ctx, err, STENO_ERR_FORMAT, "input %d is missing", 2 + i);
    for (; !st && go && trip < max; trip++) {
        if (trip == MAX_ITERATIONS)
            return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "more than %d iterations",
                                 MAX_ITERATIONS);
        flag = 1;
        st = steno_op_subgraph(ctx, "body", in, carried + 2, out, 1 + carried + scans, err);
        if (!st)
            st = read_flag(ctx, out[0], &go, err);
        for (int i = 0; i < carried && !st; i++)
            in[2 + i] = out[1 + i];
        for (int i = 0; i < scans && !st; i++)
            st = collect_control(ctx, &c[i], out[1 + carried + i],
                                 max < INT64_MAX ? (size_t)max : 0, err);
    }
    for (int i = 0; i < carried && !st; i++)
        st = copy_out(ctx, i, in[2 + i], err);
    for (int i = 0; i < scans && !st; i++) {
        if (!c[i].count)
            declared(&c[i], g, 1 + carried + i);
        st = stack(ctx, carried + i, &c[i], 0, false, err);
    }
    return st;
}

/* ---- Scan (opset 9 and later: no batch axis) ---- */

struct scan {
    int states, scans, outs; /* state variables, scan inputs, scan outputs */
    const int64_t *in_axes, *in_dirs, *out_axes, *out_dirs;
};

static steno_status scan_layout(const struct steno_node *n, struct scan *sc, steno_err *err)
{
    const struct steno_graph *g = steno_node_graph(n, "body");
    int64_t scans = steno_node_int(n, "num_scan_inputs", 0);
    size_t k[4];
    if (!g || scans < 1 || scans > n->n_in || n->n_in > MAX_CARRIED || n->n_out > MAX_CARRIED ||
        g->n_inputs != n->n_in || g->n_outputs < n->n_out || n->n_out < n->n_in - scans)
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "node '%s': %d inputs, %d outputs and num_scan_inputs %lld do not fit the body",
            n->name, n->n_in, n->n_out, (long long)scans);
    sc->scans = (int)scans;
    sc->states = n->n_in - sc->scans;
    sc->outs = n->n_out - sc->states;
    sc->in_axes = steno_node_ints(n, "scan_input_axes", &k[0]);
    sc->in_dirs = steno_node_ints(n, "scan_input_directions", &k[1]);
    sc->out_axes = steno_node_ints(n, "scan_output_axes", &k[2]);
    sc->out_dirs = steno_node_ints(n, "scan_output_directions", &k[3]);
    if ((sc->in_axes && k[0] != (size_t)scans) || (sc->in_dirs && k[1] != (size_t)scans) ||
        (sc->out_axes && k[2] != (size_t)sc->outs) || (sc->out_dirs && k[3] != (size_t)sc->outs))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "node '%s': the number of axes or directions does not fit", n->name);
    return STENO_OK;
}

static steno_status prepare_scan(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct scan sc;
    (void)priv;
    return scan_layout(steno_prepare_node_of(pc), &sc, err);
}

static steno_status infer_scan(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    steno_dtype dtype[MAX_CARRIED];
    struct steno_shape shape[MAX_CARRIED];
    int64_t len = STENO_DIM_ANY;
    struct scan sc;
    steno_status st = scan_layout(n, &sc, err);
    if (st)
        return st;
    for (int i = 0; i < n->n_in; i++) {
        int axis;
        dtype[i] = steno_infer_dtype(ic, i);
        shape[i] = steno_infer_shape(ic, i);
        if (i < sc.states || shape[i].rank < 0)
            continue;
        if (!steno_ops_axis(sc.in_axes ? sc.in_axes[i - sc.states] : 0, shape[i].rank, &axis))
            return steno_fail(err, STENO_ERR_INVAL, "a scan axis is outside rank %d",
                              shape[i].rank);
        len = shape[i].dim[axis];
        steno_ops_remove_axis(&shape[i], axis);
    }
    st = steno_infer_subgraph(ic, steno_node_graph(n, "body"), dtype, shape, n->n_in, err);
    for (int i = 0; i < n->n_out && !st; i++) {
        steno_dtype t;
        struct steno_shape s;
        int axis;
        steno_infer_subgraph_out(ic, i, &t, &s);
        if (i >= sc.states && s.rank >= 0 && s.rank < STENO_MAX_RANK &&
            steno_ops_axis(sc.out_axes ? sc.out_axes[i - sc.states] : 0, s.rank + 1, &axis))
            steno_ops_insert_axis(&s, axis, len);
        steno_infer_set(ic, i, t, i < sc.states ? &shape[i] : &s);
    }
    return st;
}

/* Copy element k along `axis` of x, dense, into t. */
static void slice_at(const struct steno_tensor *x, int axis, size_t k, struct steno_tensor *t)
{
    size_t outer = steno_ops_prod(&x->shape, 0, axis);
    size_t inner = steno_ops_prod(&x->shape, axis + 1, x->shape.rank) * steno_dtype_size(x->dtype);
    size_t len = (size_t)x->shape.dim[axis];
    for (size_t o = 0; o < outer; o++)
        memcpy((char *)t->data + o * inner, (const char *)x->data + (o * len + k) * inner, inner);
}

static steno_status scan_inputs(struct steno_op_ctx *ctx, const struct scan *sc,
                                struct steno_tensor *slice, int *axis, size_t *len, steno_err *err)
{
    for (int i = 0; i < sc->scans; i++) {
        const struct steno_tensor *x = steno_op_in(ctx, sc->states + i);
        if (!steno_ops_axis(sc->in_axes ? sc->in_axes[i] : 0, x->shape.rank, &axis[i]))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "a scan axis is outside rank %d",
                                 x->shape.rank);
        if (i && (size_t)x->shape.dim[axis[i]] != *len)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL,
                                 "scan inputs differ in length, %zu and %lld", *len,
                                 (long long)x->shape.dim[axis[i]]);
        *len = (size_t)x->shape.dim[axis[i]];
        slice[i].dtype = x->dtype;
        slice[i].shape.rank = x->shape.rank - 1;
        for (int d = 0; d < slice[i].shape.rank; d++)
            slice[i].shape.dim[d] = x->shape.dim[d + (d >= axis[i])];
        slice[i].data = steno_op_scratch(ctx, steno_numel(&slice[i]) * steno_dtype_size(x->dtype));
        if (!slice[i].data)
            return steno_ops_nomem(ctx, err);
    }
    return STENO_OK;
}

static steno_status run_scan(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    const struct steno_tensor *in[MAX_CARRIED], *out[MAX_CARRIED];
    struct steno_tensor *slice;
    struct collector *c;
    int *axis;
    size_t len = 0;
    struct scan sc;
    steno_status st = scan_layout(n, &sc, err);
    if (!st)
        st = steno_ops_need(ctx, n->n_in, err);
    if (st)
        return st;
    slice = steno_op_scratch(ctx, (size_t)sc.scans * sizeof *slice);
    axis = steno_op_scratch(ctx, (size_t)sc.scans * sizeof *axis);
    c = steno_op_scratch(ctx, ((size_t)sc.outs + 1) * sizeof *c);
    if (!slice || !axis || !c)
        return steno_ops_nomem(ctx, err);
    memset(c, 0, ((size_t)sc.outs + 1) * sizeof *c);
    st = scan_inputs(ctx, &sc, slice, axis, &len, err);
    for (int i = 0; i < n->n_in; i++)
        in[i] = i < sc.states ? steno_op_in(ctx, i) : &slice[i - sc.states];
    for (size_t k = 0; k < len && !st; k++) {
        for (int i = 0; i < sc.scans; i++)
            slice_at(steno_op_in(ctx, sc.states + i), axis[i],
                     sc.in_dirs && sc.in_dirs[i] ? len - 1 - k : k, &slice[i]);
        st = steno_op_subgraph(ctx, "body", in, n->n_in, out, n->n_out, err);
        for (int i = 0; i < sc.states && !st; i++)
            in[i] = out[i];
        for (int i = 0; i < sc.outs && !st; i++)
            st = collect_control(ctx, &c[i], out[sc.states + i], len, err);
    }
    for (int i = 0; i < sc.states && !st; i++)
        st = copy_out(ctx, i, in[i], err);
    for (int i = 0; i < sc.outs && !st; i++) {
        if (!c[i].count)
            declared(&c[i], steno_node_graph(n, "body"), sc.states + i);
        st = stack(ctx, sc.states + i, &c[i], sc.out_axes ? sc.out_axes[i] : 0,
                   sc.out_dirs && sc.out_dirs[i], err);
    }
    return st;
}

/* ---- Scan of opset 8 ---- sequence_lens [batch]?, states [batch, ...], scan inputs [batch, seq,
 * ...]. Every batch entry runs by itself; outputs past its length are 0. */

struct scan8 {
    int states, scans, outs;
    size_t batch, seq;
    const int64_t *dirs;
};

static steno_status scan8_layout(const struct steno_node *n, struct scan8 *sc, steno_err *err)
{
    const struct steno_graph *g = steno_node_graph(n, "body");
    int64_t scans = steno_node_int(n, "num_scan_inputs", 0);
    size_t count;
    if (!g || scans < 1 || scans >= n->n_in || n->n_in > MAX_CARRIED || n->n_out > MAX_CARRIED ||
        g->n_inputs != n->n_in - 1 || g->n_outputs < n->n_out || n->n_out < n->n_in - 1 - scans)
        return steno_fail(
            err, STENO_ERR_FORMAT,
            "node '%s': %d inputs, %d outputs and num_scan_inputs %lld do not fit the body",
            n->name, n->n_in, n->n_out, (long long)scans);
    sc->scans = (int)scans;
    sc->states = n->n_in - 1 - sc->scans;
    sc->outs = n->n_out - sc->states;
    sc->dirs = steno_node_ints(n, "directions", &count);
    if (sc->dirs && count != (size_t)scans)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "node '%s': the number of directions, %zu, does not fit", n->name, count);
    return STENO_OK;
}

static steno_status prepare_scan8(struct steno_prepare *pc, void **priv, steno_err *err)
{
    struct scan8 sc;
    (void)priv;
    return scan8_layout(steno_prepare_node_of(pc), &sc, err);
}

/* s without its first n dims. */
static struct steno_shape without(const struct steno_shape *s, int n)
{
    struct steno_shape r = {.rank = s->rank < n ? STENO_RANK_ANY : s->rank - n};
    for (int i = 0; i < r.rank; i++)
        r.dim[i] = s->dim[i + n];
    return r;
}

/* e with n more dims in front; rank unknown where that is too many. */
static struct steno_shape behind(const struct steno_shape *e, int n, const int64_t *dim)
{
    struct steno_shape r = {.rank = STENO_RANK_ANY};
    if (e->rank < 0 || e->rank + n > STENO_MAX_RANK)
        return r;
    r.rank = e->rank + n;
    for (int i = 0; i < r.rank; i++)
        r.dim[i] = i < n ? dim[i] : e->dim[i - n];
    return r;
}

static steno_status infer_scan8(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    steno_dtype dtype[MAX_CARRIED];
    struct steno_shape shape[MAX_CARRIED];
    int64_t dims[2] = {STENO_DIM_ANY, STENO_DIM_ANY};
    struct scan8 sc;
    steno_status st = scan8_layout(n, &sc, err);
    for (int i = 1; i < n->n_in && !st; i++) {
        struct steno_shape s = steno_infer_shape(ic, i);
        dtype[i - 1] = steno_infer_dtype(ic, i);
        shape[i - 1] = without(&s, i <= sc.states ? 1 : 2);
        if (i > sc.states && s.rank >= 2)
            memcpy(dims, s.dim, sizeof dims);
    }
    if (!st)
        st = steno_infer_subgraph(ic, steno_node_graph(n, "body"), dtype, shape, n->n_in - 1, err);
    for (int i = 0; i < 2; i++)
        if (dims[i] == STENO_DIM_ANY)
            dims[i] = steno_infer_new_dim(ic);
    for (int i = 0; i < n->n_out && !st; i++) {
        steno_dtype t;
        struct steno_shape s;
        steno_infer_subgraph_out(ic, i, &t, &s);
        s = behind(i < sc.states ? &shape[i] : &s, i < sc.states ? 1 : 2, dims);
        steno_infer_set(ic, i, t, &s);
    }
    return st;
}

static steno_status scan8_inputs(struct steno_op_ctx *ctx, struct scan8 *sc, steno_err *err)
{
    int n = steno_op_n_in(ctx);
    for (int i = n - 1; i > 0; i--) {
        const struct steno_tensor *x = steno_op_in(ctx, i);
        int need = i <= sc->states ? 1 : 2;
        if (!x || x->shape.rank < need)
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d has fewer than %d axes", i,
                                 need);
        if (i == n - 1) {
            sc->batch = (size_t)x->shape.dim[0];
            sc->seq = (size_t)x->shape.dim[1];
        }
        if ((size_t)x->shape.dim[0] != sc->batch ||
            (need == 2 && (size_t)x->shape.dim[1] != sc->seq))
            return steno_op_fail(ctx, err, STENO_ERR_INVAL, "input %d has another length", i);
    }
    return STENO_OK;
}

static steno_status scan8_length(const struct steno_op_ctx *ctx, const struct scan8 *sc, size_t b,
                                 size_t *len, steno_err *err)
{
    const struct steno_tensor *t = steno_op_in(ctx, 0);
    int64_t v = (int64_t)sc->seq;
    if (t && ((t->dtype != STENO_I64 && t->dtype != STENO_I32) || steno_numel(t) != sc->batch))
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "sequence_lens does not fit %zu",
                             sc->batch);
    if (t)
        v = steno_ops_get_i64(t, b);
    if (v < 0 || (uint64_t)v > sc->seq)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "sequence_lens[%zu] is %lld of %zu", b,
                             (long long)v, sc->seq);
    *len = (size_t)v;
    return STENO_OK;
}

/* Copy element e to place `at` of output i. The output is created with zeros on first use. */
static steno_status scan8_put(struct steno_op_ctx *ctx, const struct scan8 *sc, int i, size_t at,
                              const struct steno_tensor *e, struct steno_tensor **y, steno_err *err)
{
    int n = i < sc->states ? 1 : 2;
    struct steno_shape s =
        behind(&e->shape, n, (const int64_t[]){(int64_t)sc->batch, (int64_t)sc->seq});
    size_t bytes = steno_numel(e) * steno_dtype_size(e->dtype);
    steno_status st;
    if (!steno_op_wants(ctx, i))
        return STENO_OK;
    if (s.rank < 0)
        return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "output %d has too many axes", i);
    if (!*y) {
        st = steno_op_out(ctx, i, e->dtype, &s, y, err);
        if (st)
            return st;
        memset((*y)->data, 0, steno_numel(*y) * steno_dtype_size(e->dtype));
    } else if ((*y)->dtype != e->dtype || !steno_shape_equal(&(*y)->shape, &s)) {
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "output %d changes its shape", i);
    }
    if (bytes)
        memcpy((char *)(*y)->data + at * bytes, e->data, bytes);
    return STENO_OK;
}

/* Entry `at` of x, counted over its first n axes. */
static struct steno_tensor entry(const struct steno_tensor *x, int n, size_t at)
{
    struct steno_tensor e = {.dtype = x->dtype, .shape = without(&x->shape, n)};
    e.data = (char *)x->data +
             at * steno_ops_prod(&e.shape, 0, e.shape.rank) * steno_dtype_size(x->dtype);
    return e;
}

static steno_status scan8_entry(struct steno_op_ctx *ctx, const struct scan8 *sc, size_t b,
                                struct steno_tensor *e, struct steno_tensor **y, steno_err *err)
{
    const struct steno_tensor *in[MAX_CARRIED], *out[MAX_CARRIED];
    int n = sc->states + sc->scans;
    size_t len = 0;
    steno_status st = scan8_length(ctx, sc, b, &len, err);
    for (int i = 0; i < n; i++) {
        in[i] = &e[i];
        if (i < sc->states)
            e[i] = entry(steno_op_in(ctx, 1 + i), 1, b);
    }
    for (size_t k = 0; k < len && !st; k++) {
        for (int i = 0; i < sc->scans; i++)
            e[sc->states + i] = entry(steno_op_in(ctx, 1 + sc->states + i), 2,
                                      b * sc->seq + (sc->dirs && sc->dirs[i] ? len - 1 - k : k));
        st = steno_op_subgraph(ctx, "body", in, n, out, sc->states + sc->outs, err);
        for (int i = 0; i < sc->states && !st; i++)
            in[i] = out[i];
        for (int i = sc->states; i < sc->states + sc->outs && !st; i++)
            st = scan8_put(ctx, sc, i, b * sc->seq + k, out[i], &y[i], err);
    }
    for (int i = 0; i < sc->states && !st; i++)
        st = scan8_put(ctx, sc, i, b, in[i], &y[i], err);
    return st;
}

static steno_status run_scan8(struct steno_op_ctx *ctx, steno_err *err)
{
    const struct steno_node *n = steno_op_node(ctx);
    struct steno_tensor *e, **y;
    struct scan8 sc;
    steno_status st = scan8_layout(n, &sc, err);
    if (!st)
        st = scan8_inputs(ctx, &sc, err);
    if (st)
        return st;
    e = steno_op_scratch(ctx, (size_t)n->n_in * sizeof *e);
    y = steno_op_scratch(ctx, ((size_t)n->n_out + 1) * sizeof *y);
    if (!e || !y)
        return steno_ops_nomem(ctx, err);
    memset(y, 0, ((size_t)n->n_out + 1) * sizeof *y);
    for (size_t b = 0; b < sc.batch && !st; b++)
        st = scan8_entry(ctx, &sc, b, e, y, err);
    /* nothing ran: use the shape that the body declares */
    for (int i = 0; i < n->n_out && !st; i++) {
        struct collector c = {0};
        struct steno_shape s;
        if (y[i] || !steno_op_wants(ctx, i))
            continue;
        declared(&c, steno_node_graph(n, "body"), i);
        s = i < sc.states
                ? steno_op_in(ctx, 1 + i)->shape
                : behind(&c.shape, 2, (const int64_t[]){(int64_t)sc.batch, (int64_t)sc.seq});
        if (s.rank < 0)
            return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "output %d has too many axes", i);
        st = steno_op_out(ctx, i, c.dtype, &s, &y[i], err);
        if (!st)
            memset(y[i]->data, 0, steno_numel(y[i]) * steno_dtype_size(c.dtype));
    }
    return st;
}

const struct steno_op steno_ops_control[] = {
    {"", "If", 1, 0, STENO_OP_DYNAMIC, infer_if, prepare_if, NULL, run_if},
    {"", "Loop", 1, 0, STENO_OP_DYNAMIC, infer_loop, prepare_loop, NULL, run_loop},
    {"", "Scan", 8, 8, 0, infer_scan8, prepare_scan8, NULL, run_scan8},
    {"", "Scan", 9, 0, 0, infer_scan, prepare_scan, NULL, run_scan},
    {0},
};
