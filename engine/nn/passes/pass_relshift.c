/* Before: z = ConstantOfShape(0) [.., T, 1], c = Concat(z, x [B, h, T, L]) on the last axis,
 *         r = Reshape(c, [B, h, L + 1, T]), s = Slice(r, from 1 on axis 2),
 *         y = Reshape(s, shape of x)
 *         [y' = Slice(y, to L / 2 + 1 on the last axis)]
 * After:  y = ai.steno:RelativeShift(x; half)      (nn/ops/op_fused_attention.c)
 *         or Pad(x; one zero before the last axis) in place of ConstantOfShape and Concat (NeMo)
 * Transformer-XL's shift as ESPnet exports it: legacy without the last Slice, latest with it. */
#include "nn/passes/passes.h"

#include <string.h>

static bool relshift_number(const struct steno_graph *g, const struct steno_node *n, int in,
                            double want)
{
    double v;
    return steno_pass_scalar(g, steno_node_in(n, in), &v) && v == want; /* exact on purpose */
}

static bool slices(const struct steno_graph *g, const struct steno_node *n, double from, int axis)
{
    return steno_pass_is(n, "Slice") && n->opset >= 10 && relshift_number(g, n, 1, from) &&
           (relshift_number(g, n, 3, axis) || relshift_number(g, n, 3, axis - 4)) &&
           (steno_node_in(n, 4) == STENO_NONE || relshift_number(g, n, 4, 1));
}

static bool zeros(struct steno_graph *g, steno_value_id v)
{
    const struct steno_value *z = &g->values[v];
    double zero;
    if (z->dtype != STENO_F32 || z->shape.rank != 4 || z->shape.dim[3] != 1)
        return false;
    if (z->constant)
        return steno_pass_scalar(g, v, &zero) && zero == 0;
    return steno_pass_fills(steno_pass_producer(g, v), STENO_F32, 0);
}

static struct steno_node *behind_views(struct steno_graph *g, steno_value_id v)
{
    struct steno_node *n = steno_pass_producer(g, v);
    while (steno_pass_is_any(n, "Unsqueeze Squeeze Reshape"))
        n = steno_pass_producer(g, n->in[0]);
    return n;
}

/* True if dimension `at` of v has the extent of the last one of x. */
static bool as_long(const struct steno_graph *g, steno_value_id v, double at, steno_value_id x)
{
    const struct steno_shape *s = &g->values[v].shape, *want = &g->values[x].shape;
    int64_t d = want->rank > 0 ? want->dim[want->rank - 1] : STENO_DIM_ANY;
    at = at < 0 ? at + s->rank : at;
    return d != STENO_DIM_ANY && at >= 0 && at < s->rank && s->dim[(int)at] == d;
}

/* True if v is the last dimension of x, read from a shape that has it. */
static bool last_dim(struct steno_graph *g, steno_value_id v, steno_value_id x)
{
    struct steno_node *n = behind_views(g, v), *shape;
    double at = -1;
    if (steno_pass_is(n, "Gather")
            ? !steno_pass_scalar(g, n->in[1], &at)
            : !slices(g, n, -1, 0) && !(steno_pass_is(n, "Slice") && relshift_number(g, n, 1, -1) &&
                                        relshift_number(g, n, 3, 0) && n->n_in < 5))
        return false;
    if (steno_pass_is(n, "Slice")) {
        double end;
        if (!steno_pass_scalar(g, n->in[2], &end) || end < 4)
            return false;
    }
    shape = steno_pass_producer(g, n->in[0]);
    return steno_pass_is(shape, "Shape") && !shape->n_attr && as_long(g, shape->in[0], at, x);
}

/* True if v is L / 2 + 1. */
static bool half_length(struct steno_graph *g, steno_value_id v, steno_value_id x)
{
    const struct steno_shape *s = &g->values[x].shape;
    struct steno_node *add = behind_views(g, v), *div;
    double end;
    int side;
    if (steno_pass_scalar(g, v, &end))
        return s->dim[3] > 0 && end == (double)(s->dim[3] / 2 + 1);
    if (!steno_pass_is(add, "Add"))
        return false;
    side = relshift_number(g, add, 0, 1);
    if (!relshift_number(g, add, !side, 1))
        return false;
    div = behind_views(g, add->in[side]);
    return steno_pass_is(div, "Div") && relshift_number(g, div, 1, 2) && last_dim(g, div->in[0], x);
}

