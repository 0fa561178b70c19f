#include "protocol/cues.h"

#include <math.h>
#include <stdlib.h>

#include <utf8proc.h>

#include "base/ascii.h"
#include "protocol/word.h"

/* Costs, relative to that of a cue more. */
#define INNER_SENTENCE 1.5 /* a sentence that ends within a cue */
#define SHORT 2.0          /* a cue of no length; none from READABLE on */
#define READABLE 1.5       /* seconds */
#define FULL 0.5           /* a cue of the largest width; grows by its square */
#define AFTER_CLAUSE 0.4   /* a cue that ends behind a comma, ... */
#define AFTER_SEGMENT 0.6  /* ... where a segment ends, ... */
#define AFTER_WORD 1.0     /* ... elsewhere within a sentence, ... */
#define AT_PAUSE -0.5      /* ... at a pause of PAUSE s or more, ... */
#define BEFORE_OPENER -0.3 /* ... before "and", ... */
#define AFTER_WEAK 0.8     /* ... behind "the", ... */
#define WITHIN_NAME 2.0    /* ... in "New York", "Mr. Smith", "5 000" */
#define FAST 2.0           /* a cue that takes twice its time to read */
#define LINE 10.0          /* a line more outweighs all else */
#define LINE_END 0.8       /* the part of these costs that an end of a line has */
#define PAUSE 0.5          /* s */

#define SHOWN 1.0    /* seconds that a cue is shown, if there is a pause beside it */
#define LEAD 0.5     /* ... of which so many may lie before it is heard */
#define SHORTEST 0.1 /* ... and without */

enum mark { NO_MARK, CLAUSE, SENTENCE };

/* What the layout knows of a word, or of the place before it. */
struct place {
    int before, columns; /* width of all words before it, and its own */
    unsigned sentences;  /* that end before it */
    enum mark mark;      /* at its end */
    double within;       /* cost of an end behind it, within a sentence and clause */
    double cost;         /* of the best way to here */
    size_t from;         /* where the last piece of that way begins */
};

struct layout {
    struct steno_cue_word *w;
    struct place *at; /* [n + 1] */
    size_t n;         /* of all words */
    const struct steno_subtitle_options *opt;
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

/* Its columns, and the mark at its end, before closing quotes and brackets. */
static enum mark measure_line(const char *text, int *columns)
{
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
        last = steno_closes(c) ? last : c;
    }
    return steno_word_ends_sentence(text) ? SENTENCE : is_one_of(last, clauses) ? CLAUSE : NO_MARK;
}

/* Words of English, in small letters. */
static const char *const weak_words[] = {
    "a",    "an",    "the", "of",  "to",   "in",   "on", "at",   "for",   "by",  "with",
    "from", "into",  "and", "or",  "but",  "nor",  "my", "your", "his",   "her", "its",
    "our",  "their", "as",  "if",  "that", "than", "i",  "we",   "he",    "she", "they",
    "no",   "very",  "is",  "are", "was",  "were", "be", "this", "these", NULL};
static const char *const openers[] = {"and",      "but",     "or",    "so",    "because", "that",
                                      "which",    "who",     "when",  "where", "while",   "if",
                                      "although", "though",  "until", "than",  "as",      "unless",
                                      "since",    "whether", NULL};

