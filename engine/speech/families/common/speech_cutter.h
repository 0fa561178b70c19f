/* A cutter (cutter.h) that asks a VAD who speaks. Confined.
 *
 * Use: push; while peek gives a chunk, use it and drop it; at the end of the recording, end, and
 * the same again. */
#ifndef STENO_FAMILIES_COMMON_SPEECH_CUTTER_H
#define STENO_FAMILIES_COMMON_SPEECH_CUTTER_H

#include "speech/families/common/cutter.h"
#include "speech/families/family.h"

typedef struct steno_speech_cutter steno_speech_cutter;

/* Errors of steno_cutter_open and of speech's open; speech is copied, its vad must outlive the
 * result. */
STENO_MUST steno_status steno_speech_cutter_open(steno_speech_cutter **out,
                                                 const struct steno_cutter_options *o,
                                                 const struct steno_speech_source *speech,
                                                 steno_err *err);
void steno_speech_cutter_close(steno_speech_cutter *s);
/* Append samples, any number. Those after a complete chunk wait until it is dropped.
 * STENO_ERR_NOMEM, errors of the VAD. */
STENO_MUST steno_status steno_speech_cutter_push(steno_speech_cutter *s, const float *pcm, size_t n,
                                                 steno_err *err);
STENO_MUST steno_status steno_speech_cutter_end(steno_speech_cutter *s, steno_err *err);
/* As of cutter.h. Borrowed until drop or push. */
bool steno_speech_cutter_peek(steno_speech_cutter *s, struct steno_cutter_chunk *out);
void steno_speech_cutter_so_far(const steno_speech_cutter *s, struct steno_cutter_chunk *out);
/* Errors of push. */
STENO_MUST steno_status steno_speech_cutter_drop(steno_speech_cutter *s, steno_err *err);

#endif
