/* Alternatives as they are written: a grammar rewrites the text, a network says where marks and
 * capitals go, and the words get the times of what was spoken. */
#ifndef STENO_RECOGNIZER_WRITTEN_H
#define STENO_RECOGNIZER_WRITTEN_H

#include "base/arena.h"
#include "speech/itn/itn.h"
#include "speech/punctuation/punctuation.h"
#include "steno.h"

/* Whether a text is as it was spoken: without digits, marks of sentences, or both small and capital
 * letters. */
bool steno_written_is_spoken(const char *text);
/* What writes. Borrowed. */
struct steno_written_by {
    const steno_itn *grammar;        /* NULL: numbers stay words */
    steno_itn_writer *itn;           /* with it */
    bool shielded;                   /* of English: it does not read some words (itn/shield.h) */
    bool digits;                     /* of English: lone numbers below ten become digits */
    steno_punctuation_writer *marks; /* NULL: none are added */
};

/* Replace text and words. A word that a grammar makes of several lasts from the first one's start
 * to the last one's end and has the geometric mean of their confidences; words that it makes of the
 * same ones share their time by length. Those that stay keep their case. digits: of those, "zero"
 * and "two" to "nine" become digits; "one" mostly is no number. A text that the grammar
 * does not read, or is too long for it, stays.
 * The network reads what was spoken. A written word gets the mark behind its last spoken one, and
 * the case of it if it comes of one alone; a text in capitals becomes one of small letters first.
 * Marks of Chinese become those of ASCII behind letters and digits of ASCII. No word is added.
 * New strings and words are of the arena; the others are io's. STENO_ERR_NOMEM, STENO_ERR_LIMIT
 * from the arena; errors of steno_punctuation_find but STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_written_apply(struct steno_alternative *io,
                                            const struct steno_written_by *by, steno_arena *arena);
/* The same of words that more may follow, by the grammar alone: those at the begin that are written
 * so whatever follows. *words: how many of the spoken ones these are. Where the grammar may write
 * anything yet, 0, and io has no words. Digits, and a text that is too long, as above. */
STENO_MUST steno_status steno_written_begin(struct steno_alternative *io,
                                            const struct steno_written_by *by, steno_arena *arena,
                                            size_t *words);

#endif
