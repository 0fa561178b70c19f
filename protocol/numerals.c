/* Words become tokens first: one for a plain word, several for one with hyphens ("twenty-three").
 * Then a number is looked for at the first token of each word, in this order: year, digits said one
 * by one, cardinal or ordinal. It must end with a whole word. */
#include "protocol/numerals.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "protocol/word.h"

#define MAX_PARTS 4    /* of a word with hyphens */
#define LONGEST 12     /* bytes of a word of a number; "seventeenth" has 11 */
#define NUMBER_TEXT 32 /* bytes of a number's digits */
#define DIGIT_STRING 3 /* digits said one by one that are joined */

enum kind {
    OTHER,
    DIGIT,     /* 0 to 9 */
    TEEN,      /* 10 to 19 */
    TENS,      /* 20, 30 ... 90 */
    HUNDRED,   /* and its ordinal */
    MAGNITUDE, /* thousand and more */
    AND,
    A,
    OH, /* zero among digits */
    POINT,
    DECADE,  /* "eighties" */
    FRACTION /* "thirds" */
};

struct term {
    char word[LONGEST];
    enum kind kind;
    int64_t value;
    bool ordinal;
};

/* Sorted by word. */
static const struct term terms[] = {
    {"a", A, 1, false},
    {"and", AND, 0, false},
    {"billion", MAGNITUDE, 1000000000, false},
    {"billionth", MAGNITUDE, 1000000000, true},
    {"eight", DIGIT, 8, false},
    {"eighteen", TEEN, 18, false},
    {"eighteenth", TEEN, 18, true},
    {"eighth", DIGIT, 8, true},
    {"eighths", FRACTION, 8, false},
    {"eighties", DECADE, 80, false},
    {"eightieth", TENS, 80, true},
    {"eighty", TENS, 80, false},
    {"eleven", TEEN, 11, false},
    {"eleventh", TEEN, 11, true},
    {"fifteen", TEEN, 15, false},
    {"fifteenth", TEEN, 15, true},
    {"fifth", DIGIT, 5, true},
    {"fifths", FRACTION, 5, false},
    {"fifties", DECADE, 50, false},
    {"fiftieth", TENS, 50, true},
    {"fifty", TENS, 50, false},
    {"first", DIGIT, 1, true},
    {"five", DIGIT, 5, false},
    {"forties", DECADE, 40, false},
    {"fortieth", TENS, 40, true},
    {"forty", TENS, 40, false},
    {"four", DIGIT, 4, false},
    {"fourteen", TEEN, 14, false},
    {"fourteenth", TEEN, 14, true},
    {"fourth", DIGIT, 4, true},
    {"fourths", FRACTION, 4, false},
    {"halves", FRACTION, 2, false},
    {"hundred", HUNDRED, 100, false},
    {"hundredth", HUNDRED, 100, true},
    {"hundredths", FRACTION, 100, false},
    {"million", MAGNITUDE, 1000000, false},
    {"millionth", MAGNITUDE, 1000000, true},
    {"nine", DIGIT, 9, false},
    {"nineteen", TEEN, 19, false},
    {"nineteenth", TEEN, 19, true},
    {"nineties", DECADE, 90, false},
    {"ninetieth", TENS, 90, true},
    {"ninety", TENS, 90, false},
    {"ninth", DIGIT, 9, true},
    {"ninths", FRACTION, 9, false},
    {"o", OH, 0, false},
    {"oh", OH, 0, false},
    {"one", DIGIT, 1, false},
    {"point", POINT, 0, false},
    {"quarters", FRACTION, 4, false},
    {"second", DIGIT, 2, true},
    {"seven", DIGIT, 7, false},
    {"seventeen", TEEN, 17, false},
    {"seventeenth", TEEN, 17, true},
    {"seventh", DIGIT, 7, true},
    {"sevenths", FRACTION, 7, false},
    {"seventies", DECADE, 70, false},
    {"seventieth", TENS, 70, true},
    {"seventy", TENS, 70, false},
    {"six", DIGIT, 6, false},
    {"sixteen", TEEN, 16, false},
    {"sixteenth", TEEN, 16, true},
    {"sixth", DIGIT, 6, true},
    {"sixths", FRACTION, 6, false},
    {"sixties", DECADE, 60, false},
    {"sixtieth", TENS, 60, true},
    {"sixty", TENS, 60, false},
    {"ten", TEEN, 10, false},
    {"tenth", TEEN, 10, true},
    {"tenths", FRACTION, 10, false},
    {"third", DIGIT, 3, true},
    {"thirds", FRACTION, 3, false},
    {"thirteen", TEEN, 13, false},
    {"thirteenth", TEEN, 13, true},
    {"thirties", DECADE, 30, false},
    {"thirtieth", TENS, 30, true},
    {"thirty", TENS, 30, false},
    {"thousand", MAGNITUDE, 1000, false},
    {"thousandth", MAGNITUDE, 1000, true},
    {"thousandths", FRACTION, 1000, false},
    {"three", DIGIT, 3, false},
    {"trillion", MAGNITUDE, 1000000000000, false},
    {"trillionth", MAGNITUDE, 1000000000000, true},
    {"twelfth", TEEN, 12, true},
    {"twelve", TEEN, 12, false},
    {"twenties", DECADE, 20, false},
    {"twentieth", TENS, 20, true},
    {"twenty", TENS, 20, false},
    {"two", DIGIT, 2, false},
    {"zero", DIGIT, 0, false},
};

