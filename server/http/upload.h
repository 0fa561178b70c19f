/* Requests with a recording: POST /v1/audio/transcriptions (OpenAI's form), POST /v1/transcribe and
 * POST /v1/listen. The body is gathered in bounded memory. The connection is suspended while a job
 * works, and resumed with the answer. */
#ifndef STENO_SERVER_HTTP_UPLOAD_H
#define STENO_SERVER_HTTP_UPLOAD_H

#include "server/http/request.h"

/* Admit or refuse a request from its head. A refused request has been answered. */
enum MHD_Result steno_upload_begin(struct steno_request *rq);
/* Take a part of the body. MHD_NO closes the connection. */
enum MHD_Result steno_upload_data(struct steno_request *rq, const char *data, size_t n);
/* The body is complete, or the connection was resumed: answer, or suspend. */
enum MHD_Result steno_upload_continue(struct steno_request *rq);
/* The status of an answer that was written without libmicrohttpd: 408 because the body stopped
 * coming, or any status for a client that had closed its sending side. 0 = none. */
int steno_upload_own_answer(const struct steno_request *rq);
/* End the upload of a request that is over, for whatever reason. */
void steno_upload_end(struct steno_request *rq);

#endif
