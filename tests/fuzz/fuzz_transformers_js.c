/* What transformers.js reads: lines with config.json, generation_config.json and tokenizer.json;
 * read or refused with a message. What is read makes prompts. */
/* covers: engine/speech/families/transformers_js/kind.c engine/speech/families/llm/vocabulary.c */
#include <stdlib.h>
#include <string.h>

#include "speech/families/transformers_js/kind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct steno_family_stream request = {
    .hints = {.language = "fr", .prompt = "names 2024", .hotwords = "Kyiv :2, \xE4\xBD\xA0"},
    .vocabulary = "steno\n/x"};

/* The next line of *data, of which it is taken off. */
static size_t take_line(const uint8_t **data, size_t *n, const uint8_t **line)
{
    const uint8_t *cut = memchr(*data, '\n', *n);
    const size_t k = cut ? (size_t)(cut - *data) : *n, taken = cut ? k + 1 : k;
    *line = *data;
    *data += taken;
    *n -= taken;
    return k;
}

static void make_prompt(const struct steno_tjs_config *c, const struct steno_llm_vocabulary *v)
{
    struct steno_llm_prompt p = {0};
    steno_err err = {0};
    const steno_status st = steno_tjs_prompt_make(&p, c->kind, v, &request, 8, "tokens", &err);
    if (st && !err.msg[0])
        abort();
    for (size_t i = 0; i < p.n && !st; i++)
        if (p.ids[i] < 0 || p.ids[i] >= steno_tokens_count(v->tokens))
            abort();
    if (!st && p.n_before >= p.n)
        abort();
    steno_llm_prompt_close(&p);
}

static steno_status read_vocabulary(struct steno_llm_vocabulary *v, const uint8_t *line, size_t n,
                                    steno_err *err)
{
    steno_json *json = NULL;
    steno_status st = steno_bpe_parse(&v->bpe, line, n, "tokenizer.json", err);
    if (!st)
        st = steno_json_parse(&json, line, n, "tokenizer.json", err);
    if (!st)
        st = steno_llm_vocabulary_add(v, json, "tokenizer.json", err);
    steno_json_close(json);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_llm_vocabulary v = {0};
    struct steno_tjs_config c = {0};
    steno_json *config = NULL, *generation = NULL;
    const uint8_t *line;
    steno_err err = {0};
    size_t k = take_line(&data, &n, &line);
    steno_status st = steno_json_parse(&config, line, k, "config.json", &err);
    k = take_line(&data, &n, &line);
    if (!st && k)
        st = steno_json_parse(&generation, line, k, "generation_config.json", &err);
    if (!st)
        st = steno_tjs_parse(&c, config, generation, "config.json", &err);
    if (!st && (c.sizes.positions < 1 || c.sizes.heads < 0 || c.sizes.width < 0 || c.n_ends < 1))
        abort();
    if (!st)
        st = read_vocabulary(&v, data, n, &err);
    if (st && !err.msg[0])
        abort();
    if (!st)
        make_prompt(&c, &v);
    steno_json_close(config);
    steno_json_close(generation);
    steno_llm_vocabulary_close(&v);
    return 0;
}
