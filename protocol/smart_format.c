/* Money, dates and times of an English text. They begin at a number or a month, and each is of
 * whole words: "twenty five dollars" is "$25", "march third twenty twenty four" is the three words
 * "March 3, 2024", "eight thirty seven pm" is "8:37 PM".
 *
 * "may" and "march" are verbs too. They are months before a year or an ordinal from the fourth on,
 * after "of" or a preposition of time, and in a text that has capitals where they have one. */
#include "protocol/numerals_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "protocol/word.h"

#define MARCH 3
#define MAY 5

typedef struct steno_english_word term;
typedef struct steno_numeral_reader reader;
typedef struct steno_numeral number;
typedef struct steno_numeral_piece piece;

static const char *const months[] = {"",        "January",  "February", "March",  "April",
                                     "May",     "June",     "July",     "August", "September",
                                     "October", "November", "December"};

static enum steno_english_kind kind_after(const reader *r, size_t i)
{
    return steno_numeral_follows(r, i)->kind;
}

/* ---- money ----------------------------------------------------------------------------------- */

/* "and fifty cents" after `used` tokens of money: add them to the text. The tokens; 0: none. */
static size_t add_cents(const reader *r, size_t i, char *text, size_t size)
{
    const size_t joint = kind_after(r, i) == STENO_EN_AND;
    const enum steno_english_kind kind = kind_after(r, i + joint);
    number v;
    if (kind != STENO_EN_DIGIT && kind != STENO_EN_TEEN && kind != STENO_EN_TENS)
        return 0;
    v = steno_numeral_small(r, i + joint);
    if (!v.used || v.ordinal || kind_after(r, i + joint + v.used) != STENO_EN_CENT)
        return 0;
    snprintf(text + strlen(text), size - strlen(text), ".%02" PRId64, v.value);
    return joint + v.used + 1;
}

static size_t write_money(const reader *r, size_t i, piece *out)
{
    static const char *const signs[] = {"$", "\xE2\x82\xAC"};
    char amount[STENO_NUMERAL_TEXT], year[STENO_NUMERAL_TEXT];
    const size_t n = steno_numeral_amount(r, i, amount);
    const bool decimals = n && strchr(amount, '.');
    const size_t scale = decimals && kind_after(r, i + n) == STENO_EN_MAGNITUDE; /* "2.5 million" */
    const term *money = n ? steno_numeral_follows(r, i + n + scale) : NULL;
    if (!n || money->kind != STENO_EN_CURRENCY || steno_numeral_year(r, i, year))
        return 0;
    snprintf(out[0].text, sizeof out[0].text, "%s%.32s", signs[money->value], amount);
    if (scale) { /* "million" stays, and takes "dollars" in */
        out[0].used = n;
        out[1].used = 2;
        snprintf(out[1].text, sizeof out[1].text, "%s", steno_numeral_at(r, i + n)->term->word);
        return 2;
    }
    out[0].used = n + 1;
    if (!decimals)
        out[0].used += add_cents(r, i + n + 1, out[0].text, sizeof out[0].text);
    return 1;
}

/* ---- dates ----------------------------------------------------------------------------------- */

/* A year of four digits. The number of its tokens; 0: none. */
static size_t read_year(const reader *r, size_t i, char *out)
{
    size_t n = steno_numeral_year(r, i, out);
    number v;
    if (n)
        return strlen(out) == 4 ? n : 0;
    v = steno_numeral_cardinal(r, i);
    if (v.used < 2 || v.ordinal || v.value < 1500 || v.value > 2199 ||
        kind_after(r, i + v.used) == STENO_EN_POINT)
        return 0;
    snprintf(out, STENO_NUMERAL_TEXT, "%" PRId64, v.value);
    return v.used;
}

/* The same behind a day or month that ends before token i, perhaps after a comma. */
static size_t read_year_after(const reader *r, size_t i, char *out)
{
    if (i >= r->n || r->t[i].open || (r->t[i - 1].stop && !r->t[i - 1].comma))
        return 0;
    return read_year(r, i, out);
}

static number read_day(const reader *r, size_t i)
{
    const enum steno_english_kind kind = kind_after(r, i);
    number v = {0};
    if (kind == STENO_EN_DIGIT || kind == STENO_EN_TEEN || kind == STENO_EN_TENS)
        v = steno_numeral_small(r, i);
    if (v.value < 1 || v.value > 31 ||
        (v.used && (kind_after(r, i + v.used) == STENO_EN_POINT ||
                    steno_numeral_is_multiplier(steno_numeral_follows(r, i + v.used)))))
        return (number){0};
    return v;
}

static bool is_upper(const char *p, size_t n)
{
    return n && steno_is_capital(*p);
}

/* Whether the text has words with capitals, other than I. */
static bool has_capitals(const reader *r)
{
    for (size_t i = 0; i < r->n_words; i++) {
        size_t n;
        const char *p = steno_word_bare(r->words[i].text, &n);
        if (is_upper(p, n) && !(*p == 'I' && (n == 1 || p[1] == '\'')))
            return true;
    }
    return false;
}

static bool follows_preposition(const reader *r, size_t i)
{
    static const char *const before[] = {"on",    "by",   "until",  "till", "since",
                                         "after", "from", "before", "of"};
    size_t n, word = r->t[i].word;
    const char *p = word ? steno_word_bare(r->words[word - 1].text, &n) : NULL;
    for (size_t k = 0; p && k < sizeof before / sizeof *before; k++)
        if (n == strlen(before[k]) && !strncasecmp(p, before[k], n))
            return true;
    return false;
}

