/* What a grammar has written of an utterance whose partials still grow: the stable words at its
 * begin that are written the same whatever follows. A number is written once the words behind it
 * are no part of it, and never taken back. */
#ifndef STENO_RECOGNIZER_BEGUN_H
#define STENO_RECOGNIZER_BEGUN_H

#include "speech/recognizer/written.h"

/* Zeros: nothing yet. Confined. */
struct steno_begun {
    steno_arena *arena[2]; /* of this and of the one before it */
    int turn;
    size_t seen;   /* stable words that were looked at */
    size_t spoken; /* words that are written, and their text */
    const char *spoken_text;
    size_t n_words;
    const struct steno_word *words; /* [n_words] as they are written */
    const char *text;
    /* The words before the first are not read again, those before the second soon: numbers of
     * spoken words, of written ones, bytes of the written text. */
    struct steno_begun_place {
        size_t spoken, words, bytes;
    } from, soon;
};

/* Write what is decided of a partial's stable words, if there are more than the last time. Another
 * text than the last time, or one whose beginning would change, stays. STENO_ERR_NOMEM,
 * STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_begun_extend(struct steno_begun *b, const struct steno_event *ev,
                                           const struct steno_written_by *by);
/* Let a partial begin with what is written, and nothing else of it be stable. New memory is of the
 * arena. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_begun_apply(const struct steno_begun *b, struct steno_event *io,
                                          steno_arena *a);
/* Another utterance begins. */
void steno_begun_reset(struct steno_begun *b);
void steno_begun_free(struct steno_begun *b);

#endif