/* True for a Pad of one zero before the last axis of four. */
static bool pads_one(const struct steno_graph *g, const struct steno_node *n)
{
    static const int64_t want[8] = {0, 0, 0, 1, 0, 0, 0, 0};
    size_t count = 0;
    const int64_t *pads = steno_node_ints(n, "pads", &count);
    const struct steno_tensor *t = steno_pass_const(g, n, 1);
    if (strcmp(steno_node_str(n, "mode", "constant"), "constant") ||
        (steno_node_in(n, 2) != STENO_NONE && !relshift_number(g, n, 2, 0)) || n->n_in > 3 ||
        steno_node_float(n, "value", 0) != 0)
        return false;
    if (t && t->data && t->dtype == STENO_I64 && steno_numel(t) == 8)
        return !memcmp(t->data, want, sizeof want);
    return pads && count == 8 && !memcmp(pads, want, sizeof want);
}

/* Return x if v is x with one more column of zeros, else STENO_NONE. *n: the node that adds it. */
static steno_value_id widened(struct steno_graph *g, steno_value_id v, struct steno_node **n)
{
    int64_t axis;
    *n = steno_pass_only_use(g, v, "Pad");
    if (*n)
        return pads_one(g, *n) ? (*n)->in[0] : STENO_NONE;
    *n = steno_pass_only_use(g, v, "Concat");
    axis = *n ? steno_node_int(*n, "axis", 0) : 0;
    return *n && (*n)->n_in == 2 && (axis == -1 || axis == 3) && zeros(g, (*n)->in[0]) ? (*n)->in[1]
                                                                                       : STENO_NONE;
}

struct found {
    struct steno_node *concat, *fold, *cut, *back, *half;
    steno_value_id x, out;
};

static bool match_relshift(struct steno_graph *g, struct steno_node *back, struct found *f)
{
    const struct steno_shape *x, *r;
    double end;
    f->back = back;
    f->out = back->out[0];
    if (!steno_pass_is(back, "Reshape") ||
        !slices(g, f->cut = steno_pass_only_use(g, back->in[0], "Slice"), 1, 2) ||
        !steno_pass_scalar(g, f->cut->in[2], &end) || end < 2147483647.0 ||
        !(f->fold = steno_pass_only_use(g, f->cut->in[0], "Reshape")) ||
        (f->x = widened(g, f->fold->in[0], &f->concat)) == STENO_NONE)
        return false;
    x = &g->values[f->x].shape;
    r = &g->values[f->fold->out[0]].shape;
    if (x->rank != 4 || r->rank != 4 || g->values[f->x].dtype != STENO_F32 ||
        !steno_pass_same_shape(g, f->x, f->out) || x->dim[0] != r->dim[0] ||
        x->dim[1] != r->dim[1] || x->dim[2] != r->dim[3])
        return false;
    f->half = steno_pass_only_reader(g, f->out);
    if (slices(g, f->half, 0, 3) && half_length(g, f->half->in[2], f->x))
        f->out = f->half->out[0];
    else
        f->half = NULL;
    return true;
}

steno_status steno_pass_relshift(struct steno_graph *g, const struct steno_pass_env *env,
                                 struct steno_node *n, int *changed, steno_err *err)
{
    struct found f = {0};
    (void)env;
    if (!match_relshift(g, n, &f))
        return STENO_OK;
    f.concat->dead = f.fold->dead = f.cut->dead = f.back->dead = true;
    if (f.half)
        f.half->dead = true;
    ++*changed;
    return steno_pass_put(g, n->name,
                          STENO_NODE("ai.steno", "RelativeShift", 1, .in = STENO_VALUES(f.x),
                                     .out = STENO_VALUES(f.out),
                                     .attr = STENO_ATTRS(STENO_INT_ATTR("half", f.half != NULL))),
                          err);
}
