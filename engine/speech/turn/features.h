/* The input of smart-turn 3 (github.com/pipecat-ai/smart-turn, inference.py): the last 8 s with
 * zeros in front, less their mean and divided by their deviation, as Whisper's log-mel [80, 800].
 */
#ifndef STENO_TURN_FEATURES_H
#define STENO_TURN_FEATURES_H

#include "base/status.h"

#define STENO_TURN_RATE 16000 /* Hz */
#define STENO_TURN_SAMPLES 128000
#define STENO_TURN_BINS 80
#define STENO_TURN_FRAMES 800

typedef struct steno_turn_features steno_turn_features; /* confined */

STENO_MUST steno_status steno_turn_features_open(steno_turn_features **out, steno_err *err);
void steno_turn_features_close(steno_turn_features *f);
/* pcm: [n] f32 in [-1,1] at STENO_TURN_RATE, of which the last STENO_TURN_SAMPLES count; NaN and
 * Inf count as 0. out: [STENO_TURN_BINS, STENO_TURN_FRAMES]. */
STENO_MUST steno_status steno_turn_features_make(steno_turn_features *f, const float *pcm, size_t n,
                                                 float *out, steno_err *err);

#endif
