/* Types, constants and attributes as messages. */
#include "nn/onnx/write.h"

#include <string.h>

/* ---- tensors, types ---- */

steno_status steno_write_external(struct writer *w, Onnx__Tensor *m, const char *key,
                                  const char *value)
{
    Onnx__StringStringEntry *e;
    NEW(w, e, onnx__string_string_entry__init);
    e->key = steno_write_dup(w, key);
    e->value = steno_write_dup(w, value);
    m->external_data[m->n_external_data++] = e;
    return e->key && e->value ? STENO_OK : STENO_ERR_NOMEM;
}

steno_status steno_write_tensor(struct writer *w, const char *name, const struct steno_tensor *t,
                                Onnx__Tensor **out)
{
    Onnx__Tensor *m;
    size_t bytes;
    NEW(w, m, onnx__tensor__init);
    if (steno_shape_bytes(&t->shape, t->dtype, &bytes) || (bytes && !t->data))
        return steno_fail(w->err, STENO_ERR_INTERNAL, "constant '%s' has no elements", name);
    m->name = steno_write_dup(w, name);
    m->dims = steno_write_alloc(w, (size_t)t->shape.rank + 1, sizeof *m->dims);
    if (!m->name || !m->dims)
        return STENO_ERR_NOMEM;
    memcpy(m->dims, t->shape.dim, (size_t)t->shape.rank * sizeof *m->dims);
    m->n_dims = (size_t)t->shape.rank;
    m->data_type = (int)t->dtype;
    *out = m;
    m->raw_data.data = t->data;
    m->raw_data.len = bytes;
    return STENO_OK;
}

static steno_status write_dim(struct writer *w, const struct steno_graph *g, int64_t d,
                              Onnx__TensorShape__Dimension **out)
{
    const struct steno_graph *root = g;
    Onnx__TensorShape__Dimension *m;
    int64_t symbol = -d - 2;
    NEW(w, m, onnx__tensor_shape__dimension__init);
    while (root->parent)
        root = root->parent;
    if (d >= 0) {
        m->value_case = ONNX__TENSOR_SHAPE__DIMENSION__VALUE_DIM_VALUE;
        m->dim_value = d;
    } else if (symbol >= 0 && symbol < root->n_symbols) {
        m->value_case = ONNX__TENSOR_SHAPE__DIMENSION__VALUE_DIM_PARAM;
        if (!(m->dim_param = steno_write_dup(w, root->symbols[symbol].name)))
            return STENO_ERR_NOMEM;
    }
    *out = m;
    return STENO_OK;
}

/* The type of a sequence or an optional; t: of the tensors. */
static steno_status write_block(struct writer *w, steno_dtype dtype, Onnx__Type__TensorKind *t,
                                Onnx__Type *type)
{
    if (steno_dtype_is_optional(dtype)) {
        NEW(w, type->optional_type, onnx__type__optional_kind__init);
        NEW(w, type->optional_type->elem_type, onnx__type__init);
        type->value_case = ONNX__TYPE__VALUE_OPTIONAL_TYPE;
        type = type->optional_type->elem_type;
        dtype = steno_dtype_value_of(dtype);
    }
    if (steno_dtype_is_sequence(dtype)) {
        NEW(w, type->sequence_type, onnx__type__sequence_kind__init);
        NEW(w, type->sequence_type->elem_type, onnx__type__init);
        type->value_case = ONNX__TYPE__VALUE_SEQUENCE_TYPE;
        type = type->sequence_type->elem_type;
        dtype = steno_dtype_element_of(dtype);
    }
    type->value_case = ONNX__TYPE__VALUE_TENSOR_TYPE;
    type->tensor_type = t;
    t->elem_type = (int)dtype;
    return STENO_OK;
}

steno_status steno_write_value(struct writer *w, const struct steno_graph *g, const char *name,
                               steno_dtype dtype, const struct steno_shape *s,
                               Onnx__ValueInfo **out)
{
    Onnx__ValueInfo *m;
    Onnx__TensorShape *shape;
    Onnx__Type__TensorKind *t;
    NEW(w, m, onnx__value_info__init);
    NEW(w, m->type, onnx__type__init);
    NEW(w, t, onnx__type__tensor_kind__init);
    m->name = steno_write_dup(w, name);
    if (!m->name)
        return STENO_ERR_NOMEM;
    *out = m;
    if (!dtype && s->rank < 0) {
        m->type = NULL; /* nothing is known */
        return STENO_OK;
    }
    if (steno_dtype_is_block(dtype))
        return write_block(w, dtype, t, m->type);
    m->type->value_case = ONNX__TYPE__VALUE_TENSOR_TYPE;
    m->type->tensor_type = t;
    t->elem_type = (int)dtype;
    if (s->rank < 0)
        return STENO_OK;
    NEW(w, shape, onnx__tensor_shape__init);
    shape->dim = steno_write_alloc(w, (size_t)s->rank + 1, sizeof *shape->dim);
    if (!shape->dim)
        return STENO_ERR_NOMEM;
    for (int i = 0; i < s->rank; i++)
        if (write_dim(w, g, s->dim[i], &shape->dim[shape->n_dim++]))
            return STENO_ERR_NOMEM;
    t->shape = shape;
    return STENO_OK;
}

