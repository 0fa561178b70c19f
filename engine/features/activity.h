/* Is somebody speaking? A rule on energy alone: a frame is active when it stands clear of the noise
 * floor, which follows the quietest frames: down at once, up slowly. For cutting recordings into
 * utterances where no network says where they end. Confined; plain data. */
#ifndef STENO_FEATURES_ACTIVITY_H
#define STENO_FEATURES_ACTIVITY_H

#include "base/status.h"

struct steno_activity {
    double floor_db; /* noise floor, dB of full scale */
    double rise_db;  /* what the floor rises per frame while frames are louder */
    int run;         /* frames in a row that were loud */
};

/* frame_seconds: length of the frames to come. */
void steno_activity_init(struct steno_activity *a, double frame_seconds);
/* One frame of n samples in [-1,1], n >= 1: true while it is loud, from the third loud frame in a
 * row on (a click is not speech). */
bool steno_activity_push(struct steno_activity *a, const float *pcm, size_t n);

#endif
