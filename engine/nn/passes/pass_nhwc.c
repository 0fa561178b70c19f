/* Two-axis convolutions and the nodes between them work on channels-last tensors, with Transposes
 * at the borders to the rest of the graph. Channels last, a 1x1 convolution is a plain product
 * (pass linear takes in what follows), and a depthwise one runs over vectors of channels. Passes
 * pointwise and depthwise treat convolutions of one axis.
 *
 * Before: Conv(x, W, b), [N, C, H, W]                f(c), c of such a Conv
 * After:  t = Transpose(x; 0, 2, 3, 1)
 *         MatMul(t, W') [+ b] when W is 1x1          f(c'), c' the channels-last twin of c
 *         ai.steno:ConvNhwc(t, W, b) otherwise       (nn/ops/op_conv_nhwc.c)
 *         and Transpose back for other readers
 *         MaxPool, AveragePool                       ai.steno:PoolNhwc (nn/ops/op_pool_nhwc.c)
 *         GlobalAveragePool, GlobalMaxPool           ReduceMean, ReduceMax of axes 1 and 2
 *
 * f: elementwise of one input, of two (and Where) that are channels last, a constant of one element
 * or one per channel, or a tensor [N, 1, H, W] that is transposed for it (a mask of lengths), Clip
 * and Resize by constants, Split along the channels, Slice of one axis by constants, Concat along
 * the channels or along an axis of the image with tensors that are transposed for it (a cache). */
#include "nn/passes/passes.h"

#include <string.h>

struct layout {
    struct steno_graph *g;
    steno_err *err;
    int32_t n_nodes;      /* before the rewrite */
    steno_value_id *twin; /* by value: its channels-last form, NONE before it is made */
    bool *last;           /* by value: written by a member */
    uint32_t *read;       /* by value: reads by members */
    bool *member;         /* by node */
    int32_t n_values;     /* extent of the arrays by value */
    bool to_write;
};

/* ---- finding members ---- */

static bool plain_window(const struct steno_node *n)
{
    return steno_pass_ints_are(n, "strides", 1, 1) && steno_pass_ints_are(n, "dilations", 1, 1) &&
           steno_pass_ints_are(n, "pads", 0, 0);
}

static bool conv_fits(const struct steno_graph *g, const struct steno_node *n)
{
    if (!steno_pass_is(n, "Conv") || n->n_in < 2 || n->in[1] == STENO_NONE)
        return false;
    const struct steno_tensor *w = g->values[n->in[1]].constant;
    const struct steno_shape *x = &g->values[n->in[0]].shape;
    int64_t group = steno_node_int(n, "group", 1);
    return w && w->data && w->dtype == STENO_F32 && steno_numel(w) && w->shape.rank == 4 &&
           x->rank == 4 && g->values[n->in[0]].dtype == STENO_F32 &&
           /* a depthwise one leaves out the padding, whose zeros times infinity are NaN */
           (group == 1 || (w->shape.dim[1] == 1 && w->shape.dim[0] == group &&
                           steno_pass_is_finite(g, n->in[1]))) &&
           x->dim[1] == w->shape.dim[1] * group &&
           steno_pass_vector_or_none(g, n, 2, w->shape.dim[0]);
}

static bool one_input(const struct steno_node *n)
{
    return steno_pass_is_any(n,
                             "Relu Sigmoid Tanh Swish Erf Sqrt LeakyRelu Elu HardSigmoid Abs Neg "
                             "Clip Softplus HardSwish Gelu Identity Mish Softsign Selu Celu Exp "
                             "Log ThresholdedRelu Round Floor Ceil Reciprocal") ||
           steno_pass_is_ours(n, "Swoosh");
}

static bool two_inputs(const struct steno_node *n)
{
    return steno_pass_is_any(n, "Add Sub Mul Div Max Min PRelu");
}

static bool single(const struct steno_graph *g, steno_value_id v)
{
    const struct steno_tensor *t = g->values[v].constant;
    return t && t->data && t->shape.rank <= 1 && steno_numel(t) == 1;
}

