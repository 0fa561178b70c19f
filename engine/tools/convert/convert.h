/* A training checkpoint -> a model directory, whatever the checkpoint is. docs/convert.md. */
#ifndef STENO_CONVERT_CONVERT_H
#define STENO_CONVERT_CONVERT_H

#include "base/status.h"

/* An option of a training script, which its checkpoint does not record: {"chunk-size", "16"}. */
struct steno_convert_flag {
    const char *name;
    const char *value; /* NULL: not given */
};

struct steno_convert_options {
    const struct steno_convert_flag *flag; /* [n_flags], borrowed */
    int n_flags;
};

/* The value of a flag; NULL: not given. */
const char *steno_convert_flag(const struct steno_convert_options *o, const char *name);

/* Recognize the checkpoint at `in` (a file or a directory) and write directory `out`; *what gets
 * its kind ("ESPnet2"). STENO_ERR_UNSUPPORTED: not one of the known kinds, which the message lists,
 * or an architecture that is not known. STENO_ERR_INVAL: a flag that this kind has no use for.
 * STENO_ERR_FORMAT: damaged or contradictory. STENO_ERR_IO. */
STENO_MUST steno_status steno_convert(const char *in, const char *out,
                                      const struct steno_convert_options *o, const char **what,
                                      steno_err *err);

#endif
