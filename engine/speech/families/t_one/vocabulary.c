#include "speech/families/t_one/vocabulary.h"

#include <string.h>

#include "base/buf.h"
#include "formats/json.h"

/* The list as lines of tokens.txt. */
static steno_status write_lines(struct steno_buf *lines, const struct steno_json_node *list,
                                const char *name, steno_err *err)
{
    steno_status st = STENO_OK;
    size_t n = 0;
    if (!list || list->kind != STENO_JSON_LIST)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: decoder_params.vocabulary is no list", name);
    for (const struct steno_json_node *e = list->first; e && !st; e = e->next, n++) {
        if (e->kind != STENO_JSON_STRING || !*e->text || strpbrk(e->text, "\r\n\t"))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s:%zu: entry %zu of decoder_params.vocabulary is no character",
                              name, e->line, n);
        st = steno_buf_printf(lines, "%s %zu\n", e->text, n);
    }
    if (!st)
        st = steno_buf_printf(lines, "<blk> %zu\n", n);
    return st ? steno_fail(err, st, "%s: the vocabulary is too large", name) : STENO_OK;
}

steno_status steno_t_one_vocabulary(steno_tokens **out, const void *bytes, size_t n,
                                    const char *name, steno_err *err)
{
    struct steno_buf lines;
    steno_json *j = NULL;
    steno_status st = steno_json_parse(&j, bytes, n, name, err);
    steno_buf_init(&lines, STENO_TOKENS_MAX_FILE);
    if (!st)
        st = write_lines(
            &lines,
            steno_json_get(steno_json_get(steno_json_root(j), "decoder_params"), "vocabulary"),
            name, err);
    if (!st)
        st = steno_tokens_parse(out, lines.data, lines.len, name, err);
    steno_buf_free(&lines);
    steno_json_close(j);
    return st;
}
