/* Shape arithmetic with symbols: what is known of short integer vectors whose elements are
 * dimensions. Exporters compute the target of a Reshape as Concat(Slice(Shape(x), 0, 2), [-1]). At
 * load x's dimensions are symbols, so the vector has no value, but each of its elements is known as
 * "dimension n of x" or a number. With that, the Reshape's output has x's symbols, and passes see
 * that shapes are equal. When a plan is made, all dimensions are numbers and none of this is
 * needed. */
#include "nn/exec/infer.h"

#include <string.h>

static const struct steno_partial *of_value(const struct steno_infer *ic, steno_value_id v)
{
    const struct steno_known *k = &ic->known[v];
    struct steno_partial *p;
    size_t count;
    if (k->part || !k->value || k->value->dtype != STENO_I64 || !k->value->data)
        return k->part;
    count = steno_numel(k->value);
    if (count > STENO_MAX_RANK || k->value->shape.rank > 1 ||
        !(p = steno_arena_alloc(ic->mem, sizeof *p)))
        return NULL;
    p->n = (int)count;
    memcpy(p->v, k->value->data, count * sizeof p->v[0]);
    memset(p->sym, 0, sizeof p->sym);
    return p;
}

static const struct steno_partial *of(const struct steno_infer *ic, int in)
{
    const struct steno_node *n = ic->node;
    return in < n->n_in && n->in[in] != STENO_NONE ? of_value(ic, n->in[in]) : NULL;
}

static bool from_shape(struct steno_infer *ic, struct steno_partial *p)
{
    struct steno_shape s = steno_infer_shape(ic, 0);
    int64_t start = steno_node_int(ic->node, "start", 0);
    int64_t end = steno_node_int(ic->node, "end", s.rank);
    if (s.rank < 0)
        return false;
    start = start < 0 ? start + s.rank : start;
    end = end < 0 ? end + s.rank : end > s.rank ? s.rank : end;
    for (int64_t i = start < 0 ? 0 : start; i < end; i++) {
        p->sym[p->n] = s.dim[i] < 0;
        p->v[p->n++] = s.dim[i];
    }
    return true;
}

static bool take_element(struct steno_partial *p, const struct steno_partial *x, int64_t i)
{
    i = i < 0 ? i + x->n : i;
    if (i < 0 || i >= x->n || p->n == STENO_MAX_RANK)
        return false;
    p->sym[p->n] = x->sym[i];
    p->v[p->n++] = x->v[i];
    return true;
}

