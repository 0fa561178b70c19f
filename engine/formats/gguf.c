#include "formats/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/little_endian.h"
#include "base/pages.h"

#define VERSION 3u
#define ALIGNMENT 32
#define MAX_ALIGNMENT 65536

/* Types of values. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, LIST, U64, I64, F64, N_TYPES };

static const unsigned char sizes[N_TYPES] = {
    [U8] = 1,  [I8] = 1,   [U16] = 2, [I16] = 2, [U32] = 4, [I32] = 4,
    [F32] = 4, [BOOL] = 1, [U64] = 8, [I64] = 8, [F64] = 8};

struct setting {
    const char *key;
    const unsigned char *at; /* the value, without its type */
    uint32_t type;
    const char *text;            /* of a string */
    struct steno_gguf_list list; /* of a list */
};

struct steno_gguf {
    struct steno_map map; /* n 0: the bytes belong to the caller */
    steno_arena *mem;
    struct setting *setting; /* sorted by key */
    size_t n_settings;
    struct steno_gguf_tensor *tensor; /* sorted by name */
    size_t n_tensors;
};

struct reader {
    steno_gguf *g;
    struct steno_cursor at;
    const char *name; /* of the file */
    steno_err *err;
};

static steno_status cut_short(const struct reader *r, const char *what)
{
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s: the file ends in %s", r->name, what);
}

static steno_status no_memory_gguf(const struct reader *r)
{
    return steno_fail(r->err, STENO_ERR_NOMEM, "%s: out of memory", r->name);
}

/* A string, copied and terminated. */
static steno_status take_string(struct reader *r, const char *what, size_t max, const char **out)
{
    uint64_t n;
    if (!steno_cursor_number(&r->at, 8, &n) || n > steno_cursor_left(&r->at))
        return cut_short(r, what);
    if (n > max)
        return steno_fail(r->err, STENO_ERR_LIMIT, "%s: %s of %llu bytes, at most %zu", r->name,
                          what, (unsigned long long)n, max);
    *out = steno_arena_strndup(r->g->mem, (const char *)r->at.p, (size_t)n);
    r->at.p += n;
    return *out ? STENO_OK : no_memory_gguf(r);
}

static steno_status take_name(struct reader *r, const char *what, const char **out)
{
    const unsigned char *from = r->at.p;
    steno_status st = take_string(r, what, STENO_GGUF_MAX_NAME, out);
    if (!st && strlen(*out) + 8 != (size_t)(r->at.p - from))
        st = steno_fail(r->err, STENO_ERR_FORMAT, "%s: %s holds NUL", r->name, what);
    return st;
}

/* ---- settings ------------------------------------------------------------------------------ */

static steno_status wrong_key(const struct reader *r, const struct setting *s, const char *what)
{
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s: key '%.80s': %s", r->name, s->key, what);
}

static steno_status take_list(struct reader *r, struct setting *s)
{
    struct steno_gguf_list *l = &s->list;
    uint64_t type, n;
    if (!steno_cursor_number(&r->at, 4, &type) || !steno_cursor_number(&r->at, 8, &n))
        return cut_short(r, "a list");
    if (type >= N_TYPES || type == LIST)
        return wrong_key(r, s, "a list of lists, or of an unknown type");
    if (n > steno_cursor_left(&r->at) / (type == STRING ? 8 : sizes[type]))
        return wrong_key(r, s, "a list with more entries than the file");
    *l = (struct steno_gguf_list){.at = r->at.p, .type = (uint32_t)type, .left = (size_t)n};
    if (type != STRING) {
        r->at.p += n * sizes[type];
        return STENO_OK;
    }
    for (uint64_t i = 0, bytes; i < n; i++) {
        if (!steno_cursor_number(&r->at, 8, &bytes) || bytes > steno_cursor_left(&r->at))
            return wrong_key(r, s, "a list that the file ends in");
        r->at.p += bytes;
    }
    return STENO_OK;
}

