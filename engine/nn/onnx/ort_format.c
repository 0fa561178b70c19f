/* Tables of a FlatBuffer are read where they lie; every read is checked, and a read that is out of
 * bounds gives nothing and marks the file as broken. The length of a message of the output is
 * written when its end is known. */
#include "nn/onnx/ort_format.h"

#include <string.h>

#include "base/little_endian.h"
#include "base/protobuf.h"

#define MAX_NESTING 16
/* Fields of the schema's tables, in order. */
enum { SESSION_MODEL = 1 };
enum { MODEL_IR_VERSION, MODEL_OPSETS, MODEL_PRODUCER, MODEL_GRAPH = 7, MODEL_METADATA = 9 };
enum { OPSET_DOMAIN, OPSET_VERSION };
enum { ENTRY_KEY, ENTRY_VALUE };
enum {
    GRAPH_INITIALIZERS,
    GRAPH_NODE_ARGS,
    GRAPH_NODES,
    GRAPH_INPUTS = 5,
    GRAPH_OUTPUTS,
    GRAPH_SPARSE
};
enum {
    NODE_NAME,
    NODE_DOMAIN = 2,
    NODE_OP_TYPE = 5,
    NODE_TYPE,
    NODE_INPUTS = 8,
    NODE_OUTPUTS,
    NODE_ATTRIBUTES
};
enum {
    ATTR_NAME,
    ATTR_TYPE = 2,
    ATTR_F,
    ATTR_I,
    ATTR_S,
    ATTR_T,
    ATTR_G,
    ATTR_FLOATS,
    ATTR_INTS,
    ATTR_STRINGS,
    ATTR_TENSORS,
    ATTR_GRAPHS
};
enum { TENSOR_NAME, TENSOR_DIMS = 2, TENSOR_TYPE, TENSOR_RAW, TENSOR_STRINGS, TENSOR_EXTERNAL };
enum { VALUE_NAME, VALUE_TYPE = 2 };
enum { TYPE_KIND = 1, TYPE_VALUE };
enum { SHAPED_ELEMENT, SHAPED_SHAPE };
enum { DIMENSION_VALUE };
enum { DIM_KIND, DIM_VALUE, DIM_PARAM };
enum { KIND_TENSOR = 1, DIM_IS_VALUE = 1, DIM_IS_PARAM = 2, NODE_FUSED = 1 };

/* Kinds of attributes, and the messages' fields in onnx.proto3. */
enum { FLOAT = 1, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS, TENSORS, GRAPHS };

struct reader {
    const uint8_t *p;
    size_t n;
    struct steno_buf *out;
    steno_status st; /* the first failure */
    const char *what;
    int nesting;
};

static void fail_reader(struct reader *r, steno_status st, const char *what)
{
    if (r->st)
        return;
    r->st = st;
    r->what = what;
}

/* ---- FlatBuffer ------------------------------------------------------------------------------ */

/* A place in the file; 0: nothing is there. */
typedef size_t place;

static uint64_t get(struct reader *r, place at, size_t bytes)
{
    if (at > r->n || bytes > r->n - at) {
        fail_reader(r, STENO_ERR_FORMAT, "a field is outside the file");
        return 0;
    }
    return steno_le_number(r->p + at, bytes);
}

/* Field k of a table; 0: it has its default. */
static place field(struct reader *r, place table, int k)
{
    const size_t entry = 4 + 2 * (size_t)k;
    int64_t vtable;
    uint64_t offset;
    if (!table)
        return 0;
    vtable = (int64_t)table - (int32_t)(uint32_t)get(r, table, 4);
    if (vtable <= 0 || (uint64_t)vtable >= r->n) {
        fail_reader(r, STENO_ERR_FORMAT, "a table is outside the file");
        return 0;
    }
    if (entry + 2 > get(r, (place)vtable, 2))
        return 0;
    offset = get(r, (place)vtable + entry, 2);
    return offset ? table + (size_t)offset : 0;
}

/* The place that an offset at `at` points to. */
static place follow(struct reader *r, place at)
{
    const uint64_t offset = at ? get(r, at, 4) : 0;
    if (at && (!offset || offset >= r->n - at))
        fail_reader(r, STENO_ERR_FORMAT, "an offset is outside the file");
    return at && !r->st ? at + (size_t)offset : 0;
}

static place child(struct reader *r, place table, int k)
{
    return follow(r, field(r, table, k));
}

