#include "speech/families/common/ggml_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/list.h"

#define LONGEST_NAME (STENO_GGUF_MAX_NAME + 64)
#define CODE 16 /* bytes of a language with its region */

/* ---- reading for builders ------------------------------------------------------------------ */

static int by_name_ggml(const void *a, const void *b)
{
    return strcmp(((const struct steno_ggml_tensor *)a)->t.name,
                  ((const struct steno_ggml_tensor *)b)->t.name);
}

const struct steno_ggml_tensor *steno_ggml_file_find(const struct steno_ggml_file *f,
                                                     const char *name)
{
    const struct steno_ggml_tensor key = {.t = {.name = name}};
    if (f->weights.of)
        return f->n ? bsearch(&key, f->tensor, f->n, sizeof key, by_name_ggml) : NULL;
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->tensor[i].t.name, name) == 0)
            return &f->tensor[i];
    return NULL;
}

static const struct steno_torch_tensor *find_for_builder(const void *of, const char *name)
{
    const struct steno_ggml_tensor *t = steno_ggml_file_find(of, name);
    return t ? &t->t : NULL;
}

static void read_rows(const struct steno_ggml_tensor *t, size_t from, size_t n, float *out)
{
    t->type->read(t->data + from / t->type->per * t->type->bytes, n / t->type->per, out);
}

/* Gates i, f, g, o out of i, f, o, g; whole rows. */
static void read_gates(const struct steno_ggml_tensor *t, size_t from, size_t n, float *out)
{
    static const size_t order[4] = {0, 1, 3, 2};
    const size_t rows = (size_t)t->t.dim[0], units = rows / 4, row = t->t.count / rows;
    for (size_t at = from; at < from + n; at += row, out += row) {
        const size_t r = at / row;
        read_rows(t, (order[r / units] * units + r % units) * row, row, out);
    }
}

static void read_for_builder(const struct steno_torch_tensor *tensor, size_t from, size_t n,
                             float *out)
{
    const struct steno_ggml_tensor *t = (const struct steno_ggml_tensor *)(const void *)tensor;
    if (!t->data)
        memset(out, 0, n * sizeof *out);
    else if (t->ifog)
        read_gates(t, from, n, out);
    else
        read_rows(t, from, n, out);
}

/* ---- opening ------------------------------------------------------------------------------- */

steno_status steno_ggml_file_open(struct steno_ggml_file *f, const char *path, const void *bytes,
                                  size_t n, steno_err *err)
{
    steno_status st = STENO_OK;
    *f = (struct steno_ggml_file){.bytes = bytes, .size = n, .mem = steno_arena_new(0)};
    steno_buf_init(&f->tokens, STENO_GGML_MAX_TOKENS);
    f->name = f->mem ? steno_arena_strdup(f->mem, path) : NULL; /* messages outlive the caller's */
    if (!f->name)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (!bytes) {
        st = steno_map_open(&f->map, path, err);
        f->bytes = f->map.p;
        f->size = f->map.n;
    }
    if (st || !steno_gguf_probe(f->bytes, f->size))
        return st;
    return steno_gguf_parse(&f->gguf, f->bytes, f->size, f->name, err);
}

void steno_ggml_file_close(struct steno_ggml_file *f)
{
    steno_gguf_close(f->gguf);
    steno_buf_free(&f->tokens);
    free(f->tensor);
    steno_arena_free(f->mem);
    steno_map_close(&f->map);
    *f = (struct steno_ggml_file){0};
}

/* ---- tensors ------------------------------------------------------------------------------- */

steno_status steno_ggml_file_add(struct steno_ggml_file *f, const char *name,
                                 const struct steno_ggml_tensor *t, steno_err *err)
{
    struct steno_ggml_tensor *p;
    if (f->n == STENO_GGML_MAX_TENSORS)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %d tensors", f->name,
                          STENO_GGML_MAX_TENSORS);
    if (STENO_RESERVE(&f->tensor, &f->cap, f->n + 1))
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", f->name);
    p = f->tensor + f->n;
    *p = *t;
    p->t.name = steno_arena_strdup(f->mem, name);
    p->t.contiguous = true;
    p->t.count = 1;
    for (int i = 0; i < t->t.rank; i++)
        p->t.count *= (size_t)t->t.dim[i];
    if (!p->t.name)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", f->name);
    f->n++;
    return STENO_OK;
}

