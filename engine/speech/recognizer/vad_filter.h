/* The VAD filter finds the samples of a stream on which the networks need not run. Samples go in,
 * are classified (vad.h), and come out again. While nobody speaks they are held back for
 * STENO_VAD_PRE_ROLL and the latency of the VAD, so speech cannot begin less than
 * STENO_VAD_PRE_ROLL after a sample that has come out. A sample is quiet if it is more than
 * STENO_VAD_HANGOVER after speech and more than STENO_VAD_PRE_ROLL before it. That does not depend
 * on how the samples were cut into pushes. Confined.
 *
 * STENO_VAD_HANGOVER is longer than most endpoint rules wait, so that finals do not come later. */
#ifndef STENO_RECOGNIZER_VAD_FILTER_H
#define STENO_RECOGNIZER_VAD_FILTER_H

#include "steno.h"

#define STENO_VAD_PRE_ROLL 0.2 /* s */
#define STENO_VAD_HANGOVER 1.0

typedef struct steno_vad_filter steno_vad_filter;

/* rate: Hz. left_padding: that many samples before the first pushed one count as quiet. Errors of
 * steno_vad_state_open. */
STENO_MUST steno_status steno_vad_filter_open(steno_vad_filter **out, const steno_vad *vad,
                                              int rate, int64_t left_padding, steno_err *err);
void steno_vad_filter_close(steno_vad_filter *f);
/* Take all of pcm [n]. After a failure the filter must be closed. */
STENO_MUST steno_status steno_vad_filter_push(steno_vad_filter *f, const float *pcm, size_t n,
                                              steno_err *err);
/* End the signal: all samples that are held back may come out. Next comes a reset or close. */
void steno_vad_filter_end(steno_vad_filter *f);
/* The samples that may come out: *n at *pcm, valid until the next call. False: none. drop removes
 * the first n of them. */
bool steno_vad_filter_peek(const steno_vad_filter *f, const float **pcm, size_t *n);
void steno_vad_filter_drop(steno_vad_filter *f, size_t n);
/* Number of samples that went in and have not come out. */
size_t steno_vad_filter_held(const steno_vad_filter *f);
/* Whether samples [from, to) are quiet, counted from open or reset with the left padding. All
 * samples before `to` must have come out. */
bool steno_vad_filter_quiet(const steno_vad_filter *f, int64_t from, int64_t to);
STENO_MUST steno_status steno_vad_filter_reset(steno_vad_filter *f, steno_err *err);

#endif
