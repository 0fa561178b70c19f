#include "speech/speakers/powerset.h"

/* Add the sets of `more` further speakers from `first` on. */
static size_t add_powerset(uint8_t *sets, size_t n, int set, int first, int speakers, int more)
{
    if (!more) {
        sets[n] = (uint8_t)set;
        return n + 1;
    }
    for (int s = first; s < speakers; s++)
        n = add_powerset(sets, n, set | 1 << s, s + 1, speakers, more - 1);
    return n;
}

size_t steno_powerset(uint8_t sets[STENO_POWERSET_CLASSES], int speakers, int together)
{
    size_t n = 0;
    for (int size = 0; size <= together; size++)
        n = add_powerset(sets, n, 0, 0, speakers, size);
    return n;
}

void steno_powerset_decode(const uint8_t *sets, size_t classes, const float *scores, size_t frames,
                           uint8_t *out)
{
    for (size_t i = 0; i < frames; i++, scores += classes) {
        size_t best = 0;
        for (size_t k = 1; k < classes; k++)
            if (scores[k] > scores[best] || scores[best] != scores[best])
                best = k;
        out[i] = sets[best];
    }
}

size_t steno_powerset_alone(const uint8_t *sets, size_t frames, int s, uint8_t *mask)
{
    size_t n = 0;
    for (size_t f = 0; f < frames; f++) {
        mask[f] = sets[f] == 1u << s;
        n += mask[f];
    }
    return n;
}
