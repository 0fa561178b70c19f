#include "speech/families/llm/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speech/families/common/phrases.h"

void steno_llm_prompt_close(struct steno_llm_prompt *p)
{
    free(p->ids);
    *p = (struct steno_llm_prompt){0};
}

void steno_llm_list_languages(const struct steno_llm_language *l, size_t n, char *out, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? " " : "", l[i].code);
}

const struct steno_llm_language *steno_llm_find_language(const struct steno_llm_language *l,
                                                         size_t n, const char *code)
{
    for (size_t i = 0; i < n && code; i++)
        if (!strcmp(l[i].code, code))
            return &l[i];
    return NULL;
}

void steno_llm_draft_open(struct steno_llm_draft *d, const struct steno_llm_vocabulary *v,
                          steno_err *err)
{
    *d = (struct steno_llm_draft){.vocabulary = v, .err = err};
    steno_buf_init(&d->ids, SIZE_MAX / 2);
}

void steno_llm_put_mark(struct steno_llm_draft *d, int32_t id)
{
    const int64_t wide = id;
    if (!d->st && steno_buf_add(&d->ids, &wide, sizeof wide))
        d->st = steno_fail(d->err, STENO_ERR_NOMEM, "prompt: out of memory");
}

void steno_llm_put_text(struct steno_llm_draft *d, const char *text, size_t n, size_t most)
{
    int32_t *ids = d->st ? NULL : malloc((n + 1) * sizeof *ids);
    size_t count = 0;
    if (d->st)
        return;
    if (!ids)
        d->st = steno_fail(d->err, STENO_ERR_NOMEM, "prompt: out of memory");
    else
        d->st = steno_bpe_encode(d->vocabulary->bpe, text, n, ids, n, &count, d->err);
    for (size_t i = 0; i < count && i < most && !d->st; i++)
        steno_llm_put_mark(d, ids[i]);
    free(ids);
}

void steno_llm_put_line(struct steno_llm_draft *d, const char *text)
{
    steno_llm_put_text(d, text, strlen(text), SIZE_MAX);
}

void steno_llm_put_rows(struct steno_llm_draft *d)
{
    d->n_before = d->ids.len / sizeof(int64_t);
}

steno_status steno_llm_draft_take(struct steno_llm_draft *d, struct steno_llm_prompt *p)
{
    p->n = d->ids.len / sizeof *p->ids;
    p->n_before = d->n_before;
    p->ids = (int64_t *)(void *)steno_buf_take(&d->ids, NULL);
    return d->st;
}

void steno_llm_add_words(struct steno_llm_draft *d, struct steno_buf *text, size_t from,
                         const char *list, const char *between)
{
    steno_status st = STENO_OK;
    const char *phrase;
    float unused;
    for (size_t n; !st && list && steno_phrases_next(&list, &phrase, &n, &unused);) {
        st = text->len > from ? steno_buf_puts(text, between) : STENO_OK;
        if (!st)
            st = steno_buf_add(text, phrase, n);
    }
    if (st && !d->st)
        d->st = steno_fail(d->err, st, "prompt: %s", steno_status_info(st)->name);
}