static steno_status take_setting(struct reader *r, struct setting *s)
{
    uint64_t type;
    steno_status st = take_name(r, "a key", &s->key);
    if (st)
        return st;
    if (!steno_cursor_number(&r->at, 4, &type))
        return cut_short(r, "a key's type");
    if (type >= N_TYPES)
        return wrong_key(r, s, "a value of an unknown type");
    s->type = (uint32_t)type;
    s->at = r->at.p;
    if (type == STRING)
        return take_string(r, "a text", SIZE_MAX, &s->text);
    if (type == LIST)
        return take_list(r, s);
    if (steno_cursor_left(&r->at) < sizes[type])
        return cut_short(r, "a value");
    r->at.p += sizes[type];
    return STENO_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct setting *)a)->key, ((const struct setting *)b)->key);
}

static steno_status take_settings(struct reader *r)
{
    steno_gguf *g = r->g;
    steno_status st = STENO_OK;
    for (size_t i = 0; i < g->n_settings && !st; i++)
        st = take_setting(r, &g->setting[i]);
    if (st)
        return st;
    qsort(g->setting, g->n_settings, sizeof *g->setting, by_key);
    for (size_t i = 1; i < g->n_settings; i++)
        if (!by_key(&g->setting[i - 1], &g->setting[i]))
            return wrong_key(r, &g->setting[i], "given twice");
    return STENO_OK;
}

static const struct setting *find_setting(const steno_gguf *g, const char *key)
{
    const struct setting wanted = {.key = key};
    return bsearch(&wanted, g->setting, g->n_settings, sizeof wanted, by_key);
}

static bool whole_number(uint32_t type, const unsigned char *p, int64_t *out)
{
    const uint64_t v = steno_le_number(p, sizes[type]);
    const unsigned bits = 8u * sizes[type];
    const bool is_signed = type == I8 || type == I16 || type == I32 || type == I64;
    if (type == F32 || type == F64 || type == STRING || type == LIST ||
        (type == U64 && v > INT64_MAX))
        return false;
    if (is_signed && bits < 64 && v >> (bits - 1)) {
        *out = (int64_t)v - ((int64_t)1 << bits);
        return true;
    }
    memcpy(out, &v, sizeof v);
    return true;
}

bool steno_gguf_int(const steno_gguf *g, const char *key, int64_t min, int64_t max, int64_t *out)
{
    const struct setting *s = find_setting(g, key);
    int64_t v;
    if (!s || !whole_number(s->type, s->at, &v) || v < min || v > max)
        return false;
    *out = v;
    return true;
}

bool steno_gguf_number(const steno_gguf *g, const char *key, double *out)
{
    const struct setting *s = find_setting(g, key);
    float single;
    int64_t v;
    if (!s)
        return false;
    if (s->type == F32) {
        memcpy(&single, s->at, sizeof single);
        *out = (double)single;
    } else if (s->type == F64) {
        memcpy(out, s->at, sizeof *out);
    } else if (whole_number(s->type, s->at, &v)) {
        *out = (double)v;
    } else {
        return false;
    }
    return isfinite(*out);
}

const char *steno_gguf_text(const steno_gguf *g, const char *key)
{
    const struct setting *s = find_setting(g, key);
    return s ? s->text : NULL;
}

bool steno_gguf_list(const steno_gguf *g, const char *key, struct steno_gguf_list *out)
{
    const struct setting *s = find_setting(g, key);
    if (!s || s->type != LIST)
        return false;
    *out = s->list;
    return true;
}

bool steno_gguf_next_text(struct steno_gguf_list *l, const char **p, size_t *n)
{
    if (!l->left || l->type != STRING)
        return false;
    *n = (size_t)steno_le_number(l->at, 8);
    *p = (const char *)l->at + 8;
    l->at += 8 + *n;
    l->left--;
    return true;
}

