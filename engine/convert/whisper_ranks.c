#include "convert/whisper_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = c ? strchr(digits, c) : NULL;
    return p ? (int)(p - digits) : -1;
}

/* A byte in GPT-2's printable form, as a string of JSON (openai/gpt-2, src/encoder.py): bytes that
 * print stand for themselves, the others for U+0100 and up, in their order. */
static steno_status put_byte(struct steno_buf *b, unsigned c)
{
    const bool prints = (c >= 33 && c <= 126) || (c >= 161 && c != 173);
    unsigned code = c;
    if (!prints)
        code = 256 + (c <= 32 ? c : c <= 160 ? c - 127 + 33 : 33 + 34);
    if (code == '"' || code == '\\')
        return steno_buf_printf(b, "\\%c", (int)code);
    if (code < 0x80)
        return steno_buf_printf(b, "%c", (int)code);
    return steno_buf_printf(b, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 63)));
}

/* A piece in base64 (RFC 4648, section 4) as a string of JSON. STENO_ERR_FORMAT. */
static steno_status put_piece(struct steno_buf *b, const char *s, size_t n)
{
    steno_status st = n && n % 4 == 0 ? steno_buf_puts(b, "\"") : STENO_ERR_FORMAT;
    for (size_t i = 0; i < n && !st; i += 4) {
        const bool last = i + 4 == n;
        const int pad = last ? (s[i + 3] == '=') + (s[i + 2] == '=' && s[i + 3] == '=') : 0;
        unsigned bits = 0;
        for (int k = 0; k < 4; k++) {
            const int d = k < 4 - pad ? digit(s[i + (size_t)k]) : 0;
            if (d < 0)
                return STENO_ERR_FORMAT;
            bits = bits << 6 | (unsigned)d;
        }
        for (int k = 0; k < 3 - pad && !st; k++)
            st = put_byte(b, bits >> (16 - 8 * k) & 0xff);
    }
    return st ? st : steno_buf_puts(b, "\"");
}

/* The number of a line "piece number" with a blank at `blank`; -1: it is none. */
static long long number_of(const char *blank, const char *end)
{
    char text[24], *rest;
    long long v;
    snprintf(text, sizeof text, "%.*s", (int)(end - blank - 1), blank + 1);
    v = strtoll(text, &rest, 10);
    return rest == text ? -1 : v;
}

/* STENO_ERR_FORMAT: not the line of number `next`. */
static steno_status put_line(struct steno_buf *b, const char *p, const char *end, long long next)
{
    const char *blank = memchr(p, ' ', (size_t)(end - p));
    steno_status st = STENO_OK;
    if (!blank || number_of(blank, end) != next)
        return STENO_ERR_FORMAT;
    if (blank == p + 1 && *p == '=')
        return STENO_OK; /* no bytes: the number is not used */
    st = put_piece(b, p, (size_t)(blank - p));
    return st ? st : steno_buf_printf(b, ": %lld,\n", next);
}

steno_status steno_whisper_ranks(struct steno_buf *b, const void *bytes, size_t n, const char *name,
                                 steno_err *err)
{
    const char *p = bytes, *end = p + n;
    long long next = 0;
    size_t line = 0;
    steno_status st = steno_buf_puts(b, "{");
    while (n && p < end && !st) {
        const char *nl = memchr(p, '\n', (size_t)(end - p)), *last = nl ? nl : end;
        line++;
        if (last > p)
            st = put_line(b, p, last, next);
        if (st == STENO_ERR_FORMAT)
            return steno_fail(err, st, "%s:%zu: expected \"piece %lld\" with the piece in base64",
                              name, line, next);
        next += last > p;
        p = nl ? nl + 1 : end;
    }
    if (!st)
        st = steno_buf_printf(b, "\"<|endoftext|>\": %lld}\n", next);
    return st ? steno_fail(err, st, "%s: too large", name) : STENO_OK;
}
