/* sherpa-onnx's tokens.txt, and the ranks of openai-whisper, which look alike: lines of a piece in
 * base64 and its number. */
#include "speech/families/whisper/weights_internal.h"

#include "base/base64.h"
#include "speech/text/bpe_list.h"

struct list {
    steno_whisper_weights *w;
    struct steno_bpe_piece *piece;
    size_t lines;
    const char *path;
    steno_err *err;
};

static steno_status read_line(struct list *l, const struct steno_bpe_line *from, size_t line)
{
    char *bytes = steno_arena_alloc(l->w->mem, STENO_BASE64_DECODED(from->n));
    struct steno_bpe_piece *piece;
    if (!bytes)
        return steno_fail(l->err, STENO_ERR_NOMEM, "%s: out of memory", l->path);
    if (!from->n)
        return steno_fail(l->err, STENO_ERR_FORMAT,
                          "%s: line %zu: expected a piece in base64 and a number below %zu",
                          l->path, line, l->lines);
    piece = &l->piece[from->id];
    if (from->n == 1 && *from->text == '=') /* no bytes: the number is not used */
        piece->n = 0;
    else if (steno_base64_decode(from->text, from->n, bytes, &piece->n) != from->n)
        return steno_fail(l->err, STENO_ERR_FORMAT, "%s: line %zu: '%.*s' is no base64", l->path,
                          line, (int)(from->n < 40 ? from->n : 40), from->text);
    piece->p = bytes;
    return STENO_OK;
}

steno_status steno_whisper_parse_tokens(steno_whisper_weights *w, const char *bytes, size_t n,
                                        const char *name, steno_err *err)
{
    struct list l = {.w = w, .path = name, .err = err};
    struct steno_lines lines = {.p = bytes, .end = bytes + n};
    struct steno_bpe_line line;
    steno_status st = STENO_OK;
    for (struct steno_lines all = lines; steno_lines_next(&all);)
        l.lines++;
    if (!l.lines || l.lines > STENO_BPE_MAX_PIECES)
        return steno_fail(err, STENO_ERR_LIMIT, "%s: %zu lines, expected 1 to %d", name, l.lines,
                          STENO_BPE_MAX_PIECES);
    l.piece = steno_arena_calloc(w->mem, l.lines, sizeof *l.piece);
    if (!l.piece)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    while (!st && steno_bpe_list_next(&lines, l.lines, &line))
        st = read_line(&l, &line, lines.number);
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
