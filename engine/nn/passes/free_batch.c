/* Before: inputs [1, ...], nodes as they were traced for a batch of one
 * After:  inputs [N, ...]; a Reshape to [1, ...] becomes one to [0, ...], which copies the extent;
 *         ScatterND becomes ai.steno.run:ScatterEach (nn/ops/op_gather.c)
 * A value is apart if it depends on such an input. It then has one entry per stream along axis 0,
 * and no operator on the way may mix the entries. The table lists what is known of operators; other
 * operators are refused. A number that tells how many streams there are may only be copied as an
 * extent; other uses are refused.
 * A batch of one does not show which axis of size 1 is the batch. So shapes are inferred again with
 * N, and each value that is apart must have N as its first extent. */
#include "nn/passes/free_batch.h"

#include <stdio.h>
#include <string.h>

#define NAME "streams of this batch" /* of the extent; no exporter uses this name */

enum kind {
    ENTRIES, /* axis 0 is the batch, of each input that may be apart */
    ALIGNED, /* element by element, as ONNX broadcasts */
    AXIS,    /* along attribute axis */
    AXES,    /* along attribute axes, or those in a constant input */
    PERM,
    MATMUL,
    ATTENTION,
    JOIN,
    RESHAPE,
    SCATTER,
    SHAPE /* the result is the same for all streams */
};

/* Types of one domain that have one rule. */
struct rule {
    const char *domain, *types;
    enum kind kind;
    unsigned apart; /* bit k: input k may be apart */
    int extra;      /* AXIS, JOIN: the default; AXES: number of the axes input */
};

static const struct rule rules[] = {
    {"",
     "Abs Cast Ceil Clip Elu Erf Exp Expand Floor Gelu Identity LeakyRelu Log Neg Not Relu Sigmoid "
     "Softplus Sqrt Swish Tanh",
     ALIGNED, 1, 0},
    {"", "Add And Div Equal Greater GreaterOrEqual Less LessOrEqual Mul Or Pow Sub", ALIGNED, 3, 0},
    {"", "Concat", JOIN, ~0u, 0},
    {"", "Conv", ENTRIES, 1, 0},
    {"", "Gather Split", AXIS, 1, 0},
    {"", "LayerNormalization LogSoftmax Softmax", AXIS, 1, -1},
    {"", "MatMul", MATMUL, 3, 0},
    {"", "Max Min", ALIGNED, ~0u, 0},
    {"", "ReduceMax ReduceMean ReduceMin ReduceSum Squeeze Unsqueeze", AXES, 1, 1},
    {"", "Reshape", RESHAPE, 1, 0},
    {"", "ScatterND", SCATTER, 5, 0},
    {"", "Shape", SHAPE, 1, 0},
    {"", "Slice", AXES, 1, 3},
    {"", "Transpose", PERM, 1, 0},
    {"", "Where", ALIGNED, 7, 0},
    {"ai.steno", "Attention", ATTENTION, 0x1f, 0},
    {"ai.steno", "ConvNhwc Linear", ENTRIES, 9, 0},
    {"ai.steno", "PoolNhwc DepthwiseConv1d", ENTRIES, 1, 0},
    {"ai.steno", "Glu", AXIS, 1, -1},
    {"ai.steno", "MaskedSoftmax", ALIGNED, 3, 0},
    {"ai.steno", "Swoosh", ALIGNED, 1, 0},
    {"ai.steno.run", "ConvRowTiles", ENTRIES, 1, 0},
};

struct walk {
    struct steno_graph *g;
    bool *apart; /* by value */
    /* By value: not apart, and tells how many streams there are. */
    bool *count;
};

static const struct rule *rule_of(const struct steno_node *n)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (!strcmp(rules[i].domain, n->domain) && steno_op_type_in(n->op_type, rules[i].types))
            return &rules[i];
    return NULL;
}

static bool is_apart(const struct walk *w, const struct steno_node *n, int in)
{
    const steno_value_id v = steno_node_in(n, in);
    return v != STENO_NONE && w->apart[v];
}

static int rank_of(const struct walk *w, steno_value_id v)
{
    return w->g->values[v].shape.rank;
}

/* Integers of a constant input; NULL for others. */
static const int64_t *numbers(const struct walk *w, const struct steno_node *n, int in,
                              size_t *count)
{
    const struct steno_tensor *t = steno_pass_const(w->g, n, in);
    if (!t || !t->data || t->dtype != STENO_I64)
        return NULL;
    *count = steno_numel(t);
    return t->data;
}

/* True if axis a is not the first one. */
static bool not_batch_axis(int64_t a, int rank)
{
    return rank >= 0 && (a > 0 ? a < rank : a < 0 && a > -rank);
}

