#include "formats/onnx_head.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "base/protobuf.h"

#define MAX_TEXT ((size_t)1 << 20) /* bytes of one name or value */

enum { MODEL_GRAPH = 7, MODEL_METADATA = 14 };
enum { GRAPH_NODE = 1, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_TYPE = 4, VALUE_NAME = 1, ENTRY_KEY = 1, ENTRY_VALUE = 2 };

struct names {
    char **at; /* [n] */
    size_t n, cap;
};

struct steno_onnx_head {
    struct names inputs, outputs, keys, values;
    bool graph, quantized;
};

/* ---- bytes ----------------------------------------------------------------------------------- */

struct bytes {
    const uint8_t *p, *end;
};

/* One field of a message. */
struct field {
    uint64_t number;
    struct bytes of; /* of a field with a length; else empty */
};

/* Read the next field. False: the bytes are not a message. */
static bool next_field(struct bytes *b, struct field *f)
{
    uint64_t key, n;
    if (!steno_protobuf_field(&b->p, b->end, &key, &n))
        return false;
    f->number = key >> 3;
    f->of = (struct bytes){b->p, b->p + ((key & 7) == 2 ? n : 0)};
    b->p += n;
    return true;
}

/* The last field `number` of a message; an absent one is empty, as in protobuf. */
static bool find_field(struct bytes message, uint64_t number, struct bytes *out)
{
    struct field f;
    *out = (struct bytes){message.end, message.end};
    while (message.p < message.end) {
        if (!next_field(&message, &f))
            return false;
        if (f.number == number)
            *out = f.of;
    }
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

static steno_status add_name(struct names *l, struct bytes text)
{
    size_t n = (size_t)(text.end - text.p);
    if (l->n == STENO_ONNX_HEAD_NAMES || n > MAX_TEXT)
        return STENO_ERR_LIMIT;
    if (STENO_RESERVE(&l->at, &l->cap, l->n + 1))
        return STENO_ERR_NOMEM;
    l->at[l->n] = malloc(n + 1);
    if (!l->at[l->n])
        return STENO_ERR_NOMEM;
    memcpy(l->at[l->n], text.p, n);
    l->at[l->n++][n] = '\0';
    return STENO_OK;
}

static void free_names(struct names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->at[i]);
    free(l->at);
}

static size_t find_name(const struct names *l, const char *name)
{
    size_t i = 0;
    while (i < l->n && strcmp(l->at[i], name) != 0)
        i++;
    return i;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool is_quantized(struct bytes type)
{
    static const char *const types[] = {"MatMulInteger", "ConvInteger", "DynamicQuantizeLinear",
                                        "DynamicQuantizeLSTM", "DequantizeLinear"};
    size_t n = (size_t)(type.end - type.p);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (n == strlen(types[i]) && !memcmp(type.p, types[i], n))
            return true;
    return false;
}

static steno_status read_graph(steno_onnx_head *h, struct bytes graph)
{
    struct field f;
    struct bytes text;
    h->graph = true;
    while (graph.p < graph.end) {
        steno_status st = STENO_OK;
        if (!next_field(&graph, &f))
            return STENO_ERR_FORMAT;
        if (f.number == GRAPH_NODE && !h->quantized) {
            if (!find_field(f.of, NODE_TYPE, &text))
                return STENO_ERR_FORMAT;
            h->quantized = is_quantized(text);
        } else if (f.number == GRAPH_INPUT || f.number == GRAPH_OUTPUT) {
            if (!find_field(f.of, VALUE_NAME, &text))
                return STENO_ERR_FORMAT;
            st = add_name(f.number == GRAPH_INPUT ? &h->inputs : &h->outputs, text);
        }
        if (st)
            return st;
    }
    return STENO_OK;
}

static steno_status read_entry(steno_onnx_head *h, struct bytes entry)
{
    struct bytes key, value;
    steno_status st;
    if (!find_field(entry, ENTRY_KEY, &key) || !find_field(entry, ENTRY_VALUE, &value))
        return STENO_ERR_FORMAT;
    st = add_name(&h->keys, key);
    return st ? st : add_name(&h->values, value);
}

static steno_status read_model(steno_onnx_head *h, struct bytes model)
{
    struct field f;
    steno_status st = STENO_OK;
    while (!st && model.p < model.end) {
        if (!next_field(&model, &f))
            return STENO_ERR_FORMAT;
        if (f.number == MODEL_GRAPH)
            st = read_graph(h, f.of);
        else if (f.number == MODEL_METADATA)
            st = read_entry(h, f.of);
    }
    return st || h->graph ? st : STENO_ERR_FORMAT;
}

static steno_status explain(steno_status st, const char *name, steno_err *err)
{
    if (st == STENO_ERR_FORMAT)
        return steno_fail(err, st, "%s: not an ONNX model, or cut short", name);
    if (st == STENO_ERR_LIMIT)
        return steno_fail(err, st, "%s: more than %d names, or one of more than %zu bytes", name,
                          STENO_ONNX_HEAD_NAMES, MAX_TEXT);
    return st ? steno_fail(err, st, "%s: out of memory", name) : STENO_OK;
}

steno_status steno_onnx_head_parse(steno_onnx_head **out, const void *bytes, size_t n,
                                   const char *name, steno_err *err)
{
    const uint8_t *p = bytes;
    steno_onnx_head *h = calloc(1, sizeof *h);
    steno_status st = STENO_ERR_NOMEM;
    if (h)
        st = n ? read_model(h, (struct bytes){p, p + n}) : STENO_ERR_FORMAT;
    if (st)
        steno_onnx_head_close(h);
    else
        *out = h;
    return explain(st, name, err);
}

steno_status steno_onnx_head_open(steno_onnx_head **out, const char *path, steno_err *err)
{
    struct steno_map map;
    steno_status st = steno_map_open(&map, path, err);
    if (st)
        return st;
    st = steno_onnx_head_parse(out, map.p, map.n, path, err);
    steno_map_close(&map);
    return st;
}

void steno_onnx_head_close(steno_onnx_head *h)
{
    if (!h)
        return;
    free_names(&h->inputs);
    free_names(&h->outputs);
    free_names(&h->keys);
    free_names(&h->values);
    free(h);
}

/* ---- what it says ---------------------------------------------------------------------------- */

size_t steno_onnx_head_n_inputs(const steno_onnx_head *h)
{
    return h->inputs.n;
}

size_t steno_onnx_head_n_outputs(const steno_onnx_head *h)
{
    return h->outputs.n;
}

bool steno_onnx_head_has_input(const steno_onnx_head *h, const char *name)
{
    return find_name(&h->inputs, name) < h->inputs.n;
}

bool steno_onnx_head_has_output(const steno_onnx_head *h, const char *name)
{
    return find_name(&h->outputs, name) < h->outputs.n;
}

const char *steno_onnx_head_meta(const steno_onnx_head *h, const char *key)
{
    size_t i = find_name(&h->keys, key);
    return i < h->values.n ? h->values.at[i] : NULL;
}

bool steno_onnx_head_quantized(const steno_onnx_head *h)
{
    return h->quantized;
}