steno_status steno_ggml_file_sort(struct steno_ggml_file *f, steno_err *err)
{
    if (f->n)
        qsort(f->tensor, f->n, sizeof *f->tensor, by_name_ggml);
    for (size_t i = 0; i < f->n; i++) {
        const struct steno_ggml_tensor *t = &f->tensor[i];
        if (i && !by_name_ggml(t - 1, t))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: tensor '%s' is given twice", f->name,
                              t->t.name);
        if (t->ifog && (t->t.rank < 1 || t->t.dim[0] % 4))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: tensor '%s' has no four gates", f->name,
                              t->t.name);
    }
    f->weights = (struct steno_make_weights){.file = f->name,
                                             .find = find_for_builder,
                                             .of = f,
                                             .read = read_for_builder,
                                             .squeezed = true,
                                             .late = true,
                                             .map = &f->map,
                                             .root = ""};
    return STENO_OK;
}

int64_t steno_ggml_file_extent(const struct steno_ggml_file *f, const char *name, int axis)
{
    const struct steno_ggml_tensor *t = steno_ggml_file_find(f, name);
    return t && axis < t->t.rank ? t->t.dim[axis] : 0;
}

bool steno_ggml_file_in_blocks(const struct steno_ggml_file *f, const char *name)
{
    const struct steno_ggml_tensor *t = steno_ggml_file_find(f, name);
    return t && t->type->per > 1;
}

/* What follows a begin of a name, NULL: it is none. *number: in place of '#'. */
static const char *behind_begin(const char *begin, const char *name, unsigned *number)
{
    for (; *begin; begin++) {
        int used = 0;
        if (*begin != '#') {
            if (*name++ != *begin)
                return NULL;
            continue;
        }
        if (*name < '0' || *name > '9' || sscanf(name, "%4u%n", number, &used) != 1)
            return NULL;
        name += used;
    }
    return name;
}

/* Append the name of `from` for the builder. NULL: there is none in the table; else what follows.
 */
static const char *append_begin(const struct steno_ggml_rename *r, size_t n, const char *from,
                                char *out)
{
    for (; n; n--, r++) {
        unsigned number = 0;
        const char *rest = behind_begin(r->from, from, &number);
        size_t at = strlen(out);
        const char *hash = strchr(r->to, '#');
        if (!rest)
            continue;
        if (hash)
            snprintf(out + at, LONGEST_NAME - at, "%.*s%u%s", (int)(hash - r->to), r->to, number,
                     hash + 1);
        else
            snprintf(out + at, LONGEST_NAME - at, "%s", r->to);
        return rest;
    }
    return NULL;
}

/* False: none that a builder asks for. */
static bool builders_name(const struct steno_ggml_names *names, const char *from, char *out)
{
    const char *rest, *part;
    size_t at;
    *out = '\0';
    rest = append_begin(names->begins, names->n_begins, from, out);
    if (!rest)
        return false;
    part = append_begin(names->parts, names->n_parts, rest, out);
    at = strlen(out);
    snprintf(out + at, LONGEST_NAME - at, "%s", part ? part : rest);
    return true;
}

steno_status steno_ggml_file_tensors(struct steno_ggml_file *f,
                                     const struct steno_ggml_names *names, steno_err *err)
{
    steno_status st = STENO_OK;
    for (size_t i = 0; i < steno_gguf_count(f->gguf) && !st; i++) {
        const struct steno_gguf_tensor *from = steno_gguf_get(f->gguf, i);
        struct steno_ggml_tensor t = {.type = from->type, .data = from->data};
        char name[LONGEST_NAME];
        if (!builders_name(names, from->name, name))
            continue;
        if (!from->type)
            return steno_fail(err, STENO_ERR_UNSUPPORTED,
                              "%s: tensor '%s' has type %u, " STENO_GGML_TYPES " are read", f->name,
                              from->name, (unsigned)from->number);
        t.t.rank = from->rank;
        memcpy(t.t.dim, from->dim, (size_t)from->rank * sizeof *from->dim);
        st = steno_ggml_file_add(f, name, &t, err);
    }
    return st;
}

/* ---- keys ---------------------------------------------------------------------------------- */

bool steno_ggml_file_has_number(const struct steno_ggml_file *f, const char *key)
{
    double any;
    return steno_gguf_number(f->gguf, key, &any);
}

steno_status steno_ggml_file_numbers(const struct steno_ggml_file *f,
                                     const struct steno_ggml_wanted *w, size_t n, steno_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (steno_gguf_int(f->gguf, w[i].key, w[i].min, w[i].max, w[i].to))
            continue;
        if (w[i].fallback < w[i].min || steno_ggml_file_has_number(f, w[i].key))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: key '%s' is missing or no number from %lld to %lld", f->name,
                              w[i].key, (long long)w[i].min, (long long)w[i].max);
        *w[i].to = w[i].fallback;
    }
    return STENO_OK;
}

steno_status steno_ggml_file_word(const struct steno_ggml_file *f, const char *key,
                                  const char *known, const char *fallback, const char **out,
                                  steno_err *err)
{
    const char *text = steno_gguf_text(f->gguf, key);
    *out = text ? text : fallback;
    if (*out && steno_list_holds(known, *out))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_UNSUPPORTED, "%s: key '%s' is '%.40s', known: %s", f->name,
                      key, text ? text : "missing", known);
}

