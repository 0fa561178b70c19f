#include "server/http/upload_internal.h"

#include "base/clock.h"
#include "server/base/log.h"
#include "server/port/refusal.h"

#include <stdio.h>
#include <sys/socket.h>

/* The client sends nothing more: it left, or it only closed its sending side. An interim answer
 * (RFC 9110, 15.2; clients of HTTP/1.1 must ignore it) gets a reset from a client that left. Lock
 * held. The connection is suspended, so nobody else writes to it. */
void steno_upload_probe(struct steno_upload *up)
{
    static const char processing[] = "HTTP/1.1 102 Processing\r\n\r\n";
    if (up->client.suspended && !up->out.over && !up->sse.on && up->client.http11)
        (void)!send(up->client.fd, processing, sizeof processing - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static steno_status write_refusal(const struct steno_upload *up, struct steno_buf *out, int http,
                                  const char *code, const char *message)
{
    return steno_error_write_answer(out, up->errors, up->client.id, up->client.cors, http, code,
                                    message);
}

/* ---- bodies that stop ------------------------------------------------------------------------ */

/* libmicrohttpd (0.9.75) takes no response while a body comes, and when its own timeout expires, it
 * shuts down the sending side before it tells anyone. So the answer is written without it:
 * libmicrohttpd only reads at this time, and a shutdown makes it see the end of the input. Lock
 * held. */
static void expire_body(struct steno_upload *up, const char *message)
{
    struct steno_buf out;
    if (up->client.body_over || up->client.expired)
        return;
    up->client.expired = true;
    *up->client.linger = true; /* data on the way must not reset the connection */
    steno_buf_init(&out, STENO_REFUSAL_BYTES);
    if (!write_refusal(up, &out, 408, "body_timeout", message))
        (void)!send(up->client.fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    steno_buf_free(&out);
    shutdown(up->client.fd, SHUT_RDWR);
}

static void on_stalled(void *user, enum steno_hangup_why why)
{
    struct steno_upload *up = user;
    if (why != STENO_HANGUP_LATE) /* libmicrohttpd reads and notices this itself */
        return;
    pthread_mutex_lock(&up->lock);
    expire_body(up, "nothing more of the request body came for limits.idle_timeout");
    pthread_mutex_unlock(&up->lock);
}

static int64_t stalled_at(const struct steno_upload *up)
{
    return steno_now_ns() + (int64_t)(up->sv->srv->conf->idle_timeout * 1e9);
}

void steno_upload_watch_body(struct steno_request *rq, struct steno_upload *up)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(rq->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info)
        return;
    up->client.fd = info->connect_fd;
    up->client.linger = rq->linger;
    up->in.watch =
        steno_hangup_watch(rq->sv->hangup, up->client.fd, stalled_at(up), on_stalled, up);
    if (up->in
            .watch) /* not the later of two timeouts: after a machine's sleep both expire at once */
        (void)MHD_set_connection_option(rq->conn, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
}

bool steno_upload_end_body(struct steno_request *rq, struct steno_upload *up)
{
    bool good;
    pthread_mutex_lock(&up->lock);
    up->client.body_over = true;
    good = !up->client.expired;
    pthread_mutex_unlock(&up->lock);
    steno_hangup_forget(rq->sv->hangup, up->in.watch);
    if (up->in.watch)
        (void)MHD_set_connection_option(rq->conn, MHD_CONNECTION_OPTION_TIMEOUT,
                                        (unsigned)rq->sv->srv->conf->idle_timeout);
    up->in.watch = 0;
    return good;
}

int steno_upload_own_answer(const struct steno_request *rq)
{
    int code = 0;
    if (!rq->upload)
        return 0;
    pthread_mutex_lock(&rq->upload->lock);
    if (rq->upload->client.expired)
        code = 408;
    else if (rq->upload->out.answered)
        code = rq->upload->out.code;
    pthread_mutex_unlock(&rq->upload->lock);
    return code;
}

bool steno_upload_body_goes_on(struct steno_request *rq, struct steno_upload *up)
{
    int64_t age = steno_now_ns() - rq->started;
    if (age > (int64_t)(rq->sv->srv->conf->body_timeout * 1e9)) {
        pthread_mutex_lock(&up->lock);
        expire_body(up, "the request body took longer than limits.body_timeout");
        pthread_mutex_unlock(&up->lock);
        return false;
    }
    steno_hangup_extend(rq->sv->hangup, up->in.watch, stalled_at(up));
    return true;
}

/* ---- answers to half-closed clients ---------------------------------------------------------- */

/* Write what the kernel takes at once, with a send buffer large enough for it (tcp(7): up to
 * wmem_max, twice). */
static bool send_all(int fd, const struct steno_buf *b)
{
    int bytes = b->len < (1u << 30) ? (int)b->len + 4096 : 1 << 30;
    size_t at = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    while (at < b->len) {
        ssize_t n = send(fd, b->data + at, b->len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static steno_status write_good_answer(struct steno_upload *up, struct steno_buf *out)
{
    struct steno_upload_headers headers;
    steno_status st = steno_buf_printf(
        out,
        "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n"
        "X-Request-Id: %s\r\n",
        steno_upload_media_type(up), up->out.answer.len, up->client.id);
    steno_upload_write_headers(up, &headers);
    for (const struct steno_header *h = headers.v; h->name && !st; h++)
        st = steno_buf_printf(out, "%s: %s\r\n", h->name, h->value);
    if (!st)
        st = steno_buf_printf(out, "%s\r\n", up->client.cors);
    return st ? st : steno_buf_add(out, up->out.answer.data, up->out.answer.len);
}

void steno_upload_answer_half_closed(struct steno_upload *up)
{
    struct steno_buf out;
    steno_status st;
    char byte;
    if (!up->client.suspended || up->sse.on || up->client.gone ||
        recv(up->client.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
        return;
    steno_buf_init(&out, up->out.answer.len + STENO_REFUSAL_BYTES);
    st = up->out.code == 200
             ? write_good_answer(up, &out)
             : write_refusal(up, &out, up->out.code, steno_status_info(up->out.err.code)->name,
                             up->out.err.msg);
    up->out.answered = !st && send_all(up->client.fd, &out);
    if (!up->out.answered)
        steno_log(LOG_WARNING,
                  "the answer does not fit the socket of a client that closed its sending side");
    else
        *up->client.linger = true;
    steno_buf_free(&out);
}
