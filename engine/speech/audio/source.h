/* The bytes of a recording, whatever holds them: memory, a file or a pipe. A pipe keeps what it has
 * given until steno_source_stream, so that detection can look ahead and a second reader can begin
 * anew. */
#ifndef STENO_AUDIO_SOURCE_H
#define STENO_AUDIO_SOURCE_H

#include <sys/types.h>

#include "base/buf.h"

struct steno_source {
    const unsigned char *data; /* memory, or NULL */
    int fd;
    bool pipe, keep;
    int64_t base; /* offset in the file at which the recording begins */
    int64_t size; /* bytes; -1 = pipe */
    int64_t pos;
    struct steno_buf kept; /* the bytes of a pipe from `base` on */
    size_t max_kept;
};

/* data [n], borrowed. Plain data: needs no free. */
void steno_source_of_memory(struct steno_source *s, const void *data, size_t n);
/* A descriptor, borrowed. A pipe keeps at most max_kept bytes. STENO_ERR_IO. */
STENO_MUST steno_status steno_source_of_fd(struct steno_source *s, int fd, size_t max_kept,
                                           steno_err *err);
void steno_source_free(struct steno_source *s);

/* Read up to n bytes at the position: 0 = end, -1 = error in errno (EFBIG: more than max_kept). */
ssize_t steno_source_read(struct steno_source *s, void *buf, size_t n);
/* The same, without a copy where the recording lies in memory: the bytes are at *at, in buf else.
 */
ssize_t steno_source_next(struct steno_source *s, void *buf, size_t n, const unsigned char **at);
/* Copy up to n bytes at offset `at`; the position does not change. Fewer only at the end. */
ssize_t steno_source_peek(struct steno_source *s, int64_t at, void *buf, size_t n);
/* The recording begins n bytes later than was thought. The position becomes 0. */
void steno_source_skip(struct steno_source *s, int64_t n);
/* Read a pipe to its end and hold it in memory: it can be read like a file afterwards. */
STENO_MUST steno_status steno_source_hold(struct steno_source *s, steno_err *err);
/* Keep no more: the bytes are wanted once, from the position on. */
void steno_source_stream(struct steno_source *s);
/* The error of a read that returned -1, with errno = e. */
steno_status steno_source_error(const struct steno_source *s, int e, steno_err *err);

#endif
