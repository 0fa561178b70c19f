/* Times of words from the cross attention of the heads that follow time (openai/whisper,
 * whisper/timing.py; CTranslate2, Whisper.align; faster-whisper, add_word_timestamps). */
#ifndef STENO_FAMILIES_WHISPER_WORDS_H
#define STENO_FAMILIES_WHISPER_WORDS_H

#include "base/buf.h"
#include "speech/families/whisper/net.h"
#include "speech/families/whisper/rules.h"

/* Where the pieces of a text lie: n + 1 rows, of each the first column, 0.02 s apart; and the
 * probability of each piece. */
struct steno_whisper_alignment {
    size_t n;
    int32_t *jump;      /* [n + 1]: of piece i, and of the end */
    float *probability; /* [n] */
};

/* A pass over the decoder that alignment needs, a text for a step (net.h). Confined. */
typedef struct steno_whisper_aligner steno_whisper_aligner;
STENO_MUST steno_status steno_whisper_aligner_open(steno_whisper_aligner **out,
                                                   const struct steno_whisper *m, steno_err *err);
void steno_whisper_aligner_close(steno_whisper_aligner *a);
/* ids [n] is text alone, in the window that state has; start [n_start] begins the transcript
 * (without timestamps); `columns` of the encoder frames are recording. *ask: for the step.
 * STENO_ERR_LIMIT: more pieces than the decoder has room for. */
STENO_MUST steno_status steno_whisper_aligner_ask(steno_whisper_aligner *a,
                                                  steno_whisper_state *state, const int32_t *start,
                                                  size_t n_start, const int32_t *ids, size_t n,
                                                  size_t columns, struct steno_whisper_ask *ask,
                                                  steno_err *err);
/* The step has been run by r. Memory of *out is the caller's to free with
 * steno_whisper_alignment_free. */
STENO_MUST steno_status steno_whisper_aligner_take(steno_whisper_aligner *a,
                                                   steno_whisper_runner *r,
                                                   const struct steno_whisper_ask *ask,
                                                   struct steno_whisper_alignment *out,
                                                   steno_err *err);
/* The same without probabilities: jump [n + 1], which is the caller's. */
STENO_MUST steno_status steno_whisper_aligner_jumps(steno_whisper_aligner *a,
                                                    steno_whisper_runner *r,
                                                    const struct steno_whisper_ask *ask,
                                                    int32_t *jump, steno_err *err);
void steno_whisper_alignment_free(struct steno_whisper_alignment *a);

/* A word of a window: pieces first .. first + n of the text. */
struct steno_whisper_timed {
    size_t text,
        bytes; /* its spelling in steno_whisper_words.text; 0 bytes: joined to a neighbour */
    size_t n;  /* pieces */
    double start, end; /* seconds from the window's begin */
    float probability;
};

struct steno_whisper_words {
    struct steno_whisper_timed *word; /* malloc'd */
    size_t n;
    struct steno_buf text;
    double median, longest; /* of a word, seconds */
};

/* ids [n] and their alignment to words; by characters: a language that writes no blanks.
 * Punctuation is joined to its word, words at the ends of sentences that are too long are cut. */
STENO_MUST steno_status steno_whisper_words_make(const struct steno_whisper *m,
                                                 const struct steno_whisper_alignment *a,
                                                 const int32_t *ids, bool by_characters,
                                                 struct steno_whisper_words *out, steno_err *err);
void steno_whisper_words_free(struct steno_whisper_words *w);
/* Words [n] follow each other, none begins before `from`, and each takes 0.02 s at least, which one
 * without time has of those behind it or, at the end, of those before it. Where there is not enough
 * for all, the first ones have none. (faster-whisper leaves words without time.) */
void steno_whisper_words_order(struct steno_whisper_timed *w, size_t n, double from);
/* Languages whose words are split at every character. */
bool steno_whisper_by_characters(int language);

#endif
