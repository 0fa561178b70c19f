/* What was said in one recording: the finals of a stream, copied and kept. Confined.
 *
 *     steno_transcript *t = steno_transcript_new(0);
 *     while (steno_stream_next(s, &ev)) st = steno_transcript_add(t, &ev, &err);
 *     steno_transcript_set_duration(t, seconds); */
#ifndef STENO_PROTOCOL_TRANSCRIPT_H
#define STENO_PROTOCOL_TRANSCRIPT_H

#include "steno.h"

typedef struct steno_transcript steno_transcript;

/* max_bytes: limit of all texts and words together; 0 = 64 MiB. NULL when out of memory. */
steno_transcript *steno_transcript_new(size_t max_bytes);
void steno_transcript_free(steno_transcript *t);
/* Keep a final with text; anything else (partials, empty finals) is ignored.
 * STENO_ERR_LIMIT, STENO_ERR_NOMEM: nothing was added. */
STENO_MUST steno_status steno_transcript_add(steno_transcript *t, const struct steno_event *ev,
                                             steno_err *err);
void steno_transcript_set_duration(steno_transcript *t, double seconds);

double steno_transcript_duration(const steno_transcript *t);
size_t steno_transcript_n_segments(const steno_transcript *t);
/* Segment i as the event that brought it; strings are the transcript's. */
const struct steno_event *steno_transcript_segment(const steno_transcript *t, size_t i);
/* All segments joined by single spaces; "" when nothing was said. The transcript's until the next
 * add. */
const char *steno_transcript_text(steno_transcript *t);
/* Geometric mean of the word confidences; 0 without words. */
float steno_transcript_confidence(const steno_transcript *t);
/* Its logarithm, of at least 1e-6: what protocols of log-probabilities have a place for. */
double steno_confidence_log(float confidence);
/* How many hypotheses of the whole there are: as many as of the segment that has most, at least
 * one. */
size_t steno_transcript_n_alternatives(const steno_transcript *t);
/* Hypothesis k of the whole: the k-th of every segment, the best of segments that have fewer.
 * Texts, words and scores are put together, the confidence is the geometric mean over words;
 * without tokens. The transcript's until it is freed. Errors as of add. */
STENO_MUST steno_status steno_transcript_alternative(steno_transcript *t, size_t k,
                                                     struct steno_alternative *out, steno_err *err);

#endif
