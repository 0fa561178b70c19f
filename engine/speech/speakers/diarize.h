/* Who spoke when: what steno.h has, with the voices of the speakers. */
#ifndef STENO_SPEAKERS_DIARIZE_H
#define STENO_SPEAKERS_DIARIZE_H

#include "speech/speakers/cluster.h"
#include "speech/speakers/networks.h"
#include "speech/speakers/turns.h"

/* The mean of a speaker's vectors, of unit length: out [embedding.dim]. After the end. Returns the
 * seconds of clean speech behind them, those of overlapping windows each; 0: there are none. */
float steno_diarization_voice(const steno_diarization *d, int speaker, float *out);

#endif
