#include "protocol/word_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/status.h"

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

steno_status steno_word_times_lines(struct steno_text_lines *out, const steno_transcript *t,
                                    steno_err *err)
{
    const size_t n = steno_transcript_n_segments(t);
    struct steno_text_lines l = {0};
    double from = 0;
    size_t bytes = 1;
    char *to;
    for (size_t i = 0; i < n; i++)
        bytes += text_bytes(steno_transcript_segment(t, i));
    l.text = to = malloc(bytes);
    l.lines = calloc(n + 1, sizeof *l.lines);
    if (!l.text || !l.lines) {
        steno_text_lines_free(&l);
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory for the times of words");
    }
    for (size_t i = 0; i < n; i++) {
        const struct steno_event *seg = steno_transcript_segment(t, i);
        if (!is_line(seg))
            continue;
        from = fmax(from, seg->start - AROUND);
        l.lines[l.n++] = (struct steno_line){to, from, fmax(seg->end + AROUND, from + AROUND)};
        to = put_words(to, seg);
    }
    *out = l;
    return STENO_OK;
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

/* The words of a segment with the times of those aligned [n]. */
static void place_words(struct steno_word *w, bool *found, size_t n_words,
                        const struct steno_word *aligned, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n_words; i++) {
        size_t used;
        found[i] =
            times_of(aligned + at, n - at, spoken_bytes(w[i].text), &used, &w[i].start, &w[i].end);
        at += used;
    }
    fit_others(w, found, n_words);
}

steno_status steno_word_times_take(steno_transcript *t, const struct steno_event *final,
                                   steno_err *err)
{
    const size_t n = steno_transcript_n_segments(t);
    size_t section = 0;
    for (size_t i = 0; i < n && section < final->n_sections; i++) {
        const struct steno_event *seg = steno_transcript_segment(t, i);
        const struct steno_section *s = &final->sections[section];
        bool *found;
        struct steno_word *w;
        if (!is_line(seg))
            continue;
        found = calloc(seg->n_words, sizeof *found);
        w = found ? steno_transcript_own_words(t, i) : NULL;
        if (!w) {
            free(found);
            return steno_fail(err, STENO_ERR_NOMEM, "out of memory for the times of words");
        }
        place_words(w, found, seg->n_words, final->words + s->first_word, s->n_words);
        steno_transcript_fit_segment(t, i);
        section++;
        free(found);
    }
    return STENO_OK;
}
