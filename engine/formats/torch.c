#include "formats/torch.h"

#include "base/arena.h"
#include "base/array.h"
#include "base/little_endian.h"
#include "base/map.h"
#include "base/pages.h"
#include "formats/ggml_type.h"
#include "formats/pickle.h"
#include "formats/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VALUES ((size_t)1 << 18) /* leaves and inner nodes of the flattened tree */
#define MAX_DEPTH 16
#define MAX_NAME 512
#define MAX_PACKED_RATIO 1100 /* deflate's highest is 1032 */

/* ---- types --------------------------------------------------------------------------------- */

static const struct {
    const char *storage; /* as the pickle names it */
    const char *name;
    size_t item;
} types[] = {
    [STENO_TORCH_F32] = {"torch.FloatStorage", "f32", 4},
    [STENO_TORCH_F16] = {"torch.HalfStorage", "f16", 2},
    [STENO_TORCH_BF16] = {"torch.BFloat16Storage", "bf16", 2},
    [STENO_TORCH_F64] = {"torch.DoubleStorage", "f64", 8},
    [STENO_TORCH_I64] = {"torch.LongStorage", "i64", 8},
    [STENO_TORCH_I32] = {"torch.IntStorage", "i32", 4},
    [STENO_TORCH_I16] = {"torch.ShortStorage", "i16", 2},
    [STENO_TORCH_I8] = {"torch.CharStorage", "i8", 1},
    [STENO_TORCH_U8] = {"torch.ByteStorage", "u8", 1},
    [STENO_TORCH_BOOL] = {"torch.BoolStorage", "bool", 1},
};
#define N_TYPES (sizeof types / sizeof *types)

#define REBUILD_TENSOR "torch._utils._rebuild_tensor"
#define REBUILD_TENSOR_V2 "torch._utils._rebuild_tensor_v2"
#define REBUILD_PARAMETER "torch._utils._rebuild_parameter"
#define SIZE "torch.Size"

static int storage_type(const char *storage)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i].storage, storage))
            return (int)i;
    return -1;
}

/* Plain data beside the tensors, in checkpoints that training writes to go on with. They stay calls
 * in the tree, which nothing reads. */
static const char *const unread[] = {
    "pathlib.PosixPath",
    "pathlib.PurePosixPath",
    "datetime.timedelta",
    "_codecs.encode",
    "numpy.dtype",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "torch.device",
    "torch.torch_version.TorchVersion",
    "pyannote.audio.core.task.Problem",
    "pyannote.audio.core.task.Resolution",
    "torch.float32",
    "torch.float16",
    "torch.bfloat16",
};

static bool allowed(const char *global)
{
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        if (!strcmp(global, unread[i]))
            return true;
    return storage_type(global) >= 0 || !strcmp(global, REBUILD_TENSOR) ||
           !strcmp(global, REBUILD_TENSOR_V2) || !strcmp(global, REBUILD_PARAMETER) ||
           !strcmp(global, SIZE);
}

size_t steno_torch_item(enum steno_torch_type t)
{
    return types[t].item;
}

const char *steno_torch_type_name(enum steno_torch_type t)
{
    return types[t].name;
}

/* ---- the object ---------------------------------------------------------------------------- */

struct storage {
    const char *key;
    size_t item; /* older format: bytes of an element */
    const unsigned char *data;
    size_t bytes;
    void *owned; /* unpacked */
};

struct plain {
    const char *name;
    const struct steno_pickle_node *v;
};

struct steno_torch {
    steno_arena *mem;
    struct steno_map map;
    const unsigned char *bytes;
    size_t n_bytes;
    const char *name;
    steno_pickle *tree;
    struct steno_zip_member *member; /* zip */
    size_t n_members;
    char prefix[256];
    struct storage *storage; /* sorted by key */
    size_t n_storages;
    struct steno_torch_tensor *tensor;
    size_t n, cap;
    struct plain *plain;
    size_t n_plain, cap_plain;
    size_t visited, unpacked, max_unpacked;
};

static steno_status no_memory_for_torch(const steno_torch *t, steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", t->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct storage *)a)->key, ((const struct storage *)b)->key);
}

