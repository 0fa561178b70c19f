/* Words of spoken English that a grammar is better kept from, where nobody has asked for it: it
 * writes "in a second" as "in a 2nd", "four and two dollars" as "$402", "for example" as "e.g.",
 * and glues a sentence with "dot" in it together. Rules of steno's own. Pure. */
#ifndef STENO_ITN_SHIELD_H
#define STENO_ITN_SHIELD_H

#include "base/status.h"

#define STENO_ITN_SHIELD ']' /* a byte that grammars copy, and read as a part of no number */

/* Put STENO_ITN_SHIELD over the letters of such words, in a text in small letters. One that has the
 * byte already stays as it is. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_itn_shield_english(char *text);
/* How many bytes at the begin of a text in small letters, which further words will follow, are
 * shielded as they are now whatever these are. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_itn_shield_decided(char *text, size_t *decided);

#endif
