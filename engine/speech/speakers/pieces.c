#include "speech/speakers/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "speech/speakers/cluster.h"

#define ALIKE 0.8 /* frames in common, of those of either, that make two pieces one */

const float *steno_pieces_find(const struct steno_pieces *p, size_t cell, const uint8_t *mask)
{
    for (size_t i = 0; i < p->n; i++) {
        const uint8_t *other = p->mask + i * p->frames;
        size_t both = 0, either = 0;
        if (p->cell[i] != cell)
            continue;
        for (size_t f = 0; f < p->frames; f++) {
            both += mask[f] & other[f];
            either += mask[f] | other[f];
        }
        if ((double)both >= ALIKE * (double)either)
            return p->vector + i * p->dim;
    }
    return NULL;
}

steno_status steno_pieces_add(struct steno_pieces *p, size_t cell, const uint8_t *mask,
                              const float *vector, steno_err *err)
{
    float *to;
    if (STENO_RESERVE(&p->cell, &p->cap_cells, p->n + 1) ||
        STENO_RESERVE(&p->mask, &p->cap_masks, (p->n + 1) * p->frames) ||
        STENO_RESERVE(&p->vector, &p->cap_vectors, (p->n + 1) * p->dim))
        return steno_fail(err, STENO_ERR_NOMEM, "speakers: out of memory");
    to = p->vector + p->n * p->dim;
    memcpy(to, vector, p->dim * sizeof *vector);
    steno_cluster_unit(to, 1, p->dim);
    memcpy(p->mask + p->n * p->frames, mask, p->frames);
    p->cell[p->n++] = cell;
    return STENO_OK;
}

void steno_pieces_forget(struct steno_pieces *p, size_t before)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (p->cell[i] < before)
            continue;
        p->cell[kept] = p->cell[i];
        memmove(p->mask + kept * p->frames, p->mask + i * p->frames, p->frames);
        memmove(p->vector + kept * p->dim, p->vector + i * p->dim, p->dim * sizeof *p->vector);
        kept++;
    }
    p->n = kept;
}

void steno_pieces_free(struct steno_pieces *p)
{
    free(p->cell);
    free(p->mask);
    free(p->vector);
}
