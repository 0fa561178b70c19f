/* Before: q, k, v = Transpose(Reshape(x, [B, T, h, d]))   heads before time; k' also transposed
 *         s = MatMul(q [+ bias], k') [+ RelativeShift(MatMul(q [+ bias], p'))]
 *         w = MaskedSoftmax(s * scale, mask) | Softmax(s * scale [+ mask])
 *         y = MatMul(w, v) [Transpose, Reshape(., [B, T, h v])]
 * After:  y = ai.steno:Attention(q, k, v, mask, p, biases)   (nn/ops/op_fused_attention.c)
 * Before: w = Softmax(s), y = MatMul(Where(IsNaN(w), 0, w), v)   (PyTorch, for rows without a key)
 * After:  Attention with no_nan
 * Before: Softmax(Where(seen, s, -3e38) [+ mask]), or Where(hidden, -3e38, s)   (GPT-2 and others)
 * After:  the same with mask [+] Where(seen, 0, -3e38), which layers with one mask share
 * The operator reads the inputs of the Transposes and Reshapes in place, and it never writes the
 * scores as a whole. An input whose heads do not come from such a Reshape keeps its heads on an
 * axis of their own (`apart`). */
#include "nn/passes/passes.h"

#include <math.h>
#include <string.h>

#define HIDES (-1e9) /* a fill below this hides: its weight is 0 beside any score */
/* Beside this no score is seen, so that a row without a visible key has equal weights, as with the
 * Where: -1e9 would keep differences of scores above 32. */
#define ABSORBS (-1e30)
/* NeMo also sets the weights of hidden keys to 0 after the softmax. There the fill matters only if
 * all scores of a row are as low; the operator computes that, but not in all its forms, so fills
 * that scores reach every day stay. */
#define HIDES_TWICE (-1e4)
/* What converters to 16 bits make of a lower fill; scores in 16 bits are larger. */
#define HIDES_HALVES (-9.9e3) /* -10000 is -9984 in bf16 */

static struct steno_node *our(struct steno_graph *g, steno_value_id v, const char *type)
{
    struct steno_node *n = steno_pass_producer(g, v);
    return steno_pass_is_ours(n, type) && steno_pass_read_once(g, v) ? n : NULL;
}

/* One factor: the value that holds its elements, and the bias that is added to them. */
struct side {
    steno_value_id x, bias;
    bool apart;
    int64_t heads, size;
    const struct steno_pass_env *env; /* heads and size where the graph does not tell */
};

struct found {
    const struct steno_pass_env *env;
    struct side q, k, v, p, q_pos;
    steno_value_id mask, out;
    steno_value_id where;      /* bool: the condition of a Where with `fill`, or STENO_NONE */
    bool where_hides, negated; /* negated: the mask is subtracted */
    double fill;               /* of the Where, or of the MaskedSoftmax whose mask hides */
    /* by_key: the product with positions is not shifted. */
    /* p_turned: positions are a constant [1, h, d, S], rows of which are to be columns. */
    bool positions, by_key, apart_out, p_turned;
    bool no_nan; /* rows of the softmax that are NaN become 0 */
    double scale;
    steno_value_id scores; /* what a mask or a Where is applied to */
    /* nodes without other readers, which are removed */
    struct steno_node *gone[24];
    int n_gone;
};

static struct steno_node *take_attention(struct found *f, struct steno_node *n)
{
    if (n)
        f->gone[f->n_gone++] = n;
    return n;
}

static const struct steno_node *transposed(struct steno_graph *g, steno_value_id v, int64_t a,
                                           int64_t b, int64_t c)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    return steno_pass_permutes(n, 4, (const int64_t[]){0, a, b, c}) ? n : NULL;
}

