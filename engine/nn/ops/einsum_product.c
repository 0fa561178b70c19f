/* Each axis of extent 2 and more belongs to one of four groups, by what has it:
 *     batch: A, B and Y;  rows: A and Y;  cols: B and Y;  inner: A and B
 * An axis that only one factor has is summed before. Every entry of the batch is one product of a
 * matrix of A [rows, inner] and one of B [inner, cols]. The kernel takes row strides and
 * transposed factors, so most equations run where their elements lie. A group that does not step
 * evenly gives its outer axes to the batch, if the rest is large enough. Otherwise the factor is
 * copied, or the result is computed elsewhere and copied. */
#include "nn/ops/einsum.h"

#include "nn/ops/matmul.h"

enum {
    A = STENO_EINSUM_A,
    B = STENO_EINSUM_B,
    Y = STENO_EINSUM_Y,
    MAX_AXES = 2 * STENO_MAX_RANK,
    WORTH_A_CALL = 16, /* rows, or columns, of a product for which nothing is copied */
    DOT_ROWS = 2       /* rows, or columns, that are dot products */
};

typedef struct steno_einsum_axis axis;

struct group {
    int n;
    axis at[MAX_AXES];
};

enum { BATCH, ROWS, COLS, INNER, GROUPS };

struct einsum {
    struct steno_op_ctx *ctx;
    const float *factor[2];
    float *y;
    struct group g[GROUPS];
};

static void append_einsum_product(struct group *g, const axis *x)
{
    g->at[g->n++] = *x;
}

static size_t extent(const struct group *g)
{
    size_t n = 1;
    for (int i = 0; i < g->n; i++)
        n *= (size_t)g->at[i].n;
    return n;
}

static void swap_factors(struct einsum *e)
{
    const float *f = e->factor[A];
    struct group rows = e->g[ROWS];
    e->factor[A] = e->factor[B];
    e->factor[B] = f;
    e->g[ROWS] = e->g[COLS];
    e->g[COLS] = rows;
    for (int k = 0; k < GROUPS; k++)
        for (int i = 0; i < e->g[k].n; i++) {
            int64_t *s = e->g[k].at[i].step, t = s[A];
            s[A] = s[B];
            s[B] = t;
        }
}

/* Go to the next index of axes [0, n) and add the steps to the three offsets. False: that was the
 * last one; the offsets are those of the first. */
static bool next(const axis *at, int n, int64_t *idx, int64_t *offset)
{
    for (int k = n - 1; k >= 0; k--) {
        bool wraps = ++idx[k] == at[k].n;
        for (int t = 0; t < 3; t++)
            offset[t] += at[k].step[t] * (wraps ? 1 - at[k].n : 1);
        if (!wraps)
            return true;
        idx[k] = 0;
    }
    return false;
}

/* ---- sums of one factor ---- */

/* to[i * to_step] += x[i * step]; to_step 0: the sum. */
static void add_row_einsum_product(const steno_kernels *k, float *to, int64_t to_step,
                                   const float *x, int64_t step, size_t n)
{
    if (step == 1 && to_step == 0)
        *to += k->sum_f32(x, n);
    else if (step == 1 && to_step == 1)
        k->add_f32(to, to, 1, x, 1, n);
    else
        for (size_t i = 0; i < n; i++)
            to[(int64_t)i * to_step] += x[(int64_t)i * step];
}

static bool alone(const axis *x, int t)
{
    return x->step[t] && !x->step[1 - t] && !x->step[Y];
}

