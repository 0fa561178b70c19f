/* Which of a directory's models a request means: `quantized` and `compat` of directories of
 * espnet_onnx (docs/espnet.md). Each has a model of its own in the server. Pure. */
#ifndef STENO_PROTOCOL_VARIANT_H
#define STENO_PROTOCOL_VARIANT_H

#include "base/status.h"

#define STENO_VARIANT_NAMES "quantized, compat"
#define STENO_COMPAT_NAME "espnet-onnx"

enum steno_choice { STENO_CHOICE_OPEN, STENO_CHOICE_NO, STENO_CHOICE_YES }; /* open: the server's */

struct steno_variant {
    enum steno_choice quantized; /* the networks of quantize/ */
    enum steno_choice compat;    /* results of espnet_onnx */
};

bool steno_variant_is_option(const char *name);
/* quantized: true, 1, false, 0; compat: espnet-onnx, none. STENO_ERR_INVAL: no such option, or
 * another value; both are named. */
STENO_MUST steno_status steno_variant_set(struct steno_variant *v, const char *name,
                                          const char *value, steno_err *err);

#endif
