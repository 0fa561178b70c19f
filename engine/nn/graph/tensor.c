#include "nn/graph/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [STENO_DT_NONE] = {"none", 0}, [STENO_F32] = {"f32", 4},   [STENO_U8] = {"u8", 1},
    [STENO_I8] = {"i8", 1},        [STENO_U16] = {"u16", 2},   [STENO_I16] = {"i16", 2},
    [STENO_I32] = {"i32", 4},      [STENO_I64] = {"i64", 8},   [STENO_STRING] = {"string", 0},
    [STENO_BOOL] = {"bool", 1},    [STENO_F16] = {"f16", 2},   [STENO_F64] = {"f64", 8},
    [STENO_U32] = {"u32", 4},      [STENO_U64] = {"u64", 8},   [14] = {"complex64", 0},
    [15] = {"complex128", 0},      [STENO_BF16] = {"bf16", 2},
};

static size_t element_size(unsigned t)
{
    return t < sizeof dtypes / sizeof dtypes[0] ? dtypes[t].size : 0;
}

size_t steno_dtype_size(steno_dtype t)
{
    if (steno_dtype_is_optional(t))
        return !steno_dtype_is_optional(steno_dtype_value_of(t)) &&
               steno_dtype_size(steno_dtype_value_of(t)) > 0;
    if (steno_dtype_is_sequence(t))
        return steno_dtype_is_element(steno_dtype_element_of(t));
    return element_size((unsigned)t);
}

bool steno_dtype_is_element(steno_dtype t)
{
    return element_size((unsigned)t) > 0;
}

const char *steno_dtype_name(steno_dtype t)
{
    if (steno_dtype_is_optional(t))
        return "optional";
    if (steno_dtype_is_sequence(t))
        return "sequence";
    return (unsigned)t < sizeof dtypes / sizeof dtypes[0] ? dtypes[t].name : "unknown";
}

bool steno_shape_known(const struct steno_shape *s)
{
    if (s->rank < 0)
        return false;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0)
            return false;
    return true;
}

bool steno_shape_equal(const struct steno_shape *a, const struct steno_shape *b)
{
    return a->rank == b->rank &&
           (a->rank <= 0 || !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]));
}

steno_status steno_shape_count(const struct steno_shape *s, size_t *count)
{
    size_t n = 1;
    bool zero = false;
    if (!steno_shape_known(s))
        return STENO_ERR_INVAL;
    for (int i = 0; i < s->rank; i++) {
        if (!s->dim[i])
            zero = true;
        else if (!steno_mul_size(n, (size_t)s->dim[i], &n) || n > INT64_MAX)
            return STENO_ERR_LIMIT;
    }
    *count = zero ? 0 : n;
    return STENO_OK;
}

steno_status steno_shape_bytes(const struct steno_shape *s, steno_dtype t, size_t *bytes)
{
    size_t n;
    steno_status st = steno_shape_count(s, &n);
    if (st)
        return st;
    if (!steno_mul_size(n, steno_dtype_size(t), &n) || n > INT64_MAX)
        return STENO_ERR_LIMIT;
    *bytes = n;
    return STENO_OK;
}

char *steno_shape_str(const struct steno_shape *s, char *out, size_t size)
{
    size_t at = 0;
    int n;
    if (!size)
        return out;
    if (s->rank < 0) {
        snprintf(out, size, "[...]");
        return out;
    }
    n = snprintf(out, size, "[");
    for (int i = 0; i < s->rank && n > 0 && (at += (size_t)n) < size; i++)
        n = s->dim[i] < 0
                ? snprintf(out + at, size - at, "%s?", i ? "," : "")
                : snprintf(out + at, size - at, "%s%lld", i ? "," : "", (long long)s->dim[i]);
    if (!s->rank)
        at = 1;
    else if (n > 0)
        at += (size_t)n;
    if (at < size)
        snprintf(out + at, size - at, "]");
    return out;
}

steno_status steno_shape_broadcast(const struct steno_shape *a, const struct steno_shape *b,
                                   struct steno_shape *out)
{
    struct steno_shape r;
    if (a->rank < 0 || b->rank < 0) {
        out->rank = STENO_RANK_ANY;
        return STENO_OK;
    }
    r.rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 1; i <= r.rank; i++) {
        int64_t x = i <= a->rank ? a->dim[a->rank - i] : 1;
        int64_t y = i <= b->rank ? b->dim[b->rank - i] : 1;
        int64_t *z = &r.dim[r.rank - i];
        if (x == y)
            *z = x;
        else if (x == 1)
            *z = y;
        else if (y == 1)
            *z = x;
        else if (x >= 0 && y >= 0)
            return STENO_ERR_INVAL;
        else if (x >= 0 || y >= 0) /* the unknown one must be equal, or 1 */
            *z = x >= 0 ? x : y;
        else
            *z = STENO_DIM_ANY;
    }
    *out = r;
    return STENO_OK;
}
