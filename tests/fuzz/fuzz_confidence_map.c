/* Maps of confidences beside a model. Any bytes give an error or a map that rises within 0..1. */
/* covers: engine/speech/text/confidence_map.c */
#include <stdint.h>
#include <stdlib.h>

#include "speech/text/confidence_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_confidence_map m;
    steno_err err;
    float last = STENO_CONFIDENCE_LEAST;
    if (steno_confidence_map_parse(&m, (const char *)data, n, "map", &err))
        return 0;
    for (int i = 0; i <= 1000; i++) {
        const float c = steno_confidence_map_of(&m, (float)i / 1000);
        if (!(c >= last && c <= 1))
            abort();
        last = c;
    }
    return 0;
}
