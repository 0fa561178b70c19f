/* Text that may not be UTF-8. Pure. */
#ifndef STENO_BASE_UTF8_H
#define STENO_BASE_UTF8_H

#include "base/buf.h"

/* Read the first character of p [n > 0] into *c. Returns its bytes. A byte that begins none counts
 * as a character, -1. */
size_t steno_utf8_next(const char *p, size_t n, int32_t *c);
/* Whether all n bytes are characters. */
bool steno_utf8_valid(const char *p, size_t n);
/* Append n bytes, invalid ones as U+FFFD, one for each maximal part of a character (Unicode 15,
 * section 3.9; Python's errors="replace"). STENO_ERR_NOMEM, STENO_ERR_LIMIT (of the buffer). */
STENO_MUST steno_status steno_utf8_repair(const char *p, size_t n, struct steno_buf *out);

#endif