/* Return the [B, T, h d] that a Reshape made v [B, T, h, d] from, or v. */
static steno_value_id joined(struct steno_graph *g, steno_value_id v)
{
    const struct steno_node *n = steno_pass_producer(g, v);
    const struct steno_shape *s = &g->values[v].shape, *x;
    if (!steno_pass_is(n, "Reshape"))
        return v;
    x = &g->values[n->in[0]].shape;
    return x->rank == 3 && steno_same_dim(x->dim[0], s->dim[0]) &&
                   steno_same_dim(x->dim[1], s->dim[1]) && x->dim[2] == s->dim[2] * s->dim[3]
               ? n->in[0]
               : v;
}

static bool sized(const struct steno_graph *g, steno_value_id v, int heads, int size,
                  struct side *s)
{
    const struct steno_shape *x = &g->values[v].shape;
    if (g->values[v].dtype != STENO_F32 || x->rank != 4)
        return false;
    s->heads = x->dim[heads] < 0 && s->env->num_heads ? s->env->num_heads : x->dim[heads];
    s->size = x->dim[size] < 0 && s->heads > 0 && s->env->hidden_size % s->heads == 0
                  ? s->env->hidden_size / s->heads
                  : x->dim[size];
    return s->heads > 0 && s->size > 0 && s->heads < 65536 && s->size < 65536;
}

/* True for a constant of h * d numbers that repeats over batch and rows of [B, T, h, d]. */
static bool is_bias(const struct steno_graph *g, steno_value_id v, const struct side *s)
{
    const struct steno_tensor *t = g->values[v].constant;
    const struct steno_shape *x = &g->values[v].shape;
    if (!t || !t->data || t->dtype != STENO_F32 || x->rank < 2 || x->dim[x->rank - 1] != s->size ||
        x->dim[x->rank - 2] != s->heads)
        return false;
    return (int64_t)steno_numel(t) == s->heads * s->size;
}

/* Match Q or V, [B, h, T, d]. */
static bool factor(struct steno_graph *g, steno_value_id v, bool with_bias, struct side *s)
{
    const struct steno_node *t = transposed(g, v, 2, 1, 3), *add;
    s->bias = STENO_NONE;
    if (!t) {
        s->apart = true;
        s->x = v;
        return sized(g, v, 1, 3, s);
    }
    s->apart = false;
    s->x = t->in[0];
    if (!sized(g, s->x, 2, 3, s))
        return false;
    add = with_bias ? steno_pass_producer(g, s->x) : NULL;
    for (int k = 0; steno_pass_is(add, "Add") && k < 2; k++)
        if (is_bias(g, add->in[k], s) && steno_pass_same_shape(g, add->in[1 - k], s->x)) {
            s->bias = add->in[k];
            s->x = add->in[1 - k];
            break;
        }
    s->x = joined(g, s->x);
    return true;
}

/* Match K or P as the second factor of the scores, [B, h, d, S]. */
static bool transposed_factor(struct steno_graph *g, steno_value_id v, struct side *s)
{
    const struct steno_node *t = transposed(g, v, 2, 3, 1);
    s->bias = STENO_NONE;
    if (t) {
        s->apart = false;
        if (!sized(g, t->in[0], 2, 3, s))
            return false;
        s->x = joined(g, t->in[0]);
        return true;
    }
    t = transposed(g, v, 1, 3, 2);
    if (!t)
        return false;
    s->apart = true;
    s->x = t->in[0];
    return sized(g, s->x, 1, 3, s);
}

/* True if the result of n has the shape of input `side`: the other is one attention_number, or as
 * large. */
static bool keeps_shape(const struct steno_graph *g, const struct steno_node *n, int side)
{
    const struct steno_tensor *t = g->values[n->in[!side]].constant;
    return (t && steno_numel(t) == 1 && t->shape.rank <= g->values[n->in[side]].shape.rank) ||
           steno_pass_same_shape(g, n->in[side], n->out[0]);
}

