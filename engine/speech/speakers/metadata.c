#include "speech/speakers/metadata.h"

#include <stdlib.h>

steno_status steno_speakers_number(const steno_network *n, const char *key, long fallback, long min,
                                   long max, long *out, steno_err *err)
{
    const char *text = steno_network_meta(n, key);
    char *end;
    *out = text ? strtol(text, &end, 10) : fallback;
    return (!text || (end != text && !*end)) && *out >= min && *out <= max
               ? STENO_OK
               : steno_fail(err, STENO_ERR_FORMAT, "metadata %s is '%.40s', expected %ld to %ld",
                            key, text ? text : "", min, max);
}
