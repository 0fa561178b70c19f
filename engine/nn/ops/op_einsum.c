/* Einsum (opset 12): the sum of the equation, term by term, over any number of inputs. Labels are
 * a-z and A-Z; an ellipsis stands for leading dims that broadcast. Two factors of up to 32 bits are
 * matrix products (einsum_product.c). Other floats are summed in f64, integers modulo 2^64. */
#include "nn/ops/einsum.h"

enum {
    LETTERS = 52,
    /* the letters, then the dims of the ellipsis, counted from the last */
    LABELS = LETTERS + STENO_MAX_RANK,
    MAX_TERMS = STENO_OPS_MAX_IN
};

struct term {
    int n; /* labels, -1 where the ellipsis is */
    int label[STENO_MAX_RANK + 1];
};

struct equation {
    int n_terms;
    struct term in[MAX_TERMS], out;
    bool implicit;
};

static int letter(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1;
}

/* Parse one term up to a comma, an arrow or the end; NULL: a syntax error. */
static const char *parse_term(const char *p, struct term *t)
{
    bool dots = false;
    t->n = 0;
    for (; *p && *p != ',' && *p != '-'; p++) {
        int l = letter(*p);
        if (*p == ' ')
            continue;
        if (t->n > STENO_MAX_RANK)
            return NULL;
        if (!strncmp(p, "...", 3) && !dots) {
            dots = true;
            t->label[t->n++] = -1;
            p += 2;
        } else if (l >= 0) {
            t->label[t->n++] = l;
        } else {
            return NULL;
        }
    }
    return p;
}

static bool parse(const char *p, struct equation *e)
{
    memset(e, 0, sizeof *e);
    for (;;) {
        if (e->n_terms == MAX_TERMS || !(p = parse_term(p, &e->in[e->n_terms++])))
            return false;
        if (*p != ',')
            break;
        p++;
    }
    if (!*p) {
        e->implicit = true;
        return true;
    }
    if (p[1] != '>')
        return false;
    p = parse_term(p + 2, &e->out);
    return p && !*p;
}

/* Output without an arrow: the ellipsis, then every letter that appears once, in order. */
static bool imply_output(struct equation *e)
{
    int count[LETTERS] = {0};
    bool dots = false;
    for (int t = 0; t < e->n_terms; t++)
        for (int i = 0; i < e->in[t].n; i++) {
            if (e->in[t].label[i] < 0)
                dots = true;
            else
                count[e->in[t].label[i]]++;
        }
    if (dots)
        e->out.label[e->out.n++] = -1;
    for (int k = 0; k < LETTERS; k++) {
        int l = k < 26 ? k + 26 : k - 26; /* upper case sorts before lower case, as in ASCII */
        if (count[l] != 1)
            continue;
        if (e->out.n > STENO_MAX_RANK)
            return false;
        e->out.label[e->out.n++] = l;
    }
    return true;
}

/* Write the labels of the dims of a shape of this rank. False: the term does not fit it. */
static bool spread(const struct term *t, int rank, int *label)
{
    int dots = 0, at = 0;
    for (int i = 0; i < t->n; i++)
        dots += t->label[i] < 0;
    if (dots ? t->n - 1 > rank : t->n != rank)
        return false;
    for (int i = 0; i < t->n; i++) {
        if (t->label[i] >= 0) {
            label[at++] = t->label[i];
            continue;
        }
        for (int k = rank - (t->n - 1) - 1; k >= 0; k--)
            label[at++] = LETTERS + k;
    }
    return true;
}

#define UNUSED INT64_MIN

struct plan {
    struct steno_shape out;
    int64_t extent[LABELS];            /* UNUSED, or a dim, known or not */
    int order[LABELS], n_order, n_out; /* labels of the result, then the summed ones */
};

/* The extent of a label that has extents a and b: those of 1 broadcast, as in NumPy. False: they do
 * not fit. */
static bool merge_extents(int64_t a, int64_t b, int64_t *out)
{
    if (a == UNUSED || a == 1 || steno_same_dim(a, b))
        *out = b;
    else if (b == 1)
        *out = a;
    else if (a >= 0 && b >= 0)
        return false;
    else
        *out = a > 1 ? a : b > 1 ? b : STENO_DIM_ANY;
    return true;
}