bool steno_gguf_next_int(struct steno_gguf_list *l, int64_t *out)
{
    if (!l->left || l->type == STRING || !whole_number(l->type, l->at, out))
        return false;
    l->at += sizes[l->type];
    l->left--;
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static steno_status wrong_tensor(const struct reader *r, const struct steno_gguf_tensor *t,
                                 const char *what)
{
    return steno_fail(r->err, STENO_ERR_FORMAT, "%s: tensor '%.100s': %s", r->name, t->name, what);
}

/* *offset: of its elements in the data. */
static steno_status take_tensor(struct reader *r, struct steno_gguf_tensor *t, uint64_t *offset)
{
    uint64_t axes, v;
    steno_status st = take_name(r, "a tensor's name", &t->name);
    if (st)
        return st;
    if (!steno_cursor_number(&r->at, 4, &axes))
        return cut_short(r, "a tensor's axes");
    if (axes > STENO_GGUF_MAX_RANK)
        return wrong_tensor(r, t, "more than 4 axes");
    t->rank = (int)axes;
    t->count = 1;
    for (int i = t->rank; i-- > 0; t->dim[i] = (int64_t)v)
        if (!steno_cursor_number(&r->at, 8, &v) || !v || v > INT64_MAX || v > SIZE_MAX ||
            !steno_mul_size(t->count, (size_t)v, &t->count))
            return wrong_tensor(r, t, "its sizes are cut short, 0 or too large");
    if (!steno_cursor_number(&r->at, 4, &v) || !steno_cursor_number(&r->at, 8, offset))
        return cut_short(r, "a tensor's type and offset");
    t->number = (uint32_t)v;
    t->type = steno_ggml_type(t->number);
    return STENO_OK;
}

static steno_status place_tensor(const struct reader *r, struct steno_gguf_tensor *t,
                                 const unsigned char *data, uint64_t offset)
{
    const size_t row = t->rank ? (size_t)t->dim[t->rank - 1] : 1;
    const size_t n = (size_t)(r->at.end - data);
    size_t bytes;
    if (!t->type)
        return STENO_OK;
    if (!steno_ggml_bytes(t->type, row, t->count, &bytes))
        return wrong_tensor(r, t, "its rows are no whole blocks, or too large");
    if (offset > n || bytes > n - offset)
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: tensor '%.100s': %zu bytes at %llu, the data has %zu", r->name,
                          t->name, bytes, (unsigned long long)offset, n);
    t->data = data + offset;
    return STENO_OK;
}

static int tensors_by_name(const void *a, const void *b)
{
    return strcmp(((const struct steno_gguf_tensor *)a)->name,
                  ((const struct steno_gguf_tensor *)b)->name);
}

/* The data begins at the next multiple of the alignment. file: its first byte. */
static steno_status find_data(const struct reader *r, const unsigned char *file,
                              const unsigned char **data)
{
    const size_t at = (size_t)(r->at.p - file);
    int64_t alignment = ALIGNMENT;
    size_t gap;
    if (find_setting(r->g, "general.alignment") &&
        (!steno_gguf_int(r->g, "general.alignment", 1, MAX_ALIGNMENT, &alignment) ||
         alignment & (alignment - 1)))
        return steno_fail(r->err, STENO_ERR_FORMAT,
                          "%s: general.alignment is no power of two up to %d", r->name,
                          MAX_ALIGNMENT);
    gap = (size_t)(-at & (size_t)(alignment - 1));
    *data = gap < steno_cursor_left(&r->at) ? r->at.p + gap : r->at.end;
    return STENO_OK;
}

static steno_status take_tensors(struct reader *r, const unsigned char *file)
{
    steno_gguf *g = r->g;
    uint64_t *offset = steno_arena_calloc(g->mem, g->n_tensors + 1, sizeof *offset);
    const unsigned char *data = NULL;
    steno_status st = offset ? STENO_OK : no_memory_gguf(r);
    for (size_t i = 0; i < g->n_tensors && !st; i++)
        st = take_tensor(r, &g->tensor[i], &offset[i]);
    if (!st)
        st = find_data(r, file, &data);
    for (size_t i = 0; i < g->n_tensors && !st; i++)
        st = place_tensor(r, &g->tensor[i], data, offset[i]);
    if (st)
        return st;
    qsort(g->tensor, g->n_tensors, sizeof *g->tensor, tensors_by_name);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (!tensors_by_name(&g->tensor[i - 1], &g->tensor[i]))
            return wrong_tensor(r, &g->tensor[i], "given twice");
    return STENO_OK;
}

size_t steno_gguf_count(const steno_gguf *g)
{
    return g->n_tensors;
}

