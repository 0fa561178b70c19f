/* The architecture of an icefall checkpoint: from the shapes of its weights, and from options where
 * shapes do not tell. */
#ifndef STENO_CONVERT_ICEFALL_ARCH_H
#define STENO_CONVERT_ICEFALL_ARCH_H

#include "tools/convert/convert.h"
#include "tools/convert/icefall_graphs.h"

/* Read it. STENO_ERR_UNSUPPORTED: no Zipformer. STENO_ERR_INVAL names the option that is wrong,
 * contradicts the weights, or has to be given. STENO_ERR_FORMAT: weights that contradict each
 * other. */
STENO_MUST steno_status steno_icefall_read_arch(const struct steno_make_weights *w,
                                                const struct steno_convert_options *o,
                                                struct steno_icefall_arch *out, steno_err *err);
/* Set *out to an option's yes or no; unchanged if it is not given. STENO_ERR_INVAL. */
STENO_MUST steno_status steno_icefall_flag(const struct steno_convert_options *o, const char *name,
                                           bool *out, steno_err *err);

#endif
