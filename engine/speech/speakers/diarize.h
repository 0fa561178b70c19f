/* Who spoke when: what steno.h has, with the rules that tests compare. */
#ifndef STENO_SPEAKERS_DIARIZE_H
#define STENO_SPEAKERS_DIARIZE_H

#include "speech/speakers/cluster.h"
#include "speech/speakers/networks.h"
#include "speech/speakers/turns.h"

struct steno_diarization_rules {
    double hop;       /* s between windows */
    bool sherpa;      /* clusters as sherpa-onnx makes them, for comparison */
    double threshold; /* cosine distance up to which clusters are merged */
    struct steno_turn_rules turns;
};
/* What steno_diarization_open uses, and sherpa-onnx 2.0.1's. */
extern const struct steno_diarization_rules steno_diarization_own, steno_diarization_sherpa;

/* steno_diarization_open with other rules, which are copied. */
STENO_MUST steno_status steno_diarization_open_rules(steno_diarization **out,
                                                     const steno_speakers *speakers,
                                                     int sample_rate,
                                                     const struct steno_speaker_options *opt,
                                                     const struct steno_diarization_rules *rules,
                                                     steno_err *err);
/* Find clusters and turns of an ended recording once more, in another way. The hop cannot
 * change. */
STENO_MUST steno_status steno_diarization_again(steno_diarization *d,
                                                const struct steno_speaker_options *opt,
                                                const struct steno_diarization_rules *rules,
                                                steno_err *err);

/* The mean of a speaker's vectors, of unit length: out [embedding.dim]. After the end. Returns the
 * seconds of clean speech behind them, those of overlapping windows each; 0: there are none. */
float steno_diarization_voice(const steno_diarization *d, int speaker, float *out);

#endif
