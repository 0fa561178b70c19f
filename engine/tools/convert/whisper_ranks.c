#include "tools/convert/whisper_ranks.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "speech/text/bpe.h"
#include "speech/text/bpe_list.h"

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

/* A piece in base64 as a member of an object of JSON. STENO_ERR_FORMAT. */
static steno_status put_piece(struct steno_buf *b, const char *s, size_t n, size_t id)
{
    unsigned char bytes[STENO_BASE64_DECODED(MAX_PIECE)];
    size_t len;
    steno_status st;
    if (n == 1 && *s == '=')
        return STENO_OK; /* no bytes: the number is not used */
    if (!n || n % 4 || n > MAX_PIECE || steno_base64_decode(s, n, bytes, &len) != n)
        return STENO_ERR_FORMAT;
    st = steno_buf_puts(b, "\"");
    for (size_t i = 0; i < len && !st; i++)
        st = put_byte(b, bytes[i]);
    return st ? st : steno_buf_printf(b, "\": %zu,\n", id);
}

steno_status steno_whisper_ranks(struct steno_buf *b, const void *bytes, size_t n, const char *name,
                                 steno_err *err)
{
    struct steno_lines list = {.p = bytes, .end = (const char *)bytes + n};
    struct steno_bpe_line line;
    size_t next = 0;
    steno_status st = steno_buf_puts(b, "{");
    for (; !st && steno_bpe_list_next(&list, next + 1, &line); next++) {
        st = line.id == next ? put_piece(b, line.text, line.n, next) : STENO_ERR_FORMAT;
        if (st == STENO_ERR_FORMAT)
            return steno_fail(err, st, "%s:%zu: expected \"piece %zu\" with the piece in base64",
                              name, list.number, next);
    }
    if (!st)
        st = steno_buf_printf(b, "\"<|endoftext|>\": %zu}\n", next);
    return st ? steno_fail(err, st, "%s: too large", name) : STENO_OK;
}
