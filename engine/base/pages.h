/* Memory straight from the system, in large pages where it has them. Stateless. */
#ifndef STENO_BASE_PAGES_H
#define STENO_BASE_PAGES_H

#include <stddef.h>

#define STENO_PAGE_LARGE ((size_t)2 << 20) /* of x86-64 and of most of arm64 */

/* n > 0 bytes of zeros, aligned to STENO_PAGE_LARGE; a page becomes resident when it is touched.
 * NULL when out of memory or too large. Release with steno_pages_free and the same n. */
void *steno_pages_new(size_t n);
void steno_pages_free(void *p, size_t n); /* p NULL: nothing */
/* Give back what lies past the first `keep` > 0 bytes of n; from then on the block has n = keep. */
void steno_pages_cut(void *p, size_t n, size_t keep);
/* Ask for large pages below [p, p + n), which a caller got otherwise; where there are none nothing
 * happens. p is aligned to STENO_PAGE_LARGE. */
void steno_pages_enlarge(void *p, size_t n);
/* Give back the resident pages of a mapped, unwritten file in [p, p + n), which are read again
 * when they are needed. p is the start of the mapping. */
void steno_pages_rest(const void *p, size_t n);
/* Once, at the start of a program: heap blocks of a MiB and more come straight from the system and
 * go back there when they are freed, however large blocks before them were. */
void steno_pages_for_large(void);
/* Give the system what the heap holds and nobody uses. */
void steno_pages_trim(void);

#endif
