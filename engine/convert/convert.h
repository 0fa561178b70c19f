/* A training checkpoint -> a model directory, whatever the checkpoint is. docs/convert.md. */
#ifndef STENO_CONVERT_CONVERT_H
#define STENO_CONVERT_CONVERT_H

#include "base/status.h"

/* Recognize the checkpoint at `in` (a file or a directory) and write directory `out`; *what gets
 * its kind ("ESPnet2"). STENO_ERR_UNSUPPORTED: not one of the known kinds, which the message lists,
 * or an architecture that is not known. STENO_ERR_FORMAT: damaged or contradictory. STENO_ERR_IO.
 */
STENO_MUST steno_status steno_convert(const char *in, const char *out, const char **what,
                                      steno_err *err);

#endif
