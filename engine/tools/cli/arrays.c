#include "tools/cli/arrays.h"

#include <string.h>

static const struct {
    steno_dtype t;
    char kind;
    int item;
} types[] = {
    {STENO_F32, 'f', 4},
    {STENO_F64, 'f', 8},
    {STENO_F16, 'f', 2},
    {STENO_I8, 'i', 1},
    {STENO_I16, 'i', 2},
    {STENO_I32, 'i', 4},
    {STENO_I64, 'i', 8},
    {STENO_U8, 'u', 1},
    {STENO_U16, 'u', 2},
    {STENO_U32, 'u', 4},
    {STENO_U64, 'u', 8},
    {STENO_BOOL, 'b', 1},
    /* NumPy has no bfloat16: its bits */
    {STENO_BF16, 'u', 2},
};

static steno_dtype dtype_of(const struct steno_npy *a, steno_dtype want)
{
    if (want == STENO_BF16 && a->item == 2 && (a->kind == 'u' || a->kind == 'i'))
        return STENO_BF16;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].kind == a->kind && types[i].item == a->item)
            return types[i].t;
    return STENO_DT_NONE;
}

void arrays_tensor(struct steno_npy *a, steno_dtype want, struct steno_tensor *t)
{
    t->dtype = dtype_of(a, want);
    t->shape.rank = a->rank;
    memcpy(t->shape.dim, a->dim, sizeof a->dim);
    t->data = a->data;
    for (size_t k = 0; t->dtype == STENO_BOOL && k < a->bytes; k++)
        ((uint8_t *)a->data)[k] = ((uint8_t *)a->data)[k] != 0;
}

void arrays_npy(const struct steno_tensor *t, struct steno_npy *a)
{
    *a = (struct steno_npy){.rank = t->shape.rank, .data = t->data};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
        if (types[k].t == t->dtype) {
            a->kind = types[k].kind;
            a->item = types[k].item;
        }
    memcpy(a->dim, t->shape.dim, sizeof a->dim);
    a->bytes = steno_numel(t) * (size_t)a->item;
}
