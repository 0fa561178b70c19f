#include "formats/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/file.h"

#define MAX_BYTES ((size_t)64 << 20)
#define MAX_NODES ((size_t)1 << 21)
#define MAX_DEPTH 32
#define MAX_KEYS 4096 /* keys of one mapping: each is compared with all earlier ones */

struct steno_yaml {
    steno_arena *mem;
    const char *name;
    struct steno_yaml_node *root;
};

/* A node whose children are not complete. */
struct open_node {
    struct steno_yaml_node *node, *last;
    char *key; /* mapping: the key was read, its value was not */
};

struct builder {
    steno_yaml *y;
    struct open_node stack[MAX_DEPTH];
    size_t depth, nodes;
    bool done;
};

static steno_status at_line(steno_err *err, const struct builder *b, steno_status code, size_t line,
                            const char *what)
{
    return steno_fail(err, code, "%s: line %zu: %s", b->y->name, line, what);
}

static steno_status out_of_memory(steno_err *err, const struct builder *b)
{
    return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", b->y->name);
}

static struct steno_yaml_node *new_node(struct builder *b, enum steno_yaml_kind kind, size_t line)
{
    struct steno_yaml_node *n =
        b->nodes < MAX_NODES ? steno_arena_alloc(b->y->mem, sizeof *n) : NULL;
    if (!n)
        return NULL;
    b->nodes++;
    n->kind = kind;
    n->line = line;
    return n;
}

static bool has_key(const struct steno_yaml_node *map, const char *key)
{
    for (const struct steno_yaml_node *c = map->first; c; c = c->next)
        if (strcmp(c->key, key) == 0)
            return true;
    return false;
}

/* Add n as a child of the innermost open node. */
static steno_status attach(struct builder *b, struct steno_yaml_node *n, steno_err *err)
{
    struct open_node *o;
    if (!b->depth) {
        b->y->root = n;
        return STENO_OK;
    }
    o = &b->stack[b->depth - 1];
    if (o->node->kind == STENO_YAML_MAP) {
        if (!o->key)
            return at_line(err, b, STENO_ERR_FORMAT, n->line, "a key must be a plain value");
        if (o->node->n == MAX_KEYS)
            return at_line(err, b, STENO_ERR_LIMIT, n->line, "more than 4096 keys in a mapping");
        if (has_key(o->node, o->key))
            return at_line(err, b, STENO_ERR_FORMAT, n->line, "this key was given before");
        n->key = o->key;
        o->key = NULL;
    }
    if (o->last)
        o->last->next = n;
    else
        o->node->first = n;
    o->last = n;
    o->node->n++;
    return STENO_OK;
}

static steno_status take_scalar(struct builder *b, const yaml_event_t *e, steno_err *err)
{
    size_t line = e->start_mark.line + 1, length = e->data.scalar.length;
    const char *value = (const char *)e->data.scalar.value;
    struct open_node *o = b->depth ? &b->stack[b->depth - 1] : NULL;
    struct steno_yaml_node *n;
    char *text;
    if (memchr(value, 0, length))
        return at_line(err, b, STENO_ERR_FORMAT, line, "a value holds a zero byte");
    text = steno_arena_strndup(b->y->mem, value, length);
    if (!text)
        return out_of_memory(err, b);
    if (o && o->node->kind == STENO_YAML_MAP && !o->key) {
        o->key = text;
        return STENO_OK;
    }
    n = new_node(b, STENO_YAML_SCALAR, line);
    if (!n)
        return at_line(err, b, STENO_ERR_LIMIT, line, "too many values");
    n->text = text;
    n->quoted = e->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
                e->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    return attach(b, n, err);
}

static steno_status open_level(struct builder *b, const yaml_event_t *e, enum steno_yaml_kind kind,
                               steno_err *err)
{
    size_t line = e->start_mark.line + 1;
    struct steno_yaml_node *n = new_node(b, kind, line);
    steno_status st;
    if (!n)
        return at_line(err, b, STENO_ERR_LIMIT, line, "too many values");
    st = attach(b, n, err);
    if (st)
        return st;
    if (b->depth == MAX_DEPTH)
        return at_line(err, b, STENO_ERR_LIMIT, line, "nested more than 32 levels deep");
    b->stack[b->depth++] = (struct open_node){.node = n};
    return STENO_OK;
}

static steno_status take_event(struct builder *b, const yaml_event_t *e, steno_err *err)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return take_scalar(b, e, err);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(b, e, STENO_YAML_LIST, err);
    case YAML_MAPPING_START_EVENT:
        return open_level(b, e, STENO_YAML_MAP, err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return STENO_OK;
    case YAML_ALIAS_EVENT:
        return at_line(err, b, STENO_ERR_UNSUPPORTED, e->start_mark.line + 1,
                       "aliases (*name) are not taken");
    case YAML_DOCUMENT_END_EVENT:
    case YAML_STREAM_END_EVENT:
        b->done = true;
        return STENO_OK;
    default:
        return STENO_OK;
    }
}

static steno_status build_events(struct builder *b, yaml_parser_t *p, steno_err *err)
{
    while (!b->done) {
        yaml_event_t e;
        steno_status st;
        if (!yaml_parser_parse(p, &e))
            return steno_fail(err, STENO_ERR_FORMAT, "%s: line %zu: %s", b->y->name,
                              p->problem_mark.line + 1, p->problem ? p->problem : "not YAML");
        st = take_event(b, &e, err);
        yaml_event_delete(&e);
        if (st)
            return st;
    }
    return b->y->root ? STENO_OK
                      : steno_fail(err, STENO_ERR_FORMAT, "%s: the file is empty", b->y->name);
}

