/* Words get speakers: the transcript of a recording with the turns of its speakers. Pure. */
#ifndef STENO_PROTOCOL_VOICES_H
#define STENO_PROTOCOL_VOICES_H

#include "protocol/transcript.h"

/* A copy of t whose segments have one speaker each (steno_transcript_segment_speaker): where the
 * speaker changes within a segment, it is divided, and loses its alternatives. A word has the
 * speaker who talks at its middle, in a gap the one of the nearest turn. A change moves to the end
 * of a sentence or segment if that is at most two words away. Segments without words have the
 * speaker of the nearest turn to their middle. Speakers are numbered from 1, by their first word.
 * turn: [n] by start, one speaker at a time (steno_diarization_exclusive). NULL: out of memory, or
 * over the limit of a transcript. */
steno_transcript *steno_transcript_with_voices(const steno_transcript *t,
                                               const struct steno_turn *turn, size_t n);

#endif