/* ---- storages of a zip --------------------------------------------------------------------- */

/* Bytes of a member, unpacked once if it is packed; the memory is t's. */
static steno_status member_bytes(steno_torch *t, const struct steno_zip_member *m,
                                 struct storage *out, steno_err *err)
{
    steno_status st;
    out->bytes = m->size;
    out->data = steno_zip_stored(t->bytes, m);
    if (out->data)
        return STENO_OK;
    if (m->size / MAX_PACKED_RATIO > m->packed)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: %.*s: %zu bytes cannot be packed into %zu",
                          t->name, (int)m->name_len, m->name, m->size, m->packed);
    st = steno_zip_read(t->bytes, t->n_bytes, t->name, m, t->max_unpacked - t->unpacked,
                        &out->owned, err);
    if (st)
        return st;
    t->unpacked += m->size;
    out->data = out->owned;
    return STENO_OK;
}

static bool member_ends_with(const struct steno_zip_member *m, const char *end)
{
    const size_t n = strlen(end);
    return m->name_len >= n && !memcmp(m->name + m->name_len - n, end, n);
}

static const struct steno_zip_member *find_member(const steno_torch *t, const char *name)
{
    char path[600];
    int n = snprintf(path, sizeof path, "%s%s", t->prefix, name);
    return n > 0 && n < (int)sizeof path ? steno_zip_find(t->member, t->n_members, path) : NULL;
}

/* The folder of data.pkl: "NAME/". */
static steno_status find_prefix(steno_torch *t, const struct steno_zip_member **pickle,
                                steno_err *err)
{
    static const char data[] = "/data.pkl";
    for (size_t i = 0; i < t->n_members; i++) {
        const struct steno_zip_member *m = &t->member[i];
        const size_t n = m->name_len - (sizeof data - 2);
        if (!member_ends_with(m, data) || n >= sizeof t->prefix || memchr(m->name, '/', n - 1))
            continue;
        memcpy(t->prefix, m->name, n);
        t->prefix[n] = '\0';
        *pickle = m;
        return STENO_OK;
    }
    return steno_fail(err, STENO_ERR_FORMAT,
                      "%s: a ZIP archive without NAME/data.pkl: not a checkpoint of torch.save",
                      t->name);
}

static steno_status check_byteorder(const steno_torch *t, steno_err *err)
{
    const struct steno_zip_member *m = find_member(t, "byteorder");
    const void *p = m ? steno_zip_stored(t->bytes, m) : NULL;
    if (!p || (m->size == 6 && !memcmp(p, "little", 6)))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: byte order '%.*s'; little can be read",
                      t->name, m->size < 16 ? (int)m->size : 16, (const char *)p);
}

/* List the members data/KEY. */
static steno_status list_storages(steno_torch *t, steno_err *err)
{
    char folder[300];
    const size_t n = (size_t)snprintf(folder, sizeof folder, "%sdata/", t->prefix);
    t->storage = calloc(t->n_members + 1, sizeof *t->storage);
    if (!t->storage)
        return no_memory_for_torch(t, err);
    for (size_t i = 0; i < t->n_members; i++) {
        const struct steno_zip_member *m = &t->member[i];
        struct storage *s = &t->storage[t->n_storages];
        if (m->name_len <= n || memcmp(m->name, folder, n))
            continue;
        s->key = steno_arena_strndup(t->mem, m->name + n, m->name_len - n);
        if (!s->key)
            return no_memory_for_torch(t, err);
        t->n_storages++; /* before its memory, which close frees */
        steno_status st = member_bytes(t, m, s, err);
        if (st)
            return st;
    }
    qsort(t->storage, t->n_storages, sizeof *t->storage, by_key);
    return STENO_OK;
}

static steno_status read_zip(steno_torch *t, steno_err *err)
{
    const struct steno_zip_member *m = NULL;
    struct storage pickle = {0};
    char name[300];
    steno_status st = steno_zip_list(t->bytes, t->n_bytes, t->name, &t->member, &t->n_members, err);
    if (!st)
        st = find_prefix(t, &m, err);
    if (!st)
        st = check_byteorder(t, err);
    if (!st)
        st = member_bytes(t, m, &pickle, err);
    if (st)
        return st;
    snprintf(name, sizeof name, "%.280s: data.pkl", t->name);
    st = steno_pickle_parse(&t->tree, pickle.data, pickle.bytes, name, allowed, NULL, err);
    free(pickle.owned);
    return st ? st : list_storages(t, err);
}