/* ---- parts that were not read ---- */

static void *arena_alloc(void *arena, size_t size)
{
    return steno_arena_alloc(arena, size);
}

static void arena_free(void *arena, void *p)
{
    (void)arena;
    (void)p; /* the arena frees all */
}

void *steno_write_unpack(struct writer *w, const ProtobufCMessageDescriptor *d,
                         const struct steno_opaque *o)
{
    ProtobufCAllocator a = {arena_alloc, arena_free, w->a};
    void *m = protobuf_c_message_unpack(d, &a, o->n, o->bytes);
    if (!m)
        (void)steno_fail(w->err, STENO_ERR_NOMEM, "out of memory");
    return m;
}

/* ---- attributes ---- */

static steno_status write_strings(struct writer *w, const struct steno_attr *a, Onnx__Attribute *m)
{
    m->strings = steno_write_alloc(w, a->n + 1, sizeof *m->strings);
    if (!m->strings)
        return STENO_ERR_NOMEM;
    for (size_t i = 0; i < a->n; i++) {
        m->strings[i].data = (uint8_t *)steno_write_dup(w, a->strings[i]);
        m->strings[i].len = strlen(a->strings[i]);
        if (!m->strings[i].data)
            return STENO_ERR_NOMEM;
    }
    m->n_strings = a->n;
    return STENO_OK;
}

static steno_status write_numbers(struct writer *w, const struct steno_attr *a, Onnx__Attribute *m)
{
    bool ints = a->kind == STENO_ATTR_INTS;
    size_t size = ints ? sizeof *m->ints : sizeof *m->floats;
    void *p = steno_write_alloc(w, a->n + 1, size);
    if (!p)
        return STENO_ERR_NOMEM;
    if (a->n)
        memcpy(p, a->ints, a->n * size);
    m->ints = ints ? p : NULL;
    m->n_ints = ints ? a->n : 0;
    m->floats = ints ? NULL : p;
    m->n_floats = ints ? 0 : a->n;
    return STENO_OK;
}

steno_status steno_write_attr(struct writer *w, struct write_scope *s, const struct steno_attr *a,
                              bool exact, Onnx__Attribute **out)
{
    static const Onnx__Attribute__Kind kinds[] = {
        [STENO_ATTR_INT] = ONNX__ATTRIBUTE__KIND__INT,
        [STENO_ATTR_FLOAT] = ONNX__ATTRIBUTE__KIND__FLOAT,
        [STENO_ATTR_STRING] = ONNX__ATTRIBUTE__KIND__STRING,
        [STENO_ATTR_TENSOR] = ONNX__ATTRIBUTE__KIND__TENSOR,
        [STENO_ATTR_GRAPH] = ONNX__ATTRIBUTE__KIND__GRAPH,
        [STENO_ATTR_INTS] = ONNX__ATTRIBUTE__KIND__INTS,
        [STENO_ATTR_FLOATS] = ONNX__ATTRIBUTE__KIND__FLOATS,
        [STENO_ATTR_STRINGS] = ONNX__ATTRIBUTE__KIND__STRINGS,
    };
    struct write_scope body = {.up = s, .exact = exact};
    Onnx__Attribute *m;
    if (a->kind == STENO_ATTR_OPAQUE) {
        m = *out = steno_write_unpack(w, &onnx__attribute__descriptor, a->opaque);
        return m && (m->name = steno_write_dup(w, a->name)) ? STENO_OK : STENO_ERR_NOMEM;
    }
    NEW(w, m, onnx__attribute__init);
    *out = m;
    m->type = kinds[a->kind];
    if (!(m->name = steno_write_dup(w, a->name)))
        return STENO_ERR_NOMEM;
    switch (a->kind) {
    case STENO_ATTR_INT:
        m->i = a->i;
        return STENO_OK;
    case STENO_ATTR_FLOAT:
        m->f = a->f;
        return STENO_OK;
    case STENO_ATTR_STRING:
        m->s.data = (uint8_t *)steno_write_dup(w, a->s);
        m->s.len = strlen(a->s);
        return m->s.data ? STENO_OK : STENO_ERR_NOMEM;
    case STENO_ATTR_TENSOR:
        return steno_write_tensor(w, "", a->t, &m->t);
    case STENO_ATTR_GRAPH:
        body.g = a->g;
        return steno_write_graph(w, &body, &m->g);
    case STENO_ATTR_STRINGS:
        return write_strings(w, a, m);
    default:
        return write_numbers(w, a, m);
    }
}
