/* A recording whose windows are decoded side by side (faster-whisper's BatchedInferencePipeline):
 * it is cut into chunks in pauses of speech (common/speech_cutter.h), and each chunk is a recording
 * of its own (recording.h), without the text before it. Segments come in order, with times of the
 * whole.
 *
 * Use: open; push, and when due, give the recordings of `steps` to
 * steno_whisper_recordings_step, then `stepped`, and read all with next; at the end, end, and the
 * same while busy; close. Confined. */
#ifndef STENO_FAMILIES_WHISPER_BATCHED_H
#define STENO_FAMILIES_WHISPER_BATCHED_H

#include "speech/families/family.h"
#include "speech/families/whisper/recording.h"

#define STENO_WHISPER_MOST_CHUNKS 16 /* of one recording at once */

typedef struct steno_whisper_batched steno_whisper_batched;

/* o->batched: chunks at once, 1 to STENO_WHISPER_MOST_CHUNKS. A language that is not given is
 * detected in the first chunk. Texts of o must outlive the result. Errors of speech's open and of
 * steno_whisper_recording_open. */
STENO_MUST steno_status steno_whisper_batched_open(steno_whisper_batched **out,
                                                   const struct steno_whisper *m,
                                                   const struct steno_whisper_recording_options *o,
                                                   const struct steno_speech_source *speech,
                                                   steno_err *err);
void steno_whisper_batched_close(steno_whisper_batched *b);
/* Append samples at 16 kHz; any number. */
STENO_MUST steno_status steno_whisper_batched_push(steno_whisper_batched *b, const float *pcm,
                                                   size_t n, steno_err *err);
STENO_MUST steno_status steno_whisper_batched_end(steno_whisper_batched *b, steno_err *err);
/* A step should run before more samples come: as many chunks as may be are there, or a window of
 * samples has come since the last step. */
bool steno_whisper_batched_due(const steno_whisper_batched *b);
/* A chunk is not finished. */
bool steno_whisper_batched_busy(const steno_whisper_batched *b);
/* Chunks that a step can work on, at most max, the earliest ones; returns how many. */
size_t steno_whisper_batched_steps(steno_whisper_batched *b, steno_whisper_recording **out,
                                   size_t max);
/* The step has been run; takes the segments that it finished. */
STENO_MUST steno_status steno_whisper_batched_stepped(steno_whisper_batched *b, steno_err *err);
/* The next segment in order, and what its window was decoded to; valid until the next call of next
 * or close. STENO_NEED_MORE: there is none yet. */
STENO_MUST steno_status steno_whisper_batched_next(steno_whisper_batched *b,
                                                   struct steno_whisper_segment *out,
                                                   const struct steno_whisper_decoded **window);
/* Segments that next can give. */
size_t steno_whisper_batched_waiting(const steno_whisper_batched *b);
/* As of recording.h, of the first chunk. */
int steno_whisper_batched_language(const steno_whisper_batched *b, float *probability);

#endif
