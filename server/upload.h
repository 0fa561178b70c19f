/* Requests that bring a recording: POST /v1/audio/transcriptions (OpenAI form) and POST
 * /v1/transcribe (the body is the file). The body is gathered into bounded memory, the connection
 * suspended while a job works, and resumed with the answer. */
#ifndef STENO_SERVER_UPLOAD_H
#define STENO_SERVER_UPLOAD_H

#include "server/request.h"

/* The request head is here: admit or refuse. When it was refused the request has been answered. */
enum MHD_Result steno_upload_begin(struct steno_request *rq);
/* A piece of the body; MHD_NO closes the connection. */
enum MHD_Result steno_upload_data(struct steno_request *rq, const char *data, size_t n);
/* The body is complete, or the connection was resumed: answer, or suspend. */
enum MHD_Result steno_upload_continue(struct steno_request *rq);
/* Status it was answered with past libmicrohttpd: 408 because its body stopped coming, or any for a
 * client that had closed its sending side; 0 = not. */
int steno_upload_own_answer(const struct steno_request *rq);
/* The request is over, however it ended. */
void steno_upload_end(struct steno_request *rq);

#endif
