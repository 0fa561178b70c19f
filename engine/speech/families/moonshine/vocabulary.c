#include "speech/families/moonshine/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/base64.h"
#include "base/file.h"

/* ---- lines ----------------------------------------------------------------------------------- */

/* A line without its end; *piece: bytes of the piece, before the last blank or tab. False: past the
 * last. */
static bool next_line(const char **p, const char *end, const char **line, size_t *n, size_t *piece)
{
    const char *nl;
    if (*p == end)
        return false;
    nl = memchr(*p, '\n', (size_t)(end - *p));
    *line = *p;
    *n = (size_t)((nl ? nl : end) - *p);
    *p = nl ? nl + 1 : end;
    if (*n && (*line)[*n - 1] == '\r')
        --*n;
    *piece = *n;
    while (*piece && (*line)[*piece - 1] != ' ' && (*line)[*piece - 1] != '\t')
        --*piece;
    *piece -= *piece > 0;
    return true;
}

static bool is_text(const char *s, size_t n)
{
    for (size_t k; n; s += k, n -= k) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t len =
            utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &c);
        if (len <= 0 || c < ' ')
            return false;
        k = (size_t)len;
    }
    return true;
}

/* The piece as steno_tokens_parse reads it: a single byte that is no text as "<0x0A>". */
static steno_status put_piece(struct steno_buf *out, const char *s, size_t n)
{
    if (n == 1 && !is_text(s, n))
        return steno_buf_printf(out, "<0x%02X>", (unsigned)(unsigned char)s[0]);
    return steno_buf_add(out, s, n);
}

/* Rewrite the lines with their pieces decoded. STENO_NEED_MORE: a piece is not in base64. The
 * padding is required: without that, many plain words would be base64. */
static steno_status decode_lines(struct steno_buf *out, const char *bytes, size_t n)
{
    const char *p = bytes, *line;
    size_t len, piece;
    steno_status st = STENO_OK;
    while (!st && next_line(&p, bytes + n, &line, &len, &piece)) {
        char text[STENO_BASE64_DECODED(STENO_TOKENS_MAX_PIECE)];
        size_t k;
        if (!len)
            continue;
        if (piece > STENO_TOKENS_MAX_PIECE || piece % 4 ||
            steno_base64_decode(line, piece, text, &k) != piece)
            return STENO_NEED_MORE;
        st = put_piece(out, text, k);
        if (!st)
            st = steno_buf_add(out, line + piece, len - piece);
        if (!st)
            st = steno_buf_add(out, "\n", 1);
    }
    return st;
}

steno_status steno_moonshine_tokens_parse(steno_tokens **out, const char *bytes, size_t n,
                                          const char *name, steno_err *err)
{
    struct steno_buf plain;
    steno_status st;
    steno_buf_init(&plain, STENO_TOKENS_MAX_FILE);
    st = decode_lines(&plain, bytes, n);
    if (st == STENO_NEED_MORE)
        st = steno_tokens_parse(out, bytes, n, name, err);
    else if (st)
        st = steno_fail(err, st, "%s: out of memory", name);
    else
        st = steno_tokens_parse(out, plain.data ? plain.data : "", plain.len, name, err);
    steno_buf_free(&plain);
    return st;
}

steno_status steno_moonshine_tokens_open(steno_tokens **out, const char *path, steno_err *err)
{
    char *bytes;
    size_t n;
    steno_status st = steno_file_read(path, STENO_TOKENS_MAX_FILE, &bytes, &n, err);
    if (st)
        return st;
    st = steno_moonshine_tokens_parse(out, bytes, n, path, err);
    free(bytes);
    return st;
}
