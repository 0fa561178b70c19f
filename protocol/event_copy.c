#include "protocol/event_copy.h"

#include <string.h>

static const struct steno_word *copy_words(steno_arena *a, const struct steno_word *w, size_t n)
{
    struct steno_word *out = steno_arena_calloc(a, n ? n : 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        out[i] = w[i];
        out[i].text = steno_arena_strdup(a, w[i].text);
        if (!out[i].text)
            return NULL;
    }
    return out;
}

static void *copy_array(steno_arena *a, const void *x, size_t n, size_t size)
{
    void *out = steno_arena_calloc(a, n ? n : 1, size);
    if (out && n)
        memcpy(out, x, n * size);
    return out;
}

static const struct steno_token *copy_tokens(steno_arena *a, const struct steno_token *x, size_t n)
{
    return copy_array(a, x, n, sizeof *x);
}

const struct steno_alternative *steno_alternatives_copy(steno_arena *a,
                                                        const struct steno_alternative *x, size_t n)
{
    struct steno_alternative *out = steno_arena_calloc(a, n ? n : 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        out[i] = x[i];
        out[i].text = steno_arena_strdup(a, x[i].text);
        out[i].words = copy_words(a, x[i].words, x[i].n_words);
        out[i].tokens = copy_tokens(a, x[i].tokens, x[i].n_tokens);
        out[i].ids = copy_array(a, x[i].ids, x[i].n_ids, sizeof *x[i].ids);
        if (!out[i].text || !out[i].words || !out[i].tokens || !out[i].ids)
            return NULL;
    }
    return out;
}

static const struct steno_section *copy_sections(steno_arena *a, const struct steno_section *x,
                                                 size_t n)
{
    struct steno_section *out = steno_arena_calloc(a, n ? n : 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        out[i] = x[i];
        out[i].text = steno_arena_strdup(a, x[i].text);
        out[i].ids = copy_array(a, x[i].ids, x[i].n_ids, sizeof *x[i].ids);
        if (!out[i].text || !out[i].ids)
            return NULL;
    }
    return out;
}

steno_status steno_event_copy(struct steno_event *out, const struct steno_event *ev, steno_arena *a)
{
    *out = *ev;
    out->text = steno_arena_strdup(a, ev->text);
    out->words = copy_words(a, ev->words, ev->n_words);
    out->tokens = copy_tokens(a, ev->tokens, ev->n_tokens);
    out->alternatives = steno_alternatives_copy(a, ev->alternatives, ev->n_alternatives);
    out->sections = copy_sections(a, ev->sections, ev->n_sections);
    return out->text && out->words && out->tokens && out->alternatives && out->sections
               ? STENO_OK
               : steno_arena_failure(a);
}

struct steno_word *steno_event_own_words(struct steno_event *ev, steno_arena *a)
{
    struct steno_word *w = copy_array(a, ev->words, ev->n_words, sizeof *w);
    struct steno_alternative *x = copy_array(a, ev->alternatives, ev->n_alternatives, sizeof *x);
    if (!w || !x)
        return NULL;
    if (ev->n_alternatives && x->n_words == ev->n_words)
        x->words = w;
    ev->words = w;
    ev->alternatives = x;
    return w;
}