static const char *make_plan(const char *text, const struct steno_shape *in, int n_in,
                             struct equation *e, struct plan *p)
{
    int label[STENO_MAX_RANK], dots = 0;
    if (!parse(text, e) || (e->implicit && !imply_output(e)))
        return "the equation is not valid";
    if (e->n_terms != n_in)
        return "the equation does not have one term for each input";
    memset(p, 0, sizeof *p);
    for (int l = 0; l < LABELS; l++)
        p->extent[l] = UNUSED;
    for (int t = 0; t < n_in; t++) {
        if (!spread(&e->in[t], in[t].rank, label))
            return "a term does not fit its input";
        for (int i = 0; i < in[t].rank; i++) {
            int64_t *d = &p->extent[label[i]];
            if (!merge_extents(*d, in[t].dim[i], d))
                return "the dimensions of a label differ";
            if (label[i] >= LETTERS && label[i] - LETTERS >= dots)
                dots = label[i] - LETTERS + 1;
        }
    }
    for (int i = 0; i < e->out.n; i++) {
        int first = e->out.label[i], last = first;
        if (first < 0) {
            first = LETTERS + dots - 1;
            last = LETTERS;
        }
        for (int l = first; l >= last; l--) {
            for (int k = 0; k < p->n_out; k++)
                if (p->order[k] == l)
                    return "a label appears twice in the result";
            if (p->extent[l] == UNUSED)
                return "a label of the result appears in no input";
            if (p->n_out == STENO_MAX_RANK)
                return "the rank of the result is too high";
            p->order[p->n_out] = l;
            p->out.dim[p->n_out++] = p->extent[l];
        }
    }
    p->out.rank = p->n_order = p->n_out;
    for (int l = 0; l < LABELS; l++) {
        bool in_out = false;
        for (int k = 0; k < p->n_out; k++)
            in_out = in_out || p->order[k] == l;
        if (!in_out && p->extent[l] != UNUSED)
            p->order[p->n_order++] = l;
    }
    return NULL;
}

static steno_status infer_einsum(struct steno_infer *ic, steno_err *err)
{
    const struct steno_node *n = steno_infer_node(ic);
    struct steno_shape in[MAX_TERMS];
    struct equation e;
    struct plan p;
    const char *wrong;
    if (n->n_in > MAX_TERMS || n->n_in < 1)
        return steno_fail(err, STENO_ERR_LIMIT, "%d inputs are not supported", n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        in[i] = steno_infer_shape(ic, i);
        if (in[i].rank < 0) {
            steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), NULL);
            return STENO_OK;
        }
    }
    wrong = make_plan(steno_node_str(n, "equation", ""), in, n->n_in, &e, &p);
    if (wrong)
        return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
    for (int i = 0; i < p.out.rank; i++)
        if (p.out.dim[i] == STENO_DIM_ANY)
            p.out.dim[i] = steno_infer_new_dim(ic);
    steno_infer_set(ic, 0, steno_infer_dtype(ic, 0), &p.out);
    return STENO_OK;
}

struct sum {
    const struct plan *p;
    int n_in;
    int64_t step[MAX_TERMS][LABELS]; /* in elements, by position in p->order */
    const double *f[MAX_TERMS];
    const uint64_t *u[MAX_TERMS];
};

static void set_steps(struct sum *s, int t, const struct term *term, const struct steno_shape *in)
{
    int label[STENO_MAX_RANK];
    int64_t stride[STENO_MAX_RANK];
    (void)spread(term, in->rank, label);
    steno_ops_strides(in, stride);
    for (int i = 0; i < in->rank; i++)
        for (int k = 0; k < s->p->n_order; k++)
            if (s->p->order[k] == label[i] && in->dim[i] != 1)
                s->step[t][k] += stride[i];
}

/* Sum over the labels from n_out on; the operands start at the offsets `base`. */
static void inner_sum(const struct sum *s, const int64_t *base, double *f, uint64_t *u)
{
    int64_t at[MAX_TERMS], idx[LABELS] = {0};
    int last = s->p->n_order, first = s->p->n_out, k;
    memcpy(at, base, sizeof at);
    *f = 0;
    *u = 0;
    for (;;) {
        double pf = 1;
        uint64_t pu = 1;
        for (int t = 0; t < s->n_in; t++) {
            if (s->f[t])
                pf *= s->f[t][at[t]];
            else
                pu *= s->u[t][at[t]];
        }
        *f += pf;
        *u += pu;
        for (k = last - 1; k >= first; k--) {
            int64_t d = s->p->extent[s->p->order[k]];
            if (++idx[k] < d) {
                for (int t = 0; t < s->n_in; t++)
                    at[t] += s->step[t][k];
                break;
            }
            for (int t = 0; t < s->n_in; t++)
                at[t] -= s->step[t][k] * (d - 1);
            idx[k] = 0;
        }
        if (k < first)
            return;
    }
}

