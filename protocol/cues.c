#include "protocol/cues.h"

#include <math.h>
#include <stdlib.h>

#include <utf8proc.h>

/* Costs, relative to that of a cue more. */
#define INNER_SENTENCE 1.5 /* a sentence that ends within a cue */
#define SHORT 2.0          /* a cue of no length; none from READABLE on */
#define READABLE 1.5       /* seconds */
#define FULL 0.5           /* a cue of the largest width; grows by its square */
#define AFTER_CLAUSE 0.4   /* a cue that ends behind a comma, ... */
#define AFTER_SEGMENT 0.6  /* ... where a segment ends, ... */
#define AFTER_WORD 1.0     /* ... elsewhere within a sentence */
#define LINE 10.0          /* a line more outweighs all else */

enum mark { NO_MARK, CLAUSE, SENTENCE };

struct layout {
    struct steno_cue_word *w;
    size_t n; /* of all words */
    const struct steno_cue_limits *limits;
    double *cost; /* [n + 1]: of the best way to there */
    size_t *from; /* [n + 1]: where its last piece begins */
};

/* Cost of a piece of words [i, j); HUGE_VAL: it is too large, and so is each that contains it. */
typedef double cost_fn(const struct layout *l, size_t i, size_t j);

/* ---- words --------------------------------------------------------------------------------- */

static bool is_one_of(utf8proc_int32_t c, const utf8proc_int32_t *set)
{
    while (*set && *set != c)
        set++;
    return *set != 0;
}

static bool closes(utf8proc_int32_t c)
{
    const utf8proc_category_t k = utf8proc_category(c);
    return c == '"' || c == '\'' || k == UTF8PROC_CATEGORY_PE || k == UTF8PROC_CATEGORY_PF;
}

/* Its columns, and the mark at its end, before closing quotes and brackets. */
static enum mark measure(const char *text, int *columns)
{
    static const utf8proc_int32_t ends[] = {'.',    '!',    '?',    0x2026, 0x3002, 0xFF01,
                                            0xFF1F, 0x061F, 0x06D4, 0x0964, 0};
    static const utf8proc_int32_t clauses[] = {',',    ';',    ':',    0x2013, 0x2014, 0x3001,
                                               0xFF0C, 0xFF1B, 0xFF1A, 0x060C, 0};
    const utf8proc_uint8_t *p = (const void *)text;
    utf8proc_int32_t last = 0;
    *columns = 0;
    while (*p) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t k = utf8proc_iterate(p, -1, &c);
        if (k <= 0) { /* not UTF-8 */
            p++;
            ++*columns;
            continue;
        }
        p += k;
        *columns += utf8proc_charwidth(c);
        last = closes(c) ? last : c;
    }
    return is_one_of(last, ends) ? SENTENCE : is_one_of(last, clauses) ? CLAUSE : NO_MARK;
}

static enum mark mark_of(const struct steno_cue_word *w)
{
    int columns;
    return measure(w->text, &columns);
}

static void measure_all(struct steno_cue_word *w, size_t n)
{
    int at = 0;
    unsigned sentences = 0;
    for (size_t i = 0; i < n; i++) {
        const bool ends = measure(w[i].text, &w[i].columns) == SENTENCE;
        at += i && w[i].spaced;
        w[i].before = at;
        w[i].sentences = sentences;
        w[i].after = STENO_CUE_GOES_ON;
        at += w[i].columns;
        sentences += ends;
    }
}

/* Columns of words [i, j) in one line. */
static int width(const struct layout *l, size_t i, size_t j)
{
    return l->w[j - 1].before + l->w[j - 1].columns - l->w[i].before;
}

static double cost_after(const struct layout *l, size_t last)
{
    const enum mark m = last + 1 == l->n ? SENTENCE : mark_of(&l->w[last]);
    if (m == NO_MARK)
        return l->w[last].ends_segment ? AFTER_SEGMENT : AFTER_WORD;
    return m == CLAUSE ? AFTER_CLAUSE : 0;
}

/* ---- pieces -------------------------------------------------------------------------------- */

static bool fits_lines(const struct layout *l, size_t i, size_t j)
{
    int lines = 1;
    for (size_t first = i, k = i + 1; k < j; k++)
        if (width(l, first, k + 1) > l->limits->line_chars) {
            first = k;
            lines++;
        }
    return lines <= l->limits->lines;
}

static double cost_of_cue(const struct layout *l, size_t i, size_t j)
{
    const struct steno_cue_word *w = l->w;
    const double seconds = w[j - 1].end - w[i].start;
    const double full = width(l, i, j) / ((double)l->limits->line_chars * l->limits->lines);
    if (j - i > 1 && (w[i + 1].start - w[i].end >= l->limits->pause_seconds ||
                      seconds > l->limits->max_seconds || !fits_lines(l, i, j)))
        return HUGE_VAL;
    return 1 + cost_after(l, j - 1) + INNER_SENTENCE * (w[j - 1].sentences - w[i].sentences) +
           SHORT * fmax(0, 1 - seconds / READABLE) + FULL * full * full;
}

static double cost_of_line(const struct layout *l, size_t i, size_t j)
{
    const double full = (double)width(l, i, j) / l->limits->line_chars;
    if (j - i > 1 && full > 1)
        return HUGE_VAL;
    return LINE + (1 - full) * (1 - full) + AFTER_CLAUSE * cost_after(l, j - 1);
}

/* Divide words [first, end) at the least cost, and mark where the pieces end. */
static void divide(const struct layout *l, size_t first, size_t end, cost_fn *cost_of,
                   enum steno_cue_break mark)
{
    l->cost[first] = 0;
    for (size_t j = first + 1; j <= end; j++) {
        l->cost[j] = HUGE_VAL;
        for (size_t i = j; i-- > first;) {
            const double cost = cost_of(l, i, j);
            if (cost == HUGE_VAL)
                break;
            if (l->cost[i] + cost < l->cost[j]) {
                l->cost[j] = l->cost[i] + cost;
                l->from[j] = i;
            }
        }
    }
    for (size_t j = end; j > first; j = l->from[j])
        if (l->w[j - 1].after == STENO_CUE_GOES_ON)
            l->w[j - 1].after = mark;
}

steno_status steno_cues_make(struct steno_cue_word *words, size_t n,
                             const struct steno_cue_limits *limits)
{
    struct layout l = {.w = words, .n = n, .limits = limits};
    bool room;
    if (!n)
        return STENO_OK;
    l.cost = malloc((n + 1) * sizeof *l.cost);
    l.from = malloc((n + 1) * sizeof *l.from);
    room = l.cost && l.from;
    if (room) {
        measure_all(words, n);
        divide(&l, 0, n, cost_of_cue, STENO_CUE_ENDS);
        for (size_t i = 0, j = 0; i < n; i = j) {
            while (words[j++].after != STENO_CUE_ENDS)
                ;
            divide(&l, i, j, cost_of_line, STENO_CUE_LINE_ENDS);
        }
    }
    free(l.cost);
    free(l.from);
    return room ? STENO_OK : STENO_ERR_NOMEM;
}
