/* When a speaker is silent: the end of the last sound before a sample, as a VAD (vad.h) finds it.
 * Endpoint rules count from there, not from the network's last symbol: networks are silent inside
 * slow words, and some emit late. Samples are classified as they arrive, which is ahead of the
 * search; a query for an earlier sample does not see what came after it. Confined. */
#ifndef STENO_RECOGNIZER_SOUND_H
#define STENO_RECOGNIZER_SOUND_H

#include "steno.h"

typedef struct steno_sound steno_sound;

/* rate: Hz. vad: borrowed until close; NULL: the rule on energy. Errors of steno_vad_state_open. */
STENO_MUST steno_status steno_sound_open(steno_sound **out, const steno_vad *vad, int rate,
                                         steno_err *err);
void steno_sound_close(steno_sound *s); /* accepts NULL */
/* Take all of pcm [n]. */
STENO_MUST steno_status steno_sound_push(steno_sound *s, const float *pcm, size_t n,
                                         steno_err *err);
/* The end of the last sound that began before sample `at`, counted from open or reset, and at most
 * `at`; -1: there was none. `at` must not decrease between calls. */
int64_t steno_sound_end(steno_sound *s, int64_t at);
/* Begin a new signal. */
STENO_MUST steno_status steno_sound_reset(steno_sound *s, steno_err *err);

#endif
