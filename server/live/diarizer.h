/* Who says what in live sessions. A diarizer stands between the stream of a session and the
 * session: it takes the same audio, and the stream's notes. On threads of its own the networks that
 * tell speakers apart follow the audio. Every note goes on to the session in its order; a final
 * waits until its speakers are told, and what follows it waits behind it. */
#ifndef STENO_SERVER_LIVE_DIARIZER_H
#define STENO_SERVER_LIVE_DIARIZER_H

#include "protocol/voices.h"
#include "server/base/stats.h"
#include "speech/pool/pool.h"

/* The threads; locked. */
typedef struct steno_diarizers steno_diarizers;
/* Of one session. */
typedef struct steno_diarizer steno_diarizer;

#define STENO_DIARIZERS_PER_THREAD 16 /* a session takes 4 to 6 % of a processor */

/* A note for the session; voices: of a final, NULL where they could not be told. One call at a
 * time, on any thread, with the diarizer's lock held: it may call nothing of the diarizer. */
typedef void steno_diarizer_fn(void *user, const struct steno_pool_note *note,
                               const struct steno_live_voices *voices);

/* speakers, stats: outlive it. A thread opens its networks (35 MB) with the first session. */
STENO_MUST steno_status steno_diarizers_open(steno_diarizers **out, const steno_speakers *speakers,
                                             int threads, struct steno_stats *stats,
                                             steno_err *err);
void steno_diarizers_close(steno_diarizers *all); /* every diarizer is closed; NULL too */

/* Open one for mono audio of `rate` Hz. max_speakers: 0 = the most. people: directory of enrolled
 * speakers, who get their names; NULL: nobody is known. STENO_ERR_BUSY: there are too
 * many for the threads. STENO_ERR_NOMEM, STENO_ERR_UNSUPPORTED. */
STENO_MUST steno_status steno_diarizer_open(steno_diarizer **out, steno_diarizers *all, int rate,
                                            int max_speakers, const char *people,
                                            steno_diarizer_fn *fn, void *user, steno_err *err);
/* fn is not called any more. */
void steno_diarizer_close(steno_diarizer *d);
/* Samples that it has room for. After a smaller answer than `wanted`, fn gets a ROOM note. */
size_t steno_diarizer_room(steno_diarizer *d, size_t wanted);
/* Take pcm [n], at most what there was room for, which the stream took as well. */
void steno_diarizer_push(steno_diarizer *d, const float *pcm, size_t n);
/* A new stream begins: times of its events count from here. No note of the earlier one follows. */
void steno_diarizer_restart(steno_diarizer *d);
/* A note of the stream. Any thread, one at a time. */
void steno_diarizer_note(steno_diarizer *d, const struct steno_pool_note *note);

#endif
