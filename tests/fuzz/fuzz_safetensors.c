/* safetensors: every byte that an accepted file refers to can be read. */
/* covers: engine/formats/safetensors.c */
#include <stdlib.h>

#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_safetensors *s = NULL;
    volatile uint8_t sum = 0;
    if (steno_safetensors_parse(&s, data, n, "fuzz", NULL))
        return 0;
    for (size_t i = 0; i < steno_safetensors_count(s); i++) {
        const struct steno_safetensor *t = steno_safetensors_get(s, i);
        for (size_t b = 0; b < t->count * t->item; b++)
            sum = (uint8_t)(sum + ((const uint8_t *)t->data)[b]);
    }
    steno_safetensors_close(s);
    return 0;
}
