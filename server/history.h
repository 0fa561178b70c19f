/* The last messages of a session that a client may come back to: numbered texts in the order they
 * were made, a bounded number of bytes of them. Confined; its owner locks. */
#ifndef STENO_SERVER_HISTORY_H
#define STENO_SERVER_HISTORY_H

#include "base/buf.h"

struct steno_history {
    struct steno_buf bytes; /* records: seq, length, text, in order from `head` */
    size_t head, most;      /* most: bytes of records that are kept */
    uint64_t lost;          /* seq of the last one that was dropped + 1; 0 = none was */
};

/* most: bytes of messages to keep; 0 = none. */
void steno_history_init(struct steno_history *h, size_t most);
void steno_history_free(struct steno_history *h);
/* Keep a message; the oldest are dropped for it. One that cannot be kept is dropped itself. */
void steno_history_add(struct steno_history *h, uint64_t seq, const char *text, size_t n);
/* Whether every message from `next` on that was ever added is still here. */
bool steno_history_has(const struct steno_history *h, uint64_t next);
/* The first message at or behind *at (0 at first) whose seq is `next` or later; false when there is
 * none. text: borrowed until the next add. */
bool steno_history_next(const struct steno_history *h, uint64_t next, size_t *at, const char **text,
                        size_t *n);

#endif