static bool gather_partial(struct steno_infer *ic, struct steno_partial *p)
{
    const struct steno_partial *x = of(ic, 0);
    int64_t idx[STENO_MAX_RANK];
    size_t n;
    if (!x || !steno_infer_ints(ic, 1, idx, STENO_MAX_RANK, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!take_element(p, x, idx[i]))
            return false;
    return true;
}

/* Read an optional vector of length 1 of Slice. */
static bool read_slice_end(const struct steno_infer *ic, int in, int64_t fallback, int64_t *out)
{
    size_t n;
    *out = fallback;
    return !steno_infer_has(ic, in) || (steno_infer_ints(ic, in, out, 1, &n) && n == 1);
}

static bool slice(struct steno_infer *ic, struct steno_partial *p)
{
    const struct steno_partial *x = of(ic, 0);
    int64_t start, end, axis, step;
    if (!x || ic->node->opset < 10 || !read_slice_end(ic, 1, 0, &start) ||
        !read_slice_end(ic, 2, 0, &end) || !read_slice_end(ic, 3, 0, &axis) ||
        !read_slice_end(ic, 4, 1, &step) || (axis != 0 && axis != -1) || step != 1)
        return false;
    start = start < 0 ? start + x->n : start;
    end = end < 0 ? end + x->n : end > x->n ? x->n : end;
    for (int64_t i = start < 0 ? 0 : start; i < end; i++)
        if (!take_element(p, x, i))
            return false;
    return true;
}

static bool concat(struct steno_infer *ic, struct steno_partial *p)
{
    for (int k = 0; k < ic->node->n_in; k++) {
        const struct steno_partial *x = of(ic, k);
        for (int i = 0; x && i < x->n; i++)
            if (!take_element(p, x, i))
                return false;
        if (!x)
            return false;
    }
    return true;
}

static bool copy_partial(struct steno_infer *ic, struct steno_partial *p)
{
    const struct steno_partial *x = of(ic, 0);
    if (x)
        *p = *x;
    return x != NULL;
}

/* a op b, one of them a symbol. False: the result may be negative, and then it is no dimension. */
static bool symbolic(struct steno_infer *ic, char op, int64_t x, int64_t y, int64_t *r)
{
    if (op == '-')
        return steno_infer_minus(ic, x, y, r);
    if (op == 'M' ? x == 1 || y == 1 : op == 'A' ? !x || !y : y == 1)
        *r = op == 'D' || y == (op == 'M') ? x : y;
    else
        *r = steno_infer_expr(ic, op == 'M' ? '*' : op == 'A' ? '+' : '/', x, y);
    return true;
}

/* Elements a op b. Numbers are computed. If one is a symbol, the result is a symbol, provided that
 * it cannot be negative. Scalars repeat. */
static bool arithmetic(struct steno_infer *ic, struct steno_partial *p)
{
    const struct steno_partial *a = of(ic, 0), *b = of(ic, 1);
    char op = ic->node->op_type[0] == 'S' ? '-' : ic->node->op_type[0];
    if (!a || !b || !a->n || !b->n || (a->n != b->n && a->n != 1 && b->n != 1))
        return false;
    for (int i = 0; i < a->n || i < b->n; i++) {
        int ia = a->n == 1 ? 0 : i, ib = b->n == 1 ? 0 : i;
        int64_t x = a->v[ia], y = b->v[ib], r = 0;
        bool sym = a->sym[ia] || b->sym[ib];
        if (sym && ((!a->sym[ia] && x < 0) || (!b->sym[ib] && y < 0)))
            return false;
        /* no division by zero; negative numbers, which round differently, are left out */
        if (op == 'D' && !b->sym[ib] && (y <= 0 || (!a->sym[ia] && x < 0)))
            return false;
        if (sym) {
            if (!symbolic(ic, op, x, y, &r))
                return false;
        } else if (op == 'A'   ? __builtin_add_overflow(x, y, &r)
                   : op == '-' ? __builtin_sub_overflow(x, y, &r)
                   : op == 'M' ? __builtin_mul_overflow(x, y, &r)
                               : (r = x / y, false)) {
            return false;
        }
        p->sym[p->n] = sym && r < 0; /* n - n is the number 0 */
        p->v[p->n++] = r;
    }
    return true;
}

/* Where(Equal(a, b), x, y), as exporters write the target of an Expand (-1 means 1). A dimension is
 * never negative, so it differs from a negative number. */
static bool where(struct steno_infer *ic, struct steno_partial *p)
{
    const struct steno_partial *x = of(ic, 1), *y = of(ic, 2), *a, *b;
    const struct steno_node *eq;
    int32_t at;
    if (!x || !y || x->n != y->n || ic->node->in[0] == STENO_NONE)
        return false;
    at = ic->g->values[ic->node->in[0]].producer;
    eq = at == STENO_NONE ? NULL : &ic->g->nodes[at];
    if (!eq || *eq->domain || strcmp(eq->op_type, "Equal"))
        return false;
    a = of_value(ic, eq->in[0]);
    b = of_value(ic, eq->in[1]);
    if (!a || !b || a->n != x->n || b->n != x->n)
        return false;
    for (int i = 0; i < x->n; i++) {
        bool sa = a->sym[i], sb = b->sym[i], apart = (sa && b->v[i] < 0) || (sb && a->v[i] < 0);
        if ((sa || sb) && (sa == sb || !apart))
            return false;
        if (!take_element(p, !sa && !sb && a->v[i] == b->v[i] ? x : y, i))
            return false;
    }
    return true;
}

static bool evaluate(struct steno_infer *ic, struct steno_partial *p)
{
    static const struct {
        const char *type;
        bool (*fn)(struct steno_infer *ic, struct steno_partial *p);
    } rows[] = {{"Shape", from_shape},       {"Gather", gather_partial}, {"Slice", slice},
                {"Concat", concat},          {"Squeeze", copy_partial},  {"Identity", copy_partial},
                {"Unsqueeze", copy_partial}, {"Add", arithmetic},        {"Sub", arithmetic},
                {"Mul", arithmetic},         {"Div", arithmetic},        {"Where", where}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(ic->node->op_type, rows[i].type))
            return rows[i].fn(ic, p);
    return false;
}

/* The dimension that -1 means: the product of `in` divided by the other dimensions of `out`. The
 * result is a number or one symbol; a new symbol if more remains. */
static int64_t rest(struct steno_infer *ic, struct steno_shape in, const struct steno_shape *out,
                    int hole)
{
    int64_t have = 1, used = 1, symbol = 0; /* product of the remaining symbols */
    for (int i = 0; i < out->rank; i++) {
        int k = 0;
        if (i == hole)
            continue;
        if (out->dim[i] >= 0) {
            if (__builtin_mul_overflow(used, out->dim[i], &used))
                return steno_infer_new_dim(ic);
            continue;
        }
        while (k < in.rank && in.dim[k] != out->dim[i])
            k++;
        if (k == in.rank)
            return steno_infer_new_dim(ic);
        in.dim[k] = 1;
    }
    for (int k = 0; k < in.rank; k++) {
        if (in.dim[k] == STENO_DIM_ANY)
            return steno_infer_new_dim(ic);
        if (in.dim[k] < 0)
            symbol = symbol ? steno_infer_expr(ic, '*', symbol, in.dim[k]) : in.dim[k];
        else if (__builtin_mul_overflow(have, in.dim[k], &have))
            return steno_infer_new_dim(ic);
    }
    if (symbol && used > 0 && have > 0 && have % used == 0)
        return have == used ? symbol : steno_infer_expr(ic, '*', symbol, have / used);
    if (symbol)
        return steno_infer_new_dim(ic);
    return used > 0 && have % used == 0 ? have / used : steno_infer_new_dim(ic);
}

/* Reshape to a target with known symbols. */
static void reshape(struct steno_infer *ic)
{
    const struct steno_partial *p = of(ic, 1);
    struct steno_shape in = steno_infer_shape(ic, 0), out;
    const bool zeros = steno_node_int(ic->node, "allowzero", 0) != 0; /* a 0 is 0, no copy */
    int hole = -1;
    if (!p || in.rank < 0 || p->n > STENO_MAX_RANK)
        return;
    out.rank = p->n;
    for (int i = 0; i < p->n; i++) {
        if (p->sym[i]) {
            out.dim[i] = p->v[i] == STENO_DIM_ANY ? steno_infer_new_dim(ic) : p->v[i];
        } else if (i < in.rank && p->v[i] == 0 && !zeros) {
            out.dim[i] = in.dim[i];
        } else if (p->v[i] == -1 && hole < 0) {
            hole = i;
        } else if (p->v[i] > 0) {
            out.dim[i] = p->v[i];
        } else {
            return;
        }
    }
    if (hole >= 0)
        out.dim[hole] = rest(ic, in, &out, hole);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &out);
}