/* A constant of one element per channel of y, as [C, 1, 1] or [1, C, 1, 1]. */
static bool per_channel(const struct steno_graph *g, steno_value_id v, steno_value_id y)
{
    const struct steno_tensor *t = g->values[v].constant;
    const struct steno_shape *s = &g->values[y].shape;
    const int at = t ? t->shape.rank - 3 : 0;
    return t && t->data && t->dtype == STENO_F32 && (at == 0 || at == 1) && s->rank == 4 &&
           t->shape.dim[at] == s->dim[1] && t->shape.dim[at] == (int64_t)steno_numel(t);
}

/* A computed tensor [N, 1, H, W], one number for all channels: to turn it costs next to nothing. */
static bool by_place(const struct layout *l, steno_value_id v)
{
    const struct steno_value *m = &l->g->values[v];
    return !m->constant && !l->last[v] && m->shape.rank == 4 && m->shape.dim[1] == 1;
}

/* Members are images, so extents of 1 broadcast along the same axes. */
static bool joins(const struct layout *l, steno_value_id v)
{
    return v != STENO_NONE && (l->last[v] || single(l->g, v) || by_place(l, v));
}

static bool where_fits(const struct layout *l, const struct steno_node *n)
{
    return steno_pass_is(n, "Where") && n->n_in == 3 && joins(l, n->in[0]) && joins(l, n->in[1]) &&
           joins(l, n->in[2]) && (l->last[n->in[1]] || l->last[n->in[2]]);
}

static bool pool_fits(const struct layout *l, const struct steno_node *n)
{
    const struct steno_value *x = &l->g->values[n->in[0]];
    const bool global = steno_pass_is_any(n, "GlobalAveragePool GlobalMaxPool");
    if (!l->last[n->in[0]] || x->shape.rank != 4 || x->dtype != STENO_F32)
        return false;
    for (int i = 1; i < n->n_out; i++) /* Indices */
        if (n->out[i] != STENO_NONE)
            return false;
    return global || steno_pass_is_any(n, "MaxPool AveragePool");
}

/* True for a Resize by constant scales or to constant sizes, given for all four axes. */
static bool resize_fits(const struct layout *l, const struct steno_node *n)
{
    const struct steno_tensor *roi, *by;
    const int given = steno_node_in(n, 3) != STENO_NONE ? 3 : 2;
    if (!steno_pass_is(n, "Resize") || n->opset < 11 || n->n_in <= given || !l->last[n->in[0]] ||
        n->in[given] == STENO_NONE || steno_node_attr(n, "axes") ||
        /* ONNX Runtime does not shrink images so */
        (l->to_write && !strcmp(steno_node_str(n, "mode", "nearest"), "cubic")))
        return false;
    roi = steno_pass_const(l->g, n, 1);
    by = steno_pass_const(l->g, n, given);
    return l->g->values[n->in[0]].dtype == STENO_F32 && l->g->values[n->in[0]].shape.rank == 4 &&
           (n->in[1] == STENO_NONE || (roi && !steno_numel(roi))) && by && by->data &&
           steno_numel(by) == 4 && (by->dtype == STENO_F32 || by->dtype == STENO_I64) &&
           (given == 2 || n->in[2] == STENO_NONE || l->g->values[n->in[2]].constant);
}

static bool split_fits(const struct layout *l, const struct steno_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] == STENO_NONE)
            return false;
    return steno_pass_is(n, "Split") && steno_node_int(n, "axis", 0) == 1 && l->last[n->in[0]] &&
           (steno_node_in(n, 1) == STENO_NONE || steno_pass_const(l->g, n, 1));
}

static bool slice_fits(const struct layout *l, const struct steno_node *n)
{
    double axis;
    return steno_pass_is(n, "Slice") && n->opset >= 10 && n->n_in >= 4 && n->in[3] != STENO_NONE &&
           l->last[n->in[0]] && l->g->values[n->in[0]].shape.rank == 4 &&
           steno_pass_scalar(l->g, n->in[3], &axis) && axis >= -4 && axis < 4 &&
           steno_numel(steno_pass_const(l->g, n, 3)) == 1 && steno_pass_const(l->g, n, 1) &&
           steno_pass_const(l->g, n, 2) &&
           (steno_node_in(n, 4) == STENO_NONE || steno_pass_const(l->g, n, 4));
}

/* True for a Concat along the channels or an axis of the image, at most half of its inputs from
 * other nodes. */
