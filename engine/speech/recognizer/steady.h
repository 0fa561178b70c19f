/* Partials that stay calm, of models that read the whole utterance again for each: such a model
 * changes its mind about words, capitals and marks from partial to partial, and back. A word that
 * was shown stays until two partials in a row have another one in its place, or until it is stable;
 * words are added behind it. Marks are shown where they are stable. */
#ifndef STENO_RECOGNIZER_STEADY_H
#define STENO_RECOGNIZER_STEADY_H

#include "base/arena.h"
#include "steno.h"

/* What was shown of an utterance. Zeros: nothing yet. Confined. */
struct steno_steady {
    steno_arena *arena[2]; /* of the last partial, and of the one before it */
    int turn;
    struct steno_word *shown; /* [n] */
    uint64_t *shown_keys;     /* [n], one for each spelling without marks and case */
    size_t n;
    uint64_t *heard; /* [n_heard]: the words of the last partial as the model had it */
    size_t n_heard;
};

/* Change a partial's words and text to what is to be shown. Text that is stable or final stays.
 * Memory of the result is valid until the next but one. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_steady_apply(struct steno_steady *t, struct steno_event *io);
/* Another utterance begins. */
void steno_steady_reset(struct steno_steady *t);
void steno_steady_free(struct steno_steady *t);

#endif