/* ConstantOfShape of a shape with known symbols. */
static void constant_of_shape(struct steno_infer *ic)
{
    const struct steno_partial *p = of(ic, 0);
    struct steno_shape out;
    if (!p)
        return;
    out.rank = p->n;
    for (int i = 0; i < p->n; i++) {
        if (!p->sym[i] && p->v[i] < 0)
            return;
        out.dim[i] = p->sym[i] && p->v[i] == STENO_DIM_ANY ? steno_infer_new_dim(ic) : p->v[i];
    }
    steno_infer_set(ic, 0, ic->known[ic->node->out[0]].dtype, &out);
}

/* Expand to a shape with known symbols. */
static void expand(struct steno_infer *ic)
{
    const struct steno_partial *p = of(ic, 1);
    struct steno_shape in = steno_infer_shape(ic, 0), out;
    if (!p || in.rank < 0)
        return;
    out.rank = p->n > in.rank ? p->n : in.rank;
    for (int i = 1; i <= out.rank; i++) {
        int64_t have = i <= in.rank ? in.dim[in.rank - i] : 1, want = 1;
        bool sym = i <= p->n && p->sym[p->n - i];
        int64_t *to = &out.dim[out.rank - i];
        if (i <= p->n)
            want = p->v[p->n - i];
        if (!sym && want < 0)
            return;
        *to = have == 1                                         ? want
              : have > 1 || have == want || (!sym && want == 1) ? have
                                                                : STENO_DIM_ANY;
        if (*to == STENO_DIM_ANY)
            *to = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &out);
}

/* The only element of a known vector or scalar. */
static bool single(const struct steno_infer *ic, int in, int64_t *out)
{
    const struct steno_partial *p = of(ic, in);
    if (!p || p->n != 1 || (!p->sym[0] && p->v[0] < 0) || p->v[0] == STENO_DIM_ANY)
        return false;
    *out = p->v[0];
    return true;
}

