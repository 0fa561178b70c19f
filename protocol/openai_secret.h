/* OpenAI's ephemeral keys: POST /v1/realtime/client_secrets and, in the beta schema,
 * /v1/realtime/transcription_sessions (openai-openapi 2.3.0). The session that the request
 * describes holds for connections with the key. Pure. */
#ifndef STENO_PROTOCOL_OPENAI_SECRET_H
#define STENO_PROTOCOL_OPENAI_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct steno_openai_secret {
    bool beta;
    int seconds;   /* until the key ends */
    char *session; /* JSON object in the schema of session.update, "{}" if nothing is set */
};

/* Parse a body of [n] bytes; an empty one sets nothing. STENO_ERR_INVAL, STENO_ERR_FORMAT,
 * STENO_ERR_LIMIT name what is wrong; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_openai_secret_parse(struct steno_openai_secret *out, const char *p,
                                                  size_t n, bool beta, steno_err *err);
/* Check that a session is an object, or NULL, and that its type, if it has one, is "transcription".
 * STENO_ERR_INVAL. */
struct json_t;
STENO_MUST steno_status steno_openai_secret_check(const struct json_t *session, steno_err *err);
void steno_openai_secret_free(struct steno_openai_secret *s);

struct steno_openai_secret_answer {
    const char *value, *session_id;
    int64_t expires_at; /* s since 1970 */
};
/* Append {"value","expires_at","session":{...}}, or in the beta schema the session with
 * "client_secret":{"value","expires_at"}. Errors of out. */
STENO_MUST steno_status steno_openai_secret_write(struct steno_buf *out,
                                                  const struct steno_openai_secret *s,
                                                  const struct steno_openai_secret_answer *a);

#endif