steno_status steno_yaml_parse(steno_yaml **out, const void *bytes, size_t n, const char *name,
                              steno_err *err)
{
    struct builder b = {.y = calloc(1, sizeof *b.y)};
    yaml_parser_t parser;
    steno_status st;
    if (n > MAX_BYTES) {
        free(b.y);
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu bytes, the limit is %zu", name, n,
                          MAX_BYTES);
    }
    if (b.y)
        b.y->mem = steno_arena_new(0);
    if (b.y && b.y->mem)
        b.y->name = steno_arena_strdup(b.y->mem, name);
    if (!b.y || !b.y->name || !yaml_parser_initialize(&parser)) {
        steno_yaml_close(b.y);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    }
    yaml_parser_set_input_string(&parser, n ? bytes : (const unsigned char *)"", n);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    st = build_events(&b, &parser, err);
    yaml_parser_delete(&parser);
    if (st)
        steno_yaml_close(b.y);
    else
        *out = b.y;
    return st;
}

steno_status steno_yaml_open(steno_yaml **out, const char *path, steno_err *err)
{
    char *text;
    size_t n;
    steno_status st = steno_file_read(path, MAX_BYTES, &text, &n, err);
    if (st)
        return st;
    st = steno_yaml_parse(out, text, n, path, err);
    free(text);
    return st;
}

void steno_yaml_close(steno_yaml *y)
{
    if (!y)
        return;
    steno_arena_free(y->mem);
    free(y);
}

const struct steno_yaml_node *steno_yaml_root(const steno_yaml *y)
{
    return y->root;
}

const char *steno_yaml_name(const steno_yaml *y)
{
    return y->name;
}

/* ---- looking up ---------------------------------------------------------------------------- */

const struct steno_yaml_node *steno_yaml_find(const steno_yaml *y, const char *path)
{
    const struct steno_yaml_node *n = y->root;
    while (n && *path) {
        size_t len = strcspn(path, ".");
        const struct steno_yaml_node *c = n->kind == STENO_YAML_MAP ? n->first : NULL;
        while (c && (strncmp(c->key, path, len) != 0 || c->key[len]))
            c = c->next;
        n = c;
        path += len + (path[len] == '.');
    }
    return n;
}

bool steno_yaml_null(const struct steno_yaml_node *n)
{
    return !n || (n->kind == STENO_YAML_SCALAR && !n->quoted &&
                  (!*n->text || strcmp(n->text, "~") == 0 || strcmp(n->text, "null") == 0 ||
                   strcmp(n->text, "Null") == 0 || strcmp(n->text, "NULL") == 0));
}

static steno_status wrong_node(const steno_yaml *y, const struct steno_yaml_node *n,
                               const char *path, const char *want, steno_err *err)
{
    if (n->kind != STENO_YAML_SCALAR)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: line %zu: %s is a %s, expected %s", y->name,
                          n->line, path, n->kind == STENO_YAML_LIST ? "list" : "mapping", want);
    return steno_fail(err, STENO_ERR_FORMAT, "%s: line %zu: %s is '%.60s', expected %s", y->name,
                      n->line, path, n->text, want);
}

steno_status steno_yaml_missing(const steno_yaml *y, const char *path, steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: %s is missing", y->name, path);
}

steno_status steno_yaml_str(const steno_yaml *y, const char *path, const char **out, steno_err *err)
{
    const struct steno_yaml_node *n = steno_yaml_find(y, path);
    if (steno_yaml_null(n))
        return STENO_OK;
    if (n->kind != STENO_YAML_SCALAR)
        return wrong_node(y, n, path, "text", err);
    *out = n->text;
    return STENO_OK;
}

steno_status steno_yaml_bool(const steno_yaml *y, const char *path, bool *out, steno_err *err)
{
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "on"};
    static const char *const no[] = {"false", "False", "FALSE", "no", "off"};
    const struct steno_yaml_node *n = steno_yaml_find(y, path);
    if (steno_yaml_null(n))
        return STENO_OK;
    for (size_t i = 0; n->kind == STENO_YAML_SCALAR && i < sizeof yes / sizeof *yes; i++)
        if (strcmp(n->text, yes[i]) == 0 || strcmp(n->text, no[i]) == 0) {
            *out = strcmp(n->text, yes[i]) == 0;
            return STENO_OK;
        }
    return wrong_node(y, n, path, "true or false", err);
}

steno_status steno_yaml_double(const steno_yaml *y, const char *path, double min, double max,
                               double *out, steno_err *err)
{
    const struct steno_yaml_node *n = steno_yaml_find(y, path);
    char want[80], *end = NULL;
    double v = 0;
    if (steno_yaml_null(n))
        return STENO_OK;
    if (n->kind == STENO_YAML_SCALAR)
        v = strtod(n->text, &end);
    if (!end || end == n->text || *end || !isfinite(v) || v < min || v > max) {
        snprintf(want, sizeof want, "a number from %g to %g", min, max);
        return wrong_node(y, n, path, want, err);
    }
    *out = v;
    return STENO_OK;
}

steno_status steno_yaml_int(const steno_yaml *y, const char *path, long min, long max, long *out,
                            steno_err *err)
{
    const struct steno_yaml_node *n = steno_yaml_find(y, path);
    char want[80], *end = NULL;
    long v = 0;
    if (steno_yaml_null(n))
        return STENO_OK;
    errno = 0;
    if (n->kind == STENO_YAML_SCALAR)
        v = strtol(n->text, &end, 10);
    if (!end || end == n->text || *end || errno || v < min || v > max) {
        snprintf(want, sizeof want, "a whole number from %ld to %ld", min, max);
        return wrong_node(y, n, path, want, err);
    }
    *out = v;
    return STENO_OK;
}
