/* What was said in an utterance, as the hypotheses of its stream: the text of the windows that are
 * finished, which does not change any more, the texts that the beam found beside it, and behind the
 * first the partial of the window that grows. Confined. */
#ifndef STENO_FAMILIES_WHISPER_TRANSCRIPT_H
#define STENO_FAMILIES_WHISPER_TRANSCRIPT_H

#include "speech/families/whisper/internal.h"

typedef struct steno_whisper_transcript steno_whisper_transcript;

/* With up to n_best >= 1 hypotheses. The model is borrowed. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_transcript_open(steno_whisper_transcript **out,
                                                      const struct steno_whisper_model *m,
                                                      size_t n_best, steno_err *err);
void steno_whisper_transcript_close(steno_whisper_transcript *t); /* NULL is fine */
/* Nothing was said. */
void steno_whisper_transcript_clear(steno_whisper_transcript *t);
/* Whether a finished window said something, be it timestamps alone. */
bool steno_whisper_transcript_any(const steno_whisper_transcript *t);

/* Remember what has been said so far; return to it. Until then the stable part does not grow. */
void steno_whisper_transcript_mark(steno_whisper_transcript *t);
void steno_whisper_transcript_back(steno_whisper_transcript *t);

/* Append a segment of a finished window, instead of the partial. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_transcript_add(steno_whisper_transcript *t,
                                                     const struct steno_whisper_segment *g,
                                                     const struct steno_whisper_decoded *window,
                                                     steno_err *err);
/* After a step of the recording: if it has finished a window, append the window's segments and the
 * beam's other texts; then show the partial of the next window. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_whisper_transcript_follow(steno_whisper_transcript *t,
                                                        steno_whisper_recording *r, steno_err *err);
/* Keep only the stable part of the partial. */
void steno_whisper_transcript_settle(steno_whisper_transcript *t);

/* The hypotheses [*n], at most max, the best first, without their language; valid until the next
 * call. The first *stable spans will not change. */
void steno_whisper_transcript_list(steno_whisper_transcript *t, struct steno_hypothesis *out,
                                   size_t max, size_t *n, size_t *stable);

#endif
