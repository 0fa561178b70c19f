/* Which of a stream's samples the networks need not hear. Samples go in, are judged (vad.h), and
 * come out again; while nobody speaks they are held back for STENO_VAD_LOOK_AHEAD, so that what
 * comes out is known to be STENO_VAD_PRE_ROLL at least from the next speech. What is farther than
 * STENO_VAD_HANGOVER behind speech, and STENO_VAD_PRE_ROLL before it, is quiet. Which samples are
 * does not depend on how they were cut into pushes. Confined.
 *
 * STENO_VAD_HANGOVER is longer than endpoints usually wait, so that finals do not come later. */
#ifndef STENO_RECOGNIZER_VAD_FILTER_H
#define STENO_RECOGNIZER_VAD_FILTER_H

#include "steno.h"

#define STENO_VAD_PRE_ROLL 0.2 /* s */
#define STENO_VAD_HANGOVER 1.0

typedef struct steno_vad_filter steno_vad_filter;

/* rate: Hz; lead: samples that are not pushed count as quiet in front of the first. */
STENO_MUST steno_status steno_vad_filter_open(steno_vad_filter **out, const steno_vad *vad,
                                              int rate, int64_t left_padding, steno_err *err);
void steno_vad_filter_close(steno_vad_filter *f);
/* All of pcm [n] f32 is taken. On failure the gate is of no more use. */
STENO_MUST steno_status steno_vad_filter_push(steno_vad_filter *f, const float *pcm, size_t n,
                                              steno_err *err);
/* Nothing is pushed any more until reset: what is held back may come out. */
void steno_vad_filter_end(steno_vad_filter *f);
/* The samples that may come out: *n of them at *pcm, valid until the next call; false: none. */
bool steno_vad_filter_peek(const steno_vad_filter *f, const float **pcm, size_t *n);
void steno_vad_filter_drop(steno_vad_filter *f, size_t n);
/* Samples that are in and not out. */
size_t steno_vad_filter_held(const steno_vad_filter *f);
/* Whether samples [from, to) since open or reset, the lead counted, are quiet; those before `to`
 * must have come out. */
bool steno_vad_filter_quiet(const steno_vad_filter *f, int64_t from, int64_t to);
STENO_MUST steno_status steno_vad_filter_reset(steno_vad_filter *f, steno_err *err);

#endif