/* Return the node before v, past multiplications and divisions by numbers, which go into *scale. */
static struct steno_node *unscaled(struct steno_graph *g, struct found *f, steno_value_id v)
{
    struct steno_node *n = steno_pass_producer(g, v);
    while (n && steno_pass_read_once(g, v) && f->n_gone < 6 && steno_pass_is_any(n, "Mul Div")) {
        double c;
        int side = steno_pass_is(n, "Mul") && steno_pass_scalar(g, n->in[0], &c);
        if ((!side && !steno_pass_scalar(g, n->in[1], &c)) || !keeps_shape(g, n, side) ||
            !isnormal((float)c))
            return NULL;
        f->scale = steno_pass_is(n, "Mul") ? f->scale * c : f->scale / c;
        take_attention(f, n);
        v = n->in[side];
        n = steno_pass_producer(g, v);
    }
    return n && steno_pass_read_once(g, v) ? n : NULL;
}

/* Skip the Slice of the first columns of the shifted product. There are as many as keys, otherwise
 * the sum would not be valid. */
static steno_value_id first_columns(struct steno_graph *g, struct found *f, steno_value_id v)
{
    struct steno_node *n = steno_pass_only_use(g, v, "Slice");
    double start, axis, step = 1;
    if (!n || n->opset < 10 || n->n_in < 4 || !steno_pass_scalar(g, n->in[1], &start) ||
        start != 0 || !steno_pass_scalar(g, n->in[3], &axis) || (axis != 3 && axis != -1) ||
        (steno_node_in(n, 4) != STENO_NONE && !steno_pass_scalar(g, n->in[4], &step)) ||
        step != 1 || steno_numel(g->values[n->in[3]].constant) != 1 ||
        !our(g, n->in[0], "RelativeShift"))
        return v;
    take_attention(f, n);
    return n->in[0];
}

/* Match P as a constant [1, h, d, S], folded with all that made it (NeMo's streaming encoders). */
static bool constant_positions(const struct steno_graph *g, steno_value_id v, struct side *s)
{
    const struct steno_tensor *t = g->values[v].constant;
    s->bias = STENO_NONE;
    s->apart = true;
    s->x = v;
    return t && t->data && sized(g, v, 1, 2, s) && t->shape.dim[0] == 1;
}

static bool match_positions(struct steno_graph *g, struct found *f, steno_value_id v)
{
    struct steno_node *shift, *m;
    v = first_columns(g, f, v);
    shift = our(g, v, "RelativeShift");
    m = steno_pass_only_use(g, shift ? shift->in[0] : v, "MatMul");
    f->by_key = !shift;
    f->p_turned = m && constant_positions(g, m->in[1], &f->p);
    if (!m || !factor(g, m->in[0], true, &f->q_pos) ||
        (!f->p_turned && !transposed_factor(g, m->in[1], &f->p)))
        return false;
    f->positions = true;
    take_attention(f, shift);
    take_attention(f, m);
    return true;
}

/* Keras scales the queries, Whisper queries and keys; these factors go into *scale too. */
static steno_value_id unscaled_factor(struct steno_graph *g, struct found *f, steno_value_id v)
{
    for (;;) {
        struct steno_node *n = steno_pass_producer(g, v);
        double c;
        if (!steno_pass_is_any(n, "Mul Div") || !steno_pass_read_once(g, v) ||
            !steno_pass_scalar(g, n->in[1], &c) || g->values[n->in[0]].shape.rank != 4 ||
            !keeps_shape(g, n, 0) || !isnormal((float)c) || f->n_gone > 12)
            return v;
        f->scale = steno_pass_is(n, "Mul") ? f->scale * c : f->scale / c;
        take_attention(f, n);
        v = n->in[0];
    }
}

