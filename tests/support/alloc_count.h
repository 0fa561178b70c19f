/* Counts the allocations of a test program in all threads. The test's file names the wrapped
 * calls for the linker:
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=posix_memalign */
#ifndef STENO_TESTS_SUPPORT_ALLOC_COUNT_H
#define STENO_TESTS_SUPPORT_ALLOC_COUNT_H

#include <stdatomic.h>
#include <stddef.h>

static atomic_size_t allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);

static void count_allocation(void)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

void *__wrap_malloc(size_t n)
{
    count_allocation();
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    count_allocation();
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    count_allocation();
    return __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    count_allocation();
    return __real_aligned_alloc(align, n);
}

int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
    count_allocation();
    return __real_posix_memalign(p, align, n);
}

#endif
