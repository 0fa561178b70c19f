/* The vocabulary of a language model: a line with vocab.json, then tokenizer_config.json;
 * read or refused with a message. What is read spells prompts. */
/* covers: engine/speech/families/llm/vocabulary.c engine/speech/families/llm/prompt.c */
/* covers: engine/speech/families/qwen_asr/prompt.c engine/speech/families/funasr/nano_prompt.c */
#include <stdlib.h>
#include <string.h>

#include "speech/families/funasr/nano_prompt.h"
#include "speech/families/qwen_asr/prompt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct steno_family_stream request = {
    .hints = {.language = "en", .prompt = "names", .hotwords = "Kyiv :2, \xE4\xBD\xA0"},
    .vocabulary = "steno\n/x"};

static void check_ids(const struct steno_llm_vocabulary *v, const struct steno_llm_prompt *p)
{
    if (p->n_before >= p->n || p->n_before < 5)
        abort();
    for (size_t i = 0; i < p->n; i++)
        if (p->ids[i] < 0 || p->ids[i] >= steno_tokens_count(v->tokens))
            abort();
}

static void make_qwen_prompt(const struct steno_llm_vocabulary *v)
{
    struct steno_llm_prompt p = {0};
    int32_t mark[STENO_QWEN_MARKS];
    steno_err err = {0};
    steno_status st = steno_qwen_find_marks(mark, v, "config", &err);
    if (!st)
        st = steno_qwen_prompt_make(&p, v, mark, &request, 8, &err);
    if (st && !err.msg[0])
        abort();
    if (!st)
        check_ids(v, &p);
    steno_llm_prompt_close(&p);
}

static void make_nano_prompt(const struct steno_llm_vocabulary *v)
{
    struct steno_llm_prompt p = {0};
    int32_t mark[STENO_NANO_MARKS];
    steno_err err = {0};
    steno_status st = steno_nano_find_marks(mark, v, "config", &err);
    if (!st)
        st = steno_nano_prompt_make(&p, v, mark, &request, false, 8, &err);
    if (st && !err.msg[0])
        abort();
    if (!st)
        check_ids(v, &p);
    steno_llm_prompt_close(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *cut = memchr(data, '\n', n); /* the pieces are the first line */
    const size_t pieces = cut ? (size_t)(cut - data) : n;
    struct steno_llm_vocabulary v = {0};
    steno_json *config = NULL;
    steno_err err = {0};
    steno_status st = steno_bpe_parse(&v.bpe, data, pieces, "vocab.json", &err);
    if (!st)
        steno_bpe_set_pattern(v.bpe, STENO_BPE_QWEN);
    if (!st)
        st = steno_json_parse(&config, data + pieces, n - pieces, "config", &err);
    if (!st)
        st = steno_llm_vocabulary_add(&v, config, "config", &err);
    if (st && !err.msg[0])
        abort();
    if (!st) {
        make_qwen_prompt(&v);
        make_nano_prompt(&v);
    }
    steno_json_close(config);
    steno_llm_vocabulary_close(&v);
    return 0;
}
