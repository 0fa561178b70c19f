/* Partial results: the text so far of a window that still grows. Each partial encodes the audio
 * that is there and decodes it greedily. Decoding goes on from the agreed text (agree.h), and one
 * run of the decoder checks what the partial before had written behind it: what is still the best
 * choice is kept. If the audio becomes long, the partial begins behind the last pair of timestamps
 * in the agreed text, and the text before it becomes part of the prompt.
 *
 * The encoder sees fewer frames than 30 s (the audio, and some silence behind it), which is faster
 * in proportion. Whisper was trained on 30 s and sometimes repeats itself or does not end then. So
 * a result that looks like that is dropped, and the partial is decoded again with all 30 s.
 *
 * Another run of the decoder lays the result beside the audio. Words that end where the audio does
 * may go on, so they are not shown; the next partial hears them whole. */
#ifndef STENO_FAMILIES_WHISPER_LIVE_H
#define STENO_FAMILIES_WHISPER_LIVE_H

#include "speech/families/whisper/agree.h"
#include "speech/families/whisper/decode.h"
#include "speech/families/whisper/words.h"

#define STENO_WHISPER_PROMPT_MAX 460 /* pieces: context, and the start of a transcript */

typedef struct steno_whisper_live steno_whisper_live; /* confined */

/* A window that grows. Pointers are borrowed until the partial has ended. */
struct steno_whisper_live_window {
    const float *mel; /* [n, mels], logarithms to base 10 */
    size_t n;         /* frames of 10 ms */
    float floor;
    const struct steno_whisper_decode_options *o; /* its rules and limits */
    bool by_characters;                           /* a language without blanks between words */
};

/* aligner: shows where words end; borrowed. NULL: all that was written is shown. */
STENO_MUST steno_status steno_whisper_live_open(steno_whisper_live **out,
                                                const struct steno_whisper *m,
                                                steno_whisper_aligner *aligner, steno_err *err);
void steno_whisper_live_close(steno_whisper_live *l);
/* Agreed text and the last hypothesis. The caller may change it between partials. */
struct steno_whisper_agreement *steno_whisper_live_agreement(steno_whisper_live *l);

/* Agreed pieces before the place where partials begin, for the prompt: [*n]. */
const int32_t *steno_whisper_live_before(const steno_whisper_live *l, size_t *n);
/* The hypothesis of the whole window that may be shown: ids [*n], of which the first *agreed will
 * not change. Valid until the next call. */
const int32_t *steno_whisper_live_hypothesis(steno_whisper_live *l, const float **log_probs,
                                             size_t *n, size_t *agreed);
/* Partials of the window are over: the agreement is that of the whole window. */
void steno_whisper_live_join(steno_whisper_live *l);

/* The next partial, a glance or not: what a glance writes is the hypothesis, but no partial and no
 * final depends on it. */
void steno_whisper_live_begin(steno_whisper_live *l, bool glance);
/* Encode the window into state. */
STENO_MUST steno_status steno_whisper_live_encode(steno_whisper_live *l, steno_whisper_runner *net,
                                                  steno_whisper_state *state,
                                                  const struct steno_whisper_live_window *w,
                                                  steno_err *err);
/* Rows of the window that was encoded last. */
size_t steno_whisper_live_rows(const steno_whisper_live *l);
/* Begin to write behind prompt [n], which holds the start of the transcript. STENO_ERR_LIMIT: it
 * leaves no room. */
STENO_MUST steno_status steno_whisper_live_start(steno_whisper_live *l, const int32_t *prompt,
                                                 size_t n, steno_err *err);
/* What it wants of the next step; false: the partial has ended. Borrowed until take. */
bool steno_whisper_live_ask(steno_whisper_live *l, struct steno_whisper_ask *ask);
/* The step has been run. *again: the result was dropped; encode and start again. */
STENO_MUST steno_status steno_whisper_live_take(steno_whisper_live *l, steno_whisper_runner *net,
                                                const struct steno_whisper_ask *ask, bool *again,
                                                steno_err *err);
/* Another window begins. */
void steno_whisper_live_next_window(steno_whisper_live *l);
/* Keep what partials have agreed on, and take it back to that. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_live_keep(steno_whisper_live *l, steno_err *err);
void steno_whisper_live_restore(steno_whisper_live *l);
#endif
