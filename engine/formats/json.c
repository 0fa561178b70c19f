/* Recursive descent over a private copy of the bytes. Strings are unescaped in place (an escape is
 * never shorter than its character) and terminated at the place of their closing quote. So a
 * document takes memory for its bytes and nodes, and none for each string. */
#include "formats/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/utf8.h"

struct steno_json {
    steno_arena *mem;
    const struct steno_json_node *root;
};

struct parser {
    char *p, *end; /* *end is 0 */
    steno_arena *mem;
    const char *name;
    size_t line, nodes;
    int depth;
    steno_err *err;
};

static steno_status wrong_json(const struct parser *s, const char *what)
{
    return steno_fail(s->err, STENO_ERR_FORMAT, "%s: line %zu: %s", s->name, s->line, what);
}

static void skip_blanks(struct parser *s)
{
    for (; s->p < s->end; s->p++) {
        if (*s->p == '\n')
            s->line++;
        else if (*s->p != ' ' && *s->p != '\t' && *s->p != '\r')
            return;
    }
}

/* ---- strings ------------------------------------------------------------------------------- */

static int hex4(const char *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int d = steno_hex(p[i]);
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* \uXXXX at s->p (after the backslash); a surrogate pair is one character. */
static steno_status unescape_unicode(struct parser *s, char **to)
{
    int c = hex4(s->p + 1), low;
    s->p += c < 0 ? 0 : 5;
    if (c >= 0xD800 && c < 0xDC00) {
        low = s->p[0] == '\\' && s->p[1] == 'u' ? hex4(s->p + 2) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return wrong_json(s, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        s->p += 6;
    } else if (c <= 0 || (c >= 0xDC00 && c < 0xE000)) {
        return wrong_json(s, c == 0 ? "a string contains NUL" : "no \\u escape");
    }
    *to += utf8proc_encode_char(c, (utf8proc_uint8_t *)*to);
    return STENO_OK;
}

static steno_status unescape(struct parser *s, char **to)
{
    static const char from[] = "\"\\/bfnrt", as[] = "\"\\/\b\f\n\r\t";
    const char *at;
    s->p++;
    if (*s->p == 'u')
        return unescape_unicode(s, to);
    at = *s->p ? strchr(from, *s->p) : NULL;
    if (!at)
        return wrong_json(s, "unknown escape in a string");
    *(*to)++ = as[at - from];
    s->p++;
    return STENO_OK;
}

/* s->p is at the opening quote. */
static steno_status parse_string(struct parser *s, const char **out)
{
    char *begin = ++s->p, *to = begin;
    while (s->p < s->end && *s->p != '"') {
        if ((unsigned char)*s->p < 0x20) {
            return wrong_json(s, "a control character in a string");
        } else if (*s->p == '\\') {
            steno_status st = unescape(s, &to);
            if (st)
                return st;
        } else if ((unsigned char)*s->p < 0x80) {
            *to++ = *s->p++;
        } else {
            int32_t c;
            const size_t n = steno_utf8_next(s->p, (size_t)(s->end - s->p), &c);
            if (c < 0)
                return wrong_json(s, "a string is not UTF-8");
            memmove(to, s->p, n);
            to += n;
            s->p += n;
        }
    }
    if (s->p >= s->end)
        return wrong_json(s, "a string does not end");
    *to = '\0'; /* at the closing quote or before it */
    s->p++;
    *out = begin;
    return STENO_OK;
}

/* ---- values -------------------------------------------------------------------------------- */

static steno_status parse_value(struct parser *s, struct steno_json_node *n);

static struct steno_json_node *new_node(struct parser *s, steno_status *st)
{
    struct steno_json_node *n = NULL;
    if (s->nodes++ >= STENO_JSON_MAX_NODES)
        *st = steno_fail(s->err, STENO_ERR_LIMIT, "%s: line %zu: more than %zu values", s->name,
                         s->line, STENO_JSON_MAX_NODES);
    else if (!(n = steno_arena_alloc(s->mem, sizeof *n)))
        *st = steno_fail(s->err, STENO_ERR_NOMEM, "%s: out of memory", s->name);
    if (n)
        n->line = s->line;
    return n;
}

static steno_status parse_key(struct parser *s, struct steno_json_node *n)
{
    steno_status st;
    if (*s->p != '"')
        return wrong_json(s, "a key expected");
    st = parse_string(s, &n->key);
    if (st)
        return st;
    skip_blanks(s);
    if (*s->p != ':')
        return wrong_json(s, "':' expected");
    s->p++;
    skip_blanks(s);
    return STENO_OK;
}

/* The children of a list or object; s->p is after its opening bracket. */
static steno_status parse_children(struct parser *s, struct steno_json_node *n, char close)
{
    struct steno_json_node *last = NULL;
    steno_status st = STENO_OK;
    skip_blanks(s);
    if (*s->p == close)
        return s->p++, STENO_OK;
    for (;;) {
        struct steno_json_node *child = new_node(s, &st);
        if (child && close == '}')
            st = parse_key(s, child);
        if (!st)
            st = parse_value(s, child);
        if (st)
            return st;
        if (last)
            last->next = child;
        else
            n->first = child;
        last = child;
        n->n++;
        skip_blanks(s);
        if (*s->p == close)
            return s->p++, STENO_OK;
        if (*s->p != ',')
            return wrong_json(s, close == '}' ? "',' or '}' expected" : "',' or ']' expected");
        s->p++;
        skip_blanks(s);
    }
}

static steno_status parse_nested(struct parser *s, struct steno_json_node *n)
{
    const char close = *s->p == '{' ? '}' : ']';
    steno_status st;
    if (s->depth >= STENO_JSON_MAX_DEPTH)
        return steno_fail(s->err, STENO_ERR_LIMIT, "%s: line %zu: nested deeper than %d", s->name,
                          s->line, STENO_JSON_MAX_DEPTH);
    n->kind = close == '}' ? STENO_JSON_OBJECT : STENO_JSON_LIST;
    s->p++;
    s->depth++;
    st = parse_children(s, n, close);
    s->depth--;
    return st;
}

static size_t digits(const char *p)
{
    return strspn(p, "0123456789");
}

/* Length in bytes of the number at p; 0: none. */
static size_t number_length(const char *p)
{
    const char *at = p + (*p == '-');
    size_t n = digits(at);
    if (!n || (n > 1 && *at == '0'))
        return 0;
    at += n;
    if (*at == '.') {
        n = digits(at + 1);
        if (!n)
            return 0;
        at += 1 + n;
    }
    if (*at == 'e' || *at == 'E') {
        const char *e = at + 1 + (at[1] == '-' || at[1] == '+');
        n = digits(e);
        if (!n)
            return 0;
        at = e + n;
    }
    return (size_t)(at - p);
}

/* A number or a name. It is copied, because the byte after it may be needed. */
static steno_status parse_plain(struct parser *s, struct steno_json_node *n)
{
    static const struct {
        const char *text;
        enum steno_json_kind kind;
    } names[] = {{"null", STENO_JSON_NULL}, {"true", STENO_JSON_BOOL}, {"false", STENO_JSON_BOOL}};
    size_t len = number_length(s->p);
    n->kind = STENO_JSON_NUMBER;
    for (size_t i = 0; !len && i < 3; i++)
        if (!strncmp(s->p, names[i].text, strlen(names[i].text))) {
            len = strlen(names[i].text);
            n->kind = names[i].kind;
        }
    if (!len)
        return wrong_json(s, "a value expected");
    if (n->kind != STENO_JSON_NULL) {
        n->text = steno_arena_strndup(s->mem, s->p, len);
        if (!n->text)
            return steno_fail(s->err, STENO_ERR_NOMEM, "%s: out of memory", s->name);
    }
    s->p += len;
    return STENO_OK;
}

static steno_status parse_value(struct parser *s, struct steno_json_node *n)
{
    if (*s->p == '{' || *s->p == '[')
        return parse_nested(s, n);
    if (*s->p != '"')
        return parse_plain(s, n);
    n->kind = STENO_JSON_STRING;
    return parse_string(s, &n->text);
}

static steno_status parse_document(struct parser *s, struct steno_json *j)
{
    steno_status st = STENO_OK;
    struct steno_json_node *root = new_node(s, &st);
    if (st)
        return st;
    skip_blanks(s);
    st = parse_value(s, root);
    if (st)
        return st;
    skip_blanks(s);
    if (s->p < s->end)
        return wrong_json(s, "something follows the document");
    j->root = root;
    return STENO_OK;
}

/* ---- documents ----------------------------------------------------------------------------- */

steno_status steno_json_parse(steno_json **out, const void *bytes, size_t n, const char *name,
                              steno_err *err)
{
    struct parser s = {.name = name, .line = 1, .err = err};
    steno_json *j;
    steno_status st;
    if (n > STENO_JSON_MAX_BYTES)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu bytes of JSON, at most %zu are read", name,
                          n, STENO_JSON_MAX_BYTES);
    j = calloc(1, sizeof *j);
    if (j)
        j->mem = steno_arena_new(0);
    s.p = j && j->mem ? steno_arena_alloc(j->mem, n + 1) : NULL;
    if (!s.p) {
        steno_json_close(j);
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    }
    if (n)
        memcpy(s.p, bytes, n);
    s.end = s.p + n;
    s.mem = j->mem;
    st = parse_document(&s, j);
    if (st)
        steno_json_close(j);
    else
        *out = j;
    return st;
}

steno_status steno_json_open(steno_json **out, const char *path, steno_err *err)
{
    char *bytes;
    size_t n;
    steno_status st = steno_file_read(path, STENO_JSON_MAX_BYTES, &bytes, &n, err);
    if (st)
        return st;
    st = steno_json_parse(out, bytes, n, path, err);
    free(bytes);
    return st;
}

void steno_json_close(steno_json *j)
{
    if (!j)
        return;
    steno_arena_free(j->mem);
    free(j);
}

const struct steno_json_node *steno_json_root(const steno_json *j)
{
    return j->root;
}

const struct steno_json_node *steno_json_get(const struct steno_json_node *object, const char *key)
{
    if (!object || object->kind != STENO_JSON_OBJECT)
        return NULL;
    for (const struct steno_json_node *n = object->first; n; n = n->next)
        if (!strcmp(n->key, key))
            return n;
    return NULL;
}

const char *steno_json_text(const struct steno_json_node *n)
{
    return n && n->kind == STENO_JSON_STRING ? n->text : NULL;
}

bool steno_json_int(const struct steno_json_node *n, int64_t min, int64_t max, int64_t *out)
{
    long long v;
    char *end;
    if (!n || n->kind != STENO_JSON_NUMBER)
        return false;
    errno = 0;
    v = strtoll(n->text, &end, 10);
    if (*end || errno || v < min || v > max)
        return false;
    *out = v;
    return true;
}

bool steno_json_bool(const struct steno_json_node *n, bool *out)
{
    if (!n || n->kind != STENO_JSON_BOOL)
        return false;
    *out = *n->text == 't';
    return true;
}