/* Match K, which a number may multiply before or after its last two axes are exchanged. */
static bool key_factor(struct steno_graph *g, struct found *f, steno_value_id v)
{
    const struct steno_node *t, *heads;
    steno_value_id x;
    v = unscaled_factor(g, f, v);
    t = transposed(g, v, 1, 3, 2);
    if (!t || !steno_pass_read_once(g, v))
        return transposed_factor(g, v, &f->k);
    x = unscaled_factor(g, f, t->in[0]);
    if (x == t->in[0])
        return transposed_factor(g, v, &f->k);
    take_attention(f, steno_pass_producer(g, v));
    heads = transposed(g, x, 2, 1, 3);
    f->k.bias = STENO_NONE;
    f->k.apart = !heads;
    f->k.x = heads ? heads->in[0] : x;
    if (!sized(g, f->k.x, heads ? 2 : 1, 3, &f->k))
        return false;
    f->k.x = heads ? joined(g, f->k.x) : f->k.x;
    return true;
}

/* Match scores: a product, or a product plus the shifted product with positions. */
static bool match_scores(struct steno_graph *g, struct found *f, steno_value_id v)
{
    int n_gone = f->n_gone;
    double scale = f->scale;
    struct steno_node *n = unscaled(g, f, v);
    bool ok = false;
    f->scores = v;
    if (steno_pass_is(n, "MatMul")) {
        take_attention(f, n);
        ok = factor(g, unscaled_factor(g, f, n->in[0]), true, &f->q) && key_factor(g, f, n->in[1]);
    } else if (steno_pass_is(n, "Add")) {
        take_attention(f, n);
        for (int k = 0; k < 2 && !ok; k++) {
            struct steno_node *m = steno_pass_only_use(g, n->in[k], "MatMul");
            int before = f->n_gone;
            ok = m && match_positions(g, f, n->in[1 - k]) && factor(g, m->in[0], true, &f->q) &&
                 transposed_factor(g, m->in[1], &f->k) && f->q.x == f->q_pos.x &&
                 f->q.apart == f->q_pos.apart;
            if (ok)
                take_attention(f, m);
            else
                f->n_gone = before;
        }
    }
    if (ok)
        return true;
    f->n_gone = n_gone;
    f->scale = scale;
    f->positions = false;
    return false;
}

/* True if mask m, when added, does not broadcast the scores to a larger shape. */
static bool keeps_score_shape(const struct steno_graph *g, const struct found *f, steno_value_id m)
{
    const struct steno_shape *s = &g->values[m].shape, *y = &g->values[f->scores].shape;
    if (s->rank < 0 || s->rank > 4)
        return false;
    for (int i = 1; i <= s->rank && i <= y->rank; i++)
        if (y->dim[y->rank - i] == 1 && s->dim[s->rank - i] != 1)
            return false;
    return s->rank < 3 || s->dim[s->rank - 3] == 1 || s->dim[s->rank - 3] == f->q.heads;
}

static bool along_keys(const struct steno_graph *g, const struct steno_node *softmax)
{
    int64_t axis = steno_node_int(softmax, "axis", softmax->opset >= 13 ? -1 : 1);
    return g->values[softmax->in[0]].shape.rank == 4 && (axis == 3 || axis == -1);
}

/* Match scores in which a Where replaces some with a fill that hides. */
static bool match_where(struct steno_graph *g, struct found *f, steno_value_id v)
{
    struct steno_node *n = steno_pass_only_use(g, v, "Where");
    for (int k = 1; n && k <= 2; k++) {
        if (!steno_pass_scalar(g, n->in[3 - k], &f->fill) ||
            g->values[n->in[3 - k]].shape.rank > 4 ||
            steno_numel(g->values[n->in[3 - k]].constant) != 1)
            continue;
        if (f->fill > (g->halves ? HIDES_HALVES : HIDES)) {
            steno_pass_refuse(f->env, "attention", n,
                              "the Where before Softmax fills in %g, which might be a score; %g "
                              "and below would hide",
                              f->fill, HIDES);
            continue;
        }
        take_attention(f, n);
        if (match_scores(g, f, n->in[k])) {
            f->where = n->in[0];
            f->where_hides = k == 2;
            return keeps_score_shape(g, f, f->where);
        }
        f->n_gone--;
    }
    return false;
}

