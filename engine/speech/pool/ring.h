/* Samples waiting in a stream: a ring that grows on demand up to a limit. The stream's mutex guards
 * it. */
#ifndef STENO_POOL_RING_H
#define STENO_POOL_RING_H

#include "base/status.h"

struct steno_ring {
    float *data;
    size_t cap, max; /* samples; cap <= max, and room that had to pass it */
    size_t head, len;
    size_t end;    /* behind the sample after which the samples go on at 0; <= cap */
    bool held;     /* samples at the head are being read */
    bool reserved; /* samples are being written behind the last one */
    float *left;   /* where held samples lie, if that is no longer data */
};

void steno_ring_init(struct steno_ring *r, size_t max);
void steno_ring_free(struct steno_ring *r);
/* Reserve room behind the last sample, in one piece: *to [*room] may be written without the mutex,
 * whatever is read, until steno_ring_add. least <= *room <= most; it may pass the limit by least.
 * *room = 0: the ring is full, or more than half full and has no such piece. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ring_room(struct steno_ring *r, size_t least, size_t most, float **to,
                                        size_t *room);
void steno_ring_add(struct steno_ring *r, size_t n); /* the first n samples that were reserved */
/* The samples at the head that lie in one piece, at most *n; *n becomes their number. They may be
 * read without the mutex, whatever is written, until the next steno_ring_drop. */
const float *steno_ring_hold(struct steno_ring *r, size_t *n);
void steno_ring_drop(struct steno_ring *r, size_t n); /* n <= those held */

#endif