static bool concat_fits(const struct layout *l, const struct steno_node *n)
{
    int64_t axis = steno_node_int(n, "axis", 0);
    int inside = 0;
    if (!steno_pass_is(n, "Concat") || !axis || axis == -4)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        const struct steno_value *v = &l->g->values[n->in[i]];
        if (v->shape.rank != 4 || v->dtype != STENO_F32 || v->constant)
            return false;
        inside += l->last[n->in[i]];
    }
    return 2 * inside >= n->n_in && inside;
}

static bool takes_part(const struct layout *l, const struct steno_node *n)
{
    const struct steno_graph *g = l->g;
    if (n->dead || n->n_in < 1 || n->in[0] == STENO_NONE)
        return false;
    if (conv_fits(g, n))
        return true;
    if (one_input(n)) {
        for (int i = 1; i < n->n_in; i++)
            if (n->in[i] != STENO_NONE && !single(g, n->in[i]))
                return false;
        return l->last[n->in[0]];
    }
    if (two_inputs(n)) {
        if (n->n_in != 2 || n->in[1] == STENO_NONE)
            return false;
        bool a = l->last[n->in[0]], b = l->last[n->in[1]];
        return (a && (joins(l, n->in[1]) || per_channel(g, n->in[1], n->in[0]))) ||
               (b && (joins(l, n->in[0]) || per_channel(g, n->in[0], n->in[1])));
    }
    return where_fits(l, n) || pool_fits(l, n) || resize_fits(l, n) || split_fits(l, n) ||
           slice_fits(l, n) || concat_fits(l, n);
}

/* Nodes are in topological order. */
static int find_members(struct layout *l)
{
    int found = 0;
    for (int32_t i = 0; i < l->n_nodes; i++) {
        const struct steno_node *n = &l->g->nodes[i];
        l->member[i] = takes_part(l, n);
        for (int k = 0; k < n->n_out && l->member[i]; k++)
            if (n->out[k] != STENO_NONE)
                l->last[n->out[k]] = true;
        for (int k = 0; k < n->n_in && l->member[i]; k++)
            if (n->in[k] != STENO_NONE)
                l->read[n->in[k]]++;
        found += l->member[i] && steno_pass_is(n, "Conv");
    }
    return found;
}

/* ---- rewriting ---- */

static int64_t *perm_of(struct layout *l, int rank, bool to_last)
{
    int64_t *p = steno_graph_alloc(l->g, (size_t)rank, sizeof *p, l->err);
    for (int i = 0; p && i < rank; i++)
        p[i] = i == 0 ? 0 : to_last ? (i < rank - 1 ? i + 1 : 1) : (i == 1 ? rank - 1 : i - 1);
    return p;
}

static steno_status add_transpose(struct layout *l, steno_value_id from, steno_value_id to,
                                  bool to_last, const char *name)
{
    const int rank = l->g->values[to_last ? from : to].shape.rank;
    const int64_t *p = perm_of(l, rank, to_last);
    return !p ? STENO_ERR_NOMEM
              : steno_pass_put(l->g, name,
                               STENO_NODE("", "Transpose", 13, .in = STENO_VALUES(from),
                                          .out = STENO_VALUES(to),
                                          .attr = STENO_ATTRS(STENO_INTS_ATTR("perm", rank, p))),
                               l->err);
}

/* Return the channels-last form of v; make it if needed. */
static steno_status twin_of(struct layout *l, steno_value_id v, const char *name,
                            steno_value_id *out)
{
    steno_status st = STENO_OK;
    if (l->twin[v] == STENO_NONE) {
        st = steno_graph_add_value(l->g, "", &l->twin[v], l->err);
        if (!st)
            l->g->values[l->twin[v]].dtype = l->g->values[v].dtype;
        if (!st && !l->last[v])
            st = add_transpose(l, v, l->twin[v], true, name);
    }
    *out = l->twin[v];
    return st;
}

/* The channels-last forms of a node's first input and output. */
static steno_status twins(struct layout *l, const struct steno_node *n, steno_value_id *x,
                          steno_value_id *y)
{
    steno_status st = twin_of(l, n->in[0], n->name, x);
    return st ? st : twin_of(l, n->out[0], n->name, y);
}

