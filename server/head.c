#include "server/head.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

size_t steno_request_head_length(const char *p, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        if (p[i] != '\n')
            continue;
        if (p[i + 1] == '\n')
            return i + 2;
        if (p[i + 1] == '\r' && i + 2 < n && p[i + 2] == '\n')
            return i + 3;
    }
    return 0;
}

static bool same_word(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && !strncasecmp(p, word, n);
}

/* Whether a comma-separated header value has the word. */
static bool list_holds(const char *p, size_t n, const char *word)
{
    size_t at = 0;
    while (at < n) {
        size_t from, to;
        while (at < n && (p[at] == ' ' || p[at] == '\t' || p[at] == ','))
            at++;
        from = at;
        while (at < n && p[at] != ',')
            at++;
        for (to = at; to > from && (p[to - 1] == ' ' || p[to - 1] == '\t' || p[to - 1] == '\r');)
            to--;
        if (same_word(p + from, to - from, word))
            return true;
    }
    return false;
}

/* Cut the blanks around a value, and the CR of its line. */
static void trim(const char **p, size_t *n)
{
    while (*n && strchr(" \t\r", (*p)[*n - 1]))
        --*n;
    while (*n && (**p == ' ' || **p == '\t'))
        ++*p, --*n;
}

/* Whether the value has only digits, with blanks around, and is below 2^63. */
static bool good_length(const char *p, size_t n)
{
    uint64_t v = 0;
    size_t digits = 0;
    trim(&p, &n);
    for (; digits < n; digits++) {
        unsigned d = (unsigned)p[digits] - '0';
        if (d > 9 || v > ((uint64_t)INT64_MAX - d) / 10)
            return false;
        v = v * 10 + d;
    }
    return digits > 0;
}

const char *steno_request_head_value(const char *p, size_t n, const char *name, size_t *len)
{
    const char *end = p + n, *line = memchr(p, '\n', n);
    while (line && ++line < end) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        const char *colon = eol ? memchr(line, ':', (size_t)(eol - line)) : NULL;
        if (colon && same_word(line, (size_t)(colon - line), name)) {
            const char *value = colon + 1;
            *len = (size_t)(eol - value);
            trim(&value, len);
            return value;
        }
        line = eol;
    }
    return NULL;
}

const char *steno_request_head_framing(const char *head, size_t len)
{
    const char *end = head + len, *line = memchr(head, '\n', len);
    bool length = false, coded = false;
    while (line && ++line < end) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        const char *colon = eol ? memchr(line, ':', (size_t)(eol - line)) : NULL;
        size_t name = colon ? (size_t)(colon - line) : 0;
        if (same_word(line, name, "Transfer-Encoding"))
            coded = true;
        if (same_word(line, name, "Content-Length")) {
            if (length)
                return "Content-Length is given twice";
            if (!good_length(colon + 1, (size_t)(eol - colon - 1)))
                return "Content-Length is not a number of bytes";
            length = true;
        }
        line = eol;
    }
    return length && coded ? "Content-Length and Transfer-Encoding exclude each other" : NULL;
}

static bool parse_request_line(const char *head, const char *eol, struct steno_request_head *out,
                               bool *get)
{
    const char *sp1 = memchr(head, ' ', (size_t)(eol - head)), *sp2, *end;
    if (!sp1 || sp1 == head)
        return false;
    sp2 = memchr(sp1 + 1, ' ', (size_t)(eol - sp1 - 1));
    if (!sp2 || sp2 == sp1 + 1 || eol - sp2 < 9 || memcmp(sp2 + 1, "HTTP/", 5))
        return false;
    end = memchr(sp1 + 1, '?', (size_t)(sp2 - sp1 - 1));
    out->path = sp1 + 1;
    out->path_len = (size_t)((end ? end : sp2) - out->path);
    *get = same_word(head, (size_t)(sp1 - head), "GET");
    return true;
}

bool steno_request_head_parse(const char *head, size_t len, struct steno_request_head *out)
{
    const char *end = head + len, *line = memchr(head, '\n', len);
    bool get, upgrade = false, connection = false;
    out->prefix = NULL;
    out->prefix_len = 0;
    if (!line || !parse_request_line(head, line, out, &get))
        return false;
    for (line++; line < end;) {
        const char *eol = memchr(line, '\n', (size_t)(end - line)), *colon;
        if (!eol)
            break;
        colon = memchr(line, ':', (size_t)(eol - line));
        if (colon) {
            size_t name = (size_t)(colon - line), value = (size_t)(eol - colon - 1);
            if (same_word(line, name, "Upgrade"))
                upgrade |= list_holds(colon + 1, value, "websocket");
            else if (same_word(line, name, "X-Forwarded-Prefix"))
                out->prefix = colon + 1, out->prefix_len = value;
            else if (same_word(line, name, "Connection"))
                connection |= list_holds(colon + 1, value, "upgrade");
        }
        line = eol + 1;
    }
    if (out->prefix)
        trim(&out->prefix, &out->prefix_len);
    out->upgrade = get && upgrade && connection;
    return true;
}
