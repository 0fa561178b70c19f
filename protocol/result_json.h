/* Results as JSON in the project's own form (`steno transcribe --format json`, POST
 * /v1/transcribe):
 *
 *     {"text", "duration", "confidence", "language", "language_probability", "model",
 *      "channels" (their number, when each was transcribed), "speakers" (likewise),
 *      "segments": [{"text", "channel", "speaker" (from 1, likewise),
 *                    "start", "end", "confidence", "reason",
 *                    "emotion", "sound" (struct steno_labels),
 *                    "words": [{"word", "start", "end", "confidence"}],
 *                    "characters": [{"character", "start", "end", "confidence"}],
 *                    "alternatives": [{"text", "confidence", "score", "words": [...]}]}],
 *      "warnings": [...]}
 *
 * Times are in seconds, rounded to milliseconds. Pure. */
#ifndef STENO_PROTOCOL_RESULT_JSON_H
#define STENO_PROTOCOL_RESULT_JSON_H

#include "base/buf.h"
#include "protocol/transcript.h"

struct steno_result_json_options {
    bool no_words;     /* leave the words out */
    bool characters;   /* of a transcript of lines (steno_stream_open_lines): segments have them */
    int indent;        /* spaces; 0 = one line */
    const char *file;  /* "file" member; NULL = absent */
    const char *model; /* likewise */
    const char *language;
    float language_probability; /* 0 = absent */
    const char *warning;        /* the only element of "warnings"; NULL = absent */
};

/* Append one JSON object, without a newline, to out. opt may be NULL. Bytes of its strings that are
 * not UTF-8, as in a path, become U+FFFD. STENO_ERR_NOMEM, STENO_ERR_LIMIT: out is unchanged, as
 * for all functions here. */
STENO_MUST steno_status steno_result_json_write(struct steno_buf *out, steno_transcript *t,
                                                const struct steno_result_json_options *opt);
/* Append one event as one line of JSON (`steno transcribe --stream --format json`) with its
 * newline:
 *     {"type": "speech_start"|"partial"|"final", "segment", "time", "start", "end",
 *      "text", "stable" (partial: the stable prefix of text), "confidence", "words",
 *      "reason" (final)} */
STENO_MUST steno_status steno_event_json_write(struct steno_buf *out, const struct steno_event *ev);
/* Append the alternatives of one final as an n-best list:
 *     {"nbest": [{"token_ids": [sos, ..., eos], "score", "text"}, ...]}
 * on one line with its newline. token_ids is empty where the search has no marks of its own. ev
 * NULL: an empty list. */
STENO_MUST steno_status steno_nbest_json_write(struct steno_buf *out, const struct steno_event *ev);
/* The name of a reason: "endpoint", "length", "request", "end", "backchannel". */
const char *steno_final_reason_name(enum steno_final_reason r);

#endif
