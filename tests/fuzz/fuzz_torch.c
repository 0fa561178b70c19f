/* Checkpoints of torch.save: every element of an accepted tensor can be read. */
/* covers: engine/formats/torch.c engine/formats/pickle.c engine/formats/zip.c */
#include <stdlib.h>

#include "formats/torch.h"

#define LIMIT ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_torch *t = NULL;
    volatile float sum = 0;
    if (steno_torch_parse(&t, data, n, "fuzz", LIMIT, NULL))
        return 0;
    for (size_t i = 0; i < steno_torch_count(t); i++) {
        const struct steno_torch_tensor *x = steno_torch_get(t, i);
        float v[16];
        if (!steno_torch_find(t, x->name))
            abort();
        for (size_t at = 0; at < x->count && at < LIMIT; at += 16) {
            steno_torch_read(x, at, x->count - at < 16 ? x->count - at : 16, v);
            sum = sum + v[0];
        }
        if (x->count) { /* the last one, however large an expanded tensor is */
            steno_torch_read(x, x->count - 1, 1, v);
            sum = sum + v[0];
        }
    }
    steno_torch_close(t);
    return 0;
}
