/* Is somebody speaking? By a rule on energy (features/activity.h) or by silero-vad's network
 * (https://github.com/snakers4/silero-vad, releases 5 and 6: 512 samples at 16 kHz at a time behind
 * the 64 before them). steno_vad (steno.h) is what streams share, a voice is one stream's part. */
#ifndef STENO_RECOGNIZER_VAD_H
#define STENO_RECOGNIZER_VAD_H

#include "steno.h"

typedef struct steno_voice steno_voice; /* confined */

/* rate: Hz of the samples to come. The detector must outlive the voice. */
STENO_MUST steno_status steno_voice_open(steno_voice **out, const steno_vad *vad, int rate,
                                         steno_err *err);
void steno_voice_close(steno_voice *v);
/* Take samples until one frame is judged. *used <= n of pcm [n] f32 are taken. STENO_NEED_MORE: all
 * of them, and no frame is full yet; else *speech tells of the frame that ends at
 * steno_voice_judged. */
STENO_MUST steno_status steno_voice_push(steno_voice *v, const float *pcm, size_t n, size_t *used,
                                         bool *speech, steno_err *err);
/* Samples judged since open or reset. */
int64_t steno_voice_judged(const steno_voice *v);
/* Samples of speech that may lie before the frame in which it is first told. */
int64_t steno_voice_late(const steno_voice *v);
/* A new signal, whose background may be that of the one before. */
STENO_MUST steno_status steno_voice_reset(steno_voice *v, steno_err *err);

#endif