static bool not_batch_axes(const struct walk *w, const struct steno_node *n, int input)
{
    size_t count = 0;
    int rank = rank_of(w, strcmp(n->op_type, "Unsqueeze") ? n->in[0] : n->out[0]);
    const int64_t *axes = steno_node_ints(n, "axes", &count);
    if (!axes)
        axes = numbers(w, n, input, &count);
    for (size_t i = 0; axes && i < count; i++)
        if (!not_batch_axis(axes[i], rank))
            return false;
    return axes && count;
}

static bool aligned(const struct walk *w, const struct steno_node *n)
{
    int rank = rank_of(w, n->out[0]);
    for (int i = 0; i < n->n_in; i++)
        if (is_apart(w, n, i) && rank_of(w, n->in[i]) != rank)
            return false;
    return rank > 0;
}

/* The first extent of the target can only be 1; copy it from the input instead. */
static steno_status reshape(struct walk *w, struct steno_node *n, const char **why, steno_err *err)
{
    size_t count = 0;
    const int64_t *old = numbers(w, n, 1, &count);
    const struct steno_shape *to = &w->g->values[n->out[0]].shape;
    struct steno_tensor t = {.dtype = STENO_I64, .shape = {.rank = 1, .dim = {(int64_t)count}}};
    int64_t target[STENO_MAX_RANK];
    steno_value_id v;
    steno_status st;
    if (to->rank < 1 || to->dim[0] != 1 || steno_node_int(n, "allowzero", 0)) {
        *why = "its output does not begin with an axis of 1";
        return STENO_OK;
    }
    if (!old) /* computed from shapes: inference tells whether it follows them */
        return STENO_OK;
    memcpy(target, old, count * sizeof *target);
    target[0] = 0;
    t.data = target;
    st = steno_graph_add_const(w->g, "", &t, false, &v, err);
    if (!st)
        n->in[1] = v;
    return st;
}

static steno_status scatter(struct walk *w, struct steno_node *n, const char **why, steno_err *err)
{
    const struct steno_shape *places = &w->g->values[n->in[1]].shape;
    if (places->rank < 2 || places->dim[0] != 1 || rank_of(w, n->in[0]) < 1) {
        *why = "its indices do not begin with an axis of 1";
        return STENO_OK;
    }
    n->domain = "ai.steno.run";
    n->op_type = "ScatterEach";
    n->opset = 1;
    n->op = steno_op_find(n->domain, n->op_type, 1);
    return n->op ? STENO_OK : steno_fail(err, STENO_ERR_INTERNAL, "no operator %s", n->op_type);
}

/* *why: the reason for a refusal. */
static steno_status apply(struct walk *w, const struct rule *r, struct steno_node *n,
                          const char **why, steno_err *err)
{
    size_t count = 0;
    const int64_t *perm;
    bool good = true;
    switch (r->kind) {
    case ENTRIES:
    case SHAPE:
        break;
    case ALIGNED:
        good = aligned(w, n);
        break;
    case AXIS:
        good = not_batch_axis(steno_node_int(n, "axis", r->extra), rank_of(w, n->in[0]));
        break;
    case AXES:
        good = not_batch_axes(w, n, r->extra);
        break;
    case PERM:
        perm = steno_node_ints(n, "perm", &count);
        good = perm && count && perm[0] == 0;
        break;
    case MATMUL:
        good = aligned(w, n) && rank_of(w, n->out[0]) >= (is_apart(w, n, 1) ? 3 : 2);
        break;
    case ATTENTION:
        good = !is_apart(w, n, 3) || rank_of(w, n->in[3]) == 4;
        break;
    case JOIN:
        good = not_batch_axis(steno_node_int(n, "axis", 0), rank_of(w, n->in[0]));
        for (int i = 0; i < n->n_in; i++)
            if (!is_apart(w, n, i))
                *why = "it joins values that all streams share with values of each stream";
        break;
    case RESHAPE:
        return reshape(w, n, why, err);
    case SCATTER:
        return scatter(w, n, why, err);
    }
    if (!good)
        *why = "it works along the first axis, or its inputs have fewer axes than its output";
    return STENO_OK;
}

/* True if n picks extents other than the first from a Shape. */
static bool leaves_count(const struct walk *w, const struct steno_node *n)
{
    struct steno_pass_cut cut;
    size_t k = 0;
    const int64_t *at;
    if (!n->n_in || !steno_pass_is(steno_pass_producer(w->g, n->in[0]), "Shape"))
        return false;
    at = steno_pass_is(n, "Gather") ? numbers(w, n, 1, &k) : NULL;
    if (steno_pass_is(n, "Slice"))
        return steno_pass_cut_of(w->g, n, &cut) && cut.start >= 1;
    for (size_t i = 0; at && i < k; i++)
        if (!not_batch_axis(at[i], (int)w->g->values[n->in[0]].shape.dim[0]))
            return false;
    return at != NULL;
}