static steno_status rewrite_conv(struct layout *l, int32_t at)
{
    const struct steno_node n = l->g->nodes[at]; /* the array may move */
    const struct steno_shape w = l->g->values[n.in[1]].shape;
    const bool pointwise =
        w.dim[2] == 1 && w.dim[3] == 1 && plain_window(&n) && steno_node_int(&n, "group", 1) == 1;
    struct steno_pass_writer p = {l->g, n.name, l->err, STENO_OK};
    steno_value_id x, y, matrix;
    p.st = twins(l, &n, &x, &y);
    if (!p.st && pointwise)
        p.st = steno_graph_transpose_const(l->g, n.in[1], &matrix, l->err);
    if (p.st)
        return p.st;
    if (pointwise)
        steno_pass_write_product(&p, x, matrix, steno_node_in(&n, 2), y);
    else
        steno_pass_write(
            &p, STENO_NODE("ai.steno", "ConvNhwc", 1,
                           .in = STENO_VALUES(x, n.in[1], steno_node_in(&n, 2), STENO_NONE),
                           .out = STENO_VALUES(y),
                           .attr = STENO_ATTRS(STENO_INT_ATTR("act", STENO_ACT_NONE),
                                               STENO_FLOAT_ATTR("act_min", 0),
                                               STENO_FLOAT_ATTR("act_max", 0)),
                           .attrs_of = &n));
    return p.st;
}

/* Map an axis of [N, C, H, W] to [N, H, W, C]. */
static int64_t axis_last(int64_t axis)
{
    axis = axis < 0 ? axis + 4 : axis;
    return axis == 0 ? 0 : axis == 1 ? 3 : axis - 1;
}

static steno_status axis_constant(struct layout *l, steno_value_id old, steno_value_id *out)
{
    double axis = 0;
    int64_t to;
    struct steno_tensor t = {.dtype = STENO_I64, .shape = {.rank = 1, .dim = {1}}, .data = &to};
    (void)steno_pass_scalar(l->g, old, &axis);
    to = axis_last((int64_t)axis);
    return steno_graph_add_const(l->g, "axis", &t, false, out, l->err);
}

/* The elements of a constant [C, 1, 1] or [1, C, 1, 1] as [C]. */
static steno_status channel_constant(struct layout *l, steno_value_id old, steno_value_id *out)
{
    struct steno_tensor t = *l->g->values[old].constant;
    t.shape = (struct steno_shape){.rank = 1, .dim = {(int64_t)steno_numel(&t)}};
    return steno_graph_add_const(l->g, "by_channel", &t, false, out, l->err);
}

static steno_status rewrite_pool(struct layout *l, int32_t at)
{
    static const int64_t image[] = {1, 2};
    const struct steno_node n = l->g->nodes[at];
    const bool global = *n.op_type == 'G';
    const char *type = steno_pass_is(&n, "GlobalMaxPool") ? "ReduceMax" : "ReduceMean";
    steno_value_id x, y;
    steno_status st = twins(l, &n, &x, &y);
    if (st)
        return st;
    return steno_pass_put(
        l->g, n.name,
        global ? STENO_NODE("", type, 13, .in = STENO_VALUES(x), .out = STENO_VALUES(y),
                            .attr = STENO_ATTRS(STENO_INTS_ATTR("axes", 2, image),
                                                STENO_INT_ATTR("keepdims", 1)))
               : STENO_NODE(
                     "ai.steno", "PoolNhwc", 1, .in = STENO_VALUES(x), .out = STENO_VALUES(y),
                     .attr = STENO_ATTRS(STENO_INT_ATTR("max", *n.op_type == 'M')), .attrs_of = &n),
        l->err);
}

/* A constant with one element for each axis, in the order of the twin's axes. */
static steno_status constant_of_axes(struct layout *l, steno_value_id old, steno_value_id *out)
{
    struct steno_tensor t = *l->g->values[old].constant;
    const size_t size = steno_dtype_size(t.dtype);
    const char *from = t.data;
    char to[4 * sizeof(int64_t)];
    for (int64_t axis = 0; axis < 4; axis++)
        memcpy(to + (size_t)axis_last(axis) * size, from + (size_t)axis * size, size);
    t.data = to;
    return steno_graph_add_const(l->g, "axes", &t, false, out, l->err);
}

