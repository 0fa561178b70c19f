#include "speech/recognizer/filter_pieces.h"

#include <ctype.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

void steno_filter_lower(char *text, size_t n)
{
    for (size_t i = 0, k; i < n; i += k) {
        int32_t c;
        utf8proc_uint8_t lower[4];
        k = steno_utf8_next(text + i, n - i, &c);
        if (c >= 0 && (size_t)utf8proc_encode_char(utf8proc_tolower(c), lower) == k)
            memcpy(text + i, lower, k);
    }
}

static bool is_inner(unsigned char c)
{
    return c >= 0x80 || isalnum(c) || c == '@' || c == '+';
}

/* False: out of memory. */
static bool add_filter_piece(struct steno_filter_text *t, const char *text, size_t n, size_t gap,
                             size_t word)
{
    struct steno_filter_piece *p = &t->piece[t->n];
    size_t end = n;
    char *core;
    *p = (struct steno_filter_piece){.text = text, .n = n, .gap = gap, .first = word, .last = word};
    while (p->at < n && !is_inner((unsigned char)text[p->at]))
        p->at++;
    while (end > p->at && !is_inner((unsigned char)text[end - 1]))
        end--;
    p->core_n = end - p->at;
    core = steno_arena_strndup(t->arena, text + p->at, p->core_n);
    if (core)
        steno_filter_lower(core, p->core_n);
    p->core = core;
    t->n++;
    return core != NULL;
}

bool steno_filter_take_words(struct steno_filter_text *t, const char *text, size_t n_words,
                             bool *fits)
{
    const char *p = text;
    *fits = true;
    for (size_t i = 0; i < n_words; i++) {
        const size_t n = strlen(t->words[i].text);
        const char *at = strstr(p, t->words[i].text);
        *fits = at && n && strspn(p, " ") == (size_t)(at - p);
        if (!*fits) {
            t->n = 0;
            return true;
        }
        if (!add_filter_piece(t, at, n, (size_t)(at - p), i))
            return false;
        p = at + n;
    }
    *fits = !p[strspn(p, " ")];
    t->n = *fits ? t->n : 0;
    return true;
}

bool steno_filter_take_blanks(struct steno_filter_text *t, const char *text)
{
    while (*text) {
        const size_t gap = strspn(text, " "), n = strcspn(text + gap, " ");
        if (n && !add_filter_piece(t, text + gap, n, gap, t->n))
            return false;
        text += gap + n;
    }
    return true;
}

bool steno_filter_change(struct steno_filter_text *t, size_t from, size_t to, const char *text)
{
    struct steno_filter_piece *p = &t->piece[from];
    const struct steno_filter_piece *q = &t->piece[to - 1];
    const size_t end = q->at + q->core_n; /* of its core */
    p->last = q->last;
    p->text = *text ? steno_arena_printf(t->arena, "%.*s%s%.*s", (int)p->at, p->text, text,
                                         (int)(q->n - end), q->text + end)
                    : "";
    if (!p->text)
        return false;
    p->n = strlen(p->text);
    p->core = "";
    p->core_n = 0;
    p->changed = t->changed = true;
    for (size_t i = from; i < to; i++)
        t->piece[i].gone = i > from || !p->n;
    return true;
}

void steno_filter_drop(struct steno_filter_text *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (!t->piece[i].gone)
            t->piece[n++] = t->piece[i];
    t->n = n;
}