/* Every element of y for itself. */
static void sum_elements(const struct sum *s, struct steno_tensor *y)
{
    const struct plan *p = s->p;
    int64_t idx[STENO_MAX_RANK] = {0};
    size_t n = steno_numel(y), size = steno_dtype_size(y->dtype);
    bool empty = false;
    for (int k = p->n_out; k < p->n_order; k++)
        empty = empty || p->extent[p->order[k]] == 0;
    for (size_t i = 0; i < n; i++) {
        int64_t base[MAX_TERMS] = {0};
        double f = 0;
        uint64_t u = 0;
        for (int t = 0; t < s->n_in; t++)
            for (int k = 0; k < p->n_out; k++)
                base[t] += idx[k] * s->step[t][k];
        if (!empty)
            inner_sum(s, base, &f, &u);
        if (steno_ops_is_float(y->dtype))
            steno_ops_set_f64(y, i, f);
        else
            memcpy((char *)y->data + i * size, &u, size);
        for (int k = p->n_out - 1; k >= 0 && ++idx[k] == p->out.dim[k]; k--)
            idx[k] = 0;
    }
}

static steno_status sum_any(struct steno_op_ctx *ctx, struct sum *s, struct steno_tensor *y,
                            steno_err *err)
{
    for (int t = 0; t < s->n_in; t++) {
        const struct steno_tensor *x = steno_op_in(ctx, t);
        if (steno_ops_is_float(x->dtype)) {
            s->f[t] = steno_ops_as_f64(ctx, x);
        } else {
            int64_t *v = steno_op_scratch(ctx, (steno_numel(x) + 1) * sizeof *v);
            if (v)
                steno_ops_load_i64(v, x->data, x->dtype, steno_numel(x));
            s->u[t] = (const uint64_t *)v;
        }
        if (!s->f[t] && !s->u[t])
            return steno_ops_nomem(ctx, err);
    }
    sum_elements(s, y);
    return STENO_OK;
}

static steno_status sum_product(struct steno_op_ctx *ctx, const struct sum *s,
                                struct steno_tensor *y, steno_err *err)
{
    struct steno_einsum_axis axis[LABELS];
    int64_t stride[STENO_MAX_RANK];
    const float *a = steno_ops_as_f32(ctx, steno_op_in(ctx, 0)),
                *b = steno_ops_as_f32(ctx, steno_op_in(ctx, 1));
    float *f = steno_ops_out_f32(ctx, y);
    steno_status st;
    if (!a || !b || !f)
        return steno_ops_nomem(ctx, err);
    steno_ops_strides(&y->shape, stride);
    for (int k = 0; k < s->p->n_order; k++)
        axis[k] = (struct steno_einsum_axis){
            s->p->extent[s->p->order[k]],
            {s->step[0][k], s->step[1][k], k < s->p->n_out ? stride[k] : 0}};
    st = steno_ops_einsum_product(ctx, axis, s->p->n_order, a, b, f, err);
    if (!st)
        steno_ops_put_f32(y, f);
    return st;
}

static bool is_product(const struct sum *s, steno_dtype t)
{
    for (int k = 0; k < s->p->n_order; k++)
        if (!s->p->extent[s->p->order[k]])
            return false;
    return s->n_in == 2 && (t == STENO_F32 || steno_ops_is_half(t));
}

static steno_status run_einsum(struct steno_op_ctx *ctx, steno_err *err)
{
    int n_in = steno_op_n_in(ctx);
    struct steno_shape in[MAX_TERMS];
    struct equation e;
    struct plan p;
    struct sum s = {.p = &p, .n_in = n_in};
    const struct steno_tensor *x = NULL;
    struct steno_tensor *y;
    const char *wrong;
    steno_status st;
    if (n_in > MAX_TERMS || n_in < 1)
        return steno_op_fail(ctx, err, STENO_ERR_LIMIT, "%d inputs are not supported", n_in);
    for (int i = 0; i < n_in; i++) {
        x = steno_op_in(ctx, i);
        in[i] = x->shape;
        if (x->dtype != steno_op_in(ctx, 0)->dtype ||
            (!steno_ops_is_float(x->dtype) && !steno_ops_is_int(x->dtype)))
            return steno_ops_bad_type(ctx, err, x->dtype);
    }
    wrong = make_plan(steno_node_str(steno_op_node(ctx), "equation", ""), in, n_in, &e, &p);
    if (wrong)
        return steno_op_fail(ctx, err, STENO_ERR_INVAL, "%s", wrong);
    st = steno_op_out(ctx, 0, x->dtype, &p.out, &y, err);
    if (st || !steno_numel(y))
        return st;
    for (int t = 0; t < n_in; t++)
        set_steps(&s, t, &e.in[t], &in[t]);
    return is_product(&s, x->dtype) ? sum_product(ctx, &s, y, err) : sum_any(ctx, &s, y, err);
}

const struct steno_op steno_ops_einsum[] = {
    {"", "Einsum", 12, 0, 0, infer_einsum, NULL, NULL, run_einsum},
    {0},
};
