#include "convert/whisper_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "text/bpe.h"

#define MAX_PIECE ((size_t)(STENO_BPE_MAX_PIECE + 2) / 3 * 4) /* characters of base64 */

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

/* A piece in base64 as a string of JSON. STENO_ERR_FORMAT. */
static steno_status put_piece(struct steno_buf *b, const char *s, size_t n)
{
    unsigned char bytes[STENO_BASE64_DECODED(MAX_PIECE)];
    size_t len;
    steno_status st;
    if (!n || n % 4 || n > MAX_PIECE || steno_base64_decode(s, n, bytes, &len) != n)
        return STENO_ERR_FORMAT;
    st = steno_buf_puts(b, "\"");
    for (size_t i = 0; i < len && !st; i++)
        st = put_byte(b, bytes[i]);
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
