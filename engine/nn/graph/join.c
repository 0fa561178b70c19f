/* Constants that are other constants, joined by columns or transposed. Passes make them of a third
 * of a conformer's weights; made at once, those would be in memory twice. */
#include "nn/graph/mapped.h"

#include <string.h>

static void make_part(const struct steno_join *j, int i, size_t size, char *to)
{
    const char *from = j->part[i].file;
    size_t cols = j->part[i].cols;
    for (size_t r = 0; r < j->rows; r++) {
        char *row = to + r * j->total * size;
        if (!j->part[i].transposed)
            memcpy(row, from + r * cols * size, cols * size);
        else if (size == 1)
            for (size_t c = 0; c < cols; c++)
                row[c] = from[c * j->rows + r];
        else
            for (size_t c = 0; c < cols; c++)
                memcpy(row + c * sizeof(float), from + (c * j->rows + r) * sizeof(float),
                       sizeof(float));
        if (j->part[i].factor != 1)
            for (size_t c = 0; c < cols; c++)
                ((float *)(void *)row)[c] *= j->part[i].factor;
    }
}

void steno_join_make(const struct steno_join *j, size_t size, void *to)
{
    size_t at = 0;
    for (int i = 0; i < j->n; i++) {
        make_part(j, i, size, (char *)to + at * size);
        at += j->part[i].cols;
    }
}

/* Set one part of the join from constant c. A part that is itself one transposed matrix is replaced
 * by its source. */
static void set_part(struct steno_join *j, int i, const struct steno_constant *c, bool transposed,
                     float factor)
{
    const struct steno_join *inner = c->join;
    bool one = inner && inner->n == 1 && !c->owned;
    j->part[i].file = one ? inner->part[0].file : c->t.data;
    j->part[i].transposed = one ? inner->part[0].transposed != transposed : transposed;
    j->part[i].factor = one ? factor * inner->part[0].factor : factor;
    j->part[i].cols = (size_t)c->t.shape.dim[!transposed];
}

/* True for bytes that do not move as long as the model's bytes live. */
static bool stays(const struct steno_constant *c)
{
    return (c->file && !c->owned) || (c->join && c->join->n == 1 && !c->owned);
}

static bool fits(const struct steno_tensor *t, const struct steno_tensor *first,
                 const struct steno_join_part *p, size_t rows)
{
    if (!t || t->dtype != first->dtype || t->shape.rank < 2 ||
        (size_t)t->shape.dim[p->transposed] != rows)
        return false;
    for (int i = 2; i < t->shape.rank; i++)
        if (t->shape.dim[i] != 1)
            return false;
    return steno_dtype_size(t->dtype) == sizeof(float)
               ? t->dtype == STENO_F32
               : steno_dtype_size(t->dtype) == 1 && p->factor == 1;
}

static steno_status describe(struct steno_graph *g, const struct steno_join_part *part, int n,
                             struct steno_join *j, bool *lazy, steno_err *err)
{
    const struct steno_tensor *first = g->values[part[0].from].constant;
    *lazy = true;
    *j = (struct steno_join){.n = n, .rows = (size_t)first->shape.dim[part[0].transposed]};
    for (int i = 0; i < n; i++) {
        const struct steno_tensor *t = g->values[part[i].from].constant;
        const struct steno_constant *c = t ? steno_constant_of(t) : NULL;
        if (!fits(t, first, &part[i], j->rows))
            return steno_fail(err, STENO_ERR_INTERNAL, "matrices that do not fit side by side");
        *lazy = *lazy && stays(c);
        set_part(j, i, c, part[i].transposed, part[i].factor);
        j->total += j->part[i].cols;
    }
    return STENO_OK;
}

static steno_status set_lazy(struct steno_graph *g, const struct steno_join *j,
                             struct steno_tensor *t, const char *name, steno_value_id *out,
                             steno_err *err)
{
    struct steno_join *kept = steno_graph_alloc(g, 1, sizeof *kept, err);
    steno_status st;
    if (!kept)
        return STENO_ERR_NOMEM;
    *kept = *j;
    memcpy(&t->data, &j->part[0].file, sizeof t->data);
    st = steno_graph_add_value(g, name, out, err);
    if (!st)
        st = steno_graph_set_const(g, *out, t, false, err);
    if (st)
        return st;
    steno_constant_of(g->values[*out].constant)->join = kept;
    return STENO_OK;
}

/* Fetch the parts and make the join at once. */
static steno_status make_now(struct steno_graph *g, const struct steno_join_part *part, int n,
                             struct steno_tensor *t, const char *name, steno_value_id *out,
                             steno_err *err)
{
    struct steno_join j;
    bool lazy;
    size_t bytes;
    steno_status st = STENO_OK;
    for (int i = 0; i < n && !st; i++)
        st = steno_graph_fetch(g, part[i].from, err);
    if (!st)
        st = describe(g, part, n, &j, &lazy, err);
    if (!st && steno_shape_bytes(&t->shape, t->dtype, &bytes))
        st = steno_fail(err, STENO_ERR_LIMIT, "a matrix of too many elements");
    if (st)
        return st;
    t->data = steno_aligned_alloc(bytes);
    if (!t->data)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for weights");
    steno_join_make(&j, steno_dtype_size(t->dtype), t->data);
    st = steno_graph_take_const(g, name, t, out, err);
    if (st)
        steno_aligned_free(t->data);
    return st;
}

steno_status steno_graph_join(struct steno_graph *g, const char *name,
                              const struct steno_join_part *part, int n, steno_value_id *out,
                              steno_err *err)
{
    struct steno_tensor t = {.dtype = g->values[part[0].from].constant->dtype,
                             .shape = {.rank = 2}};
    struct steno_join j;
    bool lazy;
    steno_status st = describe(g, part, n, &j, &lazy, err);
    if (st)
        return st;
    t.shape.dim[0] = (int64_t)j.rows;
    t.shape.dim[1] = (int64_t)j.total;
    return lazy ? set_lazy(g, &j, &t, name, out, err) : make_now(g, part, n, &t, name, out, err);
}

steno_status steno_graph_transpose_const(struct steno_graph *g, steno_value_id v,
                                         steno_value_id *out, steno_err *err)
{
    const struct steno_join_part part = {.from = v, .transposed = true, .factor = 1};
    return steno_graph_join(g, g->values[v].name, &part, 1, out, err);
}
