/* The answers of HTTP: headers that every one has, bodies, and the error forms of the APIs. */
#include "base/clock.h"
#include "protocol/deepgram.h"
#include "protocol/openai_rest.h"
#include "protocol/whisper_asr.h"
#include "protocol/whisper_cpp.h"
#include "server/http/cors.h"
#include "server/http/request.h"
#include "server/port/refusal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum steno_error_form errors_of(const struct steno_request *rq)
{
    return rq->route ? rq->route->errors : STENO_ERRORS_OPENAI;
}

static bool is_deepgram(const struct steno_request *rq)
{
    return errors_of(rq) == STENO_ERRORS_DEEPGRAM;
}

enum MHD_Result steno_respond_with(struct steno_request *rq, int code, struct MHD_Response *rs)
{
    enum MHD_Result ok;
    (void)MHD_add_response_header(rs, "X-Request-Id", rq->id);
    if (is_deepgram(rq)) {
        char id[STENO_DEEPGRAM_ID];
        steno_deepgram_request_id(rq->id, id);
        (void)MHD_add_response_header(rs, "dg-request-id", id);
    }
    if (rq->trace.on) {
        char parent[STENO_TRACEPARENT_SIZE];
        (void)MHD_add_response_header(rs, "traceparent",
                                      steno_traceparent_write(&rq->trace.own, parent));
        if (*rq->trace.state)
            (void)MHD_add_response_header(rs, "tracestate", rq->trace.state);
    }
    (void)MHD_add_response_header(rs, "Cache-Control", "no-store");
    steno_cors_headers(rq, rs);
    (void)MHD_add_response_header(rs, "X-Content-Type-Options", "nosniff");
    ok = MHD_queue_response(rq->conn, (unsigned)code, rs);
    MHD_destroy_response(rs);
    if (ok == MHD_YES)
        rq->code = code;
    return ok;
}

enum MHD_Result steno_respond(struct steno_request *rq, int code, const char *media,
                              struct steno_buf *body, const struct steno_header *headers)
{
    size_t len = 0;
    char *text = steno_buf_take(body, &len);
    struct MHD_Response *rs = MHD_create_response_from_buffer(
        len, text, text ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (!rs) {
        free(text);
        return MHD_NO;
    }
    (void)MHD_add_response_header(rs, "Content-Type", media);
    for (; headers && headers->name; headers++)
        (void)MHD_add_response_header(rs, headers->name, headers->value);
    return steno_respond_with(rq, code, rs);
}

enum MHD_Result steno_respond_static(struct steno_request *rq, int code, const char *media,
                                     const char *text)
{
    struct steno_buf body;
    steno_buf_init(&body, strlen(text));
    if (steno_buf_puts(&body, text)) {
        steno_buf_free(&body);
        return MHD_NO;
    }
    return steno_respond(rq, code, media, &body, NULL);
}

enum MHD_Result steno_respond_stream(struct steno_request *rq, int code, const char *media,
                                     const struct steno_header *headers,
                                     MHD_ContentReaderCallback read, void *ctx)
{
    struct MHD_Response *rs =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read, ctx, NULL);
    if (!rs)
        return MHD_NO;
    (void)MHD_add_response_header(rs, "Content-Type", media);
    (void)MHD_add_response_header(rs, "X-Accel-Buffering", "no"); /* proxies must pass events on */
    for (; headers->name; headers++)
        (void)MHD_add_response_header(rs, headers->name, headers->value);
    return steno_respond_with(rq, code, rs);
}

steno_status steno_error_write(struct steno_buf *out, enum steno_error_form form, const char *id,
                               int http, const char *code, const char *param, const char *message)
{
    char uuid[STENO_DEEPGRAM_ID];
    switch (form) {
    case STENO_ERRORS_OPENAI:
        break;
    case STENO_ERRORS_DEEPGRAM:
        steno_deepgram_request_id(id, uuid);
        return steno_deepgram_write_error(out, code ? code : "", message, uuid);
    case STENO_ERRORS_WHISPER_CPP:
        return steno_whisper_cpp_write_error(out, message);
    case STENO_ERRORS_WHISPER_ASR:
        return steno_whisper_asr_write_error(out, message);
    }
    return steno_openai_write_error(out, message, steno_openai_error_type(http), param, code);
}