/* Concat of data: sum the lengths along its axis. */
static void concat_length(struct steno_infer *ic, struct steno_shape *y)
{
    int64_t axis = steno_node_int(ic->node, "axis", 1), sum = 0;
    if (axis < -y->rank || axis >= y->rank)
        return;
    axis += axis < 0 ? y->rank : 0;
    if (y->dim[axis] >= 0)
        return;
    for (int k = 0; k < ic->node->n_in; k++) {
        struct steno_shape s = steno_infer_shape(ic, k);
        int64_t d = s.rank == y->rank ? s.dim[axis] : STENO_DIM_ANY;
        if (d == STENO_DIM_ANY)
            return;
        if (!sum || !d)
            sum += d;
        else if (sum < 0 || d < 0)
            sum = steno_infer_expr(ic, '+', sum, d);
        else if (__builtin_add_overflow(sum, d, &sum))
            return;
    }
    y->dim[axis] = sum;
}

/* Slice of data from its start to a symbol along one axis: the whole axis, that many elements, or
 * the minimum of the two. */
static void slice_length(struct steno_infer *ic, struct steno_shape *y)
{
    struct steno_shape x = steno_infer_shape(ic, 0);
    int64_t start, end, axis, step, part;
    if (ic->node->opset < 10 || x.rank < 0 || x.rank != y->rank || !single(ic, 1, &start) ||
        start || !single(ic, 2, &end) || end >= 0 || !read_slice_end(ic, 3, 0, &axis) ||
        !read_slice_end(ic, 4, 1, &step) || step != 1)
        return;
    axis = axis < 0 ? axis + y->rank : axis;
    if (axis < 0 || axis >= y->rank || y->dim[axis] >= 0)
        return;
    if (x.dim[axis] == end || steno_infer_minus(ic, x.dim[axis], end, &part))
        y->dim[axis] = end;
    else if (x.dim[axis] >= 0)
        y->dim[axis] = steno_infer_expr(ic, 'm', end, x.dim[axis]);
}

/* Range with step 1: end - start. */
static void range_length(struct steno_infer *ic, struct steno_shape *y)
{
    int64_t start, end, step, n;
    if (y->rank == 1 && y->dim[0] < 0 && single(ic, 0, &start) && single(ic, 1, &end) &&
        single(ic, 2, &step) && step == 1 && steno_infer_minus(ic, end, start, &n))
        y->dim[0] = n;
}

static bool numbers(const struct steno_partial *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->sym[i])
            return false;
    return true;
}

/* If all elements are numbers, store them as the value, which the readers' inference sees too. */
static bool keep_value(struct steno_infer *ic, struct steno_known *y, const struct steno_partial *p)
{
    struct steno_tensor *t;
    int64_t *v;
    if (y->shape.rank < 0 || y->shape.rank > 1 || !steno_shape_known(&y->shape) ||
        (y->shape.rank ? y->shape.dim[0] : 1) != p->n)
        return false;
    t = steno_arena_calloc(ic->mem, 1, sizeof *t);
    v = steno_arena_alloc(ic->mem, sizeof p->v);
    if (!t || !v)
        return false;
    memcpy(v, p->v, sizeof p->v);
    t->dtype = STENO_I64;
    t->shape = y->shape;
    t->data = v;
    y->value = t;
    return true;
}

void steno_infer_partial(struct steno_infer *ic)
{
    const struct steno_node *n = ic->node;
    struct steno_known *y = n->n_out && n->out[0] != STENO_NONE ? &ic->known[n->out[0]] : NULL;
    struct steno_partial p = {0};
    if (!y || *n->domain || y->value)
        return;
    if (!strcmp(n->op_type, "Reshape") && n->opset >= 5 && !steno_shape_known(&y->shape))
        reshape(ic);
    if (!strcmp(n->op_type, "ConstantOfShape") && !steno_shape_known(&y->shape))
        constant_of_shape(ic);
    if (!strcmp(n->op_type, "Expand") && !steno_shape_known(&y->shape))
        expand(ic);
    if (!strcmp(n->op_type, "Concat"))
        concat_length(ic, &y->shape);
    else if (!strcmp(n->op_type, "Slice"))
        slice_length(ic, &y->shape);
    else if (!strcmp(n->op_type, "Range"))
        range_length(ic, &y->shape);
    if (y->dtype != STENO_I64 || !evaluate(ic, &p))
        return;
    if (numbers(&p) && keep_value(ic, y, &p))
        return;
    y->part = steno_arena_alloc(ic->mem, sizeof p);
    if (y->part)
        memcpy(y->part, &p, sizeof p);
}
