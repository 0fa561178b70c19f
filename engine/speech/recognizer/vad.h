/* Voice activity detection: a rule on energy (features/activity.h), or silero-vad's network
 * (https://github.com/snakers4/silero-vad, releases 5 and 6), which takes 512 samples at 16 kHz and
 * the 64 before them. Streams share a steno_vad (steno.h); each stream has a VAD state. */
#ifndef STENO_RECOGNIZER_VAD_H
#define STENO_RECOGNIZER_VAD_H

#include "steno.h"

typedef struct steno_vad_state steno_vad_state; /* confined */

/* The rule on energy, which needs no open. */
extern const steno_vad steno_vad_energy;

/* rate: of the samples, Hz. vad must outlive the state. STENO_ERR_NOMEM, errors of the resampler.
 */
STENO_MUST steno_status steno_vad_state_open(steno_vad_state **out, const steno_vad *vad, int rate,
                                             steno_err *err);
void steno_vad_state_close(steno_vad_state *v);
/* Take samples until one frame is classified; *used <= n of pcm [n] are taken. *speech: whether the
 * frame that ends at steno_vad_state_classified has speech. STENO_NEED_MORE: all samples are taken,
 * and the frame is not complete. */
STENO_MUST steno_status steno_vad_state_push(steno_vad_state *v, const float *pcm, size_t n,
                                             size_t *used, bool *speech, steno_err *err);
/* Samples classified since open or reset. */
int64_t steno_vad_state_classified(const steno_vad_state *v);
/* Maximum of samples between the begin of speech and the end of the frame that first shows it. */
int64_t steno_vad_state_latency(const steno_vad_state *v);
/* Begin a new signal. The energy rule keeps its noise floor. */
STENO_MUST steno_status steno_vad_state_reset(steno_vad_state *v, steno_err *err);

#endif
