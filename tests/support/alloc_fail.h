/* One allocation of a test program fails, and those after it succeed again; that exposes
 * half-built objects. The test's file names the wrapped calls for the linker:
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc */
#ifndef STENO_TESTS_SUPPORT_ALLOC_FAIL_H
#define STENO_TESTS_SUPPORT_ALLOC_FAIL_H

#include <stdbool.h>
#include <stddef.h>

static long alloc_left = -1; /* allocations until one fails; -1: none fails */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

static bool alloc_fails(void)
{
    return alloc_left >= 0 && alloc_left-- == 0;
}

void *__wrap_malloc(size_t n)
{
    return alloc_fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return alloc_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return alloc_fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return alloc_fails() ? NULL : __real_aligned_alloc(align, n);
}

#endif
