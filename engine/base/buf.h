/* Growing byte buffer with a mandatory maximum size. Confined. */
#ifndef STENO_BASE_BUF_H
#define STENO_BASE_BUF_H

#include "base/status.h"

struct steno_buf {
    char *data; /* NUL-terminated once something was added; NULL before */
    size_t len, cap, max;
};

/* max: largest len in bytes. Adding more is STENO_ERR_LIMIT and adds nothing. */
void steno_buf_init(struct steno_buf *b, size_t max);
void steno_buf_free(struct steno_buf *b);
void steno_buf_reset(struct steno_buf *b);
STENO_MUST steno_status steno_buf_reserve(struct steno_buf *b, size_t more);
STENO_MUST steno_status steno_buf_add(struct steno_buf *b, const void *p, size_t n);
STENO_MUST steno_status steno_buf_puts(struct steno_buf *b, const char *s);
STENO_MUST steno_status steno_buf_printf(struct steno_buf *b, const char *fmt, ...)
    STENO_PRINTF(2, 3);
/* Remove the first n bytes. */
void steno_buf_drop(struct steno_buf *b, size_t n);
/* Truncate to an earlier length: everything added since is removed. */
void steno_buf_cut(struct steno_buf *b, size_t len);
/* Transfer the memory to the caller (free it with free()); the buffer is empty afterwards. */
char *steno_buf_take(struct steno_buf *b, size_t *len);

#endif
