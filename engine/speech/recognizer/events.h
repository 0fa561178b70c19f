/* A queue of events that wait to be read. It holds deep copies. Memory grows and is kept. When all
 * events are read, the queue begins again at its start, so it does not grow while the reader keeps
 * up. Confined. */
#ifndef STENO_RECOGNIZER_EVENTS_H
#define STENO_RECOGNIZER_EVENTS_H

#include "base/buf.h"
#include "steno.h"

/* With more unread events, a newer partial replaces the last one. */
#define STENO_EVENTS_KEPT 256

struct steno_event_rec {
    struct steno_event ev;
    size_t text, words, alternatives, tokens, ids, sections; /* offsets of its parts */
};

struct steno_events {
    struct steno_buf text;
    struct steno_event_rec *recs;
    struct steno_word *words;
    size_t *word_text; /* offset of each word's text */
    struct steno_alternative *alts;
    size_t *alt_text, *alt_words, *alt_tokens, *alt_ids;
    struct steno_token *tokens;
    int32_t *ids;
    struct steno_section *sections;
    size_t *section_text, *section_ids;
    size_t n, cap, head; /* head: the next event to read */
    size_t n_words, cap_words, n_alts, cap_alts, n_tokens, cap_tokens, n_ids, cap_ids, n_sections,
        cap_sections;
};

/* STENO_ERR_NOMEM. Call steno_events_free in any case. */
STENO_MUST steno_status steno_events_init(struct steno_events *q);
void steno_events_free(struct steno_events *q);
/* Append a copy of *ev. STENO_ERR_NOMEM, STENO_ERR_LIMIT (256 MiB of unread text): nothing was
 * added. */
STENO_MUST steno_status steno_events_add(struct steno_events *q, const struct steno_event *ev);
/* Take the oldest event; its pointers are valid until the next add. False: the queue is empty. */
bool steno_events_next(struct steno_events *q, struct steno_event *ev);

#endif
