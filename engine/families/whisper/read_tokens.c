/* sherpa-onnx's tokens.txt, and the ranks of openai-whisper, which look alike: lines of a piece in
 * base64 and its number. */
#include "families/whisper/weights_internal.h"

#include <string.h>

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Base64 (RFC 4648) of n characters; "=" alone is nothing. False: it is none. */
static bool decode(const char *p, size_t n, char *out, size_t *len)
{
    uint32_t bits = 0;
    int have = 0;
    *len = 0;
    while (n && p[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++) {
        const int d = digit(p[i]);
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[(*len)++] = (char)(bits >> have & 255);
        }
    }
    return n % 4 != 1;
}

struct list {
    steno_whisper_weights *w;
    struct steno_bpe_piece *piece;
    size_t lines;
    const char *path;
    steno_err *err;
};

static steno_status read_line(struct list *l, const char *p, size_t n, size_t line)
{
    const char *blank = memchr(p, ' ', n);
    const size_t word = blank ? (size_t)(blank - p) : 0;
    char *bytes = steno_arena_alloc(l->w->mem, word + 1);
    size_t id = 0, at = word + 1;
    if (!bytes)
        return steno_fail(l->err, STENO_ERR_NOMEM, "%s: out of memory", l->path);
    for (; word && at < n && p[at] >= '0' && p[at] <= '9' && id < l->lines; at++)
        id = id * 10 + (size_t)(p[at] - '0');
    if (!word || at != n || at == word + 1 || id >= l->lines)
        return steno_fail(l->err, STENO_ERR_FORMAT,
                          "%s: line %zu: expected a piece in base64 and a number below %zu",
                          l->path, line, l->lines);
    if (!decode(p, word, bytes, &l->piece[id].n))
        return steno_fail(l->err, STENO_ERR_FORMAT, "%s: line %zu: '%.*s' is no base64", l->path,
                          line, (int)(word < 40 ? word : 40), p);
    l->piece[id].p = bytes;
    return STENO_OK;
}

static steno_status read_lines(struct list *l, const char *p, const char *end)
{
    size_t line = 1;
    steno_status st = STENO_OK;
    for (const char *next; p < end && !st; p = next, line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        next = stop ? stop + 1 : end;
        n -= n && p[n - 1] == '\r';
        if (n)
            st = read_line(l, p, n, line);
    }
    return st;
}

steno_status steno_whisper_read_tokens(steno_whisper_weights *w, const char *path, steno_err *err)
{
    struct list l = {.w = w, .path = path, .err = err};
    struct steno_map m;
    const char *end;
    steno_status st = steno_map_open(&m, path, err);
    if (st)
        return st;
    end = (const char *)m.p + m.n;
    for (const char *p = m.p; m.n && p && p < end; l.lines++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : end;
    }
    if (!l.lines || l.lines > STENO_BPE_MAX_PIECES)
        st = steno_fail(err, STENO_ERR_LIMIT, "%s: %zu lines, expected 1 to %d", path, l.lines,
                        STENO_BPE_MAX_PIECES);
    if (!st && !(l.piece = steno_arena_calloc(w->mem, l.lines, sizeof *l.piece)))
        st = steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", path);
    if (!st)
        st = read_lines(&l, m.p, end);
    steno_map_close(&m);
    return st ? st : steno_bpe_new(&w->bpe, l.piece, l.lines, path, err);
}
