/* The file formats of byte-level vocabularies. */
#include "speech/text/bpe_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/lines.h"
#include "formats/json.h"

static steno_status wrong(const char *name, const struct steno_json_node *n, const char *what,
                          steno_err *err)
{
    return steno_fail(err, STENO_ERR_FORMAT, "%s: line %zu: %s", name, n->line, what);
}

static steno_status read_piece_list(steno_bpe *b, const struct steno_json_node *list,
                                    const char *name, steno_err *err)
{
    int64_t id = 0;
    steno_status st = STENO_OK;
    for (const struct steno_json_node *n = list->first; n && !st; n = n->next, id++) {
        if (n->kind != STENO_JSON_STRING)
            return wrong(name, n, "a piece is not a string", err);
        st = steno_bpe_put_printed(b, id, n->text, strlen(n->text), name, err);
    }
    return st;
}

static steno_status read_numbers(steno_bpe *b, const struct steno_json_node *object,
                                 const char *name, steno_err *err)
{
    steno_status st = STENO_OK;
    for (const struct steno_json_node *n = object->first; n && !st; n = n->next) {
        int64_t id;
        if (!steno_json_int(n, 0, STENO_BPE_MAX_PIECES - 1, &id))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: line %zu: piece '%.40s' has no number from 0 to %d", name,
                              n->line, n->key, STENO_BPE_MAX_PIECES - 1);
        st = steno_bpe_put_printed(b, id, n->key, strlen(n->key), name, err);
    }
    return st;
}

/* Some are in model.vocab too, with the same number. */
static steno_status read_added(steno_bpe *b, const struct steno_json_node *list, const char *name,
                               steno_err *err)
{
    steno_status st = STENO_OK;
    if (!list)
        return STENO_OK;
    for (const struct steno_json_node *n = list->first; n && !st; n = n->next) {
        const char *text = steno_json_text(steno_json_get(n, "content"));
        int64_t id;
        if (!text || !steno_json_int(steno_json_get(n, "id"), 0, STENO_BPE_MAX_PIECES - 1, &id))
            return wrong(name, n, "an added token without content or id", err);
        if (id < b->n && b->piece[id].n && b->piece[id].n == strlen(text) &&
            !memcmp(b->piece[id].p, text, b->piece[id].n))
            continue;
        st = steno_bpe_put(b, id, text, strlen(text), name, err);
    }
    return st;
}

static steno_status read_object(steno_bpe *b, const struct steno_json_node *root, const char *name,
                                steno_err *err)
{
    const struct steno_json_node *model = steno_json_get(root, "model");
    const struct steno_json_node *vocab = steno_json_get(model, "vocab");
    steno_status st;
    if (!model || model->kind != STENO_JSON_OBJECT)
        return read_numbers(b, root, name, err);
    if (!vocab || vocab->kind != STENO_JSON_OBJECT)
        return wrong(name, model, "the model has no vocab", err);
    st = read_numbers(b, vocab, name, err);
    return st ? st : read_added(b, steno_json_get(root, "added_tokens"), name, err);
}

static steno_status read_json(steno_bpe *b, const void *bytes, size_t n, const char *name,
                              steno_err *err)
{
    const struct steno_json_node *root;
    steno_json *j;
    steno_status st = steno_json_parse(&j, bytes, n, name, err);
    if (st)
        return st;
    root = steno_json_root(j);
    if (root->kind == STENO_JSON_LIST)
        st = read_piece_list(b, root, name, err);
    else
        st = read_object(b, root, name, err);
    steno_json_close(j);
    return st;
}

static steno_status read_lines(steno_bpe *b, const char *p, size_t n, const char *name,
                               steno_err *err)
{
    struct steno_lines l = {.p = p, .end = p + n};
    steno_status st = STENO_OK;
    while (!st && steno_lines_next(&l))
        st = steno_bpe_put_printed(b, (int64_t)l.number - 1, l.line, l.n, name, err);
    return st;
}

/* A vocabulary of lines begins with the piece "!". */
static bool is_json(const char *p, size_t n)
{
    size_t at = 0;
    while (at < n && (p[at] == ' ' || p[at] == '\t' || p[at] == '\r' || p[at] == '\n'))
        at++;
    return at < n && (p[at] == '[' || p[at] == '{');
}

steno_status steno_bpe_parse(steno_bpe **out, const void *bytes, size_t n, const char *name,
                             steno_err *err)
{
    steno_bpe *b = steno_bpe_empty();
    steno_status st;
    if (!b)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (is_json(bytes, n))
        st = read_json(b, bytes, n, name, err);
    else
        st = read_lines(b, bytes, n, name, err);
    if (!st)
        st = steno_bpe_finish(b, name, err);
    if (st)
        steno_bpe_close(b);
    else
        *out = b;
    return st;
}

steno_status steno_bpe_open(steno_bpe **out, const char *path, steno_err *err)
{
    char *bytes;
    size_t n;
    steno_status st = steno_file_read(path, STENO_JSON_MAX_BYTES, &bytes, &n, err);
    if (st)
        return st;
    st = steno_bpe_parse(out, bytes, n, path, err);
    free(bytes);
    return st;
}
