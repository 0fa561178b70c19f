/* Words become tokens first: one for a plain word, several for one with hyphens ("twenty-three").
 * Then a number is looked for at the first token of each word, in this order: year, digits said one
 * by one, cardinal or ordinal. It must end with a whole word. */
#include "protocol/numerals_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "protocol/word.h"

#define DIGIT_STRING 3 /* digits said one by one that are joined */
#define DIGIT_BYTES 32 /* of a text of such digits */

typedef struct steno_english_word term;
typedef struct steno_numeral_token token;
typedef struct steno_numeral_reader reader;
typedef struct steno_numeral number;

static const term other = {"", STENO_EN_OTHER, 0, false};

/* ---- tokens ---------------------------------------------------------------------------------- */

size_t steno_numeral_split(const char *text, size_t i, token *out)
{
    size_t len, n = 0;
    const char *p = steno_word_bare(text, &len), *end = p + len, *bare = p;
    while (p <= end && n < STENO_NUMERAL_PARTS) {
        const char *dash = memchr(p, '-', (size_t)(end - p));
        const char *stop = dash ? dash : end;
        const term *is = steno_english_word(p, (size_t)(stop - p));
        if (is->kind == STENO_EN_OTHER)
            break;
        out[n++] = (token){.term = is, .word = i};
        p = stop + 1;
    }
    if (p <= end) { /* not all of it belongs to numbers */
        n = 1;
        out[0] = (token){.term = &other, .word = i};
    }
    out[0].first = out[n - 1].last = true;
    out[0].open = bare > text;
    out[n - 1].stop = *end != '\0';
    out[n - 1].comma = !strcmp(end, ",");
    return n;
}

const token *steno_numeral_at(const reader *r, size_t i)
{
    static const token past = {.term = &other};
    return i < r->n ? &r->t[i] : &past;
}

const term *steno_numeral_follows(const reader *r, size_t i)
{
    return i < r->n && !r->t[i - 1].stop && !r->t[i].open ? r->t[i].term : &other;
}

/* ---- numbers --------------------------------------------------------------------------------- */

number steno_numeral_small(const reader *r, size_t i)
{
    const term *t = steno_numeral_at(r, i)->term, *unit;
    number v = {t->value, 1, t->ordinal};
    if (t->kind != STENO_EN_DIGIT && t->kind != STENO_EN_TEEN && t->kind != STENO_EN_TENS)
        return (number){0};
    unit = steno_numeral_follows(r, i + 1);
    if (t->kind == STENO_EN_TENS && !t->ordinal && unit->kind == STENO_EN_DIGIT && unit->value) {
        v.value += unit->value;
        v.used = 2;
        v.ordinal = unit->ordinal;
    }
    return v;
}

bool steno_numeral_is_multiplier(const term *t)
{
    return t->kind == STENO_EN_HUNDRED || t->kind == STENO_EN_MAGNITUDE;
}

/* Add what follows a hundred to v: "five", "and five". limit: it is below. */
static void add_rest(const reader *r, size_t i, int64_t limit, number *v)
{
    const size_t joint = steno_numeral_follows(r, i + v->used)->kind == STENO_EN_AND;
    number more;
    if (v->ordinal || steno_numeral_follows(r, i + v->used)->kind == STENO_EN_OTHER ||
        (joint && steno_numeral_follows(r, i + v->used + 1)->kind == STENO_EN_OTHER))
        return;
    more = steno_numeral_small(r, i + v->used + joint);
    if (!more.used || !more.value || more.value >= limit)
        return;
    v->value += more.value;
    v->used += joint + more.used;
    v->ordinal = more.ordinal;
}

/* Below ten thousand: "nineteen hundred and five". "a" stands for one before a multiplier. */
static number read_group(const reader *r, size_t i)
{
    const term *t = steno_numeral_at(r, i)->term;
    number v = steno_numeral_small(r, i);
    if (t->kind == STENO_EN_A && steno_numeral_is_multiplier(steno_numeral_follows(r, i + 1)))
        v = (number){1, 1, false};
    if (!v.used || v.ordinal || !v.value ||
        steno_numeral_follows(r, i + v.used)->kind != STENO_EN_HUNDRED)
        return v;
    v.ordinal = steno_numeral_follows(r, i + v.used)->ordinal;
    v.value *= 100;
    v.used++;
    add_rest(r, i, 100, &v);
    return v;
}

number steno_numeral_cardinal(const reader *r, size_t i)
{
    number sum = {0}, v = read_group(r, i);
    int64_t limit = INT64_MAX;
    for (size_t joint = 0; v.used;) {
        const term *t = steno_numeral_follows(r, i + sum.used + joint + v.used);
        const bool scaled =
            t->kind == STENO_EN_MAGNITUDE && !v.ordinal && v.value && t->value < limit;
        const bool next = t->kind == STENO_EN_MAGNITUDE && !scaled; /* it is of the next number */
        if (sum.used && (!v.value || next || (!scaled && v.value >= limit)))
            break;
        sum.value += scaled ? v.value * t->value : v.value;
        sum.used += joint + v.used + scaled;
        sum.ordinal = scaled ? t->ordinal : v.ordinal;
        if (!scaled || sum.ordinal)
            break;
        limit = t->value;
        joint = steno_numeral_follows(r, i + sum.used)->kind == STENO_EN_AND;
        if (steno_numeral_follows(r, i + sum.used + joint)->kind == STENO_EN_OTHER)
            break;
        v = read_group(r, i + sum.used + joint);
    }
    return sum;
}

