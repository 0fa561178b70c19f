/* Hides numbers and addresses in a text. Pure. */
#ifndef STENO_RECOGNIZER_REDACT_H
#define STENO_RECOGNIZER_REDACT_H

#include "speech/recognizer/filter_pieces.h"

#define STENO_REDACTED "[REDACTED]"

/* Add the kinds that a list names, the redact of struct steno_filter_options, to *kinds.
 * STENO_ERR_INVAL names the one that is unknown. */
STENO_MUST steno_status steno_redact_read(unsigned *kinds, const char *text, steno_err *err);
/* Put STENO_REDACTED for the numbers and addresses of these kinds. False: out of memory. */
bool steno_redact_apply(struct steno_filter_text *t, unsigned kinds);

#endif
