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

/* What one speaker says of a final of a live session. */
struct steno_voiced {
    int speaker;       /* from 0 */
    double start, end; /* s, as the final's */
    size_t word, n_words;
};
/* Who says what of a final, and which speakers, since the last one, turned out to be one. */
struct steno_live_voices {
    const struct steno_voiced *part; /* [n_parts] by start; 0: not known */
    size_t n_parts;
    const struct steno_live_merge *merge;
    size_t n_merges;
    const char *const *names; /* by speaker, NULL for those that have none; NULL: nobody has */
};
/* Divide a final by who talks: who(ctx, s) is the speaker at a time, from 0, -1 = not known. Words
 * as below; one whose speaker is not known goes to that of the word before it. A final without
 * words is one part. *out [*n] belongs to the caller: free; NULL if there is none. STENO_ERR_NOMEM.
 */
STENO_MUST steno_status steno_voices_divide(const struct steno_event *final,
                                            int (*who)(const void *ctx, double seconds),
                                            const void *ctx, struct steno_voiced **out, size_t *n);
/* Who talks at a time: the speaker of the last part that begins before or then, from 1; 0: v is
 * NULL, or has no parts. */
unsigned steno_live_voice_at(const struct steno_live_voices *v, double seconds);
/* Append the text of words [word, word + n_words) of a segment, with its blanks between them. *at:
 * as in steno_word_is_spaced. STENO_ERR_LIMIT, STENO_ERR_NOMEM of the buffer. */
STENO_MUST steno_status steno_voices_put_words(struct steno_buf *out, const struct steno_event *seg,
                                               size_t word, size_t n_words, size_t *at);

/* A copy of t whose segments have one speaker each (steno_transcript_segment_speaker): where the
 * speaker changes within a segment, it is divided, and loses its alternatives. A word has the
 * speaker who talks at its middle, in a gap the one of the nearest turn. A change moves to the end
 * of a sentence or segment if that is at most two words away. Segments without words have the
 * speaker of the nearest turn to their middle. Speakers are numbered from 1, by their first word.
 * turn: [n] by start, one speaker at a time (steno_diarization_exclusive). names: of the turns'
 * speakers, NULL for those that have none; NULL: no names. NULL: out of memory, or over the limit
 * of a transcript. */
steno_transcript *steno_transcript_with_voices(const steno_transcript *t,
                                               const struct steno_turn *turn, size_t n,
                                               const char *const *names);
/* Append "Speaker 1", or the speaker's name. Errors of the buffer. */
STENO_MUST steno_status steno_voices_put_label(struct steno_buf *out, const steno_transcript *t,
                                               unsigned speaker);
/* Append the text of such a transcript, a line "Speaker 1: ..." for each turn, without the last
 * newline. STENO_ERR_LIMIT, STENO_ERR_NOMEM of the buffer. */
STENO_MUST steno_status steno_voices_write_text(struct steno_buf *out, const steno_transcript *t);

#endif