/* Replace factor t by its sums over the axes that nothing else has, and drop these. */
static steno_status sum_factor(struct einsum *e, int t, axis *axes, int *n_axes, steno_err *err)
{
    axis at[MAX_AXES]; /* of the factor, the largest step first; steps of the factor, of the sums */
    int64_t idx[MAX_AXES] = {0}, offset[3] = {0}, size = 1;
    int n = 0, kept = 0, of[MAX_AXES];
    float *sums;
    for (int i = 0; i < *n_axes; i++) {
        int k = n;
        if (!axes[i].step[t])
            continue;
        for (n++; k > 0 && axes[of[k - 1]].step[t] < axes[i].step[t]; k--)
            of[k] = of[k - 1];
        of[k] = i;
        kept += !alone(&axes[i], t);
    }
    if (kept == n)
        return STENO_OK;
    for (int i = n - 1; i >= 0; i--) {
        axis *x = &axes[of[i]];
        int64_t sum = alone(x, t) ? 0 : size;
        at[i] = (axis){x->n, {x->step[t], sum, 0}};
        size *= sum ? x->n : 1;
        x->step[t] = sum;
    }
    kept = 0;
    for (int i = 0; i < *n_axes; i++)
        if (axes[i].step[A] || axes[i].step[B])
            axes[kept++] = axes[i];
    *n_axes = kept;
    sums = steno_op_scratch(e->ctx, (size_t)size * sizeof *sums);
    if (!sums)
        return steno_ops_nomem(e->ctx, err);
    memset(sums, 0, (size_t)size * sizeof *sums);
    do
        add_row_einsum_product(steno_op_kernels(e->ctx), sums + offset[1], at[n - 1].step[1],
                               e->factor[t] + offset[0], at[n - 1].step[0], (size_t)at[n - 1].n);
    while (next(at, n - 1, idx, offset));
    e->factor[t] = sums;
    return STENO_OK;
}

/* ---- where elements lie ---- */

/* True if operand t steps evenly through all elements of the group; *step is 1 for one element. */
static bool even(const struct group *g, int t, size_t *step)
{
    for (int i = 0; i + 1 < g->n; i++)
        if (g->at[i].step[t] != g->at[i + 1].step[t] * g->at[i + 1].n)
            return false;
    *step = g->n ? (size_t)g->at[g->n - 1].step[t] : 1;
    return true;
}

/* Let the group step evenly through operands t and Y: its outer axes go to the batch. */
static void give_to_batch(struct einsum *e, struct group *g, int t)
{
    struct group rest = {0};
    size_t step;
    int from = g->n;
    if (even(g, t, &step) && even(g, Y, &step))
        return;
    while (from > 0) {
        rest.n = g->n - from + 1;
        memcpy(rest.at, g->at + from - 1, (size_t)rest.n * sizeof *rest.at);
        if (!even(&rest, t, &step) || !even(&rest, Y, &step))
            break;
        from--;
    }
    rest.n = g->n - from;
    memcpy(rest.at, g->at + from, (size_t)rest.n * sizeof *rest.at);
    if (extent(&rest) < WORTH_A_CALL)
        return;
    for (int i = 0; i < from; i++)
        append_einsum_product(&e->g[BATCH], &g->at[i]);
    *g = rest;
}

static const int layout[3][3] = {{BATCH, ROWS, INNER}, {BATCH, INNER, COLS}, {BATCH, ROWS, COLS}};

/* Let the axes of operand t step through a dense array in the order of its layout. *before
 * gets copies of these axes whose step A is the one before and step B the dense one. Returns the
 * size of the array. */
static size_t make_dense(struct einsum *e, int t, struct group *before)
{
    int64_t size = 1;
    before->n = 0;
    for (int k = 2; k >= 0; k--)
        for (int i = e->g[layout[t][k]].n - 1; i >= 0; i--) {
            axis *x = &e->g[layout[t][k]].at[i];
            if (!x->step[t])
                continue;
            append_einsum_product(before, &(axis){x->n, {x->step[t], size, 0}});
            x->step[t] = size;
            size *= x->n;
        }
    return (size_t)size;
}

/* to[sum of steps `to`] = from[sum of steps `from`] */
static void copy(const struct group *g, float *to, int to_step, const float *from, int from_step)
{
    int64_t dim[STENO_MAX_RANK], ds[STENO_MAX_RANK], ss[STENO_MAX_RANK];
    for (int i = 0; i < g->n; i++) { /* the dense steps are in rising order */
        const axis *x = &g->at[g->n - 1 - i];
        dim[i] = x->n;
        ds[i] = x->step[to_step];
        ss[i] = x->step[from_step];
    }
    steno_ops_copy(g->n, dim, sizeof *to, to, ds, from, ss);
}