/* ---- the older format ---------------------------------------------------------------------- */

static const unsigned char magic[] = {
    0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
    0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19}; /* LONG1 0x1950a86a20f9469cfc6c */

bool steno_torch_probe(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    return n >= 4 && (!memcmp(p, "PK\3\4", 4) || (n >= 2 + sizeof magic && p[0] == 0x80 &&
                                                  !memcmp(p + 2, magic, sizeof magic)));
}

/* The pickle at *at, which moves behind it. */
static steno_status next_pickle(const steno_torch *t, size_t *at, steno_pickle **out,
                                steno_err *err)
{
    size_t used = 0;
    steno_status st =
        steno_pickle_parse(out, t->bytes + *at, t->n_bytes - *at, t->name, allowed, &used, err);
    if (!st)
        *at += used;
    return st;
}

static bool is_storage(const struct steno_pickle_node *v)
{
    const struct steno_pickle_node *id = v->kind == STENO_PICKLE_PERSISTENT ? v->item[0] : NULL;
    return id && id->kind == STENO_PICKLE_TUPLE && id->n >= 5 &&
           id->item[0]->kind == STENO_PICKLE_STRING && !strcmp(id->item[0]->text, "storage") &&
           id->item[1]->kind == STENO_PICKLE_GLOBAL && storage_type(id->item[1]->text) >= 0 &&
           id->item[2]->kind == STENO_PICKLE_STRING && id->item[4]->kind == STENO_PICKLE_INT &&
           id->item[4]->i >= 0;
}

/* Append a storage for every reference in the tree. */
static steno_status collect_storages(steno_torch *t, size_t *cap, const struct steno_pickle_node *v,
                                     int depth, steno_err *err)
{
    if (++t->visited > MAX_VALUES || depth > MAX_DEPTH)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: too many or too deeply nested values",
                          t->name);
    if (is_storage(v)) {
        if (STENO_RESERVE(&t->storage, cap, t->n_storages + 1))
            return no_memory_for_torch(t, err);
        t->storage[t->n_storages++] =
            (struct storage){.key = v->item[0]->item[2]->text,
                             .item = types[storage_type(v->item[0]->item[1]->text)].item};
        return STENO_OK;
    }
    for (size_t i = 0; v->item && i < v->n; i++) {
        steno_status st = collect_storages(t, cap, v->item[i], depth + 1, err);
        if (st)
            return st;
    }
    return STENO_OK;
}

/* Sort the storages and keep each once. */
static steno_status unite(steno_torch *t, steno_err *err)
{
    size_t n = 0;
    if (t->n_storages)
        qsort(t->storage, t->n_storages, sizeof *t->storage, by_key);
    for (size_t i = 0; i < t->n_storages; i++) {
        struct storage *s = &t->storage[i], *last = n ? &t->storage[n - 1] : NULL;
        if (!last || by_key(last, s))
            t->storage[n++] = *s;
        else if (last->item != s->item)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: storage '%.80s' has two types", t->name,
                              s->key);
    }
    t->n_storages = n;
    return STENO_OK;
}

static struct storage *find_storage(const steno_torch *t, const char *key)
{
    const struct storage k = {.key = key};
    return t->n_storages ? bsearch(&k, t->storage, t->n_storages, sizeof k, by_key) : NULL;
}

