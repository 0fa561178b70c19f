#include "speech/text/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/utf8.h"

#define MAX_TEXT (64u << 20)

/* The word under construction. */
struct open_word {
    struct steno_word_span span;
    double log_conf;
    size_t tokens;
    bool any, spaced, alone, bytes;
    bool joins;                      /* its last token goes on in the next one */
    bool byte_level, cut_characters; /* of the vocabulary */
};

void steno_words_init(struct steno_words *w)
{
    *w = (struct steno_words){0};
    steno_buf_init(&w->line, MAX_TEXT);
    steno_buf_init(&w->words, MAX_TEXT);
    steno_buf_init(&w->scratch, MAX_TEXT);
}

void steno_words_free(struct steno_words *w)
{
    steno_buf_free(&w->line);
    steno_buf_free(&w->words);
    steno_buf_free(&w->scratch);
    free(w->w);
    w->w = NULL;
    w->n = w->cap = 0;
}

const char *steno_words_line(const struct steno_words *w)
{
    return w->line.data ? w->line.data : "";
}

steno_status steno_words_reserve(struct steno_words *w, size_t words, size_t bytes)
{
    steno_status st = STENO_RESERVE(&w->w, &w->cap, words);
    if (!st)
        st = steno_buf_reserve(&w->line, bytes);
    return st ? st : steno_buf_reserve(&w->words, bytes);
}

/* Copy text, with `instead` for invalid UTF-8 from byte pieces. */
static steno_status add_repaired(struct steno_buf *out, const char *s, size_t n,
                                 const char *instead)
{
    steno_status st = STENO_OK;
    for (size_t k; n && !st; s += k, n -= k) {
        int32_t c;
        k = steno_utf8_next(s, n, &c);
        st = c > 0 ? steno_buf_add(out, s, k) : steno_buf_puts(out, instead);
    }
    return st;
}

/* The bytes of the open word are at the end of w->words, from `from` on. Where pieces often end
 * inside a character, the rest of one is not written (icefall's smart_byte_decode). */
static steno_status repair(struct steno_words *w, size_t from, bool cut_characters)
{
    steno_status st;
    steno_buf_reset(&w->scratch);
    st = steno_buf_add(&w->scratch, w->words.data + from, w->words.len - from);
    if (st)
        return st;
    w->words.len = from;
    return add_repaired(&w->words, w->scratch.data, w->scratch.len,
                        cut_characters ? "" : "\xEF\xBF\xBD");
}

/* A space goes before the word. */
static bool spaced(const struct steno_words *w, const struct open_word *o)
{
    size_t at = w->line.len;
    int32_t c;
    if (!o->spaced || !w->n || !o->byte_level || !at)
        return o->spaced && w->n;
    while (--at && ((unsigned char)w->line.data[at] & 0xC0) == 0x80)
        ;
    (void)steno_utf8_next(w->line.data + at, w->line.len - at, &c);
    return !steno_tokens_apart(c);
}

static steno_status close_word(struct steno_words *w, struct open_word *o)
{
    steno_status st = STENO_OK;
    const char *text;
    if (!o->any)
        return STENO_OK;
    o->any = false;
    if (o->bytes)
        st = repair(w, o->span.text, o->cut_characters);
    if (st || w->words.len == o->span.text) /* only a word mark: no word */
        return st;
    st = steno_buf_add(&w->words, "", 1);
    if (!st)
        st = STENO_RESERVE(&w->w, &w->cap, w->n + 1);
    if (!st && spaced(w, o))
        st = steno_buf_puts(&w->line, " ");
    if (st)
        return st;
    text = w->words.data + o->span.text;
    st = steno_buf_puts(&w->line, text);
    if (st)
        return st;
    o->span.end = w->line.len;
    o->span.confidence =
        steno_confidence_map_of(w->map, (float)exp(o->log_conf / (double)o->tokens));
    w->w[w->n++] = o->span;
    return STENO_OK;
}

