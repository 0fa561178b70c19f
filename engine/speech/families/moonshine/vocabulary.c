#include "speech/families/moonshine/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/lines.h"
#include "base/utf8.h"

/* ---- lines ----------------------------------------------------------------------------------- */

/* Bytes of the piece that a line begins with, before its last blank or tab. */
static size_t piece_of(const char *line, size_t n)
{
    while (n && line[n - 1] != ' ' && line[n - 1] != '\t')
        n--;
    return n - (n > 0);
}

static bool is_text(const char *s, size_t n)
{
    for (size_t k; n; s += k, n -= k) {
        int32_t c;
        k = steno_utf8_next(s, n, &c);
        if (c < ' ')
            return false;
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
    struct steno_lines l = {.p = bytes, .end = bytes + n};
    steno_status st = STENO_OK;
    while (!st && steno_lines_next(&l)) {
        char text[STENO_BASE64_DECODED(STENO_TOKENS_MAX_PIECE)];
        const size_t piece = piece_of(l.line, l.n);
        size_t k;
        if (!l.n)
            continue;
        if (piece > STENO_TOKENS_MAX_PIECE || piece % 4 ||
            steno_base64_decode(l.line, piece, text, &k) != piece)
            return STENO_NEED_MORE;
        st = put_piece(out, text, k);
        if (!st)
            st = steno_buf_add(out, l.line + piece, l.n - piece);
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

/* ---- tokenizer.bin --------------------------------------------------------------------------- */

/* The next token of `bytes`, of which *at are read. False: the file ends in it. */
static bool next_token(const unsigned char *bytes, size_t n, size_t *at, const char **piece,
                       size_t *len)
{
    size_t length = bytes[(*at)++];
    if (length >= 128) {
        if (*at == n)
            return false;
        length = (size_t)bytes[(*at)++] * 128 + length - 128;
    }
    if (length > n - *at)
        return false;
    *piece = (const char *)bytes + *at;
    *len = length;
    *at += length;
    return true;
}

static bool is_mark_vocabulary(const char *s, size_t n)
{
    return n > 2 && s[0] == '<' && s[n - 1] == '>' && !(n == 6 && memcmp(s, "<0x", 3) == 0);
}

/* Whether a piece can be a line of tokens.txt. */
static bool is_piece(const char *s, size_t n)
{
    return n && n <= STENO_TOKENS_MAX_PIECE && is_text(s, n);
}

steno_status steno_moonshine_tokenizer_parse(steno_tokens **out, const char *bytes, size_t n,
                                             const char *name, steno_err *err)
{
    struct steno_buf lines, hidden;
    steno_status st = STENO_OK;
    size_t at = 0, len = 0;
    const char *piece = NULL;
    steno_buf_init(&lines, STENO_TOKENS_MAX_FILE);
    steno_buf_init(&hidden, STENO_TOKENS_MAX * sizeof(int32_t));
    for (int32_t id = 0; at < n && !st; id++) {
        if (!next_token((const unsigned char *)bytes, n, &at, &piece, &len)) {
            st = steno_fail(err, STENO_ERR_FORMAT, "%s: the file ends in token %d", name, (int)id);
            break;
        }
        if (!is_piece(piece, len) || is_mark_vocabulary(piece, len))
            st = steno_buf_add(&hidden, &id, sizeof id);
        if (!st)
            st = is_piece(piece, len) ? steno_buf_add(&lines, piece, len)
                                      : steno_buf_puts(&lines, "<none>");
        if (!st)
            st = steno_buf_printf(&lines, " %d\n", (int)id);
        if (st)
            steno_fail(err, st, "%s: too large", name);
    }
    if (!st)
        st = steno_tokens_parse(out, lines.data ? lines.data : "", lines.len, name, err);
    for (size_t i = 0; i < hidden.len / sizeof(int32_t) && !st; i++) {
        int32_t id;
        memcpy(&id, hidden.data + i * sizeof id, sizeof id);
        steno_tokens_hide(*out, &id, 1);
    }
    steno_buf_free(&hidden);
    steno_buf_free(&lines);
    return st;
}