/* A number of elements in 8 bytes, then the elements, for each key. */
static steno_status place_storages(steno_torch *t, size_t at, const struct steno_pickle_node *keys,
                                   steno_err *err)
{
    if (keys->kind != STENO_PICKLE_LIST)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: no list of storages", t->name);
    for (size_t i = 0; i < keys->n; i++) {
        const struct steno_pickle_node *key = keys->item[i];
        struct storage *s = key->kind == STENO_PICKLE_STRING ? find_storage(t, key->text) : NULL;
        uint64_t n;
        if (!s)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: storage %zu is not in the object",
                              t->name, i);
        if (t->n_bytes - at < 8)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: cut short before storage '%.80s'",
                              t->name, s->key);
        n = steno_le64(t->bytes + at);
        at += 8;
        if (n > (t->n_bytes - at) / s->item)
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: storage '%.80s' of %llu elements reaches past the end", t->name,
                              s->key, (unsigned long long)n);
        s->data = t->bytes + at;
        s->bytes = (size_t)n * s->item;
        at += s->bytes;
    }
    return STENO_OK;
}

static steno_status check_system(const steno_torch *t, const struct steno_pickle_node *system,
                                 steno_err *err)
{
    const struct steno_pickle_node *little = steno_pickle_get(system, "little_endian");
    if (!little || little->kind != STENO_PICKLE_BOOL || little->b)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: big-endian; little can be read", t->name);
}

static steno_status read_older(steno_torch *t, steno_err *err)
{
    steno_pickle *head[3] = {0}, *keys = NULL; /* magic number, version, system */
    size_t at = 0, cap = 0;
    steno_status st = STENO_OK;
    for (int i = 0; i < 3 && !st; i++)
        st = next_pickle(t, &at, &head[i], err);
    if (!st)
        st = check_system(t, steno_pickle_root(head[2]), err);
    for (int i = 0; i < 3; i++)
        steno_pickle_close(head[i]);
    if (!st)
        st = next_pickle(t, &at, &t->tree, err);
    if (!st)
        st = next_pickle(t, &at, &keys, err);
    if (!st)
        st = collect_storages(t, &cap, steno_pickle_root(t->tree), 0, err);
    if (!st)
        st = unite(t, err);
    if (!st)
        st = place_storages(t, at, steno_pickle_root(keys), err);
    steno_pickle_close(keys);
    t->visited = 0;
    return st;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static steno_status wrong_weight(const steno_torch *t, const char *name, const char *what,
                                 steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: tensor '%.200s': %s", t->name, name, what);
}

/* A tuple of non-negative numbers. */
static int read_tuple(const struct steno_pickle_node *v, int64_t *out)
{
    if (v->kind == STENO_PICKLE_CALL && v->item[1]->n == 1) /* torch.Size((..)) */
        v = v->item[1]->item[0];
    if ((v->kind != STENO_PICKLE_TUPLE && v->kind != STENO_PICKLE_LIST) ||
        v->n > STENO_TORCH_MAX_RANK)
        return -1;
    for (size_t i = 0; i < v->n; i++) {
        if (v->item[i]->kind != STENO_PICKLE_INT || v->item[i]->i < 0)
            return -1;
        out[i] = v->item[i]->i;
    }
    return (int)v->n;
}

/* The number of elements, and of those from the first to the last in the storage. False: too
 * many. */
static bool extents(struct steno_torch_tensor *x, size_t *reach)
{
    size_t next = 1;
    x->count = 1;
    x->contiguous = true;
    for (int i = 0; i < x->rank; i++)
        if (!steno_mul_size(x->count, (size_t)x->dim[i], &x->count))
            return false;
    *reach = x->count ? 1 : 0;
    for (int i = x->rank - 1; i >= 0 && x->count; i--) {
        size_t step;
        if (!steno_mul_size((size_t)x->dim[i] - 1, (size_t)x->stride[i], &step) ||
            !steno_add_size(*reach, step, reach))
            return false;
        x->contiguous = x->contiguous && (x->dim[i] == 1 || (size_t)x->stride[i] == next);
        next *= (size_t)x->dim[i]; /* at most count */
    }
    return true;
}

static steno_status read_view(const steno_torch *t, const struct steno_pickle_node *args,
                              struct steno_torch_tensor *x, steno_err *err)
{
    const struct steno_pickle_node *id;
    const struct storage *s;
    size_t reach, item, elements;
    if (args->n < 4 || !is_storage(args->item[0]) || args->item[1]->kind != STENO_PICKLE_INT ||
        args->item[1]->i < 0)
        return wrong_weight(t, x->name, "its storage and place are not given", err);
    id = args->item[0]->item[0];
    if (id->n > 5 && id->item[5]->kind != STENO_PICKLE_NONE)
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: tensor '%.200s': a view of a storage, as PyTorch 0.x wrote them",
                          t->name, x->name);
    x->type = (enum steno_torch_type)storage_type(id->item[1]->text);
    item = types[x->type].item;
    x->rank = read_tuple(args->item[2], x->dim);
    if (x->rank < 0 || read_tuple(args->item[3], x->stride) != x->rank)
        return wrong_weight(t, x->name,
                            "its shape and strides are not two tuples of up to 8 numbers", err);
    if (!extents(x, &reach))
        return wrong_weight(t, x->name, "too large", err);
    s = find_storage(t, id->item[2]->text);
    if (!s || (!s->data && x->count))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: tensor '%.200s': its storage '%.80s' is missing", t->name, x->name,
                          id->item[2]->text);
    elements = s->bytes / item;
    if ((uint64_t)args->item[1]->i > elements || elements - (size_t)args->item[1]->i < reach)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: tensor '%.200s': %zu elements from number %lld on, its storage has "
                          "%zu",
                          t->name, x->name, reach, (long long)args->item[1]->i, elements);
    x->data = s->data ? s->data + (size_t)args->item[1]->i * item : (const unsigned char *)"";
    return STENO_OK;
}

