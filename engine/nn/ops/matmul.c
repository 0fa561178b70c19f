/* Geometry of batched matrix products (nn/ops/matmul.h). */
#include "nn/ops/matmul.h"

static void batch_steps(const struct steno_shape *batch, const struct steno_shape *x, int64_t *step)
{
    int64_t at = 1;
    for (int i = batch->rank - 1, j = x->rank - 3; i >= 0; i--, j--) {
        int64_t d = j >= 0 ? x->dim[j] : 1;
        step[i] = d == 1 ? 0 : at;
        at *= d;
    }
}

const char *steno_matmul_plan(const struct steno_shape *a, const struct steno_shape *b,
                              struct steno_matmul *p)
{
    struct steno_shape x = *a, y = *b, xb, yb;
    if (a->rank < 1 || b->rank < 1)
        return "a factor has rank 0";
    if (a->rank == 1) {
        x.rank = 2;
        x.dim[0] = 1;
        x.dim[1] = a->dim[0];
    }
    if (b->rank == 1) {
        y.rank = 2;
        y.dim[1] = 1;
    }
    if (x.dim[x.rank - 1] >= 0 && y.dim[y.rank - 2] >= 0 && x.dim[x.rank - 1] != y.dim[y.rank - 2])
        return "inner dimensions differ";
    xb = steno_ops_shape(x.rank - 2, x.dim);
    yb = steno_ops_shape(y.rank - 2, y.dim);
    if (steno_shape_broadcast(&xb, &yb, &p->bshape))
        return "batch dimensions do not broadcast";
    p->out = p->bshape;
    if (a->rank > 1)
        p->out.dim[p->out.rank++] = x.dim[x.rank - 2];
    if (b->rank > 1)
        p->out.dim[p->out.rank++] = y.dim[y.rank - 1];
    if (!steno_shape_known(&x) || !steno_shape_known(&y))
        return NULL;
    p->m = (size_t)x.dim[x.rank - 2];
    p->k = (size_t)x.dim[x.rank - 1];
    p->n = (size_t)y.dim[y.rank - 1];
    p->batch = steno_ops_prod(&p->bshape, 0, p->bshape.rank);
    batch_steps(&p->bshape, &x, p->a_step);
    batch_steps(&p->bshape, &y, p->b_step);
    p->b_transposed = false;
    p->b_single = steno_ops_prod(&yb, 0, yb.rank) == 1;
    if (p->b_single) {
        p->m *= p->batch;
        p->batch = 1;
    }
    return NULL;
}

steno_status steno_matmul_infer(struct steno_infer *ic, const struct steno_shape *a,
                                const struct steno_shape *b, steno_dtype t, steno_err *err)
{
    struct steno_matmul p = {.out = {.rank = STENO_RANK_ANY}};
    if (a->rank >= 0 && b->rank >= 0) {
        const char *wrong = steno_matmul_plan(a, b, &p);
        if (wrong)
            return steno_fail(err, STENO_ERR_INVAL, "%s", wrong);
        for (int i = 0; i < p.out.rank; i++)
            if (p.out.dim[i] == STENO_DIM_ANY)
                p.out.dim[i] = steno_infer_new_dim(ic);
    }
    steno_infer_set(ic, 0, t, &p.out);
    return STENO_OK;
}

void steno_matmul_offsets(const struct steno_matmul *p, size_t i, size_t *a, size_t *b)
{
    *a = *b = 0;
    for (int d = p->bshape.rank - 1; d >= 0; d--) {
        size_t at = i % (size_t)p->bshape.dim[d];
        i /= (size_t)p->bshape.dim[d];
        *a += at * (size_t)p->a_step[d];
        *b += at * (size_t)p->b_step[d];
    }
}
