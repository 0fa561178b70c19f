#include "speech/features/lfr.h"

#include <string.h>

size_t steno_lfr_count(const struct steno_lfr *o, size_t n)
{
    if (o->centred)
        return (n + o->shift - 1) / o->shift;
    return n < o->window ? 0 : (n - o->window) / o->shift + 1;
}

void steno_lfr_apply(const struct steno_lfr *o, const float *x, size_t n, size_t dim, float *out)
{
    const size_t left = o->centred ? (o->window - 1) / 2 : 0, rows = steno_lfr_count(o, n);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < o->window; k++, out += dim) {
            const size_t at = i * o->shift + k; /* of the frames with `left` before them */
            const size_t from = at < left ? 0 : at - left < n ? at - left : n - 1;
            memcpy(out, x + from * dim, dim * sizeof *out);
        }
}
