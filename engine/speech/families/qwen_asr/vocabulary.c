#include "speech/families/qwen_asr/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"

#define VOCABULARY "tokenizer/vocab.json"
#define CONFIG "tokenizer/tokenizer_config.json"

static const char *const marks[STENO_QWEN_MARKS] = {"<|im_start|>",    "<|im_end|>",
                                                    "<|audio_start|>", "<|audio_end|>",
                                                    "<|audio_pad|>",   "<asr_text>"};

/* Tokens that the tokenizer adds to the pieces. */
struct added {
    const struct steno_json_node *list; /* an object of objects with "content", by number */
    const char *path;
    int32_t n; /* one more than the highest number of all */
};

static int32_t number_of_added(const struct steno_json_node *token)
{
    char *end;
    const long id = strtol(token->key, &end, 10);
    return *end || end == token->key || id < 0 || id >= STENO_BPE_MAX_PIECES ? -1 : (int32_t)id;
}

static const char *text_of_added(const struct steno_json_node *token)
{
    const struct steno_json_node *content = steno_json_get(token, "content");
    return content && content->kind == STENO_JSON_STRING && *content->text ? content->text : NULL;
}

static steno_status count_added(struct added *a, const struct steno_qwen_vocabulary *v,
                                steno_err *err)
{
    a->n = steno_bpe_count(v->bpe);
    if (!a->list || a->list->kind != STENO_JSON_OBJECT)
        return steno_fail(err, STENO_ERR_FORMAT, "%s: there is no added_tokens_decoder", a->path);
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

static void note_mark(struct steno_qwen_vocabulary *v, const char *text, int32_t id)
{
    for (int i = 0; i < STENO_QWEN_MARKS; i++)
        if (!strcmp(text, marks[i]))
            v->mark[i] = id;
}

static steno_status make_tokens(struct steno_qwen_vocabulary *v, const struct added *a,
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
        note_mark(v, text_of_added(t), id);
    }
    free(piece);
    return st;
}

steno_status steno_qwen_vocabulary_add(struct steno_qwen_vocabulary *v, const steno_json *config,
                                       const char *path, steno_err *err)
{
    struct added a = {.path = path};
    steno_status st;
    memset(v->mark, -1, sizeof v->mark);
    a.list = steno_json_get(steno_json_root(config), "added_tokens_decoder");
    st = count_added(&a, v, err);
    if (!st)
        st = make_tokens(v, &a, err);
    for (int i = 0; i < STENO_QWEN_MARKS && !st; i++)
        if (v->mark[i] < 0)
            st = steno_fail(err, STENO_ERR_FORMAT, "%s: there is no token %s", path, marks[i]);
    return st;
}

steno_status steno_qwen_vocabulary_open(struct steno_qwen_vocabulary *v, const char *dir,
                                        steno_err *err)
{
    char *pieces = steno_path_join(dir, VOCABULARY), *path = steno_path_join(dir, CONFIG);
    steno_json *config = NULL;
    steno_status st = STENO_ERR_NOMEM;
    if (!pieces || !path)
        st = steno_fail(err, st, "out of memory");
    else
        st = steno_bpe_open(&v->bpe, pieces, err);
    if (!st)
        st = steno_json_open(&config, path, err);
    if (!st)
        st = steno_qwen_vocabulary_add(v, config, path, err);
    steno_json_close(config);
    free(pieces);
    free(path);
    return st;
}

void steno_qwen_vocabulary_close(struct steno_qwen_vocabulary *v)
{
    steno_bpe_close(v->bpe);
    steno_tokens_close(v->tokens);
    *v = (struct steno_qwen_vocabulary){0};
}
