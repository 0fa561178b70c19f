/* Marks at the end of partials. Pure. */
#ifndef STENO_RECOGNIZER_PARTIAL_MARKS_H
#define STENO_RECOGNIZER_PARTIAL_MARKS_H

#include "base/arena.h"
#include "steno.h"

/* Remove the marks at the end of a partial, unless they are stable. A model that reads the whole
 * utterance again for each partial puts a full stop at the end of each, which the next one takes
 * back. New strings are of the arena. STENO_ERR_NOMEM, STENO_ERR_LIMIT from the arena. */
STENO_MUST steno_status steno_partial_drop_marks(struct steno_event *io, steno_arena *arena);

#endif