static steno_status add_tensor(steno_torch *t, const char *name,
                               const struct steno_pickle_node *args, steno_err *err)
{
    struct steno_torch_tensor x = {.name = name};
    steno_status st = read_view(t, args, &x, err);
    if (st)
        return st;
    if (STENO_RESERVE(&t->tensor, &t->cap, t->n + 1))
        return no_memory_for_torch(t, err);
    t->tensor[t->n++] = x;
    return STENO_OK;
}

static steno_status add_plain(steno_torch *t, const char *name, const struct steno_pickle_node *v,
                              steno_err *err)
{
    if (STENO_RESERVE(&t->plain, &t->cap_plain, t->n_plain + 1))
        return no_memory_for_torch(t, err);
    t->plain[t->n_plain++] = (struct plain){name, v};
    return STENO_OK;
}

/* ---- the tree, flattened ------------------------------------------------------------------- */

static steno_status flatten(steno_torch *t, const char *name, const struct steno_pickle_node *v,
                            int depth, steno_err *err);

/* The text of a key, in `number` if it is one; NULL: something else. */
static const char *key_text(const struct steno_pickle_node *key, char number[32])
{
    if (key->kind == STENO_PICKLE_STRING)
        return key->text;
    if (key->kind != STENO_PICKLE_INT)
        return NULL;
    snprintf(number, 32, "%lld", (long long)key->i);
    return number;
}

static steno_status flatten_items(steno_torch *t, const char *name,
                                  const struct steno_pickle_node *v, int depth, steno_err *err)
{
    const size_t step = v->kind == STENO_PICKLE_DICT ? 2 : 1;
    char full[MAX_NAME], number[32];
    for (size_t i = 0; i + step <= v->n; i += step) {
        const struct steno_pickle_node index = {.kind = STENO_PICKLE_INT, .i = (int64_t)i};
        const char *key = key_text(step == 2 ? v->item[i] : &index, number), *copy;
        steno_status st;
        int n = key ? snprintf(full, sizeof full, "%s%s%s", name, *name ? "." : "", key) : 0;
        if (!key)
            continue; /* nobody can ask for it */
        if (n < 0 || n >= MAX_NAME)
            return steno_fail(err, STENO_ERR_LIMIT, "%s: a name of %d bytes: %.80s...", t->name, n,
                              full);
        copy = steno_arena_strdup(t->mem, full);
        if (!copy)
            return no_memory_for_torch(t, err);
        st = flatten(t, copy, v->item[i + step - 1], depth + 1, err);
        if (st)
            return st;
    }
    return STENO_OK;
}