/* ---- their text ------------------------------------------------------------------------------ */

const char *steno_numeral_suffix(int64_t v)
{
    static const char *const suffixes[] = {"th", "st", "nd", "rd"};
    return v / 10 % 10 == 1 || v % 10 > 3 ? "th" : suffixes[v % 10];
}

/* The digits said one by one from token i on, "oh" among them, into out. Their number. */
static size_t read_digits(const reader *r, size_t i, char *out, size_t size)
{
    size_t n = 0;
    const term *t = steno_numeral_at(r, i)->term;
    while (n + 1 < size && ((t->kind == STENO_EN_DIGIT && !t->ordinal) || t->kind == STENO_EN_OH)) {
        out[n++] = (char)('0' + t->value);
        t = steno_numeral_follows(r, i + n);
    }
    out[n] = '\0';
    return n;
}

size_t steno_numeral_year(const reader *r, size_t i, char *out)
{
    const term *t = steno_numeral_at(r, i)->term, *next = steno_numeral_follows(r, i + 1);
    number rest;
    if (t->ordinal || (t->kind != STENO_EN_TEEN && t->kind != STENO_EN_TENS) || t->value < 16 ||
        t->value > 20)
        return 0;
    if (next->kind == STENO_EN_DECADE) {
        snprintf(out, STENO_NUMERAL_TEXT, "%" PRId64 "%" PRId64 "s", t->value, next->value);
        return 2;
    }
    if (next->kind == STENO_EN_OH) {
        const term *unit = steno_numeral_follows(r, i + 2);
        if (unit->kind != STENO_EN_DIGIT || unit->ordinal || !unit->value)
            return 0;
        snprintf(out, STENO_NUMERAL_TEXT, "%" PRId64 "0%" PRId64, t->value, unit->value);
        return 3;
    }
    if (next->kind != STENO_EN_TEEN && next->kind != STENO_EN_TENS)
        return 0;
    rest = steno_numeral_small(r, i + 1);
    if (rest.ordinal || steno_numeral_is_multiplier(steno_numeral_follows(r, i + 1 + rest.used)))
        return 0;
    snprintf(out, STENO_NUMERAL_TEXT, "%" PRId64, t->value * 100 + rest.value);
    return 1 + rest.used;
}

static size_t write_digit_string(const reader *r, size_t i, char *out)
{
    size_t n;
    if (steno_numeral_at(r, i)->term->kind != STENO_EN_DIGIT)
        return 0;
    n = read_digits(r, i, out, DIGIT_BYTES);
    if (n && steno_numeral_is_multiplier(steno_numeral_follows(r, i + n))) /* of the last digit */
        n--;
    out[n] = '\0';
    return n >= DIGIT_STRING ? n : 0;
}

/* Whether a number is better left as words. */
static bool stays_words(const reader *r, size_t i, const number *v)
{
    if (steno_numeral_follows(r, i + v->used)->kind == STENO_EN_FRACTION)
        return true;
    return v->used == 1 && v->value < 10 && (v->ordinal || v->value == 1);
}

/* The decimals after v, "point one four", behind the len digits that out has already. The number of
 * their tokens; 0: there are none. */
static size_t add_decimals(const reader *r, size_t i, const number *v, char *out, int len)
{
    const size_t at = i + v->used + 1;
    size_t n;
    if (v->ordinal || steno_numeral_follows(r, at - 1)->kind != STENO_EN_POINT || at >= r->n ||
        steno_numeral_follows(r, at)->kind == STENO_EN_OTHER)
        return 0;
    out[len] = '.';
    n = read_digits(r, at, out + len + 1, DIGIT_BYTES - (size_t)len - 1);
    if (!n)
        out[len] = '\0';
    return n ? n + 1 : 0;
}

static size_t write_cardinal(const reader *r, size_t i, char *out)
{
    number v = steno_numeral_cardinal(r, i);
    size_t n;
    int len;
    if (!v.used)
        return 0;
    len = snprintf(out, STENO_NUMERAL_TEXT, "%" PRId64 "%s", v.value,
                   v.ordinal ? steno_numeral_suffix(v.value) : "");
    n = add_decimals(r, i, &v, out, len);
    return !n && stays_words(r, i, &v) ? 0 : v.used + n;
}

size_t steno_numeral_amount(const reader *r, size_t i, char *out)
{
    number v = steno_numeral_cardinal(r, i);
    int len;
    if (!v.used || v.ordinal)
        return 0;
    len = snprintf(out, STENO_NUMERAL_TEXT, "%" PRId64, v.value);
    return v.used + add_decimals(r, i, &v, out, len);
}

size_t steno_numeral_write(const reader *r, size_t i, char *out)
{
    size_t n = steno_numeral_year(r, i, out);
    if (!n)
        n = write_digit_string(r, i, out);
    if (!n)
        n = write_cardinal(r, i, out);
    return n && steno_numeral_at(r, i)->first && steno_numeral_at(r, i + n - 1)->last ? n : 0;
}
