#include "speech/families/qwen_asr/prompt.h"

#include <stdio.h>
#include <string.h>

static const struct steno_llm_language languages[] = {
    {"zh", "Chinese"},    {"en", "English"},    {"yue", "Cantonese"}, {"ar", "Arabic"},
    {"de", "German"},     {"fr", "French"},     {"es", "Spanish"},    {"pt", "Portuguese"},
    {"id", "Indonesian"}, {"it", "Italian"},    {"ko", "Korean"},     {"ru", "Russian"},
    {"th", "Thai"},       {"vi", "Vietnamese"}, {"ja", "Japanese"},   {"tr", "Turkish"},
    {"hi", "Hindi"},      {"ms", "Malay"},      {"nl", "Dutch"},      {"sv", "Swedish"},
    {"da", "Danish"},     {"fi", "Finnish"},    {"pl", "Polish"},     {"cs", "Czech"},
    {"tl", "Filipino"},   {"fa", "Persian"},    {"el", "Greek"},      {"ro", "Romanian"},
    {"hu", "Hungarian"},  {"mk", "Macedonian"}};
#define N_LANGUAGES (sizeof languages / sizeof *languages)

void steno_qwen_languages(char *out, size_t size)
{
    steno_llm_list_languages(languages, N_LANGUAGES, out, size);
}

const char *steno_qwen_language(const char *name, size_t n)
{
    for (size_t i = 0; i < N_LANGUAGES; i++)
        if (strlen(languages[i].name) == n && !memcmp(languages[i].name, name, n))
            return languages[i].code;
    return NULL;
}

steno_status steno_qwen_find_marks(int32_t mark[STENO_QWEN_MARKS],
                                   const struct steno_llm_vocabulary *v, const char *path,
                                   steno_err *err)
{
    static const char *const marks[STENO_QWEN_MARKS] = {"<|im_start|>",    "<|im_end|>",
                                                        "<|audio_start|>", "<|audio_end|>",
                                                        "<|audio_pad|>",   "<asr_text>"};
    return steno_llm_vocabulary_find(v, marks, STENO_QWEN_MARKS, path, mark, err);
}

/* The context of the system's turn: free text, then words that are likely. */
static void put_context(struct steno_llm_draft *d, const struct steno_family_stream *o, size_t most)
{
    struct steno_buf text;
    steno_buf_init(&text, STENO_LLM_CONTEXT_BYTES);
    if (o->hints.prompt && !d->st && steno_buf_puts(&text, o->hints.prompt))
        d->st = steno_fail(d->err, STENO_ERR_LIMIT, "prompt: more than %zu bytes",
                           STENO_LLM_CONTEXT_BYTES);
    steno_llm_add_words(d, &text, 0, o->hints.hotwords, " ");
    steno_llm_add_words(d, &text, 0, o->vocabulary, " ");
    if (text.len)
        steno_llm_put_text(d, text.data, text.len, most);
    steno_buf_free(&text);
}

static const char *put_language(struct steno_llm_draft *d, const char *code, int32_t text)
{
    const struct steno_llm_language *l = steno_llm_find_language(languages, N_LANGUAGES, code);
    char line[64];
    if (!l)
        return NULL;
    snprintf(line, sizeof line, "language %s", l->name);
    steno_llm_put_line(d, line);
    steno_llm_put_mark(d, text);
    return l->code;
}

steno_status steno_qwen_prompt_make(struct steno_llm_prompt *p,
                                    const struct steno_llm_vocabulary *v,
                                    const int32_t mark[STENO_QWEN_MARKS],
                                    const struct steno_family_stream *o, size_t most,
                                    steno_err *err)
{
    struct steno_llm_draft d;
    *p = (struct steno_llm_prompt){0};
    if (o->hints.language && strchr(o->hints.language, ','))
        return steno_fail(err, STENO_ERR_INVAL,
                          "language: Qwen3-ASR takes one language, or detects which of all it is");
    steno_llm_draft_open(&d, v, err);
    steno_llm_put_mark(&d, mark[STENO_QWEN_BEGIN]);
    steno_llm_put_line(&d, "system\n");
    put_context(&d, o, most);
    steno_llm_put_mark(&d, mark[STENO_QWEN_END]);
    steno_llm_put_line(&d, "\n");
    steno_llm_put_mark(&d, mark[STENO_QWEN_BEGIN]);
    steno_llm_put_line(&d, "user\n");
    steno_llm_put_mark(&d, mark[STENO_QWEN_AUDIO_BEGIN]);
    steno_llm_put_rows(&d);
    steno_llm_put_mark(&d, mark[STENO_QWEN_AUDIO_END]);
    steno_llm_put_mark(&d, mark[STENO_QWEN_END]);
    steno_llm_put_line(&d, "\n");
    steno_llm_put_mark(&d, mark[STENO_QWEN_BEGIN]);
    steno_llm_put_line(&d, "assistant\n");
    p->language = put_language(&d, o->hints.language, mark[STENO_QWEN_TEXT]);
    return steno_llm_draft_take(&d, p);
}
