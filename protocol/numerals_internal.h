/* The tokens of a text and readers of numbers (numeral_reader.c), for numerals.c, which rewrites a
 * transcript, and smart_format.c (money, dates, times). Pure. */
#ifndef STENO_PROTOCOL_NUMERALS_INTERNAL_H
#define STENO_PROTOCOL_NUMERALS_INTERNAL_H

#include "base/english.h"
#include "steno.h"

#define STENO_NUMERAL_TEXT 40  /* bytes of a number's digits, with a sign of money */
#define STENO_NUMERAL_PARTS 4  /* tokens of a word with hyphens, at most */
#define STENO_NUMERAL_PIECES 4 /* words that take the place of others: "March 3, 2024" has 3 */

struct steno_numeral_token {
    const struct steno_english_word *term;
    size_t word;
    bool first, last; /* of its word */
    bool open, stop;  /* a mark comes before it; one after it */
    bool comma;       /* the mark after it is a comma */
};

/* A walk over tokens. The one past the last is of kind STENO_EN_OTHER. */
struct steno_numeral_reader {
    const struct steno_numeral_token *t;
    size_t n;
    const struct steno_word *words;
    size_t n_words;
};

/* A number that begins at some token. used 0: there is none. */
struct steno_numeral {
    int64_t value;
    size_t used;
    bool ordinal;
};

/* What takes the place of the next `used` tokens. */
struct steno_numeral_piece {
    size_t used;
    bool bare;                     /* without the marks behind it */
    char text[STENO_NUMERAL_TEXT]; /* "": the word stays as it is */
};

/* The tokens of word i into out [STENO_NUMERAL_PARTS]; their number. */
size_t steno_numeral_split(const char *text, size_t i, struct steno_numeral_token *out);
const struct steno_numeral_token *steno_numeral_at(const struct steno_numeral_reader *r, size_t i);
/* The term of token i if it continues what the token before it began: no mark is between. */
const struct steno_english_word *steno_numeral_follows(const struct steno_numeral_reader *r,
                                                       size_t i);
bool steno_numeral_is_multiplier(const struct steno_english_word *t);
/* Below a hundred: "seven", "seventeen", "seventy", "seventy seven". */
struct steno_numeral steno_numeral_small(const struct steno_numeral_reader *r, size_t i);
/* "two million three hundred thousand and five". Magnitudes fall. */
struct steno_numeral steno_numeral_cardinal(const struct steno_numeral_reader *r, size_t i);
/* "nineteen eighty four", "twenty oh five", "nineteen eighties", into out [STENO_NUMERAL_TEXT]. The
 * number of tokens; 0: none. */
size_t steno_numeral_year(const struct steno_numeral_reader *r, size_t i, char *out);
/* Cardinals and decimals, also those that a plain text leaves as words. Ordinals are none. */
size_t steno_numeral_amount(const struct steno_numeral_reader *r, size_t i, char *out);
/* The number that begins at token i, of whole words, as text in out [STENO_NUMERAL_TEXT], and its
 * tokens; 0: there is none. */
size_t steno_numeral_write(const struct steno_numeral_reader *r, size_t i, char *out);
/* "th", "st", "nd", "rd" */
const char *steno_numeral_suffix(int64_t v);

/* Money, a date or a time that begins at token i: fill out [STENO_NUMERAL_PIECES] and return their
 * number; 0: there is none. */
size_t steno_smart_format_write(const struct steno_numeral_reader *r, size_t i,
                                struct steno_numeral_piece *out);

#endif
