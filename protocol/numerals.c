#include "protocol/numerals.h"

#include "protocol/numerals_internal.h"

#include <math.h>
#include <string.h>

#include "protocol/word.h"

typedef struct steno_numeral_token token;
typedef struct steno_numeral_reader reader;

struct rewrite {
    const struct steno_alternative *in;
    steno_arena *arena;
    const char *from; /* the part of in's text that is not copied yet */
    char *text;       /* the new text so far ends here */
    struct steno_word *words;
    size_t n;
};

static void put_bytes(struct rewrite *w, const char *p, size_t n)
{
    memcpy(w->text, p, n);
    w->text += n;
}

/* Find words first to last in the text. False: they do not follow there. *end: behind the last. */
static bool find_words(const struct rewrite *w, size_t first, size_t last, const char **begin,
                       const char **end)
{
    const char *p = w->from;
    for (size_t i = first; i <= last; i++) {
        p = strstr(p, w->in->words[i].text);
        if (!p)
            return false;
        if (i == first)
            *begin = p;
        p += strlen(w->in->words[i].text);
    }
    *end = p;
    return true;
}

static float mean_confidence(const struct steno_word *w, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += log(fmax((double)w[i].confidence, 1e-6));
    return (float)exp(sum / (double)n);
}

/* Take words first to last, as the text of a piece; NULL or an empty text: the one word as it is.
 */
static bool take_number(struct rewrite *w, size_t first, size_t last,
                        const struct steno_numeral_piece *piece)
{
    const struct steno_word *in = w->in->words;
    const char *begin = NULL, *end = NULL, *lead, *tail;
    size_t n_lead, n_tail, n_number;
    struct steno_word *out = &w->words[w->n++];
    char *text;
    *out = in[first];
    if (!find_words(w, first, last, &begin, &end))
        return false;
    put_bytes(w, w->from, (size_t)(begin - w->from));
    w->from = end;
    if (!piece || !*piece->text) {
        put_bytes(w, begin, (size_t)(end - begin));
        return true;
    }
    lead = in[first].text;
    n_lead = (size_t)(steno_word_bare(lead, &n_tail) - lead);
    tail = steno_word_bare(in[last].text, &n_tail) + n_tail;
    n_tail = piece->bare ? 0 : strlen(tail);
    n_number = strlen(piece->text);
    text = steno_arena_alloc(w->arena, n_lead + n_number + n_tail + 1);
    if (!text)
        return false;
    memcpy(text, lead, n_lead);
    memcpy(text + n_lead, piece->text, n_number);
    memcpy(text + n_lead + n_number, tail, n_tail);
    text[n_lead + n_number + n_tail] = '\0';
    put_bytes(w, text, n_lead + n_number + n_tail);
    out->text = text;
    out->end = in[last].end;
    out->confidence = mean_confidence(in + first, last - first + 1);
    return true;
}

/* The pieces of what begins at token i. Each is of whole words. */
static size_t write_pieces(const reader *r, size_t i, bool smart, struct steno_numeral_piece *out)
{
    size_t n = smart ? steno_smart_format_write(r, i, out) : 0, k, at = i;
    for (k = 0; k < n; at += out[k++].used)
        if (!steno_numeral_at(r, at)->first || !steno_numeral_at(r, at + out[k].used - 1)->last)
            break;
    if (n && k == n)
        return n;
    *out = (struct steno_numeral_piece){0};
    out->used = steno_numeral_write(r, i, out->text);
    return out->used ? 1 : 0;
}

/* False: the words are not in the text, or the arena has no room. */
static bool rewrite_numbers(struct rewrite *w, const reader *r, bool smart)
{
    for (size_t i = 0; i < r->n;) {
        struct steno_numeral_piece pieces[STENO_NUMERAL_PIECES];
        size_t n = steno_numeral_at(r, i)->term->kind == STENO_EN_OTHER
                       ? 0
                       : write_pieces(r, i, smart, pieces);
        const size_t word = r->t[i].word;
        for (size_t k = 0; k < n; i += pieces[k++].used)
            if (!take_number(w, r->t[i].word, r->t[i + pieces[k].used - 1].word, &pieces[k]))
                return false;
        if (!n && !take_number(w, word, word, NULL))
            return false;
        while (!n && i < r->n && r->t[i].word == word)
            i++;
    }
    put_bytes(w, w->from, strlen(w->from) + 1);
    return true;
}

steno_status steno_numerals_write(const struct steno_alternative *in, bool smart,
                                  steno_arena *arena, struct steno_alternative *out, steno_err *err)
{
    const size_t bytes = strlen(in->text) + in->n_words * STENO_NUMERAL_TEXT + 1;
    token *tokens =
        steno_arena_calloc(arena, in->n_words + 1, STENO_NUMERAL_PARTS * sizeof *tokens);
    struct rewrite w = {.in = in, .arena = arena, .from = in->text};
    reader r = {.t = tokens, .words = in->words, .n_words = in->n_words};
    char *text = steno_arena_alloc(arena, bytes);
    w.words = steno_arena_calloc(arena, in->n_words + 1, sizeof *w.words);
    w.text = text;
    if (!tokens || !text || !w.words)
        return steno_fail(err, steno_arena_failure(arena), "numerals: out of memory");
    for (size_t i = 0; i < in->n_words; i++)
        r.n += steno_numeral_split(in->words[i].text, i, tokens + r.n);
    *out = *in;
    if (!rewrite_numbers(&w, &r, smart))
        return STENO_OK;
    out->text = text;
    out->words = w.words;
    out->n_words = w.n;
    return STENO_OK;
}
