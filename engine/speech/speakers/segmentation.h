/* A network that says which speakers of a window talk in each of its frames: pyannote's
 * segmentation-3.0 (github.com/pyannote/pyannote-audio) as sherpa-onnx exports it, with metadata,
 * or as onnx-community does, without. Frozen; one session runs it at a time. */
#ifndef STENO_SPEAKERS_SEGMENTATION_H
#define STENO_SPEAKERS_SEGMENTATION_H

#include "formats/onnx_head.h"
#include "nn/network/network.h"
#include "speech/speakers/powerset.h"

struct steno_segmentation {
    steno_network *net;
    int input, output;
    int rate;      /* Hz */
    size_t window; /* samples of a run */
    size_t shift;  /* samples between frames */
    size_t field;  /* samples that a frame sees */
    size_t frames; /* of a window, as the network gave them at open */
    int speakers;  /* of a window, at most */
    size_t classes;
    uint8_t sets[STENO_POWERSET_CLASSES]; /* of each class */
};

/* Whether a file is such a network, by its metadata or its names. */
bool steno_segmentation_is(const steno_onnx_head *h);
/* Open one; silence is run through it. STENO_ERR_FORMAT, STENO_ERR_UNSUPPORTED, errors of the
 * network. s must be zeros, and is closed after a failure too. */
STENO_MUST steno_status steno_segmentation_open(struct steno_segmentation *s, const char *path,
                                                steno_err *err);
void steno_segmentation_close(struct steno_segmentation *s);
/* Run it. samples: [window] f32 in [-1,1]; sets: [frames], bit k says that the window's speaker k
 * talks. */
STENO_MUST steno_status steno_segmentation_run(const struct steno_segmentation *s,
                                               steno_session *session, const float *samples,
                                               uint8_t *sets, steno_err *err);
/* Copy the samples of the frames in mask [frames], of which the first is frame `first` of the
 * window: of each the `shift` samples in the middle of its `field`, as far as they are within the
 * window's first `samples`. out: [frames * shift]. Returns their number. */
size_t steno_segmentation_samples(const struct steno_segmentation *s, const float *window,
                                  size_t samples, const uint8_t *mask, size_t frames, size_t first,
                                  float *out);

#endif
