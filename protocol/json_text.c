#include "protocol/json_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static steno_status put_escaped(struct steno_buf *out, unsigned char c)
{
    switch (c) {
    case '"':
        return steno_buf_puts(out, "\\\"");
    case '\\':
        return steno_buf_puts(out, "\\\\");
    case '\n':
        return steno_buf_puts(out, "\\n");
    case '\r':
        return steno_buf_puts(out, "\\r");
    case '\t':
        return steno_buf_puts(out, "\\t");
    default:
        return steno_buf_printf(out, "\\u%04x", c);
    }
}

/* Append the inside of a string. */
static steno_status put_characters(struct steno_buf *out, const char *s, size_t n)
{
    size_t plain = 0, i = 0; /* s[plain, i) is still to be copied unchanged */
    steno_status st = STENO_OK;
    while (!st && i < n) {
        const unsigned char c = (unsigned char)s[i];
        int32_t character;
        const size_t k = steno_utf8_next(s + i, n - i, &character);
        if (character >= 0x20 && c != '"' && c != '\\') {
            i += k;
            continue;
        }
        st = steno_buf_add(out, s + plain, i - plain);
        if (!st)
            st = c < 0x80 ? put_escaped(out, c) : steno_buf_puts(out, "\xEF\xBF\xBD");
        plain = ++i;
    }
    return st ? st : steno_buf_add(out, s + plain, n - plain);
}

steno_status steno_json_put_string(struct steno_buf *out, const char *s, size_t n)
{
    steno_status st = steno_buf_add(out, "\"", 1);
    if (!st)
        st = put_characters(out, s, n);
    return st ? st : steno_buf_add(out, "\"", 1);
}

steno_status steno_json_put_member(struct steno_buf *out, const char *name, const char *text)
{
    steno_status st = steno_buf_printf(out, "\"%s\":", name);
    return st ? st : steno_json_put_string(out, text, strlen(text));
}

/* A conversion of a format, behind its percent sign. */
struct conversion {
    char kind;     /* s, d, u or f */
    bool wide;     /* ll */
    bool plain;    /* the flag - */
    int precision; /* -1: none; -2: an argument has it */
};

/* Returns the conversion's end. */
static const char *read_conversion(const char *p, struct conversion *c)
{
    *c = (struct conversion){.precision = -1};
    c->plain = *p == '-';
    p += c->plain;
    if (p[0] == '.' && p[1] == '*')
        c->precision = -2, p += 2;
    else if (*p == '.')
        c->precision = p[1] - '0', p += 2;
    c->wide = p[0] == 'l' && p[1] == 'l';
    p += 2 * c->wide;
    c->kind = *p;
    return *p ? p + 1 : p;
}

static steno_status put_text(struct steno_buf *out, const struct conversion *c, const char *text)
{
    const size_t n = c->precision < 0 ? strlen(text) : strnlen(text, (size_t)c->precision);
    return c->plain ? steno_buf_add(out, text, n) : steno_json_put_string(out, text, n);
}

static steno_status put_conversion(struct steno_buf *out, const struct conversion *c, va_list *ap)
{
    switch (c->kind) {
    case 's':
        return put_text(out, c, va_arg(*ap, const char *));
    case 'f':
        return steno_buf_printf(out, "%.*f", c->precision, va_arg(*ap, double));
    case 'd':
        return c->wide ? steno_buf_printf(out, "%lld", va_arg(*ap, long long))
                       : steno_buf_printf(out, "%d", va_arg(*ap, int));
    case 'u':
        return c->wide ? steno_buf_printf(out, "%llu", va_arg(*ap, unsigned long long))
                       : steno_buf_printf(out, "%u", va_arg(*ap, unsigned));
    default:
        return STENO_ERR_INTERNAL;
    }
}

steno_status steno_json_printf(struct steno_buf *out, const char *fmt, ...)
{
    steno_status st;
    va_list ap;
    va_start(ap, fmt);
    do {
        const size_t n = strcspn(fmt, "%");
        struct conversion c;
        st = steno_buf_add(out, fmt, n);
        fmt += n;
        if (st || !*fmt)
            break;
        fmt = read_conversion(fmt + 1, &c);
        if (c.precision == -2)
            c.precision = va_arg(ap, int);
        st = put_conversion(out, &c, &ap);
    } while (!st && *fmt);
    va_end(ap);
    return st;
}

steno_status steno_json_put_spaced(struct steno_buf *out, const char *name, const char *text,
                                   bool spaced)
{
    steno_status st = steno_buf_printf(out, "\"%s\":\"%s", name, spaced ? " " : "");
    if (!st)
        st = put_characters(out, text, strlen(text));
    return st ? st : steno_buf_add(out, "\"", 1);
}

steno_status steno_json_put_seconds(struct steno_buf *out, const char *name, double seconds)
{
    char text[64];
    size_t n;
    if (!(seconds > 0) || seconds > 1e12) /* NaN too */
        seconds = 0;
    snprintf(text, sizeof text, "%.3f", seconds);
    n = strlen(text);
    while (text[n - 1] == '0')
        n--;
    if (text[n - 1] == '.')
        n--;
    return steno_buf_printf(out, "\"%s\":%.*s", name, (int)n, text);
}

steno_status steno_json_check(const char *text, size_t n, steno_err *err)
{
    size_t depth = 0, values = 1;
    bool quoted = false;
    if (n > STENO_JSON_MAX_BYTES)
        return steno_fail(err, STENO_ERR_LIMIT, "message: %zu bytes of JSON, at most %d", n,
                          STENO_JSON_MAX_BYTES);
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (quoted)
            continue;
        else if (c == '{' || c == '[')
            depth++, values++;
        else if (c == ',' || c == ':')
            values++;
        else if ((c == '}' || c == ']') && depth)
            depth--;
        if (depth > STENO_JSON_MAX_DEPTH)
            return steno_fail(err, STENO_ERR_LIMIT, "message: JSON nested deeper than %d levels",
                              STENO_JSON_MAX_DEPTH);
        if (values > STENO_JSON_MAX_VALUES)
            return steno_fail(err, STENO_ERR_LIMIT, "message: JSON of more than %d values",
                              STENO_JSON_MAX_VALUES);
    }
    return STENO_OK;
}