/* Write the same operator on the twins. */
static steno_status rewrite_follower(struct layout *l, int32_t at)
{
    const struct steno_node n = l->g->nodes[at];
    const bool split = steno_pass_is(&n, "Split"), slice = steno_pass_is(&n, "Slice");
    const bool concat = steno_pass_is(&n, "Concat"), resize = steno_pass_is(&n, "Resize");
    const bool elementwise = two_inputs(&n) || steno_pass_is(&n, "Where");
    int32_t copy;
    steno_status st = steno_graph_add_node(l->g, n.domain, n.op_type, n.name, n.n_in, n.n_out,
                                           n.n_attr, &copy, l->err);
    if (st)
        return st;
    l->g->nodes[copy].opset = n.opset;
    l->g->nodes[copy].op = n.op;
    for (int i = 0; i < n.n_attr; i++) {
        l->g->nodes[copy].attr[i] = n.attr[i];
        if (split && !strcmp(n.attr[i].name, "axis"))
            l->g->nodes[copy].attr[i].i = l->g->values[n.in[0]].shape.rank - 1;
        if (concat && !strcmp(n.attr[i].name, "axis"))
            l->g->nodes[copy].attr[i].i = axis_last(n.attr[i].i);
    }
    for (int i = 0; i < n.n_in && !st; i++) {
        steno_value_id v = n.in[i];
        if (resize && i > 1 && v != STENO_NONE && steno_numel(l->g->values[v].constant) == 4)
            st = constant_of_axes(l, v, &v);
        else if (slice && i == 3)
            st = axis_constant(l, v, &v);
        else if (v != STENO_NONE && (l->last[v] || concat || (elementwise && by_place(l, v))))
            st = twin_of(l, v, n.name, &v);
        else if (v != STENO_NONE && two_inputs(&n) && steno_numel(l->g->values[v].constant) > 1)
            st = channel_constant(l, v, &v);
        l->g->nodes[copy].in[i] = v;
    }
    for (int i = 0; i < n.n_out && !st; i++)
        st = twin_of(l, n.out[i], n.name, &l->g->nodes[copy].out[i]);
    return st;
}

static steno_status rewrite(struct layout *l)
{
    steno_status st = STENO_OK;
    for (int32_t i = 0; i < l->n_nodes && !st; i++) {
        if (!l->member[i])
            continue;
        if (steno_pass_is(&l->g->nodes[i], "Conv"))
            st = rewrite_conv(l, i);
        else if (pool_fits(l, &l->g->nodes[i]))
            st = rewrite_pool(l, i);
        else
            st = rewrite_follower(l, i);
        l->g->nodes[i].dead = true;
    }
    for (steno_value_id v = 0; v < l->n_values && !st; v++)
        if (l->last[v] && l->g->values[v].uses > l->read[v])
            st = add_transpose(l, l->twin[v], v, false, l->g->values[v].name);
    return st;
}

steno_status steno_pass_nhwc(struct steno_graph *g, const struct steno_pass_env *env, int *changed,
                             steno_err *err)
{
    size_t values = (size_t)g->n_values + 1, nodes = (size_t)g->n_nodes + 1;
    struct layout l = {.g = g,
                       .err = err,
                       .n_nodes = g->n_nodes,
                       .n_values = g->n_values,
                       .to_write = env->to_write,
                       .twin = steno_graph_alloc(g, values, sizeof *l.twin, err),
                       .last = steno_graph_alloc(g, values, sizeof *l.last, err),
                       .read = steno_graph_alloc(g, values, sizeof *l.read, err),
                       .member = steno_graph_alloc(g, nodes, sizeof *l.member, err)};
    int found;
    if (!l.twin || !l.last || !l.read || !l.member)
        return STENO_ERR_NOMEM;
    memset(l.last, 0, values * sizeof *l.last);
    memset(l.read, 0, values * sizeof *l.read);
    for (size_t i = 0; i < values; i++)
        l.twin[i] = STENO_NONE;
    found = find_members(&l);
    if (!found)
        return STENO_OK;
    *changed += found;
    return rewrite(&l);
}
