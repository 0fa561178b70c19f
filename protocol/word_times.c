#include "protocol/word_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/status.h"
#include "protocol/event_copy.h"

#define AROUND 1.0 /* s: how far a segment's times may be off */

/* ---- lines ----------------------------------------------------------------------------------- */

/* Bytes of a text but its blanks: an alignment's words have none. */
static size_t spoken_bytes(const char *text)
{
    size_t sum = 0;
    while (*text) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &c);
        const size_t k = n > 0 ? (size_t)n : 1;
        const bool blank = c == ' ' || (c >= '\t' && c <= '\r') ||
                           utf8proc_category(c) == UTF8PROC_CATEGORY_ZS ||
                           utf8proc_category(c) == UTF8PROC_CATEGORY_ZL ||
                           utf8proc_category(c) == UTF8PROC_CATEGORY_ZP;
        sum += blank ? 0 : k;
        text += k;
    }
    return sum;
}

/* Whether a segment becomes a line, and the line a section of the alignment. */
static bool is_line(const struct steno_event *seg)
{
    size_t n = 0;
    for (size_t i = 0; i < seg->n_words && !n; i++)
        n += spoken_bytes(seg->words[i].text);
    return n > 0;
}

static size_t text_bytes(const struct steno_event *seg)
{
    size_t n = 1;
    for (size_t i = 0; i < seg->n_words; i++)
        n += strlen(seg->words[i].text) + 1;
    return n;
}

/* The words with blanks between, terminated. Returns the place behind. */
static char *put_words(char *to, const struct steno_event *seg)
{
    for (size_t i = 0; i < seg->n_words; i++) {
        const size_t n = strlen(seg->words[i].text);
        memcpy(to, seg->words[i].text, n);
        to[n] = ' ';
        to += n + 1;
    }
    *to = '\0';
    return to + 1;
}

static steno_status no_memory(steno_err *err)
{
    return steno_fail(err, STENO_ERR_NOMEM, "out of memory for the times of words");
}

/* Room for n lines of so many bytes. */
static steno_status make_room(struct steno_text_lines *l, size_t n, size_t bytes, steno_err *err)
{
    *l = (struct steno_text_lines){.text = malloc(bytes + 1),
                                   .lines = calloc(n + 1, sizeof *l->lines)};
    if (l->text && l->lines)
        return STENO_OK;
    steno_text_lines_free(l);
    return no_memory(err);
}

/* Add the line of a segment, not before `low`, and its text at `to`. Returns the place behind. */
static char *add_line(struct steno_text_lines *l, char *to, const struct steno_event *seg,
                      double low)
{
    const double from = fmax(low, seg->start - AROUND);
    if (!is_line(seg))
        return to;
    l->lines[l->n++] = (struct steno_line){to, from, fmax(seg->end + AROUND, from + AROUND)};
    return put_words(to, seg);
}

steno_status steno_word_times_lines(struct steno_text_lines *out, const steno_transcript *t,
                                    steno_err *err)
{
    const size_t n = steno_transcript_n_segments(t);
    struct steno_text_lines l;
    size_t bytes = 0;
    char *to;
    for (size_t i = 0; i < n; i++)
        bytes += text_bytes(steno_transcript_segment(t, i));
    if (make_room(&l, n, bytes, err))
        return err->code;
    to = l.text;
    for (size_t i = 0; i < n; i++)
        to = add_line(&l, to, steno_transcript_segment(t, i), l.n ? l.lines[l.n - 1].from : 0);
    *out = l;
    return STENO_OK;
}

steno_status steno_word_times_line(struct steno_text_lines *out, const struct steno_event *ev,
                                   double low, steno_err *err)
{
    const steno_status st = make_room(out, 1, text_bytes(ev), err);
    if (!st)
        add_line(out, out->text, ev, low);
    return st;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* The times of the aligned words [n] that spell one word of a transcript; *used: how many. False:
 * none was found. */
static bool times_of(const struct steno_word *aligned, size_t n, size_t bytes, size_t *used,
                     double *start, double *end)
{
    bool found = false;
    size_t i = 0;
    for (size_t got = 0; i < n && got < bytes; i++) {
        got += strlen(aligned[i].text);
        if (!(aligned[i].confidence > 0))
            continue;
        *start = found ? *start : aligned[i].start;
        *end = aligned[i].end;
        found = true;
    }
    *used = i;
    return found;
}

/* Words that were not found stay between those that were. */
static void fit_others(struct steno_word *w, const bool *found, size_t n)
{
    double low = 0, high = INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (!found[i]) {
            w[i].start = fmax(w[i].start, low);
            w[i].end = fmax(w[i].end, w[i].start);
        }
        low = w[i].end;
    }
    for (size_t i = n; i-- > 0;) {
        if (!found[i]) {
            w[i].end = fmin(w[i].end, high);
            w[i].start = fmin(w[i].start, w[i].end);
        }
        high = w[i].start;
    }
}

steno_status steno_word_times_place(struct steno_event *ev, steno_arena *a,
                                    const struct steno_word *aligned, size_t n, steno_err *err)
{
    bool *found = calloc(ev->n_words + 1, sizeof *found);
    struct steno_word *w = found ? steno_event_own_words(ev, a) : NULL;
    size_t at = 0;
    for (size_t i = 0; w && i < ev->n_words; i++) {
        size_t used;
        found[i] =
            times_of(aligned + at, n - at, spoken_bytes(w[i].text), &used, &w[i].start, &w[i].end);
        at += used;
    }
    if (w && ev->n_words) {
        fit_others(w, found, ev->n_words);
        ev->start = w[0].start;
        ev->end = w[ev->n_words - 1].end;
    }
    free(found);
    return w ? STENO_OK : no_memory(err);
}

steno_status steno_word_times_take(steno_transcript *t, const struct steno_event *final,
                                   steno_err *err)
{
    const size_t n = steno_transcript_n_segments(t);
    size_t section = 0;
    for (size_t i = 0; i < n && section < final->n_sections; i++) {
        const struct steno_event *seg = steno_transcript_segment(t, i);
        const struct steno_section *s = &final->sections[section];
        steno_arena *arena;
        struct steno_event *own;
        if (!is_line(seg))
            continue;
        own = steno_transcript_own_segment(t, i, &arena);
        if (steno_word_times_place(own, arena, final->words + s->first_word, s->n_words, err))
            return err->code;
        section++;
    }
    return STENO_OK;
}

steno_status steno_word_times_parse(const char *value, bool *aligned, steno_err *err)
{
    *aligned = !strcmp(value, "aligned");
    if (*aligned || !strcmp(value, "model") || !*value)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL,
                      STENO_WORD_TIMES ": '%.40s' is neither model nor aligned", value);
}
