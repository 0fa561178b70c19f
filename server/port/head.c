#include "server/port/head.h"

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

/* Whether p [n] is a token (RFC 9110, 5.6.2), as names of headers are. */
static bool is_token(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char c = p[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && (!c || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return n > 0;
}

struct framing {
    bool old; /* HTTP/1.0 */
    bool length, coded, host;
};

/* Look at the header `name` with its value [n]. */
static const char *check_header(struct framing *f, const char *name, size_t n_name,
                                const char *value, size_t n)
{
    if (same_word(name, n_name, "Host")) {
        if (f->host)
            return "Host is given twice";
        f->host = true;
    } else if (same_word(name, n_name, "Transfer-Encoding")) {
        trim(&value, &n);
        if (f->coded)
            return "Transfer-Encoding is given twice";
        if (f->old)
            return "Transfer-Encoding is not of HTTP/1.0";
        if (!same_word(value, n, "chunked"))
            return "Transfer-Encoding must be chunked";
        f->coded = true;
    } else if (same_word(name, n_name, "Content-Length")) {
        if (f->length)
            return "Content-Length is given twice";
        if (!good_length(value, n))
            return "Content-Length is not a number of bytes";
        f->length = true;
    }
    return NULL;
}

const char *steno_request_head_framing(const char *head, size_t len)
{
    static const char old[] = "HTTP/1.0";
    const size_t n_old = sizeof old - 1;
    const char *end = head + len, *line = memchr(head, '\n', len), *wrong = NULL;
    struct framing f = {0};
    size_t n_first = line ? (size_t)(line - head) : 0;
    if (n_first && head[n_first - 1] == '\r')
        n_first--;
    f.old = n_first > n_old && !memcmp(head + n_first - n_old, old, n_old);
    while (line && ++line < end && !wrong) {
        const char *eol = memchr(line, '\n', (size_t)(end - line)), *colon;
        size_t n = eol ? (size_t)(eol - line) : 0;
        if (n && line[n - 1] == '\r')
            n--;
        if (!n) /* the empty line */
            break;
        colon = memchr(line, ':', n);
        if (!colon || !is_token(line, (size_t)(colon - line)))
            return "a line of the head is no header: its name is followed by a blank, or is none";
        if (memchr(line, '\r', n) || memchr(line, '\0', n))
            return "a header has a control character";
        wrong = check_header(&f, line, (size_t)(colon - line), colon + 1,
                             n - (size_t)(colon - line) - 1);
        line = eol;
    }
    if (!wrong && f.length && f.coded)
        wrong = "Content-Length and Transfer-Encoding exclude each other";
    return wrong || f.host || f.old ? wrong : "Host is missing";
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