/* The Softmax that writes v, or that a Where copies to v except for NaN. */
static struct steno_node *softmax_of(struct steno_graph *g, struct found *f, steno_value_id v)
{
    struct steno_node *where = steno_pass_only_use(g, v, "Where"), *nan, *n;
    double zero;
    if (!where)
        return steno_pass_only_use(g, v, "Softmax");
    nan = steno_pass_only_use(g, where->in[0], "IsNaN");
    n = steno_pass_producer(g, where->in[2]);
    if (!nan || nan->in[0] != where->in[2] || !steno_pass_is(n, "Softmax") ||
        g->values[n->out[0]].uses != 2 || g->values[n->out[0]].is_output ||
        !steno_pass_scalar(g, where->in[1], &zero) || zero != 0 ||
        g->values[where->in[1]].shape.rank > 4)
        return NULL;
    take_attention(f, where);
    take_attention(f, nan);
    f->no_nan = true;
    return n;
}

static bool match_weights(struct steno_graph *g, struct found *f, steno_value_id v)
{
    struct steno_node *n = our(g, v, "MaskedSoftmax"), *add;
    f->mask = f->where = STENO_NONE;
    if (n) {
        f->mask = n->in[1];
        take_attention(f, n);
        f->fill = (double)steno_node_float(n, "fill", 0);
        return f->fill <= (g->halves ? HIDES_HALVES : HIDES_TWICE) &&
               match_scores(g, f, n->in[0]) && keeps_score_shape(g, f, f->mask);
    }
    n = softmax_of(g, f, v);
    if (!n || !along_keys(g, n))
        return false;
    take_attention(f, n);
    if (match_scores(g, f, n->in[0]) || match_where(g, f, n->in[0]))
        return true;
    add = steno_pass_only_use(g, n->in[0], "Add");
    for (int k = 0; add && k < 2; k++)
        if (g->values[add->in[1 - k]].dtype == STENO_F32 &&
            (match_scores(g, f, add->in[k]) || match_where(g, f, add->in[k]))) {
            if (f->where != STENO_NONE && f->fill > ABSORBS)
                return false; /* the mask may hide as much as the fill */
            f->mask = add->in[1 - k];
            take_attention(f, add);
            return keeps_score_shape(g, f, f->mask);
        }
    add = steno_pass_only_use(g, n->in[0], "Sub");
    if (!add || g->values[add->in[1]].dtype != STENO_F32 || !match_scores(g, f, add->in[0]))
        return false;
    f->mask = add->in[1];
    f->negated = true;
    take_attention(f, add);
    return keeps_score_shape(g, f, f->mask);
}

static void match_output(struct steno_graph *g, struct found *f)
{
    struct steno_node *t = steno_pass_only_reader(g, f->out), *r;
    const struct steno_shape *s;
    f->apart_out = true;
    if (!t || transposed(g, t->out[0], 2, 1, 3) != t)
        return;
    r = steno_pass_only_reader(g, t->out[0]);
    s = r ? &g->values[r->out[0]].shape : NULL;
    if (!steno_pass_is(r, "Reshape") || r->in[0] != t->out[0] || s->rank != 3 ||
        s->dim[2] != f->v.heads * f->v.size ||
        !steno_same_dim(s->dim[0], g->values[t->out[0]].shape.dim[0]) ||
        !steno_same_dim(s->dim[1], g->values[t->out[0]].shape.dim[1]))
        return;
    f->apart_out = false;
    take_attention(f, t);
    take_attention(f, r);
    f->out = r->out[0];
}

static bool same_heads(const struct side *a, const struct side *b)
{
    return a->heads == b->heads && a->size == b->size;
}

