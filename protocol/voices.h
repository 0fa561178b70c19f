/* Words get speakers: the transcript of a recording with the turns of its speakers. Pure. */
#ifndef STENO_PROTOCOL_VOICES_H
#define STENO_PROTOCOL_VOICES_H

#include "base/buf.h"
#include "protocol/transcript.h"

/* What a request says of speakers. Zero-initialised = nothing: they are not told apart. */
struct steno_voices_wants {
    bool on;
    int speakers, min, max; /* as in struct steno_speaker_options; 0 = not given */
};
/* Whether a parameter is taken by the next function: diarize, num_speakers, min_speakers,
 * max_speakers. */
bool steno_voices_known(const char *name);
#define STENO_VOICES_NAMES "diarize, num_speakers, min_speakers, max_speakers"
/* Take it. STENO_ERR_INVAL names it. */
STENO_MUST steno_status steno_voices_set(struct steno_voices_wants *w, const char *name,
                                         const char *value, steno_err *err);
/* Check all of it together. STENO_ERR_INVAL names the parameter, and *param does (static). */
STENO_MUST steno_status steno_voices_check(const struct steno_voices_wants *w, const char **param,
                                           steno_err *err);
/* The warning of a server that cannot. */
#define STENO_VOICES_MISSING                                                                       \
    "diarize: the server has no networks for speakers (steno model fetch speakers, or "            \
    "speakers.model)"

/* A copy of t whose segments have one speaker each (steno_transcript_segment_speaker): where the
 * speaker changes within a segment, it is divided, and loses its alternatives. A word has the
 * speaker who talks at its middle, in a gap the one of the nearest turn. A change moves to the end
 * of a sentence or segment if that is at most two words away. Segments without words have the
 * speaker of the nearest turn to their middle. Speakers are numbered from 1, by their first word.
 * turn: [n] by start, one speaker at a time (steno_diarization_exclusive). NULL: out of memory, or
 * over the limit of a transcript. */
steno_transcript *steno_transcript_with_voices(const steno_transcript *t,
                                               const struct steno_turn *turn, size_t n);
/* Append the text of such a transcript, a line "Speaker 1: ..." for each turn, without the last
 * newline. STENO_ERR_LIMIT, STENO_ERR_NOMEM of the buffer. */
STENO_MUST steno_status steno_voices_write_text(struct steno_buf *out, const steno_transcript *t);

#endif
