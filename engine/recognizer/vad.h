/* Is somebody speaking? By a rule on energy (features/activity.h) or by silero-vad's network
 * (https://github.com/snakers4/silero-vad, releases 5 and 6: 512 samples at 16 kHz at a time behind
 * the 64 before them). steno_vad (steno.h) is what streams share, a voice is one stream's part. */
#ifndef STENO_RECOGNIZER_VAD_H
#define STENO_RECOGNIZER_VAD_H

#include "steno.h"

typedef struct steno_vad_state steno_vad_state; /* confined */

/* rate: Hz of the samples to come. The detector must outlive the voice. */
STENO_MUST steno_status steno_vad_state_open(steno_vad_state **out, const steno_vad *vad, int rate,
                                             steno_err *err);
void steno_vad_state_close(steno_vad_state *v);
/* Take samples until one frame is judged. *used <= n of pcm [n] f32 are taken. STENO_NEED_MORE: all
 * of them, and no frame is full yet; else *speech tells of the frame that ends at
 * steno_vad_state_classified. */
STENO_MUST steno_status steno_vad_state_push(steno_vad_state *v, const float *pcm, size_t n,
                                             size_t *used, bool *speech, steno_err *err);
/* Samples judged since open or reset. */
int64_t steno_vad_state_classified(const steno_vad_state *v);
/* Samples of speech that may lie before the frame in which it is first told. */
int64_t steno_vad_state_latency(const steno_vad_state *v);
/* A new signal, whose background may be that of the one before. */
STENO_MUST steno_status steno_vad_state_reset(steno_vad_state *v, steno_err *err);

#endif
