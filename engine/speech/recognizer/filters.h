/* Words of a text that are taken out, or replaced by others, before anybody sees them: struct
 * steno_filter_options. */
#ifndef STENO_RECOGNIZER_FILTERS_H
#define STENO_RECOGNIZER_FILTERS_H

#include "base/arena.h"
#include "steno.h"

/* Frozen. */
typedef struct steno_filters steno_filters;

/* Read options. *out is NULL if they ask for nothing. STENO_ERR_INVAL names the member. */
STENO_MUST steno_status steno_filters_open(steno_filters **out,
                                           const struct steno_filter_options *h, steno_err *err);
void steno_filters_close(steno_filters *f); /* accepts NULL */

/* Rewrite a partial or final, with its alternatives and sections. First numbers and addresses that
 * are to be redacted become STENO_REDACTED (redact.h), then words are masked, left out and
 * replaced. A word that comes of several lasts from the first one's start to the last one's end,
 * with their least confidence; several that come of one share its time. Where a text changes,
 * tokens and ids, which would tell it, are left out. In a partial a number at the end, which may
 * grow, is redacted from its first digit on, and what more words could change is not stable. New
 * strings are of the arena. STENO_ERR_NOMEM, STENO_ERR_LIMIT from the arena. */
STENO_MUST steno_status steno_filters_apply(const steno_filters *f, struct steno_event *io,
                                            steno_arena *arena);

#endif
