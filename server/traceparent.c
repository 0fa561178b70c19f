#include "server/traceparent.h"

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