static steno_status flatten_call(steno_torch *t, const char *name,
                                 const struct steno_pickle_node *v, int depth, steno_err *err)
{
    const char *fn = v->item[0]->text;
    const struct steno_pickle_node *args = v->item[1];
    if (!strcmp(fn, REBUILD_PARAMETER) && args->n >= 1)
        return flatten(t, name, args->item[0], depth + 1, err);
    if (!strcmp(fn, REBUILD_TENSOR) || !strcmp(fn, REBUILD_TENSOR_V2))
        return add_tensor(t, name, args, err);
    return STENO_OK;
}

static steno_status flatten(steno_torch *t, const char *name, const struct steno_pickle_node *v,
                            int depth, steno_err *err)
{
    if (++t->visited > MAX_VALUES || depth > MAX_DEPTH)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: '%.80s': too many or too deeply nested values",
                          t->name, name);
    switch (v->kind) {
    case STENO_PICKLE_DICT:
    case STENO_PICKLE_LIST:
    case STENO_PICKLE_TUPLE:
        return flatten_items(t, name, v, depth, err);
    case STENO_PICKLE_CALL:
        return flatten_call(t, name, v, depth, err);
    case STENO_PICKLE_BOOL:
    case STENO_PICKLE_INT:
    case STENO_PICKLE_FLOAT:
    case STENO_PICKLE_STRING:
        return add_plain(t, name, v, err);
    default:
        return STENO_OK;
    }
}

static int tensors_by_name(const void *a, const void *b)
{
    return strcmp(((const struct steno_torch_tensor *)a)->name,
                  ((const struct steno_torch_tensor *)b)->name);
}

static int plain_by_name(const void *a, const void *b)
{
    return strcmp(((const struct plain *)a)->name, ((const struct plain *)b)->name);
}

static steno_status read_tensors(steno_torch *t, steno_err *err)
{
    steno_status st = flatten(t, "", steno_pickle_root(t->tree), 0, err);
    if (st)
        return st;
    if (t->n)
        qsort(t->tensor, t->n, sizeof *t->tensor, tensors_by_name);
    if (t->n_plain)
        qsort(t->plain, t->n_plain, sizeof *t->plain, plain_by_name);
    for (size_t i = 1; i < t->n; i++)
        if (!tensors_by_name(&t->tensor[i - 1], &t->tensor[i]))
            return wrong_weight(t, t->tensor[i].name, "given twice", err);
    return STENO_OK;
}

/* ---- opening ------------------------------------------------------------------------------- */

static steno_status read_checkpoint(steno_torch *t, steno_err *err)
{
    steno_status st;
    if (!steno_torch_probe(t->bytes, t->n_bytes))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: not a checkpoint of torch.save", t->name);
    st = t->bytes[0] == 'P' ? read_zip(t, err) : read_older(t, err);
    return st ? st : read_tensors(t, err);
}

steno_status steno_torch_parse(steno_torch **out, const void *bytes, size_t n, const char *name,
                               size_t max_unpacked, steno_err *err)
{
    steno_torch *t = calloc(1, sizeof *t);
    steno_status st;
    if (t)
        t->mem = steno_arena_new(0);
    if (!t || !t->mem) {
        free(t);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    }
    t->bytes = bytes;
    t->n_bytes = n;
    t->max_unpacked = max_unpacked;
    t->name = steno_arena_strdup(t->mem, name);
    st = t->name ? read_checkpoint(t, err)
                 : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (st)
        steno_torch_close(t);
    else
        *out = t;
    return st;
}

steno_status steno_torch_open(steno_torch **out, const char *path, steno_err *err)
{
    struct steno_map map;
    steno_status st = steno_map_open(&map, path, err);
    if (st)
        return st;
    st = steno_torch_parse(out, map.p, map.n, path, STENO_TORCH_MAX_UNPACKED, err);
    if (st)
        steno_map_close(&map);
    else
        (*out)->map = map;
    return st;
}

void steno_torch_close(steno_torch *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_storages; i++)
        free(t->storage[i].owned);
    free(t->storage);
    free(t->member);
    free(t->tensor);
    free(t->plain);
    steno_pickle_close(t->tree);
    steno_map_close(&t->map);
    steno_arena_free(t->mem);
    free(t);
}

