/* Keys with an end, for browsers: POST /v1/realtime/client_secrets and, in the beta schema,
 * /v1/realtime/transcription_sessions. A server that has an API key asks for them. Confined like
 * the request. */
#ifndef STENO_SERVER_HTTP_SECRETS_H
#define STENO_SERVER_HTTP_SECRETS_H

#include "server/http/request.h"

/* Answer a POST of either route. */
enum MHD_Result steno_secret_post(struct steno_request *rq);
/* Answer Deepgram's POST /v1/auth/grant. */
enum MHD_Result steno_secret_grant(struct steno_request *rq);

#endif
