/* The text of one recording: copies of the finals of a stream. Confined.
 *
 *     steno_transcript *t = steno_transcript_new(0);
 *     while (steno_stream_next(s, &ev)) st = steno_transcript_add(t, &ev, &err);
 *     steno_transcript_set_duration(t, seconds); */
#ifndef STENO_PROTOCOL_TRANSCRIPT_H
#define STENO_PROTOCOL_TRANSCRIPT_H

#include "base/arena.h"
#include "steno.h"

typedef struct steno_transcript steno_transcript;

/* Make an empty transcript. max_bytes: limit of all texts and words together; 0 = 64 MiB. NULL when
 * out of memory. */
steno_transcript *steno_transcript_new(size_t max_bytes);
void steno_transcript_free(steno_transcript *t);
/* Add a final with text; other events (partials, empty finals) are ignored. A final with sections
 * becomes a segment for each of them that has text. STENO_ERR_LIMIT, STENO_ERR_NOMEM: nothing was
 * added. */
STENO_MUST steno_status steno_transcript_add(steno_transcript *t, const struct steno_event *ev,
                                             steno_err *err);
void steno_transcript_set_duration(steno_transcript *t, double seconds);

/* The transcript of a recording whose channels were transcribed one by one: the segments of all, in
 * the order of their beginnings, and as its text a line for each channel. Speakers are numbered
 * through, in the channels too. Takes channels [n], in any case. NULL when out of memory. Nothing
 * can be added to it. */
steno_transcript *steno_transcript_of_channels(steno_transcript *const *channels, size_t n);
/* The number of those channels; 0: this is one transcript. */
size_t steno_transcript_n_channels(const steno_transcript *t);
/* Channel k of them, from 0. */
steno_transcript *steno_transcript_channel(const steno_transcript *t, size_t k);
/* The channel of segment i, from 1; 0 = this is one transcript. */
unsigned steno_transcript_segment_channel(const steno_transcript *t, size_t i);

/* Who speaks in a segment. */
struct steno_attribution {
    unsigned speaker; /* from 1; 0 = not known */
    float confidence; /* share of its time in which the speaker has a turn, 0..1 */
};
/* Say it of every segment: voice [n_segments], of n speakers. It is taken. */
void steno_transcript_take_voices(steno_transcript *t, struct steno_attribution *voice, unsigned n);
/* The number of speakers; 0: they are not known. */
unsigned steno_transcript_n_speakers(const steno_transcript *t);
/* A speaker, from 1, is known by name, which is copied. STENO_ERR_NOMEM, STENO_ERR_LIMIT. */
STENO_MUST steno_status steno_transcript_name_speaker(steno_transcript *t, unsigned speaker,
                                                      const char *name);
/* The name; NULL: not known. */
const char *steno_transcript_speaker_name(const steno_transcript *t, unsigned speaker);
/* The speaker of segment i, from 1; 0 = not known. */
unsigned steno_transcript_segment_speaker(const steno_transcript *t, size_t i);
/* Who speaks at a time in s, in the last segment that begins before or then. t: of one channel. */
struct steno_attribution steno_transcript_voice_at(const steno_transcript *t, double seconds);

double steno_transcript_duration(const steno_transcript *t);
size_t steno_transcript_n_segments(const steno_transcript *t);
/* Segment i, to be given other times, and where its memory is. */
struct steno_event *steno_transcript_own_segment(steno_transcript *t, size_t i,
                                                 steno_arena **arena);
/* Segment i in the form of its event; the strings belong to the transcript. */
const struct steno_event *steno_transcript_segment(const steno_transcript *t, size_t i);
/* Its text, with the blank before it if the model wrote one (the event's has none). */
const char *steno_transcript_segment_text(const steno_transcript *t, size_t i);
/* Code of the language, detected or given, and how probable it is; NULL: no final had one. Static.
 */
const char *steno_transcript_language(const steno_transcript *t, float *probability);
/* All segments, joined by single spaces, sections as the model has; "" when there are none. Belongs
 * to the transcript; valid until the next add. */
const char *steno_transcript_text(steno_transcript *t);
/* Geometric mean of the word confidences; 0 without words. */
float steno_transcript_confidence(const steno_transcript *t);
/* The logarithm of a confidence, which counts as at least 1e-6: for protocols with
 * log-probabilities. */
double steno_confidence_log(float confidence);
/* The number of hypotheses of the whole: the largest number of any segment, or of any final that
 * became several; at least one. */
size_t steno_transcript_n_alternatives(const steno_transcript *t);
/* Whether a final with several hypotheses became segments, which have one each then. */
bool steno_transcript_has_joint_alternatives(const steno_transcript *t);
/* Hypothesis k of the whole: the k-th of every segment or of every final that became several, or
 * the best of one that has fewer.
 * Texts, words and scores are joined, the confidence is the geometric mean over the words, and
 * there are no tokens. Belongs to the transcript until that is freed. Errors as of add. */
STENO_MUST steno_status steno_transcript_alternative(steno_transcript *t, size_t k,
                                                     struct steno_alternative *out, steno_err *err);

#endif
