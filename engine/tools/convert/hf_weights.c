#include "tools/convert/hf_weights.h"

#include "formats/json.h"
#include "formats/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE "model.safetensors"
#define INDEX "model.safetensors.index.json"
#define TORCH "pytorch_model.bin"
#define TORCH_INDEX "pytorch_model.bin.index.json"
#define MAX_WEIGHTS ((size_t)64 << 30)
#define MAX_INDEX ((size_t)64 << 20)
#define MAX_SHARDS 256
#define MAX_NAME 300

struct weight {
    struct steno_torch_tensor t;
    bool used;
};

struct shard {
    char name[MAX_NAME];
    struct steno_blob blob;
    steno_safetensors *file;
};

struct steno_hf_weights {
    const struct steno_bundle *b;
    struct shard *shard; /* [n_shards]; the first one is pytorch_model.bin where there is `torch` */
    size_t n_shards;
    steno_torch *torch;
    struct weight *w; /* [n], sorted by name */
    size_t n;
};

bool steno_hf_weights_present(const struct steno_bundle *b)
{
    return steno_bundle_has(b, WHOLE) || steno_bundle_has(b, INDEX) || steno_bundle_has(b, TORCH) ||
           steno_bundle_has(b, TORCH_INDEX);
}

/* ---- names of files -------------------------------------------------------------------------- */

static steno_status add_shard(steno_hf_weights *w, const char *name, steno_err *err)
{
    struct shard *p;
    for (size_t i = 0; i < w->n_shards; i++)
        if (!strcmp(w->shard[i].name, name))
            return STENO_OK;
    if (strlen(name) >= MAX_NAME || w->n_shards == MAX_SHARDS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d files, or a name of %zu bytes",
                          INDEX, MAX_SHARDS, strlen(name));
    p = realloc(w->shard, (w->n_shards + 1) * sizeof *p);
    if (!p)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    w->shard = p;
    p += w->n_shards++;
    *p = (struct shard){0};
    snprintf(p->name, sizeof p->name, "%s", name);
    return STENO_OK;
}

static steno_status read_index(steno_hf_weights *w, steno_err *err)
{
    struct steno_blob blob;
    steno_json *j = NULL;
    const struct steno_json_node *map = NULL;
    steno_status st = steno_bundle_read(w->b, INDEX, MAX_INDEX, &blob, err);
    if (!st)
        st = steno_json_parse(&j, blob.p, blob.n, INDEX, err);
    if (!st)
        map = steno_json_get(steno_json_root(j), "weight_map");
    if (!st && (!map || map->kind != STENO_JSON_OBJECT || !map->n))
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: there is no weight_map", INDEX);
    for (const struct steno_json_node *n = map ? map->first : NULL; n && !st; n = n->next)
        st = n->kind == STENO_JSON_STRING
                 ? add_shard(w, n->text, err)
                 : steno_fail(err, STENO_ERR_FORMAT, "%s: line %zu: no name of a file", INDEX,
                              n->line);
    steno_json_close(j);
    steno_blob_close(&blob);
    return st;
}

static steno_status find_shards(steno_hf_weights *w, steno_err *err)
{
    if (steno_bundle_has(w->b, WHOLE))
        return add_shard(w, WHOLE, err);
    if (steno_bundle_has(w->b, INDEX))
        return read_index(w, err);
    if (steno_bundle_has(w->b, TORCH))
        return add_shard(w, TORCH, err);
    if (steno_bundle_has(w->b, TORCH_INDEX))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "%s: shards; known: %s, its shards with %s, %s", TORCH_INDEX, WHOLE,
                          INDEX, TORCH);
    return steno_fail(err, STENO_ERR_IO, "%s: neither %s nor %s is there", w->b->path, WHOLE,
                      TORCH);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool element_type(const char *dtype, enum steno_torch_type *out)
{
    static const struct {
        const char *name;
        enum steno_torch_type type;
    } known[] = {{"F32", STENO_TORCH_F32},  {"F16", STENO_TORCH_F16}, {"BF16", STENO_TORCH_BF16},
                 {"F64", STENO_TORCH_F64},  {"I64", STENO_TORCH_I64}, {"I32", STENO_TORCH_I32},
                 {"I16", STENO_TORCH_I16},  {"I8", STENO_TORCH_I8},   {"U8", STENO_TORCH_U8},
                 {"BOOL", STENO_TORCH_BOOL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(dtype, known[i].name)) {
            *out = known[i].type;
            return true;
        }
    return false;
}

static steno_status take_safetensor(const struct steno_safetensor *s, const char *file,
                                    struct steno_torch_tensor *out, steno_err *err)
{
    struct steno_torch_tensor t = {
        .name = s->name, .rank = s->rank, .count = s->count, .data = s->data, .contiguous = true};
    int64_t stride = 1;
    if (!element_type(s->dtype, &t.type))
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: '%s' is of type %s", file, s->name,
                          s->dtype);
    for (int i = s->rank; i-- > 0;) {
        t.dim[i] = s->dim[i];
        t.stride[i] = stride;
        stride *= s->dim[i];
    }
    *out = t;
    return STENO_OK;
}

