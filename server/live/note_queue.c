#include "server/live/note_queue.h"

#include <stdlib.h>

#include "base/clock.h"
#include "protocol/event_copy.h"

void steno_waiting_note_free(struct steno_waiting_note *w)
{
    steno_arena_free(w->arena);
    free(w);
}

static struct steno_waiting_note *copy_note(unsigned channel, const struct steno_pool_note *note)
{
    struct steno_waiting_note *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->note = *note;
    w->channel = channel;
    w->since_ns = steno_now_ns();
    if (note->err) {
        w->err = *note->err;
        w->note.err = &w->err;
    }
    if (note->kind == STENO_POOL_EVENT) {
        w->arena = steno_arena_new(0);
        if (!w->arena || steno_event_copy(&w->event, note->event, w->arena)) {
            steno_waiting_note_free(w);
            return NULL;
        }
        w->note.event = &w->event;
    }
    return w;
}

/* Let w, a partial, have the place of the last note, another one. */
static void replace_last(struct steno_note_queue *q, struct steno_waiting_note *w)
{
    struct steno_waiting_note *last = q->last;
    steno_arena_free(last->arena);
    *last = *w;
    last->note.event = &last->event;
    free(w);
}

bool steno_note_queue_add(struct steno_note_queue *q, unsigned channel,
                          const struct steno_pool_note *note)
{
    struct steno_waiting_note *w = copy_note(channel, note);
    if (!w)
        return false;
    if (q->last && q->last->channel == channel && steno_note_is_event(note, STENO_PARTIAL) &&
        steno_note_is_event(&q->last->note, STENO_PARTIAL)) {
        replace_last(q, w);
        return true;
    }
    if (q->last)
        q->last->next = w;
    else
        q->first = w;
    q->last = w;
    return true;
}

struct steno_waiting_note *steno_note_queue_take(struct steno_note_queue *q)
{
    struct steno_waiting_note *w = q->first;
    if (!w)
        return NULL;
    q->first = w->next;
    if (!q->first)
        q->last = NULL;
    w->note.latency += (double)(steno_now_ns() - w->since_ns) * 1e-9;
    return w;
}

void steno_note_queue_clear(struct steno_note_queue *q)
{
    struct steno_waiting_note *w;
    while ((w = steno_note_queue_take(q)))
        steno_waiting_note_free(w);
}
