#include "speech/families/whisper/sections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/text/language.h"

#define FRAME 0.01 /* s of a mel frame */
#define TEXT_MAX ((size_t)64 << 20)

void steno_whisper_sections_init(struct steno_whisper_sections *s)
{
    *s = (struct steno_whisper_sections){0};
    steno_buf_init(&s->text, TEXT_MAX);
}

void steno_whisper_sections_free(struct steno_whisper_sections *s)
{
    free(s->v);
    steno_buf_free(&s->text);
}

void steno_whisper_sections_cut(struct steno_whisper_sections *s, size_t n, size_t text)
{
    s->n = n;
    steno_buf_cut(&s->text, text);
}

bool steno_whisper_sections_add(struct steno_whisper_sections *s,
                                const struct steno_whisper_segment *g,
                                const struct steno_whisper_decoded *window, size_t span,
                                size_t n_spans)
{
    struct steno_section *o;
    if (STENO_RESERVE(&s->v, &s->cap, s->n + 1) ||
        steno_buf_add(&s->text, g->text, strlen(g->text) + 1))
        return false;
    o = &s->v[s->n++];
    *o = (struct steno_section){.start = g->start,
                                .end = g->end,
                                .first_token = span,
                                .n_tokens = n_spans,
                                .n_ids = g->n_ids,
                                .seek = (double)g->seek * FRAME,
                                .temperature = window->temperature,
                                .avg_log_prob = window->avg_log_prob,
                                .compression_ratio = window->compression,
                                .no_speech = window->no_speech};
    if (steno_language_code_at(g->language))
        snprintf(o->language, sizeof o->language, "%s", steno_language_code_at(g->language));
    for (size_t i = 0; i < g->n_ids; i++)
        o->score += (double)g->log_probs[i];
    return true;
}

const struct steno_section *steno_whisper_sections_list(struct steno_whisper_sections *s,
                                                        const int32_t *ids)
{
    const char *text = s->text.data;
    for (size_t i = 0; i < s->n; i++) {
        s->v[i].text = text;
        s->v[i].ids = ids;
        text += strlen(text) + 1;
        ids += s->v[i].n_ids;
    }
    return s->v;
}