/* spaced: with a space before it. */
static void open_word(struct steno_words *w, struct open_word *o, const struct steno_span *s,
                      size_t number, unsigned flags, bool spaced)
{
    *o = (struct open_word){.any = true, .spaced = spaced, .alone = flags & STENO_TOKEN_ALONE};
    o->span.text = w->words.len;
    o->span.token = number;
    o->span.first = s->first;
}

static steno_status add_token(struct steno_words *w, const steno_tokens *t, struct open_word *o,
                              const struct steno_span *s, size_t number)
{
    unsigned flags = steno_tokens_flags(t, s->token);
    size_t len;
    const char *text = steno_tokens_text(t, s->token, &len);
    /* joining tokens: a space between an ASCII word and a token that is a word by itself */
    const bool apart = steno_tokens_joining(t) && o->any && !o->alone;
    const bool behind_delimiter =
        o->any && o->tokens && w->words.len == o->span.text && steno_tokens_delimiter(t) >= 0;
    const bool goes_on =
        o->any && ((o->joins && !(flags & STENO_TOKEN_ALONE)) || (flags & STENO_TOKEN_FOLLOWS) ||
                   (behind_delimiter && (flags & STENO_TOKEN_ALONE)));
    if (!goes_on && (!o->any || o->alone || (flags & (STENO_TOKEN_WORD | STENO_TOKEN_ALONE)))) {
        steno_status st = close_word(w, o);
        if (st)
            return st;
        open_word(w, o, s, number, flags, (flags & STENO_TOKEN_WORD) || apart);
        o->byte_level = steno_tokens_byte_level(t);
        o->cut_characters = steno_tokens_cut_characters(t);
    }
    if (len && behind_delimiter) { /* the word begins here */
        o->alone = flags & STENO_TOKEN_ALONE;
        o->span.first = s->first;
        o->log_conf = 0;
        o->tokens = 0;
    }
    o->span.last = s->last;
    o->log_conf += fmin(0.0, (double)s->peak);
    o->tokens++;
    o->joins = flags & STENO_TOKEN_JOINS;
    o->bytes |= (flags & STENO_TOKEN_BYTE) != 0;
    return steno_buf_add(&w->words, text, len);
}

/* A word is stable if its last token is stable and another word has begun after it. */
static void mark_stable(struct steno_words *w, size_t closed, bool all)
{
    w->stable_words = all ? w->n : closed < w->n ? closed : w->n;
    w->stable_bytes = w->stable_words ? w->w[w->stable_words - 1].end : 0;
}

static void mean_confidence_text_words(struct steno_words *w)
{
    double sum = 0;
    for (size_t i = 0; i < w->n; i++)
        sum += log((double)w->w[i].confidence);
    w->confidence = w->n ? (float)exp(sum / (double)w->n) : 0;
}

steno_status steno_words_build(struct steno_words *w, const steno_tokens *t,
                               const struct steno_span *spans, size_t n, size_t stable)
{
    struct open_word o = {.any = false};
    bool whole = steno_tokens_whole_words(t);
    size_t closed = 0;
    steno_status st = STENO_OK;
    steno_buf_reset(&w->line);
    steno_buf_reset(&w->words);
    w->n = 0;
    for (size_t i = 0; i < n && !st; i++) {
        if (i == stable && whole) {
            st = close_word(w, &o);
            closed = w->n;
        }
        if (!st && !(steno_tokens_flags(t, spans[i].token) & STENO_TOKEN_DROP))
            st = add_token(w, t, &o, &spans[i], i);
        if (i < stable && !whole)
            closed = w->n; /* number of words so far that a following word has closed */
    }
    if (!st)
        st = close_word(w, &o);
    if (st)
        return st;
    mark_stable(w, closed, stable > n || (stable >= n && whole));
    mean_confidence_text_words(w);
    return STENO_OK;
}
