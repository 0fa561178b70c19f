/* The last messages of a session that a client may come back to: numbered texts in the order of
 * their creation, up to a number of bytes. Confined; its owner locks. */
#ifndef STENO_SERVER_LIVE_HISTORY_H
#define STENO_SERVER_LIVE_HISTORY_H

#include "base/buf.h"

#include <stdbool.h>

struct steno_history {
    struct steno_buf bytes; /* records: seq, length, text, in order from `head` */
    size_t head, most;      /* most: bytes of records to keep */
    uint64_t lost;          /* seq of the last dropped message + 1; 0 = none */
};

/* most: bytes of messages to keep; 0 = keep none. */
void steno_history_init(struct steno_history *h, size_t most);
void steno_history_free(struct steno_history *h);
/* Keep a message. The oldest ones are dropped to make room; a message that does not fit at all is
 * dropped itself. */
void steno_history_add(struct steno_history *h, uint64_t seq, const char *text, size_t n);
/* Whether every message from `next` on that was added is still kept. */
bool steno_history_has(const struct steno_history *h, uint64_t next);
/* Find the first message at or after *at (0 at first) whose seq is at least `next`; false when
 * there is none. text: borrowed until the next add. */
bool steno_history_next(const struct steno_history *h, uint64_t next, size_t *at, uint64_t *seq,
                        const char **text, size_t *n);

/* Whether a message of n bytes can be added without dropping one whose seq is at least `from`. */
bool steno_history_fits(const struct steno_history *h, size_t n, uint64_t from);

/* A list of numbered texts in a buffer: append one, and find the next one at or after *at (0 at
 * first), in the order in which they were appended. False when there is none. */
STENO_MUST steno_status steno_record_add(struct steno_buf *b, uint64_t seq, const char *text,
                                         size_t n);
bool steno_record_next(const struct steno_buf *b, size_t *at, uint64_t *seq, const char **text,
                       size_t *n);

#endif