#define MORE_HEADERS 3 /* that an error may have beside those of its status */

steno_status steno_error_write_answer(struct steno_buf *out, enum steno_error_form form,
                                      const char *id, const char *cors, int http, const char *code,
                                      const char *message)
{
    struct steno_buf body;
    steno_status st;
    steno_buf_init(&body, STENO_REFUSAL_BYTES / 2);
    st = steno_error_write(&body, form, id, http, code, NULL, message);
    if (!st)
        st = steno_refusal_write_body(out, http, cors, &body);
    steno_buf_free(&body);
    return st;
}

/* more: further headers, at most MORE_HEADERS; may be NULL. */
static enum MHD_Result respond_error(struct steno_request *rq, int http, const char *code,
                                     const char *param, const char *message,
                                     const struct steno_header *more)
{
    char seconds[32], ms[32], reason[STENO_DEEPGRAM_ERROR];
    struct steno_header headers[4 + MORE_HEADERS] = {{NULL, NULL}};
    size_t n = 0;
    struct steno_buf body;
    steno_buf_init(&body, 65536);
    if (steno_error_write(&body, errors_of(rq), rq->id, http, code, param, message)) {
        steno_buf_free(&body);
        return MHD_NO;
    }
    if (http == 503 || http == 429) {
        double after = http == 429 ? rq->retry_after
                                   : steno_limits_come_back(rq->sv->srv->limits, steno_now_ns());
        snprintf(seconds, sizeof seconds, "%.0f", fmax(1, ceil(after)));
        snprintf(ms, sizeof ms, "%.0f", fmax(1, ceil(after * 1000)));
        headers[n++] = (struct steno_header){"Retry-After", seconds};
        headers[n++] = (struct steno_header){"Retry-After-Ms", ms};
    } else if (http == 401) {
        headers[n++] = (struct steno_header){"WWW-Authenticate", "Bearer"};
    }
    if (is_deepgram(rq)) {
        steno_deepgram_error_header(message, reason);
        headers[n++] = (struct steno_header){"dg-error", reason};
    }
    for (size_t i = 0; more && more[i].name && i < MORE_HEADERS; i++)
        headers[n++] = more[i];
    snprintf(rq->note, sizeof rq->note, "%.150s", message);
    return steno_respond(rq, http, "application/json", &body, headers);
}

enum MHD_Result steno_respond_error(struct steno_request *rq, int http, const char *code,
                                    const char *param, const char *fmt, ...)
{
    char message[sizeof((steno_err *)0)->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    return respond_error(rq, http, code, param, message, NULL);
}

enum MHD_Result steno_respond_refusal(struct steno_request *rq, int http, const char *code,
                                      const char *message, const struct steno_header *headers)
{
    return respond_error(rq, http, code, NULL, message, headers);
}

enum MHD_Result steno_respond_status(struct steno_request *rq, const steno_err *err,
                                     const char *param)
{
    const struct steno_status_map *map = steno_status_info(err->code);
    return respond_error(rq, map->http, map->name, param, err->msg, NULL);
}

enum MHD_Result steno_respond_stored_status(struct steno_request *rq, const steno_err *err,
                                            const char *param)
{
    return err->code == STENO_ERR_IO
               ? steno_respond_error(rq, 503, "store_unavailable", NULL, "%s", err->msg)
               : steno_respond_status(rq, err, param);
}

enum MHD_Result steno_respond_wrong_key(struct steno_request *rq, const steno_err *err)
{
    return steno_respond_error(rq, 401, "invalid_api_key", NULL, "%s", err->msg);
}
