/* Which model aligns a language: the list of align.model, "en=NAME,de=NAME,NAME", in which a name
 * alone is for all languages that have none of their own. Pure. */
#ifndef STENO_SERVER_CORE_ALIGNERS_H
#define STENO_SERVER_CORE_ALIGNERS_H

#include "base/status.h"

#define STENO_ALIGNER_NAME 128 /* bytes of a model's name, with its NUL */

/* Check a list. STENO_ERR_INVAL names what is wrong with it. */
STENO_MUST steno_status steno_aligners_check(const char *list, steno_err *err);
/* Find the model of a language (code; NULL or "": not known) in a list that was checked. False:
 * there is none. */
bool steno_aligners_find(const char *list, const char *language, char out[STENO_ALIGNER_NAME]);
/* Copy the name of the entry at *list, and move behind it. False: the list is over. */
bool steno_aligners_next(const char **list, char out[STENO_ALIGNER_NAME]);

#endif
