#include "protocol/dictated.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/english.h"
#include "protocol/word.h"

static const struct command {
    const char *said[2]; /* words; the second may be NULL */
    const char *sign;
    bool ends; /* a sentence */
} commands[] = {
    {{"period", NULL}, ".", true},
    {{"comma", NULL}, ",", false},
    {{"colon", NULL}, ":", false},
    {{"question", "mark"}, "?", true},
    {{"exclamation", "mark"}, "!", true},
    {{"new", "line"}, "<\\n>", false},
    {{"new", "paragraph"}, "<\\n\\n>", true},
};

static const char *const units[][2] = {
    {"milligram", "mg"},  {"centigram", "cg"},  {"gram", "g"},  {"kilogram", "kg"},
    {"milliliter", "ml"}, {"centiliter", "cl"}, {"liter", "l"}, {"kiloliter", "kl"},
    {"millimeter", "mm"}, {"centimeter", "cm"}, {"meter", "m"}, {"kilometer", "km"},
};

struct dictated {
    const struct steno_alternative *in;
    steno_arena *arena;
    const char *from; /* the part of in's text that is not copied yet */
    struct steno_buf text;
    struct steno_word *words;
    size_t n;
    bool capital; /* for the next word */
};

static bool is_said(const char *word, const char *command)
{
    size_t n;
    const char *bare = steno_word_bare(word, &n);
    return n == strlen(command) && !strncasecmp(bare, command, n);
}

/* The command that begins at word i; NULL: none. */
static const struct command *command_at(const struct steno_alternative *in, size_t i, size_t *n)
{
    for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
        const struct command *c = &commands[k];
        *n = c->said[1] ? 2 : 1;
        if (i + *n <= in->n_words && is_said(in->words[i].text, c->said[0]) &&
            (!c->said[1] || is_said(in->words[i + 1].text, c->said[1])))
            return c;
    }
    return NULL;
}

static bool is_number(const char *word)
{
    size_t n;
    const char *bare = steno_word_bare(word, &n);
    const enum steno_english_kind kind = steno_english_word(bare, n)->kind;
    return strpbrk(word, "0123456789") || (kind >= STENO_EN_DIGIT && kind <= STENO_EN_MAGNITUDE);
}

/* The sign of the unit that word i is, behind a number; NULL: it is none. */
static const char *unit_at(const struct steno_alternative *in, size_t i)
{
    size_t n;
    const char *bare = steno_word_bare(in->words[i].text, &n);
    if (!i || !is_number(in->words[i - 1].text))
        return NULL;
    for (size_t k = 0; k < sizeof units / sizeof *units; k++) {
        const size_t len = strlen(units[k][0]);
        if (!strncasecmp(bare, units[k][0], len) &&
            (n == len || (n == len + 1 && tolower((unsigned char)bare[len]) == 's')))
            return units[k][1];
    }
    return NULL;
}

/* Copy the text before word i, which is then behind d->from. The word's end; NULL: it is not there.
 * blank: what comes before it, too. */
static const char *reach(struct dictated *d, size_t i, bool blank, steno_status *st)
{
    const char *p = strstr(d->from, d->in->words[i].text);
    if (p && blank && !*st)
        *st = steno_buf_add(&d->text, d->from, (size_t)(p - d->from));
    return p ? p + strlen(d->in->words[i].text) : NULL;
}

/* Add a word of this text to text and words. */
static steno_status add_word(struct dictated *d, struct steno_word w, const char *text, size_t n)
{
    char *own = steno_arena_strndup(d->arena, text, n);
    steno_status st = own ? STENO_OK : steno_arena_failure(d->arena);
    if (st)
        return st;
    if (d->capital)
        *own = (char)toupper((unsigned char)*own);
    d->capital = false;
    w.text = own;
    d->words[d->n++] = w;
    return steno_buf_puts(&d->text, own);
}

/* Give the last word a mark in place of its own. */
static steno_status add_mark(struct dictated *d, const char *mark)
{
    struct steno_word *last = &d->words[d->n - 1];
    const size_t had = strlen(last->text);
    size_t n = had;
    char *own;
    while (n > 1 && strchr(".,:;?!", last->text[n - 1]))
        n--;
    own = steno_arena_alloc(d->arena, n + 2);
    if (!own)
        return steno_arena_failure(d->arena);
    snprintf(own, n + 2, "%.*s%s", (int)n, last->text, mark);
    last->text = own;
    d->text.len -= had - n;
    return steno_buf_puts(&d->text, mark);
}

/* Take the n words of a command at word i. *there: they are in the text. */
static steno_status take_command(struct dictated *d, const struct command *c, size_t i, size_t n,
                                 bool *there)
{
    const bool attach = d->n && !c->sign[1] && d->words[d->n - 1].text[0] != '<';
    struct steno_word w = d->in->words[i];
    steno_status st = STENO_OK;
    const char *end = reach(d, i, !attach, &st);
    for (size_t k = 1; k < n && end; k++) {
        d->from = end;
        end = reach(d, i + k, false, &st);
    }
    *there = end != NULL;
    if (st || !end)
        return st;
    d->from = end;
    w.end = d->in->words[i + n - 1].end;
    d->capital = false;
    st = attach ? add_mark(d, c->sign) : add_word(d, w, c->sign, strlen(c->sign));
    d->capital = c->ends;
    return st;
}

static steno_status take_word(struct dictated *d, size_t i, const char *unit, bool *there)
{
    const struct steno_word *w = &d->in->words[i];
    steno_status st = STENO_OK;
    const char *end = reach(d, i, true, &st), *bare;
    char text[32];
    size_t n;
    *there = end != NULL;
    if (st || !end)
        return st;
    d->from = end;
    if (!unit)
        return add_word(d, *w, w->text, strlen(w->text));
    bare = steno_word_bare(w->text, &n);
    snprintf(text, sizeof text, "%.*s%s%.8s", bare - w->text < 8 ? (int)(bare - w->text) : 0,
             w->text, unit, bare + n);
    return add_word(d, *w, text, strlen(text));
}

static steno_status rewrite_dictated(struct dictated *d, bool marks, bool with_units, bool *there)
{
    steno_status st = STENO_OK;
    *there = true;
    for (size_t i = 0, n = 1; i < d->in->n_words && !st && *there; i += n) {
        const struct command *c = marks ? command_at(d->in, i, &n) : NULL;
        n = c ? n : 1;
        st = c ? take_command(d, c, i, n, there)
               : take_word(d, i, with_units ? unit_at(d->in, i) : NULL, there);
    }
    return !st && *there ? steno_buf_puts(&d->text, d->from) : st;
}

steno_status steno_dictated_write(const struct steno_alternative *in, bool marks, bool with_units,
                                  steno_arena *arena, struct steno_alternative *out)
{
    struct dictated d = {.in = in, .arena = arena, .from = in->text};
    bool there = false;
    steno_status st;
    *out = *in;
    steno_buf_init(&d.text, SIZE_MAX / 2);
    d.words = steno_arena_calloc(arena, in->n_words + 1, sizeof *d.words);
    st = d.words ? rewrite_dictated(&d, marks, with_units, &there) : steno_arena_failure(arena);
    if (!st && there) {
        out->text = steno_arena_strndup(arena, d.text.data ? d.text.data : "", d.text.len);
        out->words = d.words;
        out->n_words = d.n;
        st = out->text ? STENO_OK : steno_arena_failure(arena);
    }
    steno_buf_free(&d.text);
    return st;
}
