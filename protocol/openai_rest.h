/* The wire format of OpenAI's transcription endpoint (POST /v1/audio/transcriptions and /v1/models
 * of openai/openai-openapi 2.3.0): form fields become a struct; results and errors become JSON, and
 * server-sent events with stream=true. Pure.
 *
 * Output text is always valid UTF-8; times are rounded to milliseconds. Functions that append
 * return STENO_ERR_LIMIT or STENO_ERR_NOMEM of the buffer. */
#ifndef STENO_PROTOCOL_OPENAI_REST_H
#define STENO_PROTOCOL_OPENAI_REST_H

#include "base/buf.h"
#include "protocol/hints.h"
#include "protocol/transcript.h"
#include "protocol/voices.h"

enum steno_openai_format {
    STENO_OPENAI_JSON,
    STENO_OPENAI_TEXT,
    STENO_OPENAI_SRT,
    STENO_OPENAI_VERBOSE_JSON,
    STENO_OPENAI_VTT,
    STENO_OPENAI_DIARIZED_JSON,
    STENO_OPENAI_LRC, /* extensions */
    STENO_OPENAI_TSV,
    STENO_OPENAI_WHISPERX
};

#define STENO_OPENAI_NAME 128 /* bytes of the model or of a speaker, with its NUL */
/* Bytes of any text field; more is STENO_ERR_LIMIT. */
#define STENO_OPENAI_FIELD STENO_HINT_BYTES

#define STENO_OPENAI_CHANNELS 64 /* the largest number of `channel` */

#define STENO_OPENAI_SPEAKERS 20
/* Who speaks on the channels 1 to n. */
struct steno_openai_speakers {
    char names[STENO_OPENAI_SPEAKERS][STENO_OPENAI_NAME];
    int n;
};

struct steno_openai_request { /* zero-initialised = nothing given */
    char model[STENO_OPENAI_NAME];
    struct steno_hint_store hints; /* freed by the caller */
    enum steno_openai_format format;
    double temperature;   /* 0: the model's own way */
    bool words, segments; /* timestamp_granularities[] */
    bool stream;
    bool logprobs;   /* include[] */
    bool vad_filter; /* silence does not go through the network. Not in OpenAI's form */
    bool has_file;
    struct steno_openai_speakers speakers; /* known_speaker_names[] */
    struct steno_voices_wants voices;      /* not in OpenAI's form either */
    int channel; /* of the recording, from 1; 0 = mean of all. Not in OpenAI's form */
};

/* Take one text field of the form; an empty one counts as absent. Array fields may be spelt
 * "name[]" or "name". Fields without effect here (chunking_strategy, ...) are ignored, as
 * docs/server.md says. Unknown fields are ignored, because newer clients send them. STENO_ERR_INVAL
 * names the field and the allowed values; *param receives the field's name (static storage). */
STENO_MUST steno_status steno_openai_field(struct steno_openai_request *r, const char *name,
                                           const char *value, size_t len, const char **param,
                                           steno_err *err);
/* Check the whole request after the last field: missing fields and wrong combinations. */
STENO_MUST steno_status steno_openai_check(const struct steno_openai_request *r, const char **param,
                                           steno_err *err);
/* The media type of an answer in this format. */
const char *steno_openai_media_type(enum steno_openai_format f);

struct steno_openai_result {
    steno_transcript *transcript; /* not changed, except that its text is built on first use */
    const char *language;         /* "en" */
    float language_probability;   /* 0: not known */
    bool translated;              /* to English */
    double duration;              /* s */
    const char *warning;          /* about the recording; NULL = none */
    bool logprobs;                /* wanted in json and in the last event */
    const struct steno_openai_speakers *speakers; /* of diarized_json; may be NULL */
};

/* Append ,"logprobs":[{"token", "logprob", "bytes"}]. A token is a word, with a space before it
 * unless it is the first; its logprob is the logarithm of its confidence. */
STENO_MUST steno_status steno_openai_put_logprobs(struct steno_buf *out, const struct steno_word *w,
                                                  size_t n);
