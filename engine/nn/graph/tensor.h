/* Element types, shapes and dense tensors. */
#ifndef STENO_NN_GRAPH_TENSOR_H
#define STENO_NN_GRAPH_TENSOR_H

#include "base/status.h"

#define STENO_MAX_RANK 10

/* Numbers as in onnx.TensorProto.DataType. */
typedef enum {
    STENO_DT_NONE = 0,
    STENO_F32 = 1,
    STENO_U8 = 2,
    STENO_I8 = 3,
    STENO_U16 = 4,
    STENO_I16 = 5,
    STENO_I32 = 6,
    STENO_I64 = 7,
    STENO_STRING = 8, /* stored in the graph, never computed with */
    STENO_BOOL = 9,   /* one byte, 0 or 1 */
    STENO_F16 = 10,
    STENO_F64 = 11,
    STENO_U32 = 12,
    STENO_U64 = 13,
    STENO_BF16 = 16,
    /* Added to the elements' type: a sequence of tensors of that type. It is held as a tensor of
     * rank 1 whose bytes nn/ops/op_sequence.c defines. */
    STENO_SEQUENCE = 64,
    /* Added to a type (of tensors or of a sequence): a value of that type or none. Held as a tensor
     * of rank 1, too; nn/rare_ops/op_optional.c. */
    STENO_OPTIONAL = 128
} steno_dtype;

static inline bool steno_dtype_is_sequence(steno_dtype t)
{
    return (unsigned)t >= STENO_SEQUENCE && (unsigned)t < STENO_OPTIONAL;
}
static inline bool steno_dtype_is_optional(steno_dtype t)
{
    return (unsigned)t >= STENO_OPTIONAL;
}
/* True for a sequence or an optional: a block of bytes, whose length is no shape. */
static inline bool steno_dtype_is_block(steno_dtype t)
{
    return (unsigned)t >= STENO_SEQUENCE;
}
/* A value of this type or none, and the type of an optional's value. */
static inline steno_dtype steno_dtype_optional_of(steno_dtype value)
{
    return (steno_dtype)(STENO_OPTIONAL + value);
}
static inline steno_dtype steno_dtype_value_of(steno_dtype optional)
{
    return (steno_dtype)((unsigned)optional - STENO_OPTIONAL);
}
/* The sequence of tensors of this type, and the type of a sequence's tensors. */
static inline steno_dtype steno_dtype_sequence_of(steno_dtype element)
{
    return (steno_dtype)(STENO_SEQUENCE + element);
}
static inline steno_dtype steno_dtype_element_of(steno_dtype sequence)
{
    return (steno_dtype)((unsigned)sequence - STENO_SEQUENCE);
}

static inline bool steno_dtype_is_byte(steno_dtype t)
{
    return t == STENO_U8 || t == STENO_I8;
}

/* Extents; dim >= 0 is known, dim < 0 is symbolic: STENO_DIM_ANY, or -(2 + symbol number). */
#define STENO_DIM_ANY (-1)
#define STENO_RANK_ANY (-1)
struct steno_shape {
    int rank; /* STENO_RANK_ANY while unknown */
    int64_t dim[STENO_MAX_RANK];
};

/* True when two extents are the same: equal numbers, or the same symbol. */
static inline bool steno_same_dim(int64_t a, int64_t b)
{
    return a == b && a != STENO_DIM_ANY;
}

/* Dense, row-major. data is 64-byte aligned and followed by STENO_OVERREAD readable bytes
 * (base/arena.h), except in views of borrowed input. */
struct steno_tensor {
    steno_dtype dtype;
    struct steno_shape shape;
    void *data;
};

/* Bytes of one element, 1 for sequences and optionals; 0 for types without storage. */
size_t steno_dtype_size(steno_dtype t);
/* True for the type of a tensor's elements: it has storage and is no sequence or optional. */
bool steno_dtype_is_element(steno_dtype t);
/* "f32", "i64", ... never NULL. */
const char *steno_dtype_name(steno_dtype t);

bool steno_shape_known(const struct steno_shape *s); /* rank and every dim >= 0 */
bool steno_shape_equal(const struct steno_shape *a, const struct steno_shape *b);
/* Product of dims. STENO_ERR_INVAL if not known, STENO_ERR_LIMIT on overflow. */
STENO_MUST steno_status steno_shape_count(const struct steno_shape *s, size_t *count);
/* count * element size. */
STENO_MUST steno_status steno_shape_bytes(const struct steno_shape *s, steno_dtype t,
                                          size_t *bytes);
/* Number of elements of a concrete shape that was checked before; no overflow test. */
static inline size_t steno_numel(const struct steno_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->shape.rank; i++)
        n *= (size_t)t->shape.dim[i];
    return n;
}
/* Write "[1,?,80]" to out; returns out. */
char *steno_shape_str(const struct steno_shape *s, char *out, size_t size);
/* NumPy/ONNX multidirectional broadcasting of concrete or symbolic shapes. */
STENO_MUST steno_status steno_shape_broadcast(const struct steno_shape *a,
                                              const struct steno_shape *b, struct steno_shape *out);
#endif
