/* Marks and units that are said in an English text, as signs. Pure. Source: Deepgram's pages on its
 * features dictation and measurements, of October 2026. */
#ifndef STENO_PROTOCOL_DICTATED_H
#define STENO_PROTOCOL_DICTATED_H

#include "base/arena.h"
#include "steno.h"

/* Rewrite text and words of in, into out.
 * marks: "period", "comma", "colon", "question mark" and "exclamation mark" become the mark of the
 * word before them, in place of its own; what ends a sentence gives the next word a capital. "new
 * line" and "new paragraph" become the words <\n> and <\n\n>, of these very characters. A mark that
 * no word comes before is a word.
 * units: "milligrams" and its like become "mg" behind a number, in digits or words.
 * Words that are no such commands stay as they are, with their times. Where the words do not occur
 * in the text one after the other, nothing is rewritten. New strings and words are of the arena.
 * STENO_ERR_NOMEM or STENO_ERR_LIMIT from it. */
STENO_MUST steno_status steno_dictated_write(const struct steno_alternative *in, bool marks,
                                             bool units, steno_arena *arena,
                                             struct steno_alternative *out);

#endif
