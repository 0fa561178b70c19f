#include "speech/families/qwen_asr/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/phrases.h"

#define CONTEXT_BYTES ((size_t)1 << 18) /* prompt, hotwords and vocabulary with blanks between */

static const struct {
    const char *code, *name;
} languages[] = {
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
    size_t n = 0;
    for (size_t i = 0; i < N_LANGUAGES && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? " " : "", languages[i].code);
}

const char *steno_qwen_language(const char *name, size_t n)
{
    for (size_t i = 0; i < N_LANGUAGES; i++)
        if (strlen(languages[i].name) == n && !memcmp(languages[i].name, name, n))
            return languages[i].code;
    return NULL;
}

static const char *name_of_language(const char *code, const char **ours)
{
    for (size_t i = 0; i < N_LANGUAGES; i++)
        if (!strcmp(languages[i].code, code)) {
            *ours = languages[i].code;
            return languages[i].name;
        }
    return NULL;
}

/* A prompt in the making. */
struct maker {
    const struct steno_qwen_vocabulary *v;
    struct steno_buf ids; /* i64 */
    steno_status st;
    steno_err *err;
};

static void put_mark(struct maker *m, enum steno_qwen_mark mark)
{
    const int64_t id = m->v->mark[mark];
    if (!m->st && steno_buf_add(&m->ids, &id, sizeof id))
        m->st = steno_fail(m->err, STENO_ERR_NOMEM, "prompt: out of memory");
}

static void put_text(struct maker *m, const char *text, size_t n, size_t most)
{
    int32_t *ids = m->st ? NULL : malloc((n + 1) * sizeof *ids);
    size_t count = 0;
    if (m->st)
        return;
    if (!ids)
        m->st = steno_fail(m->err, STENO_ERR_NOMEM, "prompt: out of memory");
    else
        m->st = steno_bpe_encode(m->v->bpe, text, n, ids, n, &count, m->err);
    for (size_t i = 0; i < count && i < most && !m->st; i++) {
        const int64_t id = ids[i];
        if (steno_buf_add(&m->ids, &id, sizeof id))
            m->st = steno_fail(m->err, STENO_ERR_NOMEM, "prompt: out of memory");
    }
    free(ids);
}

static void put_line(struct maker *m, const char *text)
{
    put_text(m, text, strlen(text), SIZE_MAX);
}

static steno_status add_phrases_as_words(struct steno_buf *out, const char *list)
{
    steno_status st = STENO_OK;
    const char *phrase;
    float unused;
    for (size_t n; !st && list && steno_phrases_next(&list, &phrase, &n, &unused);) {
        st = out->len ? steno_buf_puts(out, " ") : STENO_OK;
        if (!st)
            st = steno_buf_add(out, phrase, n);
    }
    return st;
}

/* The context of the system's turn: free text, then words that are likely. */
static void put_context(struct maker *m, const struct steno_family_stream *o, size_t most)
{
    struct steno_buf text;
    steno_status st;
    steno_buf_init(&text, CONTEXT_BYTES);
    st = o->hints.prompt ? steno_buf_puts(&text, o->hints.prompt) : STENO_OK;
    if (!st)
        st = add_phrases_as_words(&text, o->hints.hotwords);
    if (!st)
        st = add_phrases_as_words(&text, o->vocabulary);
    if (st && !m->st)
        m->st = steno_fail(m->err, st, "prompt: %s", steno_status_info(st)->name);
    if (text.len)
        put_text(m, text.data, text.len, most);
    steno_buf_free(&text);
}

static void put_language(struct maker *m, struct steno_qwen_prompt *p, const char *code)
{
    char line[64];
    const char *name = code ? name_of_language(code, &p->language) : NULL;
    if (!name)
        return;
    snprintf(line, sizeof line, "language %s", name);
    put_line(m, line);
    put_mark(m, STENO_QWEN_TEXT);
}

steno_status steno_qwen_prompt_make(struct steno_qwen_prompt *p,
                                    const struct steno_qwen_vocabulary *v,
                                    const struct steno_family_stream *o, size_t most,
                                    steno_err *err)
{
    struct maker m = {.v = v, .err = err};
    *p = (struct steno_qwen_prompt){0};
    if (o->hints.language && strchr(o->hints.language, ','))
        return steno_fail(err, STENO_ERR_INVAL,
                          "language: Qwen3-ASR takes one language, or detects which of all it is");
    steno_buf_init(&m.ids, SIZE_MAX / 2);
    put_mark(&m, STENO_QWEN_BEGIN);
    put_line(&m, "system\n");
    put_context(&m, o, most);
    put_mark(&m, STENO_QWEN_END);
    put_line(&m, "\n");
    put_mark(&m, STENO_QWEN_BEGIN);
    put_line(&m, "user\n");
    put_mark(&m, STENO_QWEN_AUDIO_BEGIN);
    p->n_before = m.ids.len / sizeof *p->ids;
    put_mark(&m, STENO_QWEN_AUDIO_END);
    put_mark(&m, STENO_QWEN_END);
    put_line(&m, "\n");
    put_mark(&m, STENO_QWEN_BEGIN);
    put_line(&m, "assistant\n");
    put_language(&m, p, o->hints.language);
    p->n = m.ids.len / sizeof *p->ids;
    p->ids = (int64_t *)(void *)steno_buf_take(&m.ids, NULL);
    return m.st;
}

void steno_qwen_prompt_close(struct steno_qwen_prompt *p)
{
    free(p->ids);
    *p = (struct steno_qwen_prompt){0};
}
