/* A queue of events that wait to be read. It holds deep copies, each in a block of its own. Blocks
 * are kept and used again, so nothing is allocated while the reader keeps up. Confined. */
#ifndef STENO_RECOGNIZER_EVENTS_H
#define STENO_RECOGNIZER_EVENTS_H

#include "base/status.h"
#include "steno.h"

/* With more unread events, a newer partial replaces the last one. */
#define STENO_EVENTS_KEPT 256

struct steno_event_slot {
    struct steno_event ev;
    unsigned char *block; /* [cap] what it points to, `used` of them */
    size_t cap, used;
};

/* Zeros: empty. */
struct steno_events {
    struct steno_event_slot *slots; /* [cap], n of them used */
    size_t n, cap, head;            /* head: the next one to read */
    size_t bytes;                   /* of the blocks of [0, n) */
};

void steno_events_free(struct steno_events *q);
/* Append a copy of *ev. STENO_ERR_NOMEM, STENO_ERR_LIMIT (256 MiB of unread events): nothing was
 * added. */
STENO_MUST steno_status steno_events_add(struct steno_events *q, const struct steno_event *ev);
/* Take the oldest event; its pointers are valid until the next add. False: the queue is empty. */
bool steno_events_next(struct steno_events *q, struct steno_event *ev);

#endif