static const struct term other = {"", OTHER, 0, false};

struct token {
    const struct term *term;
    size_t word;
    bool first, last; /* of its word */
    bool open, stop;  /* a mark comes before it; one after it */
};

/* A walk over tokens. The one past the last is `other`. */
struct reader {
    const struct token *t;
    size_t n;
};

/* ---- tokens ---------------------------------------------------------------------------------- */

static const struct term *find_term(const char *p, size_t n)
{
    size_t low = 0, high = sizeof terms / sizeof *terms;
    char word[LONGEST] = "";
    if (n >= sizeof word)
        return &other;
    for (size_t i = 0; i < n; i++)
        word[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + ('a' - 'A') : p[i]);
    while (low < high) {
        size_t mid = (low + high) / 2;
        int order = strcmp(word, terms[mid].word);
        if (!order)
            return &terms[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return &other;
}

/* Append the tokens of word i: at most MAX_PARTS. */
static size_t split_word(const char *text, size_t i, struct token *out)
{
    size_t len, n = 0;
    const char *p = steno_word_bare(text, &len), *end = p + len, *bare = p;
    while (p <= end && n < MAX_PARTS) {
        const char *dash = memchr(p, '-', (size_t)(end - p));
        const char *stop = dash ? dash : end;
        const struct term *is = find_term(p, (size_t)(stop - p));
        if (is->kind == OTHER)
            break;
        out[n++] = (struct token){.term = is, .word = i};
        p = stop + 1;
    }
    if (p <= end) { /* not all of it belongs to numbers */
        n = 1;
        out[0] = (struct token){.term = &other, .word = i};
    }
    out[0].first = out[n - 1].last = true;
    out[0].open = bare > text;
    out[n - 1].stop = *end != '\0';
    return n;
}

static const struct token *at(const struct reader *r, size_t i)
{
    static const struct token past = {.term = &other};
    return i < r->n ? &r->t[i] : &past;
}

/* Token i if it continues a number from the one before it. */
static const struct term *follows(const struct reader *r, size_t i)
{
    return i < r->n && !r->t[i - 1].stop && !r->t[i].open ? r->t[i].term : &other;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* A number that begins at some token. used 0: there is none. */
struct number {
    int64_t value;
    size_t used;
    bool ordinal;
};

/* Below a hundred: "seven", "seventeen", "seventy", "seventy seven". */
static struct number read_small(const struct reader *r, size_t i)
{
    const struct term *t = at(r, i)->term, *unit;
    struct number v = {t->value, 1, t->ordinal};
    if (t->kind != DIGIT && t->kind != TEEN && t->kind != TENS)
        return (struct number){0};
    unit = follows(r, i + 1);
    if (t->kind == TENS && !t->ordinal && unit->kind == DIGIT && unit->value) {
        v.value += unit->value;
        v.used = 2;
        v.ordinal = unit->ordinal;
    }
    return v;
}

static bool is_multiplier(const struct term *t)
{
    return t->kind == HUNDRED || t->kind == MAGNITUDE;
}

/* Add what follows a hundred to v: "five", "and five". limit: it is below. */
static void add_rest(const struct reader *r, size_t i, int64_t limit, struct number *v)
{
    const size_t joint = follows(r, i + v->used)->kind == AND;
    struct number more;
    if (v->ordinal || follows(r, i + v->used)->kind == OTHER ||
        (joint && follows(r, i + v->used + 1)->kind == OTHER))
        return;
    more = read_small(r, i + v->used + joint);
    if (!more.used || !more.value || more.value >= limit)
        return;
    v->value += more.value;
    v->used += joint + more.used;
    v->ordinal = more.ordinal;
}

/* Below ten thousand: "nineteen hundred and five". "a" stands for one before a multiplier. */
static struct number read_group(const struct reader *r, size_t i)
{
    const struct term *t = at(r, i)->term;
    struct number v = read_small(r, i);
    if (t->kind == A && is_multiplier(follows(r, i + 1)))
        v = (struct number){1, 1, false};
    if (!v.used || v.ordinal || !v.value || follows(r, i + v.used)->kind != HUNDRED)
        return v;
    v.ordinal = follows(r, i + v.used)->ordinal;
    v.value *= 100;
    v.used++;
    add_rest(r, i, 100, &v);
    return v;
}

/* "two million three hundred thousand and five". Magnitudes fall. */
static struct number read_cardinal(const struct reader *r, size_t i)
{
    struct number sum = {0}, v = read_group(r, i);
    int64_t limit = INT64_MAX;
    for (size_t joint = 0; v.used;) {
        const struct term *t = follows(r, i + sum.used + joint + v.used);
        const bool scaled = t->kind == MAGNITUDE && !v.ordinal && v.value && t->value < limit;
        const bool next = t->kind == MAGNITUDE && !scaled; /* it is of the next number */
        if (sum.used && (!v.value || next || (!scaled && v.value >= limit)))
            break;
        sum.value += scaled ? v.value * t->value : v.value;
        sum.used += joint + v.used + scaled;
        sum.ordinal = scaled ? t->ordinal : v.ordinal;
        if (!scaled || sum.ordinal)
            break;
        limit = t->value;
        joint = follows(r, i + sum.used)->kind == AND;
        if (follows(r, i + sum.used + joint)->kind == OTHER)
            break;
        v = read_group(r, i + sum.used + joint);
    }
    return sum;
}

/* ---- their text ------------------------------------------------------------------------------ */

static const char *suffix_of(int64_t v)
{
    static const char *const suffixes[] = {"th", "st", "nd", "rd"};
    return v / 10 % 10 == 1 || v % 10 > 3 ? "th" : suffixes[v % 10];
}

/* The digits said one by one from token i on, "oh" among them, into out. Their number. */
static size_t read_digits(const struct reader *r, size_t i, char *out, size_t size)
{
    size_t n = 0;
    const struct term *t = at(r, i)->term;
    while (n + 1 < size && ((t->kind == DIGIT && !t->ordinal) || t->kind == OH)) {
        out[n++] = (char)('0' + t->value);
        t = follows(r, i + n);
    }
    out[n] = '\0';
    return n;
}

/* "nineteen eighty four", "twenty oh five", "nineteen eighties". The number of tokens; 0: none. */
static size_t write_year(const struct reader *r, size_t i, char *out)
{
    const struct term *t = at(r, i)->term, *next = follows(r, i + 1);
    struct number rest;
    if (t->ordinal || (t->kind != TEEN && t->kind != TENS) || t->value < 16 || t->value > 20)
        return 0;
    if (next->kind == DECADE) {
        snprintf(out, NUMBER_TEXT, "%" PRId64 "%" PRId64 "s", t->value, next->value);
        return 2;
    }
    if (next->kind == OH) {
        const struct term *unit = follows(r, i + 2);
        if (unit->kind != DIGIT || unit->ordinal || !unit->value)
            return 0;
        snprintf(out, NUMBER_TEXT, "%" PRId64 "0%" PRId64, t->value, unit->value);
        return 3;
    }
    if (next->kind != TEEN && next->kind != TENS)
        return 0;
    rest = read_small(r, i + 1);
    if (rest.ordinal || is_multiplier(follows(r, i + 1 + rest.used)))
        return 0;
    snprintf(out, NUMBER_TEXT, "%" PRId64, t->value * 100 + rest.value);
    return 1 + rest.used;
}

static size_t write_digit_string(const struct reader *r, size_t i, char *out)
{
    size_t n;
    if (at(r, i)->term->kind != DIGIT)
        return 0;
    n = read_digits(r, i, out, NUMBER_TEXT);
    if (n && is_multiplier(follows(r, i + n))) /* of the last digit */
        n--;
    out[n] = '\0';
    return n >= DIGIT_STRING ? n : 0;
}

/* Whether a number is better left as words. */
static bool stays_words(const struct reader *r, size_t i, const struct number *v)
{
    if (follows(r, i + v->used)->kind == FRACTION)
        return true;
    return v->used == 1 && v->value < 10 && (v->ordinal || v->value == 1);
}

static size_t write_cardinal(const struct reader *r, size_t i, char *out)
{
    struct number v = read_cardinal(r, i);
    size_t n;
    int len;
    if (!v.used)
        return 0;
    len = snprintf(out, NUMBER_TEXT, "%" PRId64, v.value);
    if (!v.ordinal && follows(r, i + v.used)->kind == POINT && i + v.used + 1 < r->n &&
        follows(r, i + v.used + 1)->kind != OTHER) {
        out[len] = '.';
        n = read_digits(r, i + v.used + 1, out + len + 1, NUMBER_TEXT - (size_t)len - 1);
        if (n)
            return v.used + 1 + n;
    }
    snprintf(out, NUMBER_TEXT, "%" PRId64 "%s", v.value, v.ordinal ? suffix_of(v.value) : "");
    return stays_words(r, i, &v) ? 0 : v.used;
}

/* The number that begins at token i, as text in out [NUMBER_TEXT], and its tokens; 0: there is
 * none. */
static size_t write_number(const struct reader *r, size_t i, char *out)
{
    size_t n = write_year(r, i, out);
    if (!n)
        n = write_digit_string(r, i, out);
    if (!n)
        n = write_cardinal(r, i, out);
    return n && at(r, i)->first && at(r, i + n - 1)->last ? n : 0;
}

/* ---- the transcript -------------------------------------------------------------------------- */

struct rewrite {
    const struct steno_alternative *in;
    steno_arena *arena;
    const char *from; /* the part of in's text that is not copied yet */
    char *text;       /* the new text so far ends here */
    struct steno_word *words;
    size_t n;
};

static void put(struct rewrite *w, const char *p, size_t n)
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

/* Take words first to last, as `number`; NULL: the one word as it is. */
static bool take(struct rewrite *w, size_t first, size_t last, const char *number)
{
    const struct steno_word *in = w->in->words;
    const char *begin = NULL, *end = NULL, *lead, *tail;
    size_t n_lead, n_tail, n_number;
    struct steno_word *out = &w->words[w->n++];
    char *text;
    *out = in[first];
    if (!find_words(w, first, last, &begin, &end))
        return false;
    put(w, w->from, (size_t)(begin - w->from));
    w->from = end;
    if (!number) {
        put(w, begin, (size_t)(end - begin));
        return true;
    }
    lead = in[first].text;
    n_lead = (size_t)(steno_word_bare(lead, &n_tail) - lead);
    tail = steno_word_bare(in[last].text, &n_tail) + n_tail;
    n_tail = strlen(tail);
    n_number = strlen(number);
    text = steno_arena_alloc(w->arena, n_lead + n_number + n_tail + 1);
    if (!text)
        return false;
    memcpy(text, lead, n_lead);
    memcpy(text + n_lead, number, n_number);
    memcpy(text + n_lead + n_number, tail, n_tail);
    put(w, text, n_lead + n_number + n_tail);
    out->text = text;
    out->end = in[last].end;
    out->confidence = mean_confidence(in + first, last - first + 1);
    return true;
}

/* False: the words are not in the text, or the arena has no room. */
static bool rewrite(struct rewrite *w, const struct reader *r)
{
    for (size_t i = 0; i < r->n;) {
        char number[NUMBER_TEXT];
        size_t used = at(r, i)->term->kind == OTHER ? 0 : write_number(r, i, number);
        const size_t word = r->t[i].word;
        if (!take(w, word, used ? r->t[i + used - 1].word : word, used ? number : NULL))
            return false;
        i += used;
        while (!used && i < r->n && r->t[i].word == word)
            i++;
    }
    put(w, w->from, strlen(w->from) + 1);
    return true;
}

steno_status steno_numerals_write(const struct steno_alternative *in, steno_arena *arena,
                                  struct steno_alternative *out, steno_err *err)
{
    const size_t bytes = strlen(in->text) + in->n_words * NUMBER_TEXT + 1;
    struct token *tokens = steno_arena_calloc(arena, in->n_words + 1, MAX_PARTS * sizeof *tokens);
    struct rewrite w = {.in = in, .arena = arena, .from = in->text};
    struct reader r = {.t = tokens};
    char *text = steno_arena_alloc(arena, bytes);
    w.words = steno_arena_calloc(arena, in->n_words + 1, sizeof *w.words);
    w.text = text;
    if (!tokens || !text || !w.words)
        return steno_fail(err, steno_arena_failure(arena), "numerals: out of memory");
    for (size_t i = 0; i < in->n_words; i++)
        r.n += split_word(in->words[i].text, i, tokens + r.n);
    *out = *in;
    if (!rewrite(&w, &r))
        return STENO_OK;
    out->text = text;
    out->words = w.words;
    out->n_words = w.n;
    return STENO_OK;
}