void steno_torch_rest(const steno_torch *t)
{
    if (t->map.n)
        steno_pages_rest(t->map.p, t->map.n);
}

/* ---- what it says -------------------------------------------------------------------------- */

size_t steno_torch_count(const steno_torch *t)
{
    return t->n;
}

const struct steno_torch_tensor *steno_torch_get(const steno_torch *t, size_t i)
{
    return &t->tensor[i];
}

const struct steno_torch_tensor *steno_torch_find(const steno_torch *t, const char *name)
{
    const struct steno_torch_tensor key = {.name = name};
    return t->n ? bsearch(&key, t->tensor, t->n, sizeof key, tensors_by_name) : NULL;
}

static const struct steno_pickle_node *find_plain(const steno_torch *t, const char *name)
{
    const struct plain key = {.name = name};
    const struct plain *p =
        t->n_plain ? bsearch(&key, t->plain, t->n_plain, sizeof key, plain_by_name) : NULL;
    return p ? p->v : NULL;
}

bool steno_torch_int(const steno_torch *t, const char *name, int64_t min, int64_t max, int64_t *out)
{
    const struct steno_pickle_node *v = find_plain(t, name);
    int64_t i;
    if (!v || (v->kind != STENO_PICKLE_INT && v->kind != STENO_PICKLE_BOOL))
        return false;
    i = v->kind == STENO_PICKLE_BOOL ? v->b : v->i;
    if (i < min || i > max)
        return false;
    *out = i;
    return true;
}

bool steno_torch_number(const steno_torch *t, const char *name, double min, double max, double *out)
{
    const struct steno_pickle_node *v = find_plain(t, name);
    double x;
    if (!v || (v->kind != STENO_PICKLE_INT && v->kind != STENO_PICKLE_FLOAT))
        return false;
    x = v->kind == STENO_PICKLE_INT ? (double)v->i : v->f;
    if (!(x >= min && x <= max))
        return false;
    *out = x;
    return true;
}

const char *steno_torch_str(const steno_torch *t, const char *name)
{
    const struct steno_pickle_node *v = find_plain(t, name);
    return v && v->kind == STENO_PICKLE_STRING ? v->text : NULL;
}

/* ---- elements ------------------------------------------------------------------------------ */

/* Of numbers as C has them. */
#define RETURN_FLOAT_OF(TYPE)                                                                      \
    do {                                                                                           \
        TYPE v;                                                                                    \
        memcpy(&v, p, sizeof v);                                                                   \
        return (float)v;                                                                           \
    } while (0)

static float element(enum steno_torch_type type, const unsigned char *p)
{
    float f;
    switch (type) {
    case STENO_TORCH_F32:
        RETURN_FLOAT_OF(float);
    case STENO_TORCH_F16:
        steno_ggml_from_f16(p, 1, &f);
        return f;
    case STENO_TORCH_BF16:
        steno_ggml_from_bf16(p, 1, &f);
        return f;
    case STENO_TORCH_F64:
        RETURN_FLOAT_OF(double);
    case STENO_TORCH_I64:
        RETURN_FLOAT_OF(int64_t);
    case STENO_TORCH_I32:
        RETURN_FLOAT_OF(int32_t);
    case STENO_TORCH_I16:
        RETURN_FLOAT_OF(int16_t);
    case STENO_TORCH_I8:
        RETURN_FLOAT_OF(int8_t);
    default:
        return *p;
    }
}

void steno_torch_read(const struct steno_torch_tensor *t, size_t from, size_t n, float *out)
{
    const size_t item = types[t->type].item;
    if (t->contiguous) {
        if (t->type == STENO_TORCH_F32 && n)
            memcpy(out, t->data + from * item, n * item);
        for (size_t i = 0; t->type != STENO_TORCH_F32 && i < n; i++)
            out[i] = element(t->type, t->data + (from + i) * item);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        size_t rest = from + i, at = 0;
        for (int d = t->rank - 1; d >= 0; d--) {
            at += rest % (size_t)t->dim[d] * (size_t)t->stride[d];
            rest /= (size_t)t->dim[d];
        }
        out[i] = element(t->type, t->data + at * item);
    }
}
