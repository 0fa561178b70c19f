/* Activity detection by energy alone. A frame is active when its level is clearly above the noise
 * floor. The floor follows the quietest frames: down at once, up slowly. It cuts recordings into
 * utterances where no network does so. Confined; plain data. */
#ifndef STENO_FEATURES_ACTIVITY_H
#define STENO_FEATURES_ACTIVITY_H

#include "base/status.h"

struct steno_activity {
    double floor_db; /* noise floor, dB of full scale */
    double rise_db;  /* rise of the floor per louder frame */
    int run;         /* consecutive loud frames */
    int soft_run;    /* consecutive frames a little above the floor */
};

/* Start with frames of frame_seconds each. */
void steno_activity_init(struct steno_activity *a, double frame_seconds);
/* Classify one frame of n samples in [-1,1], n >= 1. Returns true for loud frames from the third
 * consecutive one on (a click is not speech). */
bool steno_activity_push(struct steno_activity *a, const float *pcm, size_t n);
/* The same by the sum of the squares of its samples, for callers that do not keep them. */
bool steno_activity_push_sum(struct steno_activity *a, double sum, size_t n);
/* Whether the last frame may belong to soft speech, such as the end of a word: it and the frames
 * before it are louder than the floor, if not loud. */
bool steno_activity_is_soft(const struct steno_activity *a);

#endif
