#include "nn/network/run.h"

#include <string.h>

#include "base/array.h"

struct steno_run steno_run_begin(steno_session *s, const char *name, steno_err *err)
{
    return (struct steno_run){.session = s, .name = name, .err = err};
}

void steno_run_set_tensor(struct steno_run *r, int i, const struct steno_tensor *t)
{
    if (!r->st && i >= 0)
        r->st = steno_session_set(r->session, i, t, r->err);
}

void steno_run_set(struct steno_run *r, int i, steno_dtype type, const int64_t *dim, int rank,
                   const void *data)
{
    struct steno_tensor t = {.dtype = type, .shape = {.rank = rank}};
    if (rank)
        memcpy(t.shape.dim, dim, (size_t)rank * sizeof *dim);
    memcpy(&t.data, &data, sizeof t.data); /* inputs are not written */
    steno_run_set_tensor(r, i, &t);
}

void steno_run_set_ones(struct steno_run *r, int i, steno_dtype type, size_t n,
                        struct steno_ones *m)
{
    const int64_t dim[] = {1, (int64_t)n};
    const size_t from = m->cap;
    if (!r->st && i >= 0 && STENO_RESERVE(&m->data, &m->cap, n))
        r->st = steno_fail(r->err, STENO_ERR_NOMEM, "out of memory");
    for (size_t k = from; k < m->cap; k++)
        m->data[k] = type == STENO_BOOL ? 0x0101010101010101 : 1; /* bytes */
    steno_run_set(r, i, type, dim, 2, m->data);
}

steno_status steno_run_end(struct steno_run *r)
{
    if (!r->st)
        r->st = steno_session_run(r->session, r->err);
    return r->st && r->name ? steno_fail_in(r->err, r->st, "%s", r->name) : r->st;
}

size_t steno_run_floats(const steno_session *s, int i, const float **out)
{
    const struct steno_tensor *y = steno_session_get(s, i);
    size_t n;
    *out = y->data;
    return y->dtype == STENO_F32 && !steno_shape_count(&y->shape, &n) ? n : 0;
}
