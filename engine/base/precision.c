#include "base/precision.h"

#include <string.h>

static const char *const names[] = {[STENO_FP32] = "fp32",
                                    [STENO_BF16_WEIGHTS] = "bf16",
                                    [STENO_INT8_WEIGHTS] = "int8",
                                    [STENO_FP16_WEIGHTS] = "fp16",
                                    [STENO_AUTO_WEIGHTS] = "auto"};
#define N_NAMES (sizeof names / sizeof *names)

const char *steno_precision_name(enum steno_precision p)
{
    return (size_t)p < N_NAMES ? names[p] : "unknown";
}

bool steno_precision_find(const char *name, enum steno_precision *out)
{
    for (size_t i = 0; i < N_NAMES; i++)
        if (!strcmp(name, names[i])) {
            *out = (enum steno_precision)i;
            return true;
        }
    return false;
}
