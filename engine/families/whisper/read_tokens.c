/* sherpa-onnx's tokens.txt, and the ranks of openai-whisper, which look alike: lines of a piece in
 * base64 and its number. */
#include "families/whisper/weights_internal.h"

#include <string.h>

#include "base/base64.h"

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
    char *bytes = steno_arena_alloc(l->w->mem, STENO_BASE64_DECODED(word));
    size_t id = 0, at = word + 1;
    if (!bytes)
        return steno_fail(l->err, STENO_ERR_NOMEM, "%s: out of memory", l->path);
    for (; word && at < n && p[at] >= '0' && p[at] <= '9' && id < l->lines; at++)
        id = id * 10 + (size_t)(p[at] - '0');
    if (!word || at != n || at == word + 1 || id >= l->lines)
        return steno_fail(l->err, STENO_ERR_FORMAT,
                          "%s: line %zu: expected a piece in base64 and a number below %zu",
                          l->path, line, l->lines);
    if (word == 1 && *p == '=') /* no bytes: the number is not used */
        l->piece[id].n = 0;
    else if (steno_base64_decode(p, word, bytes, &l->piece[id].n) != word)
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

steno_status steno_whisper_parse_tokens(steno_whisper_weights *w, const char *bytes, size_t n,
                                        const char *name, steno_err *err)
{
    struct list l = {.w = w, .path = name, .err = err};
    const char *end = bytes + n;
    steno_status st;
    for (const char *p = bytes; n && p && p < end; l.lines++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : end;
    }
    if (!l.lines || l.lines > STENO_BPE_MAX_PIECES)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu lines, expected 1 to %d", name, l.lines,
                          STENO_BPE_MAX_PIECES);
    l.piece = steno_arena_calloc(w->mem, l.lines, sizeof *l.piece);
    if (!l.piece)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    st = read_lines(&l, bytes, end);
    return st ? st : steno_bpe_new(&w->bpe, l.piece, l.lines, name, err);
}

steno_status steno_whisper_read_tokens(steno_whisper_weights *w, const char *path, steno_err *err)
{
    struct steno_map m;
    steno_status st = steno_map_open(&m, path, err);
    if (st)
        return st;
    st = steno_whisper_parse_tokens(w, (const char *)m.p, m.n, path, err);
    steno_map_close(&m);
    return st;
}
