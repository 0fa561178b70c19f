/* English words of numbers, dates, times and money: the one list for all that reads them. Pure. */
#ifndef STENO_BASE_ENGLISH_H
#define STENO_BASE_ENGLISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STENO_EN_WORD 12 /* bytes of a word; "seventeenth" has 11 */

enum steno_english_kind {
    STENO_EN_OTHER,
    STENO_EN_DIGIT,     /* 0 to 9 */
    STENO_EN_TEEN,      /* 10 to 19 */
    STENO_EN_TENS,      /* 20, 30 ... 90 */
    STENO_EN_HUNDRED,   /* and its ordinal */
    STENO_EN_MAGNITUDE, /* thousand and more */
    STENO_EN_AND,
    STENO_EN_A,
    STENO_EN_OH, /* zero among digits */
    STENO_EN_POINT,
    STENO_EN_DECADE,   /* "eighties" */
    STENO_EN_FRACTION, /* "thirds" */
    STENO_EN_MONTH,
    STENO_EN_CURRENCY, /* value 0: dollars, 1: euros */
    STENO_EN_CENT,
    STENO_EN_OF,
    STENO_EN_THE,
    STENO_EN_HALF_DAY, /* am, pm; value 0 and 1 */
    STENO_EN_P,        /* of "p m" */
    STENO_EN_M
};

struct steno_english_word {
    char word[STENO_EN_WORD];
    enum steno_english_kind kind;
    int64_t value;
    bool ordinal;
};

/* What a word [n] is, in any case; of kind STENO_EN_OTHER: none of the list. */
const struct steno_english_word *steno_english_word(const char *word, size_t n);
/* The word of a digit 0..9. */
const char *steno_english_digit(int digit);

#endif