/* Append {"text", "logprobs"?, "usage": {"type": "duration", "seconds"}}. */
STENO_MUST steno_status steno_openai_write_json(struct steno_buf *out,
                                                const struct steno_openai_result *r);
/* Append {"task", "language", "duration", "text", "words"?, "segments"?, "usage"}. Segments have
 * their token ids. Words and segments have their "speaker" (A, B, ...), where voices were told
 * apart: an extension. When more than one hypothesis was wanted, they also have "alternatives":
 * [{"text", "confidence", "score"}], an extension of this project. */
STENO_MUST steno_status steno_openai_write_verbose(struct steno_buf *out,
                                                   const struct steno_openai_result *r, bool words,
                                                   bool segments);
/* The English name of a language, as OpenAI writes it; the code itself, or NULL, where there is
 * none. */
const char *steno_openai_language(const char *code);
/* Append segment `id` of verbose_json, with a comma before all but the first, and without its
 * closing brace. channel from 1; 0 = the recording has one. */
STENO_MUST steno_status steno_openai_open_segment(struct steno_buf *out,
                                                  const struct steno_event *seg, size_t id,
                                                  unsigned channel);
/* Append {"task", "duration", "text", "segments": [{"type", "id", "start", "end", "text",
 * "speaker"}], "usage"}. A speaker is a voice: A, B, ...; or a channel of a recording whose
 * channels were transcribed one by one: its known name, or A, B, ... The text has a line "SPEAKER:
 * TEXT" for each segment. */
STENO_MUST steno_status steno_openai_write_diarized(struct steno_buf *out,
                                                    const struct steno_openai_result *r);
/* Append {"error": {"message", "type", "param", "code"}}; param and code may be NULL. */
STENO_MUST steno_status steno_openai_write_error(struct steno_buf *out, const char *message,
                                                 const char *type, const char *param,
                                                 const char *code);
/* The type of an error by its HTTP status: "invalid_request_error", "rate_limit_error",
 * "server_error". */
const char *steno_openai_error_type(int http);

struct steno_openai_model {
    const char *id;
    int64_t created; /* s since 1970 */
    const char *family, *language, *license, *version;
    const char *languages; /* codes, "en de"; NULL or "" = not known */
    bool translates;
};
STENO_MUST steno_status steno_openai_write_model(struct steno_buf *out,
                                                 const struct steno_openai_model *m);
STENO_MUST steno_status steno_openai_write_models(struct steno_buf *out,
                                                  const struct steno_openai_model *m, size_t n);

/* Append server-sent events ("data: {json}\n\n"; WHATWG HTML, 9.2). Clients join deltas, so a delta
 * has only text that will not change. On failure out has no part of the event. */
STENO_MUST steno_status steno_openai_write_delta(struct steno_buf *out, const char *text, size_t n,
                                                 unsigned channel);
/* Append transcript.text.segment events for a final, one for each of its sections, with the members
 * of a segment of diarized_json. *id counts the segments of the answer; channel from 1. */
STENO_MUST steno_status steno_openai_write_segment_events(
    struct steno_buf *out, const struct steno_event *final, unsigned channel,
    const struct steno_openai_speakers *speakers, size_t *id);
/* Append them for all segments of a result, whose speakers are known at its end. */
STENO_MUST steno_status steno_openai_write_all_segment_events(struct steno_buf *out,
                                                              const struct steno_openai_result *r);
STENO_MUST steno_status steno_openai_write_done(struct steno_buf *out,
                                                const struct steno_openai_result *r);
STENO_MUST steno_status steno_openai_write_error_event(struct steno_buf *out, const char *message,
                                                       const char *type, const char *code);

/* Write paths of Groq and Azure as OpenAI's, in place: "/openai/v1/..." as "/v1/...", and
 * "/openai/deployments/ID/audio/..." as "/v1/audio/...?model=ID". target: with a clean path. */
void steno_openai_make_path(char *target);

#endif
