/* Memory directly from the system, in large pages if it has them. Stateless. */
#ifndef STENO_BASE_PAGES_H
#define STENO_BASE_PAGES_H

#include <stddef.h>

#define STENO_PAGE_LARGE ((size_t)2 << 20) /* on x86-64 and most arm64 systems */

/* Allocate n > 0 zeroed bytes, aligned to STENO_PAGE_LARGE. A page becomes resident when it is
 * touched. NULL when out of memory or too large. Release with steno_pages_free and the same n. */
void *steno_pages_new(size_t n);
void steno_pages_free(void *p, size_t n); /* p may be NULL */
/* Release the memory after the first `keep` > 0 bytes of n; from then on the block has n = keep. */
void steno_pages_cut(void *p, size_t n, size_t keep);
/* Ask for large pages for [p, p + n), memory from another source. Does nothing where the system has
 * no large pages. p is aligned to STENO_PAGE_LARGE. */
void steno_pages_enlarge(void *p, size_t n);
/* Release the resident pages in [p, p + n) of a mapped, unmodified file; they are read again when
 * needed. p is the start of the mapping. */
void steno_pages_rest(const void *p, size_t n);
/* Call once at the start of a program. Heap blocks of a MiB and more then come directly from the
 * system and return to it when they are freed, whatever the size of earlier blocks. */
void steno_pages_for_large(void);
/* Return unused memory of the heap to the system. */
void steno_pages_trim(void);

#endif
