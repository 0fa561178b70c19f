/* Messages that wait for a client to read them: a bounded queue in one growing buffer. The newest
 * partial replaces an unread one. Confined; its owner locks. */
#ifndef STENO_SERVER_LIVE_OUTBOX_H
#define STENO_SERVER_LIVE_OUTBOX_H

#include "base/buf.h"

struct steno_outbox {
    struct steno_buf bytes; /* records: struct header, text; in order from `head` */
    struct steno_buf spare; /* the message that is being written */
    size_t head;            /* offset of the first unread record */
    size_t count;           /* unread records */
    size_t replaceable;     /* offset of the last record if it may be replaced, else SIZE_MAX */
};

/* max_bytes: limit of all unread messages together. */
void steno_outbox_init(struct steno_outbox *o, size_t max_bytes);
void steno_outbox_free(struct steno_outbox *o);

/* Return an empty buffer for the next message. */
struct steno_buf *steno_outbox_begin(struct steno_outbox *o);
/* Queue what was written since begin. replaceable: a later replaceable message replaces this one if
 * it is still unread and last. *replaced (may be NULL): whether this message replaced one.
 * STENO_ERR_LIMIT: over max_bytes, nothing was queued. */
STENO_MUST steno_status steno_outbox_commit(struct steno_outbox *o, bool replaceable,
                                            bool *replaced);
/* Queue a text that is not replaceable and was not written since begin. Errors as of commit. */
STENO_MUST steno_status steno_outbox_put(struct steno_outbox *o, const char *text, size_t n);
/* Append the oldest message to out and remove it from the queue. STENO_NEED_MORE when the queue is
 * empty. */
STENO_MUST steno_status steno_outbox_take(struct steno_outbox *o, struct steno_buf *out);
/* Bytes of unread messages. */
size_t steno_outbox_size(const struct steno_outbox *o);
/* Drop all unread messages. */
void steno_outbox_clear(struct steno_outbox *o);

#endif