/* Whether a word, without marks around it, is one of a list. */
static bool is_word_of(const char *word, const char *const *list)
{
    size_t n;
    const char *p = steno_word_bare(word, &n);
    for (; *list; list++) {
        size_t i = 0;
        while (i < n && (*list)[i] && (p[i] | 0x20) == (*list)[i])
            i++;
        if (i == n && !(*list)[i])
            return true;
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_title(const char *word)
{
    static const char *const titles[] = {"mr", "mrs", "ms", "dr", "st", "prof", NULL};
    return is_word_of(word, titles);
}

/* Whether three digits follow a number: "5 000". */
static bool is_thousands(const char *word)
{
    return is_digit(word[0]) && is_digit(word[1]) && is_digit(word[2]) && !is_digit(word[3]);
}

/* "New York", "Mr. Smith", "5 000" and "$5 million" stay together; "I" is no name. */
static bool is_joined(const char *a, const char *b)
{
    static const char *const powers[] = {"hundred", "thousand", "million",
                                         "billion", "percent",  NULL};
    static const char *const i[] = {"i", "i'm", "i'll", "i've", "i'd", NULL};
    if (steno_is_capital(*a) && steno_is_capital(*b))
        return !is_word_of(a, i) && !is_word_of(b, i);
    return is_title(a) || (is_digit(a[*a == '$']) && (is_thousands(b) || is_word_of(b, powers)));
}

static double cost_within(const struct steno_cue_word *w)
{
    const double pause = fmin(fmax(w[1].start - w[0].end, 0), PAUSE) / PAUSE;
    return AT_PAUSE * pause + BEFORE_OPENER * is_word_of(w[1].text, openers) +
           AFTER_WEAK * is_word_of(w[0].text, weak_words) +
           WITHIN_NAME * is_joined(w[0].text, w[1].text);
}

static void measure_all(struct layout *l)
{
    int before = 0;
    unsigned sentences = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct place *x = &l->at[i];
        x->mark = measure_line(l->w[i].text, &x->columns);
        x->mark = is_title(l->w[i].text) ? NO_MARK : x->mark;
        x->before = before + (i && l->w[i].spaced);
        x->sentences = sentences;
        x->within = i + 1 < l->n ? cost_within(&l->w[i]) : 0;
        l->w[i].after = STENO_CUE_GOES_ON;
        before = x->before + x->columns;
        sentences += x->mark == SENTENCE;
    }
}

/* Columns of words [i, j) in one line. */
static int width(const struct layout *l, size_t i, size_t j)
{
    return l->at[j - 1].before + l->at[j - 1].columns - l->at[i].before;
}

static double cost_after(const struct layout *l, size_t last)
{
    const enum mark m = last + 1 == l->n ? SENTENCE : l->at[last].mark;
    if (m == NO_MARK)
        return (l->w[last].ends_segment ? AFTER_SEGMENT : AFTER_WORD) + l->at[last].within;
    return m == CLAUSE ? AFTER_CLAUSE : 0;
}

/* ---- pieces -------------------------------------------------------------------------------- */

static bool fits_line(const struct layout *l, size_t i, size_t j)
{
    return width(l, i, j) <= l->opt->line_chars &&
           (l->opt->line_words <= 0 || j - i <= (size_t)l->opt->line_words);
}

static bool fits_lines(const struct layout *l, size_t i, size_t j)
{
    int lines = 1;
    for (size_t first = i, k = i + 1; k < j; k++)
        if (!fits_line(l, first, k + 1)) {
            first = k;
            lines++;
        }
    return lines <= l->opt->lines;
}

static double cost_of_cue(const struct layout *l, size_t i, size_t j)
{
    const struct steno_cue_word *w = l->w;
    const double seconds = w[j - 1].end - w[i].start;
    const double shown =
        fmin(fmax(seconds, (j < l->n ? w[j].start : HUGE_VAL) - w[i].start), l->opt->max_seconds);
    const double reading = width(l, i, j) / l->opt->speed;
    const double full = width(l, i, j) / ((double)l->opt->line_chars * l->opt->lines);
    if (j - i > 1 && (w[i + 1].start - w[i].end >= l->opt->pause_seconds ||
                      seconds > l->opt->max_seconds || !fits_lines(l, i, j)))
        return HUGE_VAL;
    return 1 + cost_after(l, j - 1) +
           INNER_SENTENCE * (l->at[j - 1].sentences - l->at[i].sentences) +
           SHORT * fmax(0, 1 - shown / READABLE) + FULL * full * full +
           FAST * fmax(0, reading / fmax(shown, SHORTEST) - 1);
}

static double cost_of_line(const struct layout *l, size_t i, size_t j)
{
    const double full = (double)width(l, i, j) / l->opt->line_chars;
    if (j - i > 1 && !fits_line(l, i, j))
        return HUGE_VAL;
    return LINE + (1 - full) * (1 - full) + LINE_END * cost_after(l, j - 1);
}

/* Divide words [first, end) at the least cost, and mark where the pieces end. */
static void divide(const struct layout *l, size_t first, size_t end, cost_fn *cost_of,
                   enum steno_cue_break mark)
{
    struct place *at = l->at;
    at[first].cost = 0;
    for (size_t j = first + 1; j <= end; j++) {
        at[j].cost = HUGE_VAL;
        for (size_t i = j; i-- > first;) {
            const double cost = cost_of(l, i, j);
            if (cost == HUGE_VAL)
                break;
            if (at[i].cost + cost < at[j].cost) {
                at[j].cost = at[i].cost + cost;
                at[j].from = i;
            }
        }
    }
    for (size_t j = end; j > first; j = at[j].from)
        if (l->w[j - 1].after == STENO_CUE_GOES_ON)
            l->w[j - 1].after = mark;
}

steno_status steno_cues_make(struct steno_cue_word *words, size_t n,
                             const struct steno_subtitle_options *opt)
{
    struct layout l = {.w = words, .n = n, .opt = opt, .at = calloc(n + 1, sizeof *l.at)};
    if (!l.at)
        return STENO_ERR_NOMEM;
    measure_all(&l);
    divide(&l, 0, n, cost_of_cue, STENO_CUE_ENDS);
    for (size_t i = 0, end; i < n; i = end) {
        end = steno_cue_end(words, i);
        divide(&l, i, end, cost_of_line, STENO_CUE_LINE_ENDS);
    }
    free(l.at);
    return STENO_OK;
}

struct steno_cue_times steno_cue_times(const struct steno_cue_word *words, size_t i, size_t end,
                                       size_t n, double from,
                                       const struct steno_subtitle_options *opt)
{
    const double next = end < n ? words[end].start : HUGE_VAL;
    struct steno_cue_times t = {.start = fmax(words[i].start, from)};
    int columns = 0, all = 0;
    double reading;
    for (size_t k = i; k < end; k++) {
        (void)measure_line(words[k].text, &columns);
        all += columns + (k > i && words[k].spaced);
    }
    reading = fmin(fmax(all / opt->speed, SHOWN), opt->max_seconds);
    t.end = fmin(fmax(words[end - 1].end, t.start + reading), fmax(next, t.start));
    t.start = fmax(fmin(t.start, fmax(t.end - fmin(SHOWN, reading), t.start - LEAD)), from);
    t.end = fmax(t.end, t.start + SHORTEST); /* the next one comes late, and catches up */
    return t;
}
