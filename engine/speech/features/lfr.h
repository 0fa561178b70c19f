/* Low frame rate: several neighbouring feature frames side by side are one frame, every few frames
 * (FunASR's lfr_m and lfr_n, 7 and 6 in its models). */
#ifndef STENO_FEATURES_LFR_H
#define STENO_FEATURES_LFR_H

#include <stdbool.h>
#include <stddef.h>

struct steno_lfr {
    size_t window, shift; /* frames side by side; frames from one to the next */
    /* Frame i has frames i*shift - (window-1)/2 and on, the first and last frame repeated at the
     * edges: ceil(n / shift) frames (FunASR's apply_lfr). Else frame i has frames i*shift and on:
     * (n - window) / shift + 1 frames, of complete windows only (streaming Paraformer). */
    bool centred;
};

/* Frames of n feature frames. */
size_t steno_lfr_count(const struct steno_lfr *o, size_t n);
/* x: [n, dim]; out: [steno_lfr_count, window * dim]. */
void steno_lfr_apply(const struct steno_lfr *o, const float *x, size_t n, size_t dim, float *out);

#endif
