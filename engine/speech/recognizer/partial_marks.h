/* Marks at the end of partials. Pure. */
#ifndef STENO_RECOGNIZER_PARTIAL_MARKS_H
#define STENO_RECOGNIZER_PARTIAL_MARKS_H

#include "base/arena.h"
#include "steno.h"

/* A model that reads all of an utterance anew ends each reading with a mark, which the next one
 * moves: leave the marks at the end of a partial out of it while they may go. New strings are of
 * the arena. STENO_ERR_NOMEM, STENO_ERR_LIMIT from the arena. */
STENO_MUST steno_status steno_partial_drop_marks(struct steno_event *io, steno_arena *arena);

#endif
