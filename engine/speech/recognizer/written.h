/* Alternatives as they are written: a grammar rewrites the text, and its words get the times of
 * what was spoken. Pure. */
#ifndef STENO_RECOGNIZER_WRITTEN_H
#define STENO_RECOGNIZER_WRITTEN_H

#include "base/arena.h"
#include "speech/itn/itn.h"
#include "steno.h"

/* Whether a text is as it was spoken: without digits, marks of sentences, or both small and capital
 * letters. */
bool steno_written_is_spoken(const char *text);
/* Replace text and words. A word that a grammar makes of several lasts from the first one's start
 * to the last one's end and has the geometric mean of their confidences; words that it makes of the
 * same ones share their time by length. Those that stay keep their case. A text that the grammar
 * does not read, or is too long for it, stays. New strings and words are of the arena; the others
 * are io's. STENO_ERR_NOMEM, STENO_ERR_LIMIT from the arena. */
STENO_MUST steno_status steno_written_apply(struct steno_alternative *io, const steno_itn *g,
                                            steno_itn_writer *w, steno_arena *arena);

#endif
