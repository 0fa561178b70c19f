#include "speech/recognizer/begun.h"

#include <string.h>

#define READ_AGAIN 12 /* words at least, as rules for English look back */

/* Where the first n words end in a text; SIZE_MAX: they are not in it. */
static size_t end_of_words(const struct steno_event *ev, size_t n)
{
    const char *p = ev->text;
    for (size_t i = 0; i < n; i++) {
        p = strstr(p, ev->words[i].text);
        if (!p)
            return SIZE_MAX;
        p += strlen(ev->words[i].text);
    }
    return (size_t)(p - ev->text);
}

/* Whether the text begins with that which is written. */
static bool goes_on_with(const struct steno_begun *b, const struct steno_event *ev)
{
    return !b->spoken ||
           (ev->n_words >= b->spoken && !strncmp(ev->text, b->spoken_text, strlen(b->spoken_text)));
}

/* Words of a [n] and b [m] in one list. */
static struct steno_word *join_words(steno_arena *arena, const struct steno_word *a, size_t n,
                                     const struct steno_word *b, size_t m)
{
    struct steno_word *out = steno_arena_calloc(arena, n + m + 1, sizeof *out);
    if (out && n)
        memcpy(out, a, n * sizeof *out);
    if (out && m)
        memcpy(out + n, b, m * sizeof *out);
    return out;
}

/* Take what is written of the words from b->from.spoken on: `spoken` of them. */
static steno_status take_begun(struct steno_begun *b, const struct steno_event *ev,
                               const struct steno_alternative *now, size_t blanks, size_t spoken,
                               steno_arena *a)
{
    struct steno_begun next = *b;
    const size_t begin = b->from.spoken ? end_of_words(ev, b->from.spoken) : 0;
    char *text = steno_arena_printf(a, "%.*s%.*s%s", (int)b->from.bytes, b->text ? b->text : "",
                                    b->from.spoken ? (int)blanks : 0, ev->text + begin, now->text);
    struct steno_word *words = join_words(a, b->words, b->from.words, now->words, now->n_words);
    if (!text || !words)
        return steno_arena_failure(a);
    for (size_t i = 0; i < b->from.words; i++)
        words[i].text = steno_arena_strdup(a, words[i].text);
    if (b->text && strncmp(text, b->text, strlen(b->text)) != 0)
        return STENO_OK; /* what was shown would change */
    next.spoken = b->from.spoken + spoken;
    next.spoken_text = steno_arena_strndup(a, ev->text, end_of_words(ev, next.spoken));
    next.text = text;
    next.words = words;
    next.n_words = b->from.words + now->n_words;
    next.turn = !b->turn;
    if (next.spoken - next.soon.spoken > READ_AGAIN) {
        next.from = next.soon;
        next.soon = (struct steno_begun_place){next.spoken, next.n_words, strlen(text)};
    }
    if (!next.spoken_text)
        return steno_arena_failure(a);
    *b = next;
    return STENO_OK;
}

steno_status steno_begun_extend(struct steno_begun *b, const struct steno_event *ev,
                                const struct steno_written_by *by)
{
    const size_t end = end_of_words(ev, ev->stable_words);
    size_t begin = end_of_words(ev, b->from.spoken), blanks, words;
    struct steno_alternative now = {.words = ev->words + b->from.spoken};
    steno_arena *a;
    steno_status st;
    if (ev->stable_words <= b->seen || !goes_on_with(b, ev) || end == SIZE_MAX || begin == SIZE_MAX)
        return STENO_OK;
    b->seen = ev->stable_words;
    blanks = strspn(ev->text + begin, " ");
    begin += blanks;
    a = steno_arena_renew(&b->arena[!b->turn]);
    now.text = a ? steno_arena_strndup(a, ev->text + begin, end - begin) : NULL;
    if (!now.text)
        return a ? steno_arena_failure(a) : STENO_ERR_NOMEM;
    now.n_words = ev->stable_words - b->from.spoken;
    st = steno_written_begin(&now, by, a, &words);
    return st || b->from.spoken + words <= b->spoken ? st
                                                     : take_begun(b, ev, &now, blanks, words, a);
}

steno_status steno_begun_apply(const struct steno_begun *b, struct steno_event *io, steno_arena *a)
{
    const size_t spoken = goes_on_with(b, io) ? b->spoken : 0;
    const size_t n_words = spoken ? b->n_words : 0;
    io->stable_words = n_words;
    io->stable_bytes = spoken ? strlen(b->text) : 0;
    if (!spoken)
        return STENO_OK;
    io->text = steno_arena_printf(a, "%s%s", b->text, io->text + strlen(b->spoken_text));
    io->words = join_words(a, b->words, n_words, io->words + spoken, io->n_words - spoken);
    io->n_words += n_words;
    io->n_words -= spoken;
    return io->text && io->words ? STENO_OK : steno_arena_failure(a);
}

void steno_begun_reset(struct steno_begun *b)
{
    *b = (struct steno_begun){.arena = {b->arena[0], b->arena[1]}};
}

void steno_begun_free(struct steno_begun *b)
{
    steno_arena_free(b->arena[0]);
    steno_arena_free(b->arena[1]);
    *b = (struct steno_begun){0};
}
