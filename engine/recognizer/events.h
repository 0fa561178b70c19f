/* Results waiting to be read: a queue of deep copies. Confined. Memory is kept once grown; when all
 * has been read the queue starts over at its beginning, so a reader that keeps up never makes it
 * grow. */
#ifndef STENO_RECOGNIZER_EVENTS_H
#define STENO_RECOGNIZER_EVENTS_H

#include "base/buf.h"
#include "steno.h"

/* Unread partials beyond this many: a newer partial takes the place of the last one. */
#define STENO_EVENTS_KEPT 256

struct steno_event_rec {
    struct steno_event ev;
    size_t text, words, alternatives, tokens, ids; /* where its parts begin */
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
    size_t n, cap, head; /* head: next to read */
    size_t n_words, cap_words, n_alts, cap_alts, n_tokens, cap_tokens, n_ids, cap_ids;
};

/* STENO_ERR_NOMEM; free() is due in any case. */
STENO_MUST steno_status steno_events_init(struct steno_events *q);
void steno_events_free(struct steno_events *q);
/* STENO_ERR_NOMEM, STENO_ERR_LIMIT (256 MiB of unread text): nothing was added. */
STENO_MUST steno_status steno_events_add(struct steno_events *q, const struct steno_event *ev);
/* What it points to is valid until the next add. */
bool steno_events_next(struct steno_events *q, struct steno_event *ev);

#endif
