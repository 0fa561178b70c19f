#include "server/port/refusal.h"

#include "protocol/openai_rest.h"
#include "protocol/wyoming_frame.h"

#include <sys/socket.h>

static const char *phrase_of(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } phrases[] = {{400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {408, "Request Timeout"},
                   {409, "Conflict"},
                   {410, "Gone"},
                   {426, "Upgrade Required"},
                   {429, "Too Many Requests"},
                   {431, "Request Header Fields Too Large"},
                   {503, "Service Unavailable"},
                   {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "Error";
}

steno_status steno_refusal_write_body(struct steno_buf *out, int status, const char *extra,
                                      const struct steno_buf *body)
{
    steno_status st = steno_buf_printf(out,
                                       "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
                                       "Connection: close\r\nContent-Length: %zu\r\n%s%s\r\n",
                                       status, phrase_of(status), body->len,
                                       status == 426 ? "Sec-WebSocket-Version: 13\r\n" : "", extra);
    return st ? st : steno_buf_add(out, body->data, body->len);
}

steno_status steno_refusal_write(struct steno_buf *out, int status, const char *code,
                                 const char *message, const char *extra)
{
    struct steno_buf body;
    steno_status st;
    steno_buf_init(&body, STENO_REFUSAL_BYTES / 2);
    st = steno_openai_write_error(&body, message, steno_openai_error_type(status), NULL, code);
    if (!st)
        st = steno_refusal_write_body(out, status, extra, &body);
    steno_buf_free(&body);
    return st;
}

void steno_refusal_send(int fd, int status, const char *code, const char *message,
                        const char *extra)
{
    struct steno_buf out;
    steno_buf_init(&out, STENO_REFUSAL_BYTES);
    if (!steno_refusal_write(&out, status, code, message, extra))
        (void)!send(fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    steno_buf_free(&out);
}

void steno_refusal_send_wyoming(int fd, const char *code, const char *message)
{
    struct steno_buf out;
    steno_buf_init(&out, STENO_REFUSAL_BYTES);
    if (!steno_wyoming_write_error(&out, code, message))
        (void)!send(fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    steno_buf_free(&out);
}