/* Whether "may" or "march" at token i is a month. */
static bool is_month(const reader *r, size_t i, const number *day, bool year)
{
    size_t n;
    const char *p = steno_word_bare(r->words[r->t[i].word].text, &n);
    if (has_capitals(r))
        return is_upper(p, n);
    return year || day->value > 3 || follows_preposition(r, i);
}

static void put_month(const reader *r, size_t i, piece *out)
{
    out->used = 1;
    snprintf(out->text, sizeof out->text, "%s", months[steno_numeral_at(r, i)->term->value]);
}

/* "march third twenty twenty four", "march the third", "march twenty twenty four" */
static size_t write_month_first(const reader *r, size_t i, piece *out)
{
    const int64_t month = steno_numeral_at(r, i)->term->value;
    const bool verb = month == MAY || month == MARCH, the = kind_after(r, i + 1) == STENO_EN_THE;
    char year[STENO_NUMERAL_TEXT];
    size_t n_year = the ? 0 : read_year_after(r, i + 1, year);
    number day = {0};
    size_t n = 1;
    if (!n_year) {
        day = read_day(r, i + 1 + the);
        if (!day.used)
            return 0;
        n_year = read_year_after(r, i + 1 + the + day.used, year);
        if (!day.ordinal && (the || !n_year)) /* "in june five people" */
            return 0;
    }
    if (verb && !is_month(r, i, &day, n_year > 0))
        return 0;
    put_month(r, i, out);
    if (day.used) {
        const size_t last = i + the + day.used;
        out[n].used = the + day.used;
        snprintf(out[n].text, sizeof out[n].text, "%" PRId64 "%s", day.value,
                 n_year && !r->t[last].comma ? "," : "");
        n++;
    }
    if (n_year) {
        out[n].used = n_year;
        snprintf(out[n++].text, STENO_NUMERAL_TEXT, "%s", year);
    }
    return n;
}

/* "third of march twenty twenty four": the 3rd of March 2024 */
static size_t write_day_first(const reader *r, size_t i, piece *out)
{
    number day = steno_numeral_small(r, i);
    size_t month = i + day.used + 1, n_year;
    if (!day.used || !day.ordinal || day.value < 1 || day.value > 31 ||
        kind_after(r, i + day.used) != STENO_EN_OF || kind_after(r, month) != STENO_EN_MONTH)
        return 0;
    out[0].used = day.used;
    snprintf(out[0].text, sizeof out[0].text, "%" PRId64 "%s", day.value,
             steno_numeral_suffix(day.value));
    out[1].used = 1;
    put_month(r, month, &out[2]);
    n_year = read_year_after(r, month + 1, out[3].text);
    out[3].used = n_year;
    return n_year ? 4 : 3;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* "am", "p m", "a.m." at token i: the piece. False: it is none. */
static bool read_half_day(const reader *r, size_t i, piece *out)
{
    const term *t = steno_numeral_follows(r, i);
    size_t n, word;
    const char *bare;
    *out = (piece){.used = 1};
    if ((t->kind == STENO_EN_A || t->kind == STENO_EN_P) && kind_after(r, i + 1) == STENO_EN_M)
        out->used = 2;
    else if (t->kind != STENO_EN_HALF_DAY)
        return false;
    word = r->t[i].word;
    bare = steno_word_bare(r->words[word].text, &n);
    /* the last stop of "a.m." is not that of a sentence, unless the text ends there */
    out->bare = word + 1 < r->n_words && memchr(bare, '.', n) && !strcmp(bare + n, ".");
    snprintf(out->text, sizeof out->text, "%s",
             t->kind == STENO_EN_P || (t->kind == STENO_EN_HALF_DAY && t->value) ? "PM" : "AM");
    return true;
}

/* "eight thirty seven pm", "eight oh five am", "eight pm" */
static size_t write_time(const reader *r, size_t i, piece *out)
{
    const term *hour = steno_numeral_at(r, i)->term;
    size_t n = 1;
    int64_t minute = -1;
    if ((hour->kind != STENO_EN_DIGIT && hour->kind != STENO_EN_TEEN) || hour->ordinal ||
        hour->value < 1 || hour->value > 12)
        return 0;
    if (kind_after(r, i + 1) == STENO_EN_OH && kind_after(r, i + 2) == STENO_EN_DIGIT) {
        minute = steno_numeral_at(r, i + 2)->term->value;
        n = 3;
    } else if (kind_after(r, i + 1) == STENO_EN_TEEN || kind_after(r, i + 1) == STENO_EN_TENS) {
        number v = steno_numeral_small(r, i + 1);
        if (v.ordinal || v.value > 59)
            return 0;
        minute = v.value;
        n = 1 + v.used;
    }
    if (!read_half_day(r, i + n, &out[1]))
        return 0;
    out[0].used = n;
    if (minute < 0)
        snprintf(out[0].text, sizeof out[0].text, "%" PRId64, hour->value);
    else
        snprintf(out[0].text, sizeof out[0].text, "%" PRId64 ":%02" PRId64, hour->value, minute);
    return 2;
}

size_t steno_smart_format_write(const reader *r, size_t i, piece *out)
{
    size_t n;
    memset(out, 0, STENO_NUMERAL_PIECES * sizeof *out);
    if (steno_numeral_at(r, i)->term->kind == STENO_EN_MONTH)
        return write_month_first(r, i, out);
    n = write_money(r, i, out);
    if (!n)
        n = write_day_first(r, i, out);
    return n ? n : write_time(r, i, out);
}