static bool reserve_weights(steno_hf_weights *w, size_t more)
{
    struct weight *p = realloc(w->w, (w->n + more + 1) * sizeof *p);
    if (p)
        w->w = p;
    return p != NULL;
}

static steno_status take_safetensors(steno_hf_weights *w, struct shard *s, steno_err *err)
{
    size_t n;
    steno_status st = steno_safetensors_parse(&s->file, s->blob.p, s->blob.n, s->name, err);
    if (st)
        return st;
    n = steno_safetensors_count(s->file);
    if (!reserve_weights(w, n))
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", s->name);
    for (size_t i = 0; i < n && !st; i++) {
        w->w[w->n].used = false;
        st = take_safetensor(steno_safetensors_get(s->file, i), s->name, &w->w[w->n].t, err);
        w->n += !st;
    }
    return st;
}

static steno_status take_torch(steno_hf_weights *w, struct shard *s, steno_err *err)
{
    size_t n;
    steno_status st = steno_torch_parse(&w->torch, s->blob.p, s->blob.n, s->name, MAX_WEIGHTS, err);
    if (st)
        return st;
    n = steno_torch_count(w->torch);
    if (!reserve_weights(w, n))
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", s->name);
    for (size_t i = 0; i < n; i++)
        w->w[w->n++] = (struct weight){.t = *steno_torch_get(w->torch, i)};
    return STENO_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weight *)a)->t.name, ((const struct weight *)b)->t.name);
}

static steno_status read_shards(steno_hf_weights *w, steno_err *err)
{
    steno_status st = find_shards(w, err);
    for (size_t i = 0; i < w->n_shards && !st; i++) {
        struct shard *s = &w->shard[i];
        st = steno_bundle_read(w->b, s->name, MAX_WEIGHTS, &s->blob, err);
        if (!st)
            st = strcmp(s->name, TORCH) ? take_safetensors(w, s, err) : take_torch(w, s, err);
    }
    if (st)
        return st;
    qsort(w->w, w->n, sizeof *w->w, by_name);
    for (size_t i = 1; i < w->n; i++)
        if (!by_name(&w->w[i - 1], &w->w[i]))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: '%s' is there twice", w->b->path,
                              w->w[i].t.name);
    return STENO_OK;
}

steno_status steno_hf_weights_open(steno_hf_weights **out, const struct steno_bundle *b,
                                   steno_err *err)
{
    steno_hf_weights *w = calloc(1, sizeof *w);
    steno_status st;
    if (!w)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    w->b = b;
    st = read_shards(w, err);
    if (st)
        steno_hf_weights_close(w);
    else
        *out = w;
    return st;
}

void steno_hf_weights_close(steno_hf_weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->n_shards; i++) {
        steno_safetensors_close(w->shard[i].file);
        steno_blob_close(&w->shard[i].blob);
    }
    steno_torch_close(w->torch);
    free(w->shard);
    free(w->w);
    free(w);
}

/* ---- look-up --------------------------------------------------------------------------------- */

static const struct steno_torch_tensor *find_hf_weight(const void *of, const char *name)
{
    const steno_hf_weights *w = of;
    const struct weight key = {.t = {.name = name}};
    struct weight *hit = w->n ? bsearch(&key, w->w, w->n, sizeof *w->w, by_name) : NULL;
    if (!hit)
        return NULL;
    hit->used = true;
    return &hit->t;
}

struct steno_make_weights steno_hf_weights_of(steno_hf_weights *w)
{
    return (struct steno_make_weights){
        .file = w->shard[0].name,
        .find = find_hf_weight,
        .of = w,
        .map = w->n_shards == 1 && !w->b->archive ? &w->shard[0].blob.map : NULL,
        .root = ""};
}

steno_status steno_hf_weights_all_used(const steno_hf_weights *w, const char *const *idle,
                                       steno_err *err)
{
    for (size_t i = 0; i < w->n; i++) {
        bool known = w->w[i].used;
        for (const char *const *p = idle; *p && !known; p++)
            known = strstr(w->w[i].t.name, *p) != NULL;
        if (!known)
            return steno_fail(err, STENO_ERR_UNSUPPORTED,
                              "%s: '%s' belongs to a part that is not known", w->shard[0].name,
                              w->w[i].t.name);
    }
    return STENO_OK;
}
