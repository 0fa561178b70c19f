/* The two ways of finding who speaks when in a recording: windows of a segmentation network whose
 * voices are clustered (windows.c), and a Sortformer (sortformer_diarize.c). */
#ifndef STENO_SPEAKERS_DIARIZE_METHOD_H
#define STENO_SPEAKERS_DIARIZE_METHOD_H

#include "speech/audio/resample.h"
#include "speech/speakers/diarize.h"

struct steno_diarization_method {
    size_t size; /* of what begins with a steno_diarization */
    /* d has options. close follows a failure too, and frees all but d's own fields. */
    steno_status (*open)(steno_diarization *d, steno_err *err);
    void (*close)(steno_diarization *d);
    /* Take samples [n <= STENO_RESAMPLER_PART] at the networks' rate; end: there are no more. */
    steno_status (*take)(steno_diarization *d, const float *x, size_t n, steno_err *err);
    steno_status (*end)(steno_diarization *d, steno_err *err);
    /* Make turns and exclusive, of speakers [0, found). */
    steno_status (*find)(steno_diarization *d, steno_err *err);
    /* steno_diarization_voice of one of these; out is of any length. */
    float (*voice)(const steno_diarization *d, int found, float *out);
};
extern const struct steno_diarization_method steno_diarization_windows,
    steno_diarization_sortformer;

struct steno_diarization {
    const struct steno_diarization_method *method;
    const steno_speakers *speakers;
    struct steno_speaker_options opt;
    steno_resampler *resampler;
    int64_t samples, pushed; /* of the recording, at the networks' rate and at its own */
    int rate;
    struct steno_turn *turns, *exclusive;
    size_t n_turns, n_exclusive;
    int found;
    int *number; /* [clusters] the speaker of each that was found; -1: it has no turn */
    size_t clusters;
    bool ended;
};

#endif
