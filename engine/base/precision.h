/* The number formats in which a network stores the weights of its products. */
#ifndef STENO_BASE_PRECISION_H
#define STENO_BASE_PRECISION_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum steno_precision {
    STENO_FP32,         /* as in the file */
    STENO_BF16_WEIGHTS, /* 16 bits, widened in the kernel; sums in f32 */
    STENO_INT8_WEIGHTS, /* i8 with a scale per output channel. Activations are rounded to u8 in the
                         * product, with a range per row (products) or patch (convolutions). For a
                         * network that is already quantized: the same as STENO_AUTO_WEIGHTS */
    STENO_FP16_WEIGHTS, /* as bf16, in IEEE half precision */
    STENO_AUTO_WEIGHTS  /* the fastest that the model allows on this CPU: int8, then bf16, then
                         * f32 */
};

/* "fp32", "bf16", "int8", "fp16", "auto". Static; never NULL. */
STENO_API const char *steno_precision_name(enum steno_precision p);
/* The precision of such a name. False for any other name; *out stays as it was. */
STENO_API bool steno_precision_find(const char *name, enum steno_precision *out);

#ifdef __cplusplus
}
#endif

#endif
