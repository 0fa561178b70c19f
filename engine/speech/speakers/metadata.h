/* Numbers in the metadata of the two networks. Pure. */
#ifndef STENO_SPEAKERS_METADATA_H
#define STENO_SPEAKERS_METADATA_H

#include "nn/network/network.h"

/* Read the whole number of a key; where the key is missing, take `fallback`. STENO_ERR_FORMAT
 * names the key if the number is not within min..max: a fallback outside makes the key needed. */
STENO_MUST steno_status steno_speakers_number(const steno_network *n, const char *key,
                                              long fallback, long min, long max, long *out,
                                              steno_err *err);

#endif
