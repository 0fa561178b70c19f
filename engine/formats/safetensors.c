#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/little_endian.h"
#include "base/pages.h"
#include "formats/json.h"
#include "base/map.h"

struct steno_safetensors {
    struct steno_map map; /* n 0: the bytes belong to the caller */
    steno_json *header;
    struct steno_safetensor *tensor; /* sorted by name */
    size_t n;
};

struct reader {
    const char *name; /* of the file */
    const unsigned char *data;
    size_t n; /* bytes of data */
    steno_err *err;
};

static const struct {
    const char *name;
    size_t item;
} types[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
             {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
             {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

static steno_status wrong_tensor(const struct reader *r, const char *tensor, const char *what)
{
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s: tensor '%.100s': %s", r->name, tensor, what);
}

static steno_status read_element_type(const struct reader *r, const struct steno_json_node *entry,
                                      struct steno_safetensor *t)
{
    const char *v = steno_json_text(steno_json_get(entry, "dtype"));
    if (!v)
        return wrong_tensor(r, t->name, "no dtype");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(v, types[i].name)) {
            t->dtype = types[i].name;
            t->item = types[i].item;
            return STENO_OK;
        }
    return steno_fail(r->err, STENO_ERR_UNSUPPORTED, "%s: tensor '%.100s': unknown dtype '%.20s'",
                      r->name, t->name, v);
}

static steno_status read_shape(const struct reader *r, const struct steno_json_node *entry,
                               struct steno_safetensor *t)
{
    const struct steno_json_node *v = steno_json_get(entry, "shape");
    if (!v || v->kind != STENO_JSON_LIST)
        return wrong_tensor(r, t->name, "no shape");
    if (v->n > STENO_SAFETENSORS_MAX_RANK)
        return steno_fail(r->err, STENO_ERR_LIMIT, "%s: tensor '%.100s': %zu axes, at most %d",
                          r->name, t->name, v->n, STENO_SAFETENSORS_MAX_RANK);
    t->count = 1;
    for (v = v->first; v; v = v->next) {
        int64_t *d = &t->dim[t->rank++];
        if (!steno_json_int(v, 0, INT64_MAX, d) || (uint64_t)*d > SIZE_MAX ||
            !steno_mul_size(t->count, (size_t)*d, &t->count))
            return wrong_tensor(r, t->name, "its shape is not a list of sizes");
    }
    return STENO_OK;
}

static steno_status read_place(const struct reader *r, const struct steno_json_node *entry,
                               struct steno_safetensor *t)
{
    const struct steno_json_node *v = steno_json_get(entry, "data_offsets");
    int64_t from, to;
    size_t bytes;
    if (!v || v->kind != STENO_JSON_LIST || v->n != 2 ||
        !steno_json_int(v->first, 0, INT64_MAX, &from) ||
        !steno_json_int(v->first->next, from, INT64_MAX, &to))
        return wrong_tensor(r, t->name, "data_offsets is not [from, to)");
    if ((uint64_t)to > r->n)
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: tensor '%.100s': its elements end at byte %lld, the data has %zu",
                          r->name, t->name, (long long)to, r->n);
    if (!steno_mul_size(t->count, t->item, &bytes) || (uint64_t)(to - from) != bytes)
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: tensor '%.100s': %lld bytes, its shape and dtype %s take %zu",
                          r->name, t->name, (long long)(to - from), t->dtype,
                          steno_mul_size(t->count, t->item, &bytes) ? bytes : SIZE_MAX);
    t->data = r->data + from;
    return STENO_OK;
}

static steno_status read_tensor(const struct reader *r, const struct steno_json_node *entry,
                                struct steno_safetensor *t)
{
    steno_status st;
    t->name = entry->key;
    if (entry->kind != STENO_JSON_OBJECT)
        return wrong_tensor(r, t->name, "its entry is not an object");
    st = read_element_type(r, entry, t);
    if (!st)
        st = read_shape(r, entry, t);
    return st ? st : read_place(r, entry, t);
}

static int tensors_by_name(const void *a, const void *b)
{
    return strcmp(((const struct steno_safetensor *)a)->name,
                  ((const struct steno_safetensor *)b)->name);
}

static steno_status read_tensors(steno_safetensors *s, const struct reader *r)
{
    const struct steno_json_node *root = steno_json_root(s->header);
    if (root->kind != STENO_JSON_OBJECT)
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: the header is not a JSON object", r->name);
    s->tensor = calloc(root->n + 1, sizeof *s->tensor);
    if (!s->tensor)
        return steno_fail(r->err, STENO_ERR_NOMEM, "%s: out of memory", r->name);
    for (const struct steno_json_node *e = root->first; e; e = e->next) {
        steno_status st;
        if (!strcmp(e->key, "__metadata__"))
            continue;
        st = read_tensor(r, e, &s->tensor[s->n]);
        if (st)
            return st;
        s->n++;
    }
    qsort(s->tensor, s->n, sizeof *s->tensor, tensors_by_name);
    for (size_t i = 1; i < s->n; i++)
        if (!tensors_by_name(&s->tensor[i - 1], &s->tensor[i]))
            return wrong_tensor(r, s->tensor[i].name, "given twice");
    return STENO_OK;
}

static steno_status read_file(steno_safetensors *s, const unsigned char *p, size_t n,
                              const char *name, steno_err *err)
{
    struct reader r = {.name = name, .err = err};
    uint64_t header;
    steno_status st;
    if (n < 8)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %zu bytes, too few for safetensors", name, n);
    header = steno_le64(p);
    if (header > n - 8)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: a header of %llu bytes, the file has %zu after the length", name,
                          (unsigned long long)header, n - 8);
    if (header > STENO_SAFETENSORS_MAX_HEADER)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: a header of %llu bytes", name,
                          (unsigned long long)header);
    r.data = p + 8 + header;
    r.n = n - 8 - (size_t)header;
    st = steno_json_parse(&s->header, p + 8, (size_t)header, name, err);
    return st ? st : read_tensors(s, &r);
}

steno_status steno_safetensors_parse(steno_safetensors **out, const void *bytes, size_t n,
                                     const char *name, steno_err *err)
{
    steno_safetensors *s = calloc(1, sizeof *s);
    steno_status st;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    st = read_file(s, bytes, n, name, err);
    if (st)
        steno_safetensors_close(s);
    else
        *out = s;
    return st;
}

steno_status steno_safetensors_open(steno_safetensors **out, const char *path, steno_err *err)
{
    struct steno_map map;
    steno_status st = steno_map_open(&map, path, err);
    if (st)
        return st;
    st = steno_safetensors_parse(out, map.p, map.n, path, err);
    if (st)
        steno_map_close(&map);
    else
        (*out)->map = map;
    return st;
}

void steno_safetensors_close(steno_safetensors *s)
{
    if (!s)
        return;
    steno_json_close(s->header);
    free(s->tensor);
    steno_map_close(&s->map);
    free(s);
}

void steno_safetensors_rest(const steno_safetensors *s)
{
    if (s->map.n)
        steno_pages_rest(s->map.p, s->map.n);
}

const struct steno_map *steno_safetensors_map(const steno_safetensors *s)
{
    return &s->map;
}

size_t steno_safetensors_count(const steno_safetensors *s)
{
    return s->n;
}

const struct steno_safetensor *steno_safetensors_get(const steno_safetensors *s, size_t i)
{
    return &s->tensor[i];
}
