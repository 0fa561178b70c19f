/* Arena: many small allocations, released together. Confined. */
#ifndef STENO_BASE_ARENA_H
#define STENO_BASE_ARENA_H

#include "base/status.h"

#include <stddef.h>

typedef struct steno_arena steno_arena;

#define STENO_ALIGN 64    /* alignment in bytes of every block that a kernel may read */
#define STENO_OVERREAD 64 /* bytes past the end of a tensor that kernels may read (never write) */

/* n rounded up to a multiple of STENO_ALIGN. */
static inline size_t steno_aligned(size_t n)
{
    return (n + STENO_ALIGN - 1) & ~(size_t)(STENO_ALIGN - 1);
}

/* New arena. max_bytes: hard limit for the sum of all blocks; 0 = no limit. NULL when out of
 * memory. */
steno_arena *steno_arena_new(size_t max_bytes);
void steno_arena_free(steno_arena *a);
/* Release all allocations; keep the memory of the first block. */
void steno_arena_reset(steno_arena *a);
/* Reset *a, or make it, without a limit, where it is NULL. Returns *a; NULL: out of memory. */
steno_arena *steno_arena_renew(steno_arena **a);
/* Allocate n zeroed bytes, 16-byte aligned. NULL when out of memory or over the limit. */
void *steno_arena_alloc(steno_arena *a, size_t n);
/* The same for n * size bytes, with an overflow check. */
void *steno_arena_calloc(steno_arena *a, size_t n, size_t size);
/* The same, 64-byte aligned, with STENO_OVERREAD readable bytes after the block. */
void *steno_arena_alloc_tensor(steno_arena *a, size_t n);
/* The reason of the last NULL: STENO_ERR_LIMIT or STENO_ERR_NOMEM. */
steno_status steno_arena_failure(const steno_arena *a);
char *steno_arena_strdup(steno_arena *a, const char *s);
/* s may be NULL if n is 0. */
char *steno_arena_strndup(steno_arena *a, const char *s, size_t n);
/* A formatted text. */
char *steno_arena_printf(steno_arena *a, const char *fmt, ...) STENO_PRINTF(2, 3);
size_t steno_arena_used(const steno_arena *a);

/* Heap blocks with the same alignment and readable tail; release them with steno_aligned_free.
 * steno_aligned_alloc: only the tail is zeroed, and pages that are never written take no memory. */
void *steno_aligned_alloc(size_t n);
void *steno_aligned_zeroed(size_t n);
void steno_aligned_free(void *p);

#endif
