/* Probabilities that speakers talk, frame by frame, as turns: NeMo's post-processing (binarization
 * and filtering of nemo/collections/asr/parts/utils/vad_utils.py). Pure. */
#ifndef STENO_SPEAKERS_ACTIVITY_H
#define STENO_SPEAKERS_ACTIVITY_H

#include "steno.h"

#define STENO_ACTIVITY_TALKS 0.5f /* a speaker with a higher probability talks */

struct steno_activity_rules {
    float begin_p;                  /* speech begins above it */
    float end_p;                    /* and ends below it */
    double pad_before, pad_after;   /* s that a turn gets in addition */
    double least_turn, least_pause; /* s: shorter turns are dropped, then shorter pauses filled */
};
/* NeMo's defaults: both thresholds 0.5, nothing is added or dropped. */
extern const struct steno_activity_rules steno_activity_nemo;

struct steno_activity {
    const float *p; /* [frames, speakers] */
    size_t frames, speakers;
    double frame;  /* s */
    double length; /* s of the recording: no turn ends later */
};

/* *out [*n], by start; free. NaN is below everything. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_activity_turns(const struct steno_activity *a,
                                             const struct steno_activity_rules *rules,
                                             struct steno_turn **out, size_t *n, steno_err *err);
/* Let each frame of p [frames, speakers] have its most probable speaker alone. */
void steno_activity_exclude(float *p, size_t frames, size_t speakers);
/* Give the speech of speakers that are not kept to the most probable one that is. */
void steno_activity_fold(float *p, size_t frames, size_t speakers, const bool *keep);

#endif
