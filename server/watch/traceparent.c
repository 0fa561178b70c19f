#include "server/watch/traceparent.h"

#include <string.h>

enum { TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, LENGTH = 55 };

/* Only lower case is valid (3.2.2: HEXDIGLC). */
static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const char *text, size_t n, unsigned char *out, bool *zero)
{
    *zero = true;
    for (size_t i = 0; i < n; i++) {
        const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
        *zero = *zero && !out[i];
    }
    return true;
}

bool steno_traceparent_parse(const char *text, size_t len, struct steno_traceparent *out)
{
    struct steno_traceparent t;
    unsigned char version, flags;
    bool zero;
    if (len < LENGTH || text[2] != '-' || text[SPAN_AT - 1] != '-' || text[FLAGS_AT - 1] != '-')
        return false;
    if (!read_hex(text, 1, &version, &zero) || version == 0xff)
        return false;
    if (len > LENGTH && (version == 0 || text[LENGTH] != '-'))
        return false;
    if (!read_hex(text + TRACE_AT, sizeof t.trace, t.trace, &zero) || zero)
        return false;
    if (!read_hex(text + SPAN_AT, sizeof t.span, t.span, &zero) || zero)
        return false;
    if (!read_hex(text + FLAGS_AT, 1, &flags, &zero))
        return false;
    t.sampled = flags & 1;
    *out = t;
    return true;
}

char *steno_hex_write(const unsigned char *bytes, size_t n, char *out)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = hex[bytes[i] >> 4];
        out[2 * i + 1] = hex[bytes[i] & 15];
    }
    out[2 * n] = '\0';
    return out;
}

char *steno_traceparent_write(const struct steno_traceparent *t, char *out)
{
    memcpy(out, "00-", 3);
    steno_hex_write(t->trace, sizeof t->trace, out + TRACE_AT);
    out[SPAN_AT - 1] = '-';
    steno_hex_write(t->span, sizeof t->span, out + SPAN_AT);
    memcpy(out + FLAGS_AT - 1, t->sampled ? "-01" : "-00", 4);
    return out;
}

/* ---- tracestate ------------------------------------------------------------------------------ */

#define MEMBERS 32
#define LARGE 128

struct member {
    const char *p;
    size_t n, key;
};

/* A key, or a part of one, of at most `most` bytes. */
static bool is_name(const char *p, size_t n, size_t most, bool digit_first)
{
    for (size_t i = 0; i < n; i++) {
        const bool letter = p[i] >= 'a' && p[i] <= 'z', number = p[i] >= '0' && p[i] <= '9';
        if (!letter && !(number && (i || digit_first)) && !(i && memchr("_-*/", p[i], 4)))
            return false;
    }
    return n && n <= most;
}

/* "vendor" or "tenant@vendor" */
static bool is_key(const char *p, size_t n)
{
    const char *at = memchr(p, '@', n);
    if (!at)
        return is_name(p, n, 256, false);
    return is_name(p, (size_t)(at - p), 241, true) &&
           is_name(at + 1, n - (size_t)(at - p) - 1, 14, false);
}

static bool is_value(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] < ' ' || p[i] > '~' || p[i] == ',' || p[i] == '=')
            return false;
    return n && n <= 256 && p[n - 1] != ' ';
}

/* Read the members. Their number; SIZE_MAX: the list is not valid. */
static size_t read_tracestate(const char *text, size_t len, struct member *m)
{
    size_t n = 0;
    for (const char *p = text, *end = text + len; p <= end;) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        const char *last = comma ? comma : end, *next = last + 1, *equals;
        while (p < last && (*p == ' ' || *p == '\t'))
            p++;
        while (last > p && (last[-1] == ' ' || last[-1] == '\t'))
            last--;
        equals = memchr(p, '=', (size_t)(last - p));
        if (p < last) {
            if (n == MEMBERS || !equals || !is_key(p, (size_t)(equals - p)) ||
                !is_value(equals + 1, (size_t)(last - equals - 1)))
                return SIZE_MAX;
            m[n] = (struct member){p, (size_t)(last - p), (size_t)(equals - p)};
            for (size_t i = 0; i < n; i++)
                if (m[i].key == m[n].key && !memcmp(m[i].p, p, m[n].key))
                    return SIZE_MAX;
            n++;
        }
        p = next;
    }
    return n;
}

/* Leave members out, those of more than `size` bytes from the end, until the list fits. */
static size_t shorten(struct member *m, size_t n, size_t size)
{
    size_t total = n ? n - 1 : 0;
    for (size_t i = 0; i < n; i++)
        total += m[i].n;
    for (size_t i = n; i-- > 0 && total >= STENO_TRACESTATE_SIZE;)
        if (m[i].n > size) {
            total -= m[i].n + (n > 1);
            memmove(&m[i], &m[i + 1], (n - i - 1) * sizeof *m);
            n--;
        }
    return n;
}

bool steno_tracestate_parse(const char *text, size_t len, char out[STENO_TRACESTATE_SIZE])
{
    struct member m[MEMBERS];
    size_t n = read_tracestate(text, len, m), at = 0;
    out[0] = '\0';
    if (n == SIZE_MAX)
        return false;
    n = shorten(m, shorten(m, n, LARGE), 0);
    for (size_t i = 0; i < n; i++) {
        if (i)
            out[at++] = ',';
        memcpy(out + at, m[i].p, m[i].n);
        at += m[i].n;
    }
    out[at] = '\0';
    return true;
}