static int64_t number_in_table(struct reader *r, place table, int k, size_t bytes)
{
    const place at = field(r, table, k);
    const uint64_t v = at ? get(r, at, bytes) : 0;
    return bytes == 4 ? (int64_t)(int32_t)(uint32_t)v : (int64_t)v;
}

/* Entries of a vector, and the place of the first one. */
static size_t vector(struct reader *r, place table, int k, size_t bytes, place *first)
{
    const place at = child(r, table, k);
    const uint64_t n = at ? get(r, at, 4) : 0;
    *first = at + 4;
    if (n && n > (r->n - *first) / bytes)
        fail_reader(r, STENO_ERR_FORMAT, "a list is longer than the file");
    return r->st ? 0 : (size_t)n;
}

/* Table or string number i of a vector. */
static place entry(struct reader *r, place first, size_t i)
{
    return follow(r, first + 4 * i);
}

/* ---- protobuf -------------------------------------------------------------------------------- */

static void put_raw(struct reader *r, const void *p, size_t n)
{
    const steno_status st = r->st || !n ? STENO_OK : steno_buf_add(r->out, p, n);
    if (st)
        fail_reader(r, st, "it is too large");
}

static void put_varint(struct reader *r, uint64_t v)
{
    uint8_t b[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        b[n++] = (uint8_t)(v | 0x80);
    b[n++] = (uint8_t)v;
    put_raw(r, b, n);
}

static void put_number(struct reader *r, int tag, int64_t v)
{
    put_varint(r, (uint64_t)tag << 3);
    put_varint(r, (uint64_t)v);
}

static void put_float(struct reader *r, int tag, place at)
{
    const uint32_t v = (uint32_t)get(r, at, 4);
    const uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    put_varint(r, (uint64_t)tag << 3 | 5);
    put_raw(r, b, 4);
}

static void put_bytes(struct reader *r, int tag, place at, size_t n)
{
    put_varint(r, (uint64_t)tag << 3 | 2);
    put_varint(r, n);
    put_raw(r, r->p + at, n);
}

/* A string or byte vector; 0: none. */
static void put_string(struct reader *r, int tag, place at)
{
    const uint64_t n = at ? get(r, at, 4) : 0;
    if (!at || r->st)
        return;
    if (n > r->n - at - 4)
        fail_reader(r, STENO_ERR_FORMAT, "a string is longer than the file");
    else
        put_bytes(r, tag, at + 4, (size_t)n);
}

static void put_strings(struct reader *r, int tag, place table, int k)
{
    place first;
    const size_t n = vector(r, table, k, 4, &first);
    for (size_t i = 0; i < n && !r->st; i++)
        put_string(r, tag, entry(r, first, i));
}

/* Begin a message; the result is for end. */
static size_t begin_message(struct reader *r, int tag)
{
    static const uint8_t later[STENO_PROTOBUF_LENGTH];
    put_varint(r, (uint64_t)tag << 3 | 2);
    put_raw(r, later, sizeof later);
    return r->out->len;
}

static void end(struct reader *r, size_t from)
{
    if (!r->st)
        steno_protobuf_put_length(r->out->data + from - STENO_PROTOBUF_LENGTH, r->out->len - from);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void put_tensor(struct reader *r, int tag, place t)
{
    place first;
    const size_t message = begin_message(r, tag), n = vector(r, t, TENSOR_DIMS, 8, &first);
    for (size_t i = 0; i < n && !r->st; i++)
        put_number(r, 1, (int64_t)get(r, first + 8 * i, 8));
    put_number(r, 2, number_in_table(r, t, TENSOR_TYPE, 4));
    put_string(r, 8, child(r, t, TENSOR_NAME));
    if (field(r, t, TENSOR_EXTERNAL) && number_in_table(r, t, TENSOR_EXTERNAL, 8) >= 0)
        fail_reader(r, STENO_ERR_UNSUPPORTED, "weights are in another file");
    put_strings(r, 6, t, TENSOR_STRINGS);
    put_string(r, 9, child(r, t, TENSOR_RAW));
    end(r, message);
}

static void put_dimension(struct reader *r, place d)
{
    const place v = child(r, d, DIMENSION_VALUE);
    const size_t message = begin_message(r, 1);
    const place kind = field(r, v, DIM_KIND);
    const uint64_t is = kind ? get(r, kind, 1) : 0;
    if (is == DIM_IS_VALUE)
        put_number(r, 1, number_in_table(r, v, DIM_VALUE, 8));
    if (is == DIM_IS_PARAM)
        put_string(r, 2, child(r, v, DIM_PARAM));
    end(r, message);
}

static void put_value_info(struct reader *r, int tag, place value)
{
    const place type = child(r, value, VALUE_TYPE), shaped = child(r, type, TYPE_VALUE);
    const place kind = field(r, type, TYPE_KIND);
    const size_t message = begin_message(r, tag);
    put_string(r, 1, child(r, value, VALUE_NAME));
    if (type && (!kind || get(r, kind, 1) != KIND_TENSOR))
        fail_reader(r, STENO_ERR_UNSUPPORTED, "an input or output is not a tensor");
    if (shaped) {
        const size_t outer = begin_message(r, 2), tensor = begin_message(r, 1);
        const place shape = child(r, shaped, SHAPED_SHAPE);
        put_number(r, 1, number_in_table(r, shaped, SHAPED_ELEMENT, 4));
        if (shape) {
            place first;
            const size_t dims = begin_message(r, 2), n = vector(r, shape, 0, 4, &first);
            for (size_t i = 0; i < n && !r->st; i++)
                put_dimension(r, entry(r, first, i));
            end(r, dims);
        }
        end(r, tensor);
        end(r, outer);
    }
    end(r, message);
}

static bool same_string(struct reader *r, place a, place b)
{
    const uint64_t n = get(r, a, 4);
    return !r->st && n == get(r, b, 4) && n <= r->n - a - 4 && n <= r->n - b - 4 &&
           memcmp(r->p + a + 4, r->p + b + 4, (size_t)n) == 0;
}

/* Inputs or outputs of a graph: their names are listed, their types are those of its values. */
static void put_ends(struct reader *r, int tag, place graph, int k)
{
    place names, values;
    const size_t n = vector(r, graph, k, 4, &names);
    const size_t n_values = vector(r, graph, GRAPH_NODE_ARGS, 4, &values);
    for (size_t i = 0; i < n && !r->st; i++) {
        const place name = entry(r, names, i);
        size_t j = 0;
        while (j < n_values && !r->st &&
               !same_string(r, name, child(r, entry(r, values, j), VALUE_NAME)))
            j++;
        if (j == n_values)
            fail_reader(r, STENO_ERR_FORMAT, "an input or output of a graph is none of its values");
        else
            put_value_info(r, tag, entry(r, values, j));
    }
}

static void put_graph(struct reader *r, int tag, place graph);

static void put_graphs(struct reader *r, int tag, place table, int k, bool many)
{
    place first;
    if (many) {
        const size_t n = vector(r, table, k, 4, &first);
        for (size_t i = 0; i < n && !r->st; i++)
            put_graph(r, tag, entry(r, first, i));
    } else {
        put_graph(r, tag, child(r, table, k));
    }
}

static void put_attribute_lists(struct reader *r, place a, int64_t type)
{
    place first;
    size_t n;
    switch (type) {
    case FLOATS:
        n = vector(r, a, ATTR_FLOATS, 4, &first);
        for (size_t i = 0; i < n && !r->st; i++)
            put_float(r, 7, first + 4 * i);
        break;
    case INTS:
        n = vector(r, a, ATTR_INTS, 8, &first);
        for (size_t i = 0; i < n && !r->st; i++)
            put_number(r, 8, (int64_t)get(r, first + 8 * i, 8));
        break;
    case STRINGS:
        put_strings(r, 9, a, ATTR_STRINGS);
        break;
    case TENSORS:
        n = vector(r, a, ATTR_TENSORS, 4, &first);
        for (size_t i = 0; i < n && !r->st; i++)
            put_tensor(r, 10, entry(r, first, i));
        break;
    case GRAPHS:
        put_graphs(r, 11, a, ATTR_GRAPHS, true);
        break;
    default:
        fail_reader(r, STENO_ERR_UNSUPPORTED, "an attribute is of a kind that is not read");
    }
}

static void put_attribute(struct reader *r, place a)
{
    const int64_t type = number_in_table(r, a, ATTR_TYPE, 4);
    const size_t message = begin_message(r, 5);
    place at;
    put_string(r, 1, child(r, a, ATTR_NAME));
    put_number(r, 20, type);
    switch (type) {
    case FLOAT:
        at = field(r, a, ATTR_F);
        if (at)
            put_float(r, 2, at);
        break;
    case INT:
        put_number(r, 3, number_in_table(r, a, ATTR_I, 8));
        break;
    case STRING:
        put_string(r, 4, child(r, a, ATTR_S));
        break;
    case TENSOR:
        put_tensor(r, 5, child(r, a, ATTR_T));
        break;
    case GRAPH:
        put_graphs(r, 6, a, ATTR_G, false);
        break;
    default:
        put_attribute_lists(r, a, type);
    }
    end(r, message);
}

static void put_node(struct reader *r, place node)
{
    place first;
    const size_t message = begin_message(r, 1), n = vector(r, node, NODE_ATTRIBUTES, 4, &first);
    if (number_in_table(r, node, NODE_TYPE, 4) == NODE_FUSED)
        fail_reader(r, STENO_ERR_UNSUPPORTED, "a node was compiled by the runtime");
    put_strings(r, 1, node, NODE_INPUTS);
    put_strings(r, 2, node, NODE_OUTPUTS);
    put_string(r, 3, child(r, node, NODE_NAME));
    put_string(r, 4, child(r, node, NODE_OP_TYPE));
    put_string(r, 7, child(r, node, NODE_DOMAIN));
    for (size_t i = 0; i < n && !r->st; i++)
        put_attribute(r, entry(r, first, i));
    end(r, message);
}

static void put_graph(struct reader *r, int tag, place graph)
{
    place first;
    size_t n, message;
    if (!graph)
        fail_reader(r, STENO_ERR_FORMAT, "a graph is missing");
    if (r->nesting == MAX_NESTING)
        fail_reader(r, STENO_ERR_LIMIT, "graphs are nested too deeply");
    if (r->st)
        return;
    r->nesting++;
    message = begin_message(r, tag);
    n = vector(r, graph, GRAPH_NODES, 4, &first);
    for (size_t i = 0; i < n && !r->st; i++)
        put_node(r, entry(r, first, i));
    n = vector(r, graph, GRAPH_INITIALIZERS, 4, &first);
    for (size_t i = 0; i < n && !r->st; i++)
        put_tensor(r, 5, entry(r, first, i));
    if (vector(r, graph, GRAPH_SPARSE, 4, &first))
        fail_reader(r, STENO_ERR_UNSUPPORTED, "a tensor is sparse");
    put_ends(r, 11, graph, GRAPH_INPUTS);
    put_ends(r, 12, graph, GRAPH_OUTPUTS);
    end(r, message);
    r->nesting--;
}

static void put_model(struct reader *r, place model)
{
    place first;
    size_t n = vector(r, model, MODEL_OPSETS, 4, &first);
    put_number(r, 1, number_in_table(r, model, MODEL_IR_VERSION, 8));
    put_string(r, 2, child(r, model, MODEL_PRODUCER));
    for (size_t i = 0; i < n && !r->st; i++) {
        const place o = entry(r, first, i);
        const size_t message = begin_message(r, 8);
        put_string(r, 1, child(r, o, OPSET_DOMAIN));
        put_number(r, 2, number_in_table(r, o, OPSET_VERSION, 8));
        end(r, message);
    }
    n = vector(r, model, MODEL_METADATA, 4, &first);
    for (size_t i = 0; i < n && !r->st; i++) {
        const place e = entry(r, first, i);
        const size_t message = begin_message(r, 14);
        put_string(r, 1, child(r, e, ENTRY_KEY));
        put_string(r, 2, child(r, e, ENTRY_VALUE));
        end(r, message);
    }
    put_graph(r, 7, child(r, model, MODEL_GRAPH));
}

bool steno_ort_format_is(const void *data, size_t n)
{
    return n >= 8 && memcmp((const char *)data + 4, "ORTM", 4) == 0;
}

steno_status steno_ort_format_to_onnx(const void *data, size_t n, struct steno_buf *out,
                                      steno_err *err)
{
    struct reader r = {.p = data, .n = n, .out = out};
    place session, model;
    if (!steno_ort_format_is(data, n))
        return steno_fail(err, STENO_ERR_FORMAT, "not a file of ONNX Runtime's format");
    session = (place)get(&r, 0, 4);
    model = session ? child(&r, session, SESSION_MODEL) : 0;
    if (model)
        put_model(&r, model);
    else
        fail_reader(&r, STENO_ERR_FORMAT, "there is no model");
    if (r.st == STENO_ERR_NOMEM)
        return steno_fail(err, r.st, "out of memory");
    return r.st ? steno_fail(err, r.st, "ONNX Runtime's format: %s", r.what) : STENO_OK;
}