const struct steno_gguf_tensor *steno_gguf_get(const steno_gguf *g, size_t i)
{
    return &g->tensor[i];
}

const struct steno_gguf_tensor *steno_gguf_find(const steno_gguf *g, const char *name)
{
    const struct steno_gguf_tensor key = {.name = name};
    return bsearch(&key, g->tensor, g->n_tensors, sizeof key, tensors_by_name);
}

/* ---- the file ------------------------------------------------------------------------------ */

bool steno_gguf_probe(const void *bytes, size_t n)
{
    return n >= 4 && !memcmp(bytes, "GGUF", 4);
}

/* The counts; each item takes bytes of the file, so that none is made room for that is not there.
 */
static steno_status take_head(struct reader *r)
{
    enum { SMALLEST = 13 }; /* bytes of a key and its value */
    uint64_t version, tensors, keys;
    if (!steno_gguf_probe(r->at.p, steno_cursor_left(&r->at)))
        return steno_fail(r->err, STENO_ERR_FORMAT, "%s: does not begin with GGUF", r->name);
    r->at.p += 4;
    if (!steno_cursor_number(&r->at, 4, &version) || !steno_cursor_number(&r->at, 8, &tensors) ||
        !steno_cursor_number(&r->at, 8, &keys))
        return cut_short(r, "the header");
    if (version != VERSION)
        return steno_fail(r->err, STENO_ERR_UNSUPPORTED,
                          "%s: GGUF version %llu, version %u in little endian is read", r->name,
                          (unsigned long long)version, VERSION);
    if (keys > steno_cursor_left(&r->at) / SMALLEST ||
        tensors > steno_cursor_left(&r->at) / SMALLEST)
        return cut_short(r, "its keys or tensors");
    if (keys > STENO_GGUF_MAX_ITEMS || tensors > STENO_GGUF_MAX_ITEMS)
        return steno_fail(r->err, STENO_ERR_LIMIT, "%s: %llu keys and %llu tensors, at most %d",
                          r->name, (unsigned long long)keys, (unsigned long long)tensors,
                          STENO_GGUF_MAX_ITEMS);
    r->g->n_settings = (size_t)keys;
    r->g->n_tensors = (size_t)tensors;
    return STENO_OK;
}

static steno_status read_file(steno_gguf *g, const void *bytes, size_t n, const char *name,
                              steno_err *err)
{
    struct reader r = {
        .g = g, .at = {bytes, (const unsigned char *)bytes + n}, .name = name, .err = err};
    steno_status st;
    g->mem = steno_arena_new(0);
    if (!g->mem)
        return no_memory_gguf(&r);
    st = take_head(&r);
    if (st)
        return st;
    g->setting = steno_arena_calloc(g->mem, g->n_settings + 1, sizeof *g->setting);
    g->tensor = steno_arena_calloc(g->mem, g->n_tensors + 1, sizeof *g->tensor);
    if (!g->setting || !g->tensor)
        return no_memory_gguf(&r);
    st = take_settings(&r);
    return st ? st : take_tensors(&r, bytes);
}

steno_status steno_gguf_parse(steno_gguf **out, const void *bytes, size_t n, const char *name,
                              steno_err *err)
{
    steno_gguf *g = calloc(1, sizeof *g);
    steno_status st;
    if (!g)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    st = read_file(g, bytes, n, name, err);
    if (st)
        steno_gguf_close(g);
    else
        *out = g;
    return st;
}

steno_status steno_gguf_open(steno_gguf **out, const char *path, steno_err *err)
{
    struct steno_map map;
    steno_status st = steno_map_open(&map, path, err);
    if (st)
        return st;
    st = steno_gguf_parse(out, map.p, map.n, path, err);
    if (st)
        steno_map_close(&map);
    else
        (*out)->map = map;
    return st;
}

void steno_gguf_close(steno_gguf *g)
{
    if (!g)
        return;
    steno_arena_free(g->mem);
    steno_map_close(&g->map);
    free(g);
}

const struct steno_map *steno_gguf_map(const steno_gguf *g)
{
    return &g->map;
}
