/* The network that says how likely a speaker has finished: smart-turn 3 of pipecat. A detector is
 * frozen; steno.h has the functions to find and open it. */
#ifndef STENO_TURN_DETECTOR_H
#define STENO_TURN_DETECTOR_H

#include "speech/turn/features.h"
#include "steno.h"

/* The audio of a turn, its silence at the end included. */
struct steno_turn_audio {
    const float *pcm; /* [n] at STENO_TURN_RATE, as steno_turn_features_make takes it */
    size_t n;
};

/* What runs the network, for one thread at a time. */
typedef struct steno_turn_judge steno_turn_judge;
/* d must outlive it. */
STENO_MUST steno_status steno_turn_judge_open(steno_turn_judge **out, const steno_turn_detector *d,
                                              steno_err *err);
void steno_turn_judge_close(steno_turn_judge *j);
/* How likely each of n turns is complete, 0 to 1: probability [n]. */
STENO_MUST steno_status steno_turn_judge_run(steno_turn_judge *j,
                                             const struct steno_turn_audio *turn, size_t n,
                                             float *probability, steno_err *err);

#endif
