/* A run reads weights once, from front to back. With pages of 4 KiB the hardware prefetchers stop
 * at each end of a page, and in a virtual machine the page walk to the next one is
 * two-dimensional. */
#include "base/pages.h"

#include "base/status.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define PAGE                                                                                       \
    ((size_t)64 << 10) /* whole pages on every machine: arm64 has pages of 4, 16 and 64 KiB */

/* Rounds up to whole pages, not to a large page: the rest of a large page would be resident too. */
static bool whole_pages(size_t n, size_t *total)
{
    if (!n || !steno_add_size(n, PAGE - 1, total))
        return false;
    *total &= ~(PAGE - 1);
    return true;
}

void steno_pages_enlarge(void *p, size_t n)
{
#ifdef MADV_HUGEPAGE
    (void)madvise(p, n, MADV_HUGEPAGE); /* only advice: refused by kernels without large pages */
#else
    (void)p;
    (void)n;
#endif
}

void *steno_pages_new(size_t n)
{
    size_t total, mapped, before, after;
    char *p;
    if (!whole_pages(n, &total) || !steno_add_size(total, STENO_PAGE_LARGE, &mapped))
        return NULL;
    p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    before = (size_t)(-(uintptr_t)p & (STENO_PAGE_LARGE - 1));
    after = STENO_PAGE_LARGE - before;
    if (before)
        (void)munmap(p, before);
    (void)munmap(p + before + total, after);
    steno_pages_enlarge(p + before, total);
    return p + before;
}

void steno_pages_cut(void *p, size_t n, size_t keep)
{
    size_t total, kept;
    if (whole_pages(n, &total) && whole_pages(keep, &kept) && kept < total)
        (void)munmap((char *)p + kept, total - kept);
}

void steno_pages_rest(const void *p, size_t n)
{
    void *start;
    memcpy(&start, &p, sizeof start);
    (void)madvise(start, n, MADV_DONTNEED);
}

void steno_pages_for_large(void)
{
#ifdef __GLIBC__
    /* glibc raises the threshold with every large block that is freed, up to 32 MiB. Then the
     * weights of a model, which are freed after packing, would leave holes in the heap. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

void steno_pages_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

void steno_pages_free(void *p, size_t n)
{
    size_t total;
    if (p && whole_pages(n, &total))
        (void)munmap(p, total);
}