static bool match_attention(struct steno_graph *g, const struct steno_pass_env *env,
                            struct steno_node *n, struct found *f)
{
    memset(f, 0, sizeof *f);
    f->env = f->q.env = f->k.env = f->v.env = f->p.env = f->q_pos.env = env;
    f->scale = 1;
    if (!steno_pass_is(n, "MatMul") || g->values[n->in[0]].shape.rank != 4)
        return false;
    take_attention(f, n);
    if (!match_weights(g, f, n->in[0]) || !factor(g, n->in[1], false, &f->v) ||
        !same_heads(&f->q, &f->k) || f->v.heads != f->q.heads ||
        (f->positions && !same_heads(&f->q, &f->p)) || !isfinite((float)f->scale))
        return false;
    f->out = n->out[0];
    match_output(g, f);
    return true;
}

/* Constant v with another shape of as many elements. STENO_NONE stays. */
static steno_value_id flat(struct steno_pass_writer *w, steno_value_id v, int64_t n)
{
    return v == STENO_NONE ? v
                           : steno_pass_new_const(w, w->g->values[v].name, STENO_F32, 1, &n,
                                                  w->g->values[v].constant->data);
}

/* Make the Where a summand: 0, or the fill, beside which no score matters. */
static void added_mask(struct steno_pass_writer *w, struct found *f)
{
    const float none = 0, low = (float)fmin(f->fill, ABSORBS);
    const steno_value_id zero = steno_pass_new_const(w, "fill", STENO_F32, 0, NULL, &none);
    const steno_value_id fill = steno_pass_new_const(w, "fill", STENO_F32, 0, NULL, &low);
    const steno_value_id masks = f->mask;
    f->mask = steno_pass_write_new(
        w, STENO_NODE("", "Where", 16,
                      .in = STENO_VALUES(f->where, f->where_hides ? fill : zero,
                                         f->where_hides ? zero : fill)));
    if (masks != STENO_NONE)
        f->mask =
            steno_pass_write_new(w, STENO_NODE("", "Add", 14, .in = STENO_VALUES(masks, f->mask)));
}

/* The mask, as it is added to scores. */
static void make_mask(struct steno_pass_writer *w, struct found *f)
{
    if (f->where != STENO_NONE)
        added_mask(w, f);
    if (f->negated)
        f->mask = steno_pass_write_new(w, STENO_NODE("", "Neg", 13, .in = STENO_VALUES(f->mask)));
    if (!w->st && (f->where != STENO_NONE || f->negated))
        w->g->values[f->mask].dtype = STENO_F32;
}

enum { MOST_ATTRS = 14 };

/* hides: the mask is bool; replaces: no score is kept beside the Where's fill. */
static int list_attrs(const struct found *f, bool hides, bool replaces, struct steno_attr *a)
{
    int n = 0;
    a[n++] = (struct steno_attr)STENO_INT_ATTR("heads", f->q.heads);
    a[n++] = (struct steno_attr)STENO_INT_ATTR("size", f->q.size);
    a[n++] = (struct steno_attr)STENO_INT_ATTR("v_size", f->v.size);
    a[n++] = (struct steno_attr)STENO_INT_ATTR("q_at", 0);
    a[n++] = (struct steno_attr)STENO_INT_ATTR("k_at", 0);
    a[n++] = (struct steno_attr)STENO_INT_ATTR("v_at", 0);
    a[n++] = (struct steno_attr)STENO_INT_ATTR("p_at", 0);
    a[n++] = (struct steno_attr)STENO_INT_ATTR(
        "apart", f->q.apart | f->k.apart << 1 | f->v.apart << 2 |
                     (f->positions && f->p.apart) << 3 | f->apart_out << 4);
    a[n++] = (struct steno_attr)STENO_INT_ATTR("hides", hides);
    if (f->by_key)
        a[n++] = (struct steno_attr)STENO_INT_ATTR("shift", 0);
    a[n++] = (struct steno_attr)STENO_FLOAT_ATTR("scale", (float)f->scale);
    if (hides && f->fill > ABSORBS)
        a[n++] = (struct steno_attr)STENO_FLOAT_ATTR("fill", (float)f->fill);
    if (replaces)
        a[n++] = (struct steno_attr)STENO_FLOAT_ATTR("replaces", (float)f->fill);
    if (f->no_nan)
        a[n++] = (struct steno_attr)STENO_INT_ATTR("no_nan", 1);
    return n;
}