void steno_ggml_file_languages(const struct steno_ggml_file *f, char *out, size_t size)
{
    struct steno_gguf_list l;
    const char *p;
    size_t n, at = 0;
    *out = '\0';
    if (!steno_gguf_list(f->gguf, "general.languages", &l))
        return;
    while (steno_gguf_next_text(&l, &p, &n) && n && n < CODE) {
        char code[CODE + 1];
        snprintf(code, sizeof code, "%.*s", (int)n, p);
        code[strcspn(code, "-_")] = '\0'; /* "en-US" */
        if (steno_list_holds(out, code) || at + n + 2 >= size)
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s%s", at ? " " : "", code);
    }
}

/* ---- vocabulary ---------------------------------------------------------------------------- */

steno_status steno_ggml_file_piece(struct steno_ggml_file *f, const char *piece, size_t n,
                                   steno_err *err)
{
    const long long id = (long long)f->pieces++;
    if (!n || memchr(piece, '\n', n) || memchr(piece, '\r', n) || memchr(piece, '\0', n))
        return steno_fail(err, STENO_ERR_FORMAT, "%s: piece %lld is empty or has a line break",
                          f->name, id);
    if (steno_buf_add(&f->tokens, piece, n) || steno_buf_printf(&f->tokens, " %lld\n", id))
        return steno_fail(err, STENO_ERR_LIMIT, "%s: more than %zu bytes of vocabulary", f->name,
                          STENO_GGML_MAX_TOKENS);
    return STENO_OK;
}

steno_status steno_ggml_file_pieces(struct steno_ggml_file *f, const char *key, size_t without,
                                    steno_err *err)
{
    struct steno_gguf_list l = {0};
    steno_status st = STENO_OK;
    const char *p;
    size_t n;
    const bool list = steno_gguf_list(f->gguf, key, &l) && l.left > without;
    while (list && !st && l.left > without && steno_gguf_next_text(&l, &p, &n))
        st = steno_ggml_file_piece(f, p, n, err);
    if (!st && (!list || l.left != without))
        st = steno_fail(err, STENO_ERR_FORMAT, "%s: key '%s' is missing or has no texts", f->name,
                        key);
    return st;
}

/* ---- records of a ggml file ------------------------------------------------------------------ */

static steno_status ends_in(const char *file, const char *what, steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: the file ends in %s", file, what);
}

static steno_status read_record_head(struct steno_cursor *c, struct steno_ggml_record *r,
                                     const char *file, steno_err *err)
{
    uint32_t axes, length, type, dim;
    const unsigned char *name;
    if (!steno_cursor_u32(c, &axes) || !steno_cursor_u32(c, &length) || !steno_cursor_u32(c, &type))
        return ends_in(file, "a tensor's header", err);
    if (axes > 4 || length >= sizeof r->name)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: a tensor of %u axes with a name of %u bytes, at most 4 and %zu",
                          file, (unsigned)axes, (unsigned)length, sizeof r->name - 1);
    r->rank = (int)axes;
    for (uint32_t i = axes; i-- > 0; r->dim[i] = dim)
        if (!steno_cursor_u32(c, &dim) || !dim)
            return ends_in(file, "a tensor's sizes, or they are 0", err);
    name = steno_cursor_skip(c, length);
    if (!name)
        return ends_in(file, "a tensor's name", err);
    memcpy(r->name, name, length);
    r->name[length] = '\0';
    if (strlen(r->name) != length)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: a tensor's name holds NUL", file);
    r->type = steno_ggml_type(type);
    return r->type ? STENO_OK
                   : steno_fail(err, STENO_ERR_UNSUPPORTED,
                                "%s: tensor '%s' has type %u, " STENO_GGML_TYPES " are read", file,
                                r->name, (unsigned)type);
}

steno_status steno_ggml_record_read(struct steno_cursor *c, struct steno_ggml_record *r,
                                    const char *file, steno_err *err)
{
    size_t count = 1, bytes;
    steno_status st = read_record_head(c, r, file, err);
    bool fits = true;
    if (st)
        return st;
    for (int i = 0; i < r->rank; i++)
        fits = fits && steno_mul_size(count, (size_t)r->dim[i], &count);
    if (!fits ||
        !steno_ggml_bytes(r->type, r->rank ? (size_t)r->dim[r->rank - 1] : 1, count, &bytes) ||
        !(r->data = steno_cursor_skip(c, bytes)))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: tensor '%s' does not fit: %zu bytes are left of the file", file,
                          r->name, steno_cursor_left(c));
    return STENO_OK;
}
