#include "protocol/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hex.h"
#include "base/utf8.h"
#include "protocol/json_text.h"

size_t steno_query_path_len(const char *target)
{
    return strcspn(target, "?#");
}

/* Bytes of scheme and authority before the path; 0: the target has none. */
static size_t authority(const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const size_t n = strlen(schemes[i]);
        if (!strncasecmp(target, schemes[i], n))
            return n + strcspn(target + n, "/?#");
    }
    return 0;
}

void steno_query_make_origin_form(char *target)
{
    const size_t n = authority(target), slash = n && target[n] != '/';
    memmove(target + slash, target + n, strlen(target + n) + 1);
    if (slash)
        *target = '/';
}

void steno_query_clean_path(char *target)
{
    size_t n = steno_query_path_len(target), to = 0;
    for (size_t i = 0; i < n; i++)
        if (target[i] != '/' || !to || target[to - 1] != '/')
            target[to++] = target[i];
    if (to > 1 && target[to - 1] == '/')
        to--;
    memmove(target + to, target + n, strlen(target + n) + 1);
}

bool steno_query_path_is(const char *path, size_t len, const char *want)
{
    size_t i = 0;
    for (; *want; want++, i++) {
        while (*want == '/' && i + 1 < len && path[i] == '/' && path[i + 1] == '/')
            i++;
        if (i == len || path[i] != *want)
            return false;
    }
    while (i < len && path[i] == '/')
        i++;
    return i == len;
}

/* The byte of the %-escape at p [n]; -1: it is none. */
static int escaped(const char *p, size_t n)
{
    const int hi = n > 1 ? steno_hex(p[1]) : -1, lo = n > 2 ? steno_hex(p[2]) : -1;
    return hi < 0 || lo < 0 ? -1 : hi * 16 + lo;
}

steno_status steno_query_decode_path(const char *p, size_t n, char *out, size_t size,
                                     steno_err *err)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)p[i];
        if (c == '%') {
            c = escaped(p + i, n - i);
            i += 2;
        }
        if (c <= 0 || at + 1 >= size)
            return steno_fail(err, STENO_ERR_INVAL, "path: a bad %%-escape, a NUL, or too long");
        out[at++] = (char)c;
    }
    out[at] = '\0';
    return STENO_OK;
}

steno_status steno_query_encode(struct steno_buf *out, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    steno_status st = STENO_OK;
    while (*text && !st) {
        const size_t n = strspn(text, plain);
        st = n ? steno_buf_add(out, text, n)
               : steno_buf_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
        text += n ? n : 1;
    }
    return st;
}

/* Decode [in, in + n) into out; pair: its number, for the message. */
static steno_status decode_query(const char *in, size_t n, char out[STENO_QUERY_TEXT], int pair,
                                 steno_err *err)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)in[i];
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            c = escaped(in + i, n - i);
            if (c < 0)
                return steno_fail(err, STENO_ERR_INVAL, "query: pair %d has a bad %%-escape", pair);
            i += 2;
        }
        if (!c)
            return steno_fail(err, STENO_ERR_INVAL, "query: pair %d holds a NUL", pair);
        if (at + 1 >= STENO_QUERY_TEXT)
            return steno_fail(err, STENO_ERR_LIMIT, "query: pair %d is longer than %d bytes", pair,
                              STENO_QUERY_TEXT - 1);
        out[at++] = (char)c;
    }
    out[at] = '\0';
    if (!steno_utf8_valid(out, at))
        return steno_fail(err, STENO_ERR_INVAL, "query: pair %d is not UTF-8", pair);
    return STENO_OK;
}

steno_status steno_query_each(const char *target, steno_query_fn fn, void *user, steno_err *err)
{
    char name[STENO_QUERY_TEXT], value[STENO_QUERY_TEXT];
    const char *p = target + steno_query_path_len(target);
    int pair = 0;
    if (*p != '?')
        return STENO_OK;
    for (p++; *p && *p != '#';) {
        size_t len = strcspn(p, "&#"), eq;
        const char *equals = memchr(p, '=', len);
        steno_status st;
        eq = equals ? (size_t)(equals - p) : len;
        if (len) {
            if (++pair > STENO_QUERY_MAX)
                return steno_fail(err, STENO_ERR_LIMIT, "query: more than %d pairs",
                                  STENO_QUERY_MAX);
            st = decode_query(p, eq, name, pair, err);
            if (!st)
                st = decode_query(p + eq + (equals != NULL), len - eq - (equals != NULL), value,
                                  pair, err);
            if (!st)
                st = fn(user, name, value, err);
            if (st)
                return st;
        }
        p += len;
        if (*p == '&')
            p++;
    }
    return STENO_OK;
}

steno_status steno_query_double(const char *name, const char *text, double min, double max,
                                double *out, steno_err *err)
{
    char *end;
    double v;
    /* strtod alone would also take leading blanks, hexadecimal, "inf" and "nan" */
    if (!*text || strspn(text, "0123456789+-.eE") != strlen(text))
        return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is not a number", name, text);
    v = strtod(text, &end);
    if (*end || !isfinite(v))
        return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is not a number", name, text);
    if (v < min || v > max)
        return steno_fail(err, STENO_ERR_INVAL, "%s: %.40s is outside %.10g..%.10g", name, text,
                          min, max);
    *out = v;
    return STENO_OK;
}

steno_status steno_query_int(const char *name, const char *text, int min, int max, int *out,
                             steno_err *err)
{
    double v;
    steno_status st = steno_query_double(name, text, min, max, &v, err);
    if (st)
        return st;
    if (floor(v) != v)
        return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is not a whole number", name, text);
    *out = (int)v;
    return STENO_OK;
}

steno_status steno_query_bool(const char *name, const char *text, bool *out, steno_err *err)
{
    static const char *const words[] = {"false", "true", "0", "1", "no", "yes"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(text, words[i])) {
            *out = i & 1;
            return STENO_OK;
        }
    return steno_fail(err, STENO_ERR_INVAL, "%s: '%.40s' is not true or false", name, text);
}
