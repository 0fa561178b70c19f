/* Deepgram's search in uploads: where the words of a transcript spell a term. */
#include <stdlib.h>
#include <string.h>

#include "protocol/deepgram.h"
#include "base/utf8.h"
#include "protocol/json_text.h"
#include "protocol/word.h"
#include "protocol/then.h"

#define MOST_TERMS 50 /* as at Deepgram's */

/* A transcript to search in. */
struct searched {
    const struct steno_alternative *a;
    double offset;      /* s: added to its times */
    const char **sound; /* [n_words]: in lower case, without marks around */
    bool *spaced;       /* [n_words]: a blank stands before it */
};

steno_status steno_deepgram_add_search(struct steno_buf *terms, const char *term, steno_err *err)
{
    const size_t n = strlen(term);
    size_t had = 0;
    for (size_t i = 0; i < terms->len; i++)
        had += !terms->data[i];
    if (had == MOST_TERMS)
        return steno_fail(err, STENO_ERR_INVAL, "search: more than %d", MOST_TERMS);
    if (!term[strspn(term, " ")])
        return steno_fail(err, STENO_ERR_INVAL, "search: it is empty");
    if (!steno_utf8_valid(term, n))
        return steno_fail(err, STENO_ERR_INVAL, "search: it is not UTF-8");
    return steno_buf_add(terms, term, n + 1)
               ? steno_fail(err, STENO_ERR_INVAL, "search: too long, or out of memory")
               : STENO_OK;
}

/* The words of a term as they sound, without blanks. NULL: out of memory. */
static const char *sound_of_term(const char *term, steno_arena *arena)
{
    char *rest = steno_arena_strdup(arena, term), *one;
    const char *sound;
    struct steno_buf low;
    steno_status st = rest ? STENO_OK : STENO_ERR_NOMEM;
    steno_buf_init(&low, SIZE_MAX / 2);
    while (!st && (one = strsep(&rest, " ")))
        st = *one ? steno_word_add_low(&low, one) : STENO_OK;
    sound = st ? NULL : steno_arena_strdup(arena, low.data ? low.data : "");
    steno_buf_free(&low);
    return sound;
}

static steno_status read_words(struct searched *s, steno_arena *arena)
{
    const size_t n = s->a->n_words;
    size_t at = 0;
    s->sound = steno_arena_calloc(arena, n + 1, sizeof *s->sound);
    s->spaced = steno_arena_calloc(arena, n + 1, sizeof *s->spaced);
    for (size_t i = 0; s->sound && s->spaced && i < n; i++) {
        s->spaced[i] = steno_word_is_spaced(s->a->text, &at, s->a->words[i].text);
        s->sound[i] = sound_of_term(s->a->words[i].text, arena);
        if (!s->sound[i])
            return STENO_ERR_NOMEM;
    }
    return s->sound && s->spaced ? STENO_OK : STENO_ERR_NOMEM;
}

/* The number of words from i on that spell a sound. 0: they do not. */
static size_t count_spelling(const struct searched *s, size_t i, const char *sound)
{
    size_t k = i;
    while (*sound) {
        const size_t n = k < s->a->n_words ? strlen(s->sound[k]) : 0;
        if (!n || strncmp(sound, s->sound[k], n) != 0)
            return 0;
        sound += n;
        k++;
    }
    return k - i;
}

static steno_status put_hit(struct steno_buf *b, const struct searched *s, size_t from, size_t to)
{
    const struct steno_word *w = s->a->words;
    struct steno_buf snippet;
    float least = 1;
    steno_status st = STENO_OK;
    steno_buf_init(&snippet, SIZE_MAX / 2);
    for (size_t i = from; !st && i < to; i++) {
        least = w[i].confidence < least ? w[i].confidence : least;
        st = steno_buf_printf(&snippet, "%s%s", i > from && s->spaced[i] ? " " : "", w[i].text);
    }
    THEN(st, steno_json_printf(b, "{\"confidence\":%.4f,\"start\":%.3f,\"end\":%.3f,\"snippet\":%s",
                               (double)least, s->offset + w[from].start, s->offset + w[to - 1].end,
                               snippet.data));
    steno_buf_free(&snippet);
    return st ? st : steno_buf_puts(b, "}");
}

/* Append {"query","hits":[...]} of a term. */
static steno_status put_term(struct steno_buf *b, const struct searched *s, const char *term,
                             steno_arena *arena)
{
    const char *sound = sound_of_term(term, arena);
    bool any = false;
    steno_status st = sound ? steno_buf_puts(b, "{") : STENO_ERR_NOMEM;
    THEN(st, steno_json_printf(b, "\"query\":%s,\"hits\":[", term));
    for (size_t i = 0, n; !st && i < s->a->n_words; i += n ? n : 1) {
        n = count_spelling(s, i, sound);
        if (n && any)
            st = steno_buf_puts(b, ",");
        if (n && !st)
            st = put_hit(b, s, i, i + n);
        any |= n > 0;
    }
    return st ? st : steno_buf_puts(b, "]}");
}

steno_status steno_deepgram_put_search(struct steno_buf *b, const struct steno_deepgram_wants *w,
                                       const struct steno_alternative *a)
{
    struct searched s = {.a = a, .offset = w->offset};
    steno_arena *arena = steno_arena_new(0);
    steno_status st = arena ? read_words(&s, arena) : STENO_ERR_NOMEM;
    THEN(st, steno_buf_puts(b, ",\"search\":["));
    for (size_t at = 0; !st && at < w->search->len; at += strlen(w->search->data + at) + 1) {
        st = at ? steno_buf_puts(b, ",") : STENO_OK;
        THEN(st, put_term(b, &s, w->search->data + at, arena));
    }
    steno_arena_free(arena);
    return st ? st : steno_buf_puts(b, "]");
}
