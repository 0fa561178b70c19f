#include "speech/families/llm/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"

/* Tokens that the tokenizer adds to the pieces. */
struct added {
    const struct steno_json_node *list; /* objects with "content", by number or with "id" */
    const char *path;
    int32_t n; /* one more than the highest number of all */
};

static int32_t number_of_added(const struct steno_json_node *token)
{
    int64_t id;
    char *end;
    if (!token->key)
        return steno_json_int(steno_json_get(token, "id"), 0, STENO_BPE_MAX_PIECES - 1, &id)
                   ? (int32_t)id
                   : -1;
    id = strtol(token->key, &end, 10);
    return *end || end == token->key || id < 0 || id >= STENO_BPE_MAX_PIECES ? -1 : (int32_t)id;
}

static const char *text_of_added(const struct steno_json_node *token)
{
    const char *text = steno_json_text(steno_json_get(token, "content"));
    return text && *text ? text : NULL;
}

static steno_status count_added(struct added *a, const struct steno_llm_vocabulary *v,
                                steno_err *err)
{
    a->n = steno_bpe_count(v->bpe);
    if (!a->list || (a->list->kind != STENO_JSON_OBJECT && a->list->kind != STENO_JSON_LIST))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "%s: there is no added_tokens_decoder, and no list of added_tokens",
                          a->path);
    for (const struct steno_json_node *t = a->list->first; t; t = t->next) {
        const int32_t id = number_of_added(t);
        if (id < 0 || !text_of_added(t))
            return steno_fail(err, STENO_ERR_FORMAT,
                              "%s: line %zu: expected a number below %d and a token with content",
                              a->path, t->line, STENO_BPE_MAX_PIECES);
        if (id >= a->n)
            a->n = id + 1;
    }
    return STENO_OK;
}

static steno_status make_tokens(struct steno_llm_vocabulary *v, const struct added *a,
                                steno_err *err)
{
    struct steno_bpe_piece *piece = calloc((size_t)a->n, sizeof *piece);
    steno_status st;
    if (!piece)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", a->path);
    for (int32_t i = 0; i < steno_bpe_count(v->bpe); i++)
        piece[i] = steno_bpe_piece(v->bpe, i);
    for (const struct steno_json_node *t = a->list->first; t; t = t->next) {
        const char *text = text_of_added(t);
        piece[number_of_added(t)] = (struct steno_bpe_piece){text, strlen(text)};
    }
    st = steno_tokens_of_bytes(&v->tokens, piece, (size_t)a->n, a->path, err);
    for (const struct steno_json_node *t = a->list->first; t && !st; t = t->next) {
        const int32_t id = number_of_added(t);
        steno_tokens_hide(v->tokens, &id, 1);
    }
    free(piece);
    return st;
}

/* The pattern by which a pre-tokenizer splits texts; those that are none of the known ones differ
 * in letters of both cases alone, and count as Qwen's. */
static enum steno_bpe_pattern pattern_of(const struct steno_json_node *pre)
{
    const struct steno_json_node *list = steno_json_get(pre, "pretokenizers");
    const char *regex;
    if (list && list->kind == STENO_JSON_LIST)
        pre = list->first;
    regex = steno_json_text(steno_json_get(steno_json_get(pre, "pattern"), "Regex"));
    if (!regex)
        return STENO_BPE_GPT2;
    return strstr(regex, "\\p{N}{1,3}") ? STENO_BPE_CL100K : STENO_BPE_QWEN;
}

steno_status steno_llm_vocabulary_add(struct steno_llm_vocabulary *v, const steno_json *config,
                                      const char *path, steno_err *err)
{
    const struct steno_json_node *pre = steno_json_get(steno_json_root(config), "pre_tokenizer");
    struct added a = {.path = path};
    steno_status st;
    if (pre)
        steno_bpe_set_pattern(v->bpe, pattern_of(pre));
    a.list = steno_json_get(steno_json_root(config), "added_tokens_decoder");
    if (!a.list)
        a.list = steno_json_get(steno_json_root(config), "added_tokens");
    st = count_added(&a, v, err);
    return st ? st : make_tokens(v, &a, err);
}

steno_status steno_llm_vocabulary_find(const struct steno_llm_vocabulary *v,
                                       const char *const *marks, size_t n, const char *path,
                                       int32_t *ids, steno_err *err)
{
    for (size_t i = 0; i < n; i++) {
        ids[i] = steno_tokens_find(v->tokens, marks[i]);
        if (ids[i] < 0)
            return steno_fail(err, STENO_ERR_FORMAT, "%s: there is no token %s", path, marks[i]);
    }
    return STENO_OK;
}

static int rank_tokenizer(const char *folder, const void *dir)
{
    char *path = steno_path_join(dir, folder);
    const bool has = path && strcmp(folder, "..") && steno_path_readable(path, "vocab.json") &&
                     (steno_path_readable(path, "tokenizer_config.json") ||
                      steno_path_readable(path, "tokenizer.json"));
    free(path);
    return has;
}

steno_status steno_llm_vocabulary_folder(char **out, const char *dir, steno_err *err)
{
    steno_status st = steno_path_find(out, dir, rank_tokenizer, dir, NULL, err);
    if (!st && !*out)
        st = steno_fail(err, STENO_ERR_IO,
                        "%s: there is no folder with vocab.json and tokenizer.json", dir);
    return st;
}

static steno_status open_files(struct steno_llm_vocabulary *v, const char *dir, steno_err *err)
{
    const bool config = steno_path_readable(dir, "tokenizer_config.json") ||
                        !steno_path_readable(dir, "tokenizer.json");
    char *pieces = steno_path_join(dir, "vocab.json");
    char *path = steno_path_join(dir, config ? "tokenizer_config.json" : "tokenizer.json");
    steno_json *added = NULL;
    steno_status st = STENO_ERR_NOMEM;
    if (!pieces || !path)
        st = steno_fail(err, st, "out of memory");
    else
        st = steno_bpe_open(&v->bpe, pieces, err);
    if (!st) {
        steno_bpe_set_pattern(v->bpe, STENO_BPE_QWEN);
        st = steno_json_open(&added, path, err);
    }
    if (!st)
        st = steno_llm_vocabulary_add(v, added, path, err);
    steno_json_close(added);
    free(pieces);
    free(path);
    return st;
}

steno_status steno_llm_vocabulary_open(struct steno_llm_vocabulary *v, const char *dir,
                                       const char *folder, steno_err *err)
{
    char *path = steno_path_join(dir, folder);
    const steno_status st =
        path ? open_files(v, path, err) : steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    free(path);
    return st;
}

steno_status steno_llm_vocabulary_open_one(struct steno_llm_vocabulary *v, const char *dir,
                                           steno_err *err)
{
    char *path = steno_path_join(dir, "tokenizer.json");
    steno_json *json = NULL;
    steno_status st = path ? steno_bpe_open(&v->bpe, path, err)
                           : steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", dir);
    if (!st)
        st = steno_json_open(&json, path, err);
    if (!st)
        st = steno_llm_vocabulary_add(v, json, path, err);
    steno_json_close(json);
    free(path);
    return st;
}

void steno_llm_vocabulary_close(struct steno_llm_vocabulary *v)
{
    steno_bpe_close(v->bpe);
    steno_tokens_close(v->tokens);
    *v = (struct steno_llm_vocabulary){0};
}
