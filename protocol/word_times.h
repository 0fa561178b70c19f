/* Times of a transcript's words from an alignment of its text (steno_stream_open_lines). Pure. */
#ifndef STENO_PROTOCOL_WORD_TIMES_H
#define STENO_PROTOCOL_WORD_TIMES_H

#include "protocol/text_lines.h"
#include "protocol/transcript.h"

/* The lines to align: the words of each segment that has some, to be looked for around its time.
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_word_times_lines(struct steno_text_lines *out,
                                               const steno_transcript *t, steno_err *err);
/* Give the words of t, of which the lines were made, the times of the alignment's final; segments
 * begin and end with their words. Words that were not found keep their times, as far as their
 * neighbours leave room for them. Confidences stay. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_word_times_take(steno_transcript *t, const struct steno_event *final,
                                              steno_err *err);

/* The same of one final, ev: its line, to be looked for not before `low` (s). None: out->n is 0.
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_word_times_line(struct steno_text_lines *out,
                                              const struct steno_event *ev, double low,
                                              steno_err *err);
/* And its words get the times of the alignment's [n]; they are of the arena then. STENO_ERR_NOMEM.
 */
STENO_MUST steno_status steno_word_times_place(struct steno_event *ev, steno_arena *a,
                                               const struct steno_word *aligned, size_t n,
                                               steno_err *err);

#define STENO_WORD_TIMES "word_times" /* the name of the setting */
/* Read it: "aligned", or "model" or "" for those of the model that recognizes. STENO_ERR_INVAL. */
STENO_MUST steno_status steno_word_times_parse(const char *value, bool *aligned, steno_err *err);

#endif
