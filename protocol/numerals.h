/* Numbers of an English text as digits: "twenty three" becomes "23", "two thousand and five"
 * "2005", "nineteen eighty four" "1984", "the twenty third" "the 23rd", "five five five oh one"
 * "55501", "three point one four" "3.14". Pure.
 *
 * What stays a word, because it mostly is no number: a lone "one", lone ordinals below the tenth
 * ("wait a second"), "hundred" and its like without a number before them, fractions ("two thirds").
 * Digits that are said one by one are joined from three on. Two numbers for a year are joined where
 * the first is 16 to 20. A mark of punctuation ends a number. Words that have digits already are
 * left alone.
 *
 * With `smart` also money, dates and times (smart_format.c): "$25", "March 3, 2024", "8:37 PM". */
#ifndef STENO_PROTOCOL_NUMERALS_H
#define STENO_PROTOCOL_NUMERALS_H

#include "base/arena.h"
#include "steno.h"

/* Rewrite text and words of in. smart: see above. out gets what it has, with both replaced: the
 * words of a number become one, from the first's start to the last's end, with the geometric mean
 * of their confidences; marks before and after it stay. Where the words do not occur in the text
 * one after the other, nothing is rewritten. New strings and words are of the arena; the others are
 * in's. STENO_ERR_NOMEM or STENO_ERR_LIMIT from the arena. */
STENO_MUST steno_status steno_numerals_write(const struct steno_alternative *in, bool smart,
                                             steno_arena *arena, struct steno_alternative *out,
                                             steno_err *err);

#endif
