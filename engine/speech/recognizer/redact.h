/* Numbers and addresses that nobody is to see. Pure. */
#ifndef STENO_RECOGNIZER_REDACT_H
#define STENO_RECOGNIZER_REDACT_H

#include "speech/recognizer/filter_pieces.h"

#define STENO_REDACTED "[REDACTED]"

/* Read `redact` of struct steno_filter_options: *kinds is not 0 if it names any. STENO_ERR_INVAL.
 */
STENO_MUST steno_status steno_redact_read(unsigned *kinds, const char *text, steno_err *err);
/* Make STENO_REDACTED of the numbers and addresses of these kinds. False: out of memory. */
bool steno_redact_apply(struct steno_filter_text *t, unsigned kinds);

#endif
