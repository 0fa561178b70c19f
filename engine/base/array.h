/* Arrays that grow, and heap blocks that are freed together. Confined. */
#ifndef STENO_BASE_ARRAY_H
#define STENO_BASE_ARRAY_H

#include "base/status.h"

/* Make room for n elements in an array that has room for *cap, all of whose memory is the caller's
 * (free). array: the address of the pointer to its elements. With more than *cap it gets twice the
 * room at least. STENO_ERR_NOMEM: nothing has changed. */
#define STENO_RESERVE(array, cap, n) steno_array_reserve((array), (cap), (n), sizeof **(array))
/* The same for elements of `size` bytes, whatever the pointer's type. */
STENO_MUST steno_status steno_array_grow(void *array, size_t *cap, size_t n, size_t size);
STENO_MUST static inline steno_status steno_array_reserve(void *array, size_t *cap, size_t n,
                                                          size_t size)
{
    return n <= *cap ? STENO_OK : steno_array_grow(array, cap, n, size);
}

/* Zeros: none. */
struct steno_blocks {
    struct steno_block *newest;
    bool failed; /* one was not to be had */
};

/* A block of n * size zeroed bytes, aligned for any type. NULL: out of memory, and b->failed says
 * so from then on, so that whoever needs several blocks asks once. */
void *steno_blocks_add(struct steno_blocks *b, size_t n, size_t size);
/* Free all blocks, and forget that one failed. */
void steno_blocks_free(struct steno_blocks *b);

#endif
