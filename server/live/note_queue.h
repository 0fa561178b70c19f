/* Notes of a session's stream that wait until one of them is complete, as copies in their order.
 * Confined: who has a queue locks it. */
#ifndef STENO_SERVER_LIVE_NOTE_QUEUE_H
#define STENO_SERVER_LIVE_NOTE_QUEUE_H

#include "base/arena.h"
#include "speech/pool/pool.h"

struct steno_waiting_note {
    struct steno_waiting_note *next;
    struct steno_pool_note note;
    struct steno_event event; /* of the note, if it has one */
    steno_err err;            /* likewise */
    steno_arena *arena;       /* what the event points to; NULL: no event */
    unsigned channel;
    int64_t since_ns;
};

/* All zero: empty. */
struct steno_note_queue {
    struct steno_waiting_note *first, *last;
};

/* Add a copy. A partial takes the place of the one before it, if that is the last and of the same
 * channel. False: out of memory. */
bool steno_note_queue_add(struct steno_note_queue *q, unsigned channel,
                          const struct steno_pool_note *note);
/* Take the first one, whose latency is with the time that it waited; free it. NULL: none waits. */
struct steno_waiting_note *steno_note_queue_take(struct steno_note_queue *q);
void steno_waiting_note_free(struct steno_waiting_note *w);
/* Free all. */
void steno_note_queue_clear(struct steno_note_queue *q);

static inline bool steno_note_is_event(const struct steno_pool_note *note,
                                       enum steno_event_kind kind)
{
    return note->kind == STENO_POOL_EVENT && note->event->kind == kind;
}

#endif