static steno_status copy_factor(struct einsum *e, int t, steno_err *err)
{
    struct group g;
    size_t n = make_dense(e, t, &g);
    float *dense = steno_op_scratch(e->ctx, n * sizeof *dense);
    if (!dense)
        return steno_ops_nomem(e->ctx, err);
    copy(&g, dense, 1, e->factor[t], 0);
    e->factor[t] = dense;
    return STENO_OK;
}

/* ---- products ---- */

struct job {
    const struct einsum *e;
    size_t m, n, k, batch, parts;
    size_t a_row, a_col, b_row, b_col, c_row; /* steps */
    char *work;
    size_t work_bytes;
};

/* True if the product has an addressable factor t, [rows, inner] or [inner, cols]. */
static bool addressable(const struct einsum *e, int t, size_t *row, size_t *col)
{
    return even(&e->g[layout[t][1]], t, row) && even(&e->g[layout[t][2]], t, col) &&
           (*row == 1 || *col == 1);
}

/* Rows [from, from + m) of one product. */
static void multiply_einsum_product(const struct job *j, const int64_t *offset, size_t from,
                                    size_t m, void *work)
{
    const steno_kernels *k = steno_op_kernels(j->e->ctx);
    const float *a = j->e->factor[A] + offset[A] + from * j->a_row;
    const float *b = j->e->factor[B] + offset[B];
    float *c = j->e->y + offset[Y] + from * j->c_row;
    if (j->a_col == 1 && j->b_row == 1 && (j->n <= DOT_ROWS || j->m <= DOT_ROWS))
        k->dots_f32(c, j->c_row, a, j->a_row, m, b, j->b_col, j->n, j->k);
    else
        k->gemm_f32(m, j->n, j->k, a, j->a_col == 1 ? j->a_row : j->a_col, j->a_col != 1, b,
                    j->b_col == 1 ? j->b_row : j->b_col, j->b_col != 1, c, j->c_row, NULL, work);
}

/* A part is a range of all rows of all products. */
static void run_part_einsum_product(void *arg, int part)
{
    const struct job *j = arg;
    const struct group *batch = &j->e->g[BATCH];
    size_t row = j->batch * j->m * (size_t)part / j->parts,
           end = j->batch * j->m * ((size_t)part + 1) / j->parts;
    int64_t idx[MAX_AXES], offset[3] = {0};
    size_t i = row / j->m;
    for (int k = batch->n - 1; k >= 0; k--) {
        idx[k] = (int64_t)(i % (size_t)batch->at[k].n);
        i /= (size_t)batch->at[k].n;
        for (int t = 0; t < 3; t++)
            offset[t] += idx[k] * batch->at[k].step[t];
    }
    while (row < end) {
        size_t from = row % j->m, m = end - row < j->m - from ? end - row : j->m - from;
        multiply_einsum_product(j, offset, from, m, j->work + (size_t)part * j->work_bytes);
        row += m;
        (void)next(batch->at, batch->n, idx, offset);
    }
}

static steno_status run_products(struct einsum *e, steno_err *err)
{
    struct job j = {.e = e, .batch = extent(&e->g[BATCH])};
    size_t col;
    steno_status st = STENO_OK;
    j.m = extent(&e->g[ROWS]);
    j.n = extent(&e->g[COLS]);
    j.k = extent(&e->g[INNER]);
    if (!addressable(e, A, &j.a_row, &j.a_col))
        st = copy_factor(e, A, err);
    if (!st && !addressable(e, B, &j.b_row, &j.b_col))
        st = copy_factor(e, B, err);
    if (st)
        return st;
    (void)addressable(e, A, &j.a_row, &j.a_col);
    (void)addressable(e, B, &j.b_row, &j.b_col);
    (void)even(&e->g[ROWS], Y, &j.c_row);
    (void)even(&e->g[COLS], Y, &col);
    if (!e->g[ROWS].n)
        j.c_row = j.n;
    j.parts = steno_ops_parts(e->ctx, (double)j.batch * (double)j.m * (double)j.n * (double)j.k);
    if (j.parts > j.batch * j.m)
        j.parts = j.batch * j.m;
    j.work_bytes = steno_aligned(steno_op_kernels(e->ctx)->gemm_f32_work(j.m, j.n, j.k));
    j.work = steno_op_scratch(e->ctx, j.work_bytes * j.parts + 1);
    if (!j.work)
        return steno_ops_nomem(e->ctx, err);
    steno_op_parallel(e->ctx, (int)j.parts, run_part_einsum_product, &j);
    return STENO_OK;
}

