/* Samples waiting in a stream: a ring that grows on demand up to a limit. The stream's mutex guards
 * it. */
#ifndef STENO_POOL_RING_H
#define STENO_POOL_RING_H

#include "base/status.h"

struct steno_ring {
    float *data;
    size_t cap, max; /* samples; cap <= max */
    size_t head, len;
    bool held;   /* samples at the head are being read */
    float *left; /* where they lie, if that is no longer data */
};

void steno_ring_init(struct steno_ring *r, size_t max);
void steno_ring_free(struct steno_ring *r);
/* Append as much of pcm [n] as the limit allows; *taken <= n. STENO_ERR_NOMEM: nothing was
 * appended. */
STENO_MUST steno_status steno_ring_push(struct steno_ring *r, const float *pcm, size_t n,
                                        size_t *taken);
/* The samples at the head that lie in one piece, at most *n; *n becomes their number. They may be
 * read without the mutex, whatever is pushed, until the next steno_ring_drop. */
const float *steno_ring_hold(struct steno_ring *r, size_t *n);
void steno_ring_drop(struct steno_ring *r, size_t n); /* n <= len */

#endif