/* Propagate `count` through a node none of whose inputs is apart. */
static void pass_count_on(struct walk *w, const struct steno_node *n)
{
    bool count = false;
    for (int i = 0; i < n->n_in; i++)
        count = count || (n->in[i] != STENO_NONE && w->count[n->in[i]]);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE)
            w->count[n->out[i]] = count && !leaves_count(w, n);
}

static int any_graph(struct steno_graph *g, void *arg)
{
    (void)g;
    (void)arg;
    return 1;
}

static steno_status visit_free_batch(struct walk *w, struct steno_node *n, steno_err *err)
{
    const struct rule *r = rule_of(n);
    const char *why = NULL;
    bool some = false;
    steno_status st = STENO_OK;
    for (int i = 0; i < n->n_in; i++) {
        some = some || is_apart(w, n, i);
        if (r && is_apart(w, n, i) && (i >= 32 || !(r->apart >> i & 1)))
            why = "an input that must be the same for all streams is not";
        else if (r && n->in[i] != STENO_NONE && w->count[n->in[i]] && !steno_pass_is(n, "Expand") &&
                 r->kind != RESHAPE)
            why = "it depends on the number of streams";
    }
    if (steno_node_each_graph(n, any_graph, NULL))
        why = "it has bodies";
    else if (!some) {
        pass_count_on(w, n);
        return STENO_OK;
    } else if (!r)
        why = "unknown operator";
    else if (!why)
        st = apply(w, r, n, &why, err);
    if (why)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "no batch of streams: node '%.80s' (%.40s): %s", n->name, n->op_type,
                          why);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] != STENO_NONE) {
            w->apart[n->out[i]] = r->kind != SHAPE;
            w->count[n->out[i]] = r->kind == SHAPE && steno_node_int(n, "start", 0) == 0;
        }
    return st;
}

/* Give the inputs that `inputs` names the first extent `batch`. */
static steno_status free_inputs(struct walk *w, const char *inputs, int64_t batch, steno_err *err)
{
    for (const char *at = inputs; *at;) {
        size_t len = strcspn(at, ",");
        struct steno_value *v = NULL;
        for (int i = 0; i < w->g->n_inputs; i++) {
            struct steno_value *in = &w->g->values[w->g->inputs[i]];
            if (strlen(in->name) == len && !memcmp(in->name, at, len))
                v = in;
        }
        if (!v || v->shape.rank < 1 || v->shape.dim[0] != 1)
            return steno_fail(
                err, STENO_ERR_INVAL,
                "no batch of streams: '%.*s' is not an input that begins with an axis of 1",
                (int)len, at);
        v->shape.dim[0] = batch;
        w->apart[v - w->g->values] = true;
        at += len + (at[len] == ',');
    }
    return STENO_OK;
}

/* Check that every value that is apart has the batch as its first extent. */
static steno_status check_free_batch(const struct walk *w, int32_t n_values, int64_t batch,
                                     steno_err *err)
{
    for (int32_t i = 0; i < n_values; i++) {
        const struct steno_value *v = &w->g->values[i];
        if (w->apart[i] && (v->shape.rank < 1 || v->shape.dim[0] != batch))
            return steno_fail(err, STENO_ERR_UNSUPPORTED,
                              "no batch of streams: '%.80s' does not begin with the batch",
                              v->name);
    }
    return STENO_OK;
}

steno_status steno_free_batch(struct steno_graph *g, const char *inputs,
                              const struct steno_pass_env *env, steno_err *err)
{
    const int64_t batch = steno_graph_symbol(g, NAME);
    const size_t flags = 2 * (size_t)g->n_values;
    const int32_t n_values = g->n_values;
    bool *flag = steno_graph_alloc(g, flags, sizeof *flag, err);
    struct walk w = {g, flag, flag ? flag + n_values : NULL};
    steno_status st;
    if (!flag || batch == STENO_DIM_ANY)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    memset(flag, 0, flags * sizeof *flag);
    st = steno_graph_sort(g, err);
    if (!st)
        st = free_inputs(&w, inputs, batch, err);
    for (int32_t i = 0; i < g->n_nodes && !st; i++)
        if (!g->nodes[i].dead)
            st = visit_free_batch(&w, &g->nodes[i], err);
    if (st)
        return st;
    steno_graph_recount(g);
    st = env->infer(env->arg, g, err);
    return st ? st : check_free_batch(&w, n_values, batch, err);
}
