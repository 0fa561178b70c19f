/* The wire format of OpenAI's transcription endpoint (POST /v1/audio/transcriptions and /v1/models
 * of openai/openai-openapi 2.3.0): form fields -> struct, results and errors -> JSON, stream=true
 * as server-sent events. Pure.
 *
 * Text goes out as valid UTF-8 whatever came in; times have millisecond grain. Functions that
 * append return STENO_ERR_LIMIT or STENO_ERR_NOMEM of the buffer. */
#ifndef STENO_PROTOCOL_OPENAI_REST_H
#define STENO_PROTOCOL_OPENAI_REST_H

#include "base/buf.h"
#include "protocol/transcript.h"

enum steno_openai_format {
    STENO_OPENAI_JSON,
    STENO_OPENAI_TEXT,
    STENO_OPENAI_SRT,
    STENO_OPENAI_VERBOSE_JSON,
    STENO_OPENAI_VTT
};

#define STENO_OPENAI_NAME 128   /* model and language, with their NUL */
#define STENO_OPENAI_FIELD 8192 /* bytes of any one text field; more is STENO_ERR_LIMIT */

#define STENO_OPENAI_CHANNELS 64 /* the largest number of `channel` */

struct steno_openai_request { /* zero-initialised = nothing given */
    char model[STENO_OPENAI_NAME];
    char language[STENO_OPENAI_NAME];
    enum steno_openai_format format;
    double temperature;
    bool words, segments; /* timestamp_granularities[] */
    bool stream;
    bool logprobs; /* include[] */
    bool has_file;
    int channel; /* of the recording, from 1; 0 = mean of all. Not of OpenAI's form */
};

/* One text field of the form. Both spellings of array fields are taken ("name[]" and "name").
 * Fields that change nothing here (prompt, temperature, chunking_strategy, ...) are
 * checked or ignored, as documented in docs/server.md; unknown ones are ignored, as newer clients
 * send them. STENO_ERR_INVAL names field and values; *param receives the field's name (static
 * storage). */
STENO_MUST steno_status steno_openai_field(struct steno_openai_request *r, const char *name,
                                           const char *value, size_t len, const char **param,
                                           steno_err *err);
/* After the last field: what is missing, what does not go together. */
STENO_MUST steno_status steno_openai_check(const struct steno_openai_request *r, const char **param,
                                           steno_err *err);
/* Media type of an answer in this format. */
const char *steno_openai_media_type(enum steno_openai_format f);

/* Whether a request for `asked` ("en", "EN-us", "english") can be served by a model for `has`; an
 * empty language on either side always matches. */
bool steno_openai_language_matches(const char *asked, const char *has);

struct steno_openai_result {
    steno_transcript *transcript; /* not changed, but its text is built on first use */
    const char *language;         /* "en" */
    double duration;              /* s */
    const char *warning;          /* about the recording; NULL = none */
    bool logprobs;                /* wanted in json and in the last event */
};

/* ,"logprobs":[{"token", "logprob", "bytes"}]: a token is a word, with a space before it unless it
 * is the first, its logprob the logarithm of the confidence. */
STENO_MUST steno_status steno_openai_put_logprobs(struct steno_buf *out, const struct steno_word *w,
                                                  size_t n);
/* {"text", "logprobs"?, "usage": {"type": "duration", "seconds"}} */
STENO_MUST steno_status steno_openai_write_json(struct steno_buf *out,
                                                const struct steno_openai_result *r);
/* {"task", "language", "duration", "text", "words"?, "segments"?, "usage"}. Segments have their
 * token ids; where more than one hypothesis was wanted, "alternatives": [{"text", "confidence",
 * "score"}] (ours). */
STENO_MUST steno_status steno_openai_write_verbose(struct steno_buf *out,
                                                   const struct steno_openai_result *r, bool words,
                                                   bool segments);
/* {"error": {"message", "type", "param", "code"}}; param and code may be NULL. */
STENO_MUST steno_status steno_openai_write_error(struct steno_buf *out, const char *message,
                                                 const char *type, const char *param,
                                                 const char *code);
/* Type of an error by HTTP status: "invalid_request_error", "rate_limit_error", "server_error". */
const char *steno_openai_error_type(int http);

struct steno_openai_model {
    const char *id;
    int64_t created; /* s since 1970 */
    const char *family, *language, *license, *version;
};
STENO_MUST steno_status steno_openai_write_model(struct steno_buf *out,
                                                 const struct steno_openai_model *m);
STENO_MUST steno_status steno_openai_write_models(struct steno_buf *out,
                                                  const struct steno_openai_model *m, size_t n);

/* Server-sent events ("data: {json}\n\n"; WHATWG HTML, 9.2). Clients join deltas, so only text that
 * will not change goes into one. On failure nothing of the event is in out. */
STENO_MUST steno_status steno_openai_write_delta(struct steno_buf *out, const char *text, size_t n);
STENO_MUST steno_status steno_openai_write_done(struct steno_buf *out,
                                                const struct steno_openai_result *r);
STENO_MUST steno_status steno_openai_write_error_event(struct steno_buf *out, const char *message,
                                                       const char *type, const char *code);

#endif