static steno_status build_attention(struct steno_graph *g, struct found *f, const char *name,
                                    steno_err *err)
{
    static const int64_t turn[] = {0, 1, 3, 2};
    const int64_t bias = f->q.heads * f->q.size;
    const bool replaces =
        f->where != STENO_NONE && f->mask == STENO_NONE && !f->positions && isfinite(f->fill);
    struct steno_pass_writer w = {g, name, err, STENO_OK};
    struct steno_attr a[MOST_ATTRS];
    const steno_value_id q_bias = flat(&w, f->q.bias, bias);
    const steno_value_id p_bias = f->positions ? flat(&w, f->q_pos.bias, bias) : STENO_NONE;
    steno_value_id p = f->positions ? f->p.x : STENO_NONE;
    int n;
    for (int i = 0; i < f->n_gone; i++)
        f->gone[i]->dead = true;
    if (f->positions && f->p_turned) /* pass fold computes it */
        p = steno_pass_write_new(&w,
                                 STENO_NODE("", "Transpose", 13, .in = STENO_VALUES(p),
                                            .attr = STENO_ATTRS(STENO_INTS_ATTR("perm", 4, turn))));
    make_mask(&w, f);
    if (w.st)
        return w.st;
    n = list_attrs(f, f->mask != STENO_NONE && g->values[f->mask].dtype == STENO_BOOL, replaces, a);
    steno_pass_write(
        &w, STENO_NODE("ai.steno", "Attention", 1,
                       .in = STENO_VALUES(f->q.x, f->k.x, f->v.x, f->mask, p, q_bias, p_bias),
                       .out = STENO_VALUES(f->out), .attr = {a, n}));
    return w.st;
}

/* Make a Shape of the scores read K instead, if only the number of keys is read from it (WeNet cuts
 * its mask by it). Then only the softmax reads the scores. */
static void free_scores(struct steno_graph *g, struct steno_node *shape)
{
    const struct steno_node *r = steno_pass_only_reader(g, shape->out[0]), *n;
    steno_value_id v = shape->in[0];
    double at, end;
    if (!r || shape->n_attr || g->values[v].shape.rank != 4 || g->values[v].uses != 2 ||
        r->n_in < 2 || r->in[0] != shape->out[0] || !steno_pass_scalar(g, r->in[1], &at) ||
        (at != -1 && at != 3) ||
        !(steno_pass_is(r, "Gather") || (steno_pass_is(r, "Slice") && r->n_in > 2 &&
                                         steno_pass_scalar(g, r->in[2], &end) && end >= 4)))
        return;
    for (int steps = 0; steps < 4; steps++) {
        double c;
        n = steno_pass_producer(g, v);
        if (steno_pass_is_any(n, "Mul Div") && steno_pass_scalar(g, n->in[1], &c))
            v = n->in[0];
        else if (steno_pass_is(n, "Add"))
            v = n->in[steno_pass_is(steno_pass_producer(g, n->in[0]), "MatMul") ? 0 : 1];
        else
            break;
    }
    if (!steno_pass_is(n, "MatMul") || g->values[n->in[1]].shape.rank != 4)
        return;
    steno_pass_reroute(g, shape, 0, n->in[1]);
}

steno_status steno_pass_attention(struct steno_graph *g, const struct steno_pass_env *env,
                                  int *changed, steno_err *err)
{
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i].dead && steno_pass_is(&g->nodes[i], "Shape"))
            free_scores(g, &g->nodes[i]);
    for (int32_t i = 0, count = g->n_nodes; i < count; i++) {
        struct found f;
        steno_status st;
        if (g->nodes[i].dead || !match_attention(g, env, &g->nodes[i], &f))
            continue;
        st = build_attention(g, &f, g->nodes[i].name, err);
        if (st)
            return st;
        ++*changed;
    }
    return STENO_OK;
}
