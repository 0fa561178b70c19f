/* Copies of a recognizer's event that outlive its stream. Labels and languages are not copied: they
 * are constants, or as long as the model. Pure. */
#ifndef STENO_PROTOCOL_EVENT_COPY_H
#define STENO_PROTOCOL_EVENT_COPY_H

#include "base/arena.h"
#include "steno.h"

/* Copy ev and all that it points to into the arena. STENO_ERR_NOMEM, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_event_copy(struct steno_event *out, const struct steno_event *ev,
                                         steno_arena *a);
/* The same of alternatives x [n]. NULL: steno_arena_failure has the reason. */
const struct steno_alternative *
steno_alternatives_copy(steno_arena *a, const struct steno_alternative *x, size_t n);
/* Words of ev, which get a place of their own in the arena to be given other times; they are the
 * best hypothesis's too. NULL: out of memory. */
struct steno_word *steno_event_own_words(struct steno_event *ev, steno_arena *a);

#endif