/* The products, with a result that a product can write. */
static steno_status multiply_into_y(struct einsum *e, steno_err *err)
{
    struct group g;
    size_t row, col;
    float *y = e->y;
    steno_status st;
    give_to_batch(e, &e->g[ROWS], A);
    give_to_batch(e, &e->g[COLS], B);
    if (even(&e->g[ROWS], Y, &row) && even(&e->g[COLS], Y, &col) && col == 1)
        return run_products(e, err);
    e->y = steno_op_scratch(e->ctx, make_dense(e, Y, &g) * sizeof *y);
    if (!e->y)
        return steno_ops_nomem(e->ctx, err);
    st = run_products(e, err);
    if (!st)
        copy(&g, y, 0, e->y, 1);
    return st;
}

/* ---- no inner axis: products of elements ---- */
static void multiply_elements(const steno_kernels *k, const struct einsum *e, const axis *at, int n)
{
    int64_t idx[MAX_AXES] = {0}, offset[3] = {0};
    const axis one = {1, {0, 0, 1}}, *last = n ? &at[n - 1] : &one;
    bool rows = last->step[A] <= 1 && last->step[B] <= 1 && last->step[Y] == 1;
    do {
        const float *a = e->factor[A] + offset[A], *b = e->factor[B] + offset[B];
        float *y = e->y + offset[Y];
        if (rows)
            k->mul_f32(y, a, (size_t)last->step[A], b, (size_t)last->step[B], (size_t)last->n);
        for (int64_t i = 0; !rows && i < last->n; i++)
            y[i * last->step[Y]] = a[i * last->step[A]] * b[i * last->step[B]];
    } while (next(at, n - 1, idx, offset));
}

static void join_elements(axis *at, int *n)
{
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        axis *x = kept ? &at[kept - 1] : NULL;
        if (x && x->step[A] == at[i].step[A] * at[i].n && x->step[B] == at[i].step[B] * at[i].n &&
            x->step[Y] == at[i].step[Y] * at[i].n) {
            at[i].n *= x->n;
            *x = at[i];
        } else {
            at[kept++] = at[i];
        }
    }
    *n = kept;
}

steno_status steno_ops_einsum_product(struct steno_op_ctx *ctx,
                                      const struct steno_einsum_axis *given, int n, const float *a,
                                      const float *b, float *y, steno_err *err)
{
    struct einsum e = {.ctx = ctx, .factor = {a, b}, .y = y};
    axis axes[MAX_AXES];
    bool cols_last = true;
    steno_status st;
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (given[i].n != 1)
            axes[kept++] = given[i];
    st = sum_factor(&e, A, axes, &kept, err);
    if (!st)
        st = sum_factor(&e, B, axes, &kept, err);
    for (int i = 0; !st && i < kept; i++) {
        const int64_t *s = axes[i].step;
        int g = !s[Y] ? INNER : s[A] && s[B] ? BATCH : s[A] ? ROWS : COLS;
        append_einsum_product(&e.g[g], &axes[i]);
        if (s[Y])
            cols_last = g == COLS;
    }
    if (st)
        return st;
    if (!e.g[INNER].n) {
        join_elements(axes, &kept);
        multiply_elements(steno_op_kernels(ctx), &e, axes, kept);
        return STENO_OK;
    }
    for (int i = 1; i < e.g[INNER].n; i++) /* as they lie in A */
        for (int k = i; k > 0 && e.g[INNER].at[k].step[A] > e.g[INNER].at[k - 1].step[A]; k--) {
            axis x = e.g[INNER].at[k];
            e.g[INNER].at[k] = e.g[INNER].at[k - 1];
            e.g[INNER].at[k - 1] = x;
        }
    if (!cols_last)
        swap_factors(&e);
    return multiply_into_y(&e, err);
}
