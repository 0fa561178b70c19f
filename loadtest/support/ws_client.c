#include "loadtest/support/ws_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/ws_frame.h"

#define MAX_QUEUED (64 << 20)
enum { OP_CONTINUE = 0, OP_TEXT = 1, OP_BINARY = 2, OP_CLOSE = 8, OP_PING = 9, OP_PONG = 10 };

steno_status load_ws_open(struct load_ws *w, const struct load_url *u, const char *head,
                          steno_err *err)
{
    steno_status st;
    memset(w, 0, sizeof *w);
    steno_buf_init(&w->in, MAX_QUEUED);
    steno_buf_init(&w->out, MAX_QUEUED);
    steno_buf_init(&w->message, MAX_QUEUED);
    w->fd = load_url_connect(u, err);
    if (w->fd < 0)
        return STENO_ERR_IO;
    st = steno_buf_printf(&w->out,
                          "GET %s HTTP/1.1\r\nHost: %s:%s\r\nUpgrade: websocket\r\n"
                          "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                          "Sec-WebSocket-Key: c3Rlbm8gbG9hZCB0ZXN0IQ==\r\n%s\r\n",
                          u->path, u->host, u->port, head);
    w->head = w->out.len;
    return st;
}

void load_ws_close(struct load_ws *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    w->phase = LOAD_WS_CLOSED;
    steno_buf_free(&w->in);
    steno_buf_free(&w->out);
    steno_buf_free(&w->message);
}

/* RFC 6455, 5.2. The mask only has to be present; a constant one is fine on a line we own. */
static steno_status send_frame(struct load_ws *w, int op, const void *p, size_t n)
{
    static const char mask[4] = {0x37, -6, 0x21, 0x3d};
    unsigned char h[14] = {(unsigned char)(0x80 | op)};
    size_t k = 2, at;
    steno_status st;
    if (n < 126) {
        h[1] = (unsigned char)n;
    } else if (n < 65536) {
        h[1] = 126;
        h[2] = (unsigned char)(n >> 8);
        h[3] = (unsigned char)n;
        k = 4;
    } else {
        h[1] = 127;
        for (int i = 0; i < 8; i++)
            h[2 + i] = (unsigned char)((uint64_t)n >> (56 - 8 * i));
        k = 10;
    }
    h[1] |= 0x80;
    memcpy(h + k, mask, 4);
    st = steno_buf_add(&w->out, h, k + 4);
    at = w->out.len;
    if (!st)
        st = steno_buf_add(&w->out, p, n);
    if (!st)
        steno_ws_mask(w->out.data + at, n, mask, 0);
    return st;
}

steno_status load_ws_send_text(struct load_ws *w, const char *text)
{
    return send_frame(w, OP_TEXT, text, strlen(text));
}

steno_status load_ws_send_binary(struct load_ws *w, const void *p, size_t n)
{
    return send_frame(w, OP_BINARY, p, n);
}

static void closed(struct load_ws *w, int code)
{
    if (!w->close_code)
        w->close_code = code;
    w->phase = LOAD_WS_CLOSED;
}

static void on_close_frame(struct load_ws *w, const char *p, size_t n)
{
    w->close_code = n >= 2 ? (unsigned char)p[0] << 8 | (unsigned char)p[1] : 1005;
    if (n > 2)
        snprintf(w->close_reason, sizeof w->close_reason, "%.*s", (int)(n - 2), p + 2);
    if (send_frame(w, OP_CLOSE, p, n < 2 ? 0 : 2) == STENO_OK &&
        send(w->fd, w->out.data, w->out.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        w->out.len = 0; /* the peer is gone already */
    closed(w, w->close_code);
}

static void on_frame(struct load_ws *w, int op, bool fin, const char *p, size_t n, load_ws_fn fn,
                     void *user)
{
    switch (op) {
    case OP_PING:
        if (send_frame(w, OP_PONG, p, n))
            closed(w, 1006);
        break;
    case OP_CLOSE:
        on_close_frame(w, p, n);
        break;
    case OP_TEXT:
    case OP_CONTINUE:
        if (steno_buf_add(&w->message, p, n))
            closed(w, 1006);
        else if (fin) {
            fn(user, w->message.data ? w->message.data : "", w->message.len);
            steno_buf_reset(&w->message);
        }
        break;
    default:
        break;
    }
}

/* Parse one whole frame at the front of `in`; false if it is incomplete. */
static bool parse_frame(struct load_ws *w, load_ws_fn fn, void *user)
{
    const unsigned char *b = (const unsigned char *)w->in.data;
    uint64_t n;
    size_t k = 2;
    if (w->in.len < 2)
        return false;
    n = b[1] & 0x7f;
    if (n >= 126) {
        size_t bytes = n == 126 ? 2 : 8;
        if (w->in.len < 2 + bytes)
            return false;
        n = 0;
        for (size_t i = 0; i < bytes; i++)
            n = n << 8 | b[2 + i];
        k += bytes;
    }
    if (w->in.len - k < n)
        return false;
    on_frame(w, b[0] & 0x0f, b[0] & 0x80, w->in.data + k, (size_t)n, fn, user);
    steno_buf_drop(&w->in, k + (size_t)n);
    return w->phase == LOAD_WS_OPEN;
}

static void parse_handshake(struct load_ws *w)
{
    char *end = w->in.data ? strstr(w->in.data, "\r\n\r\n") : NULL;
    const char *after;
    if (!end)
        return;
    if (sscanf(w->in.data, "HTTP/1.1 %d", &w->http_status) != 1 || w->http_status != 101) {
        after = strstr(w->in.data, "\r\nRetry-After: ");
        if (after)
            w->retry_after = (int)strtol(after + 15, NULL, 10);
        closed(w, 1006);
        return;
    }
    w->phase = LOAD_WS_OPEN;
    steno_buf_drop(&w->in, (size_t)(end + 4 - w->in.data));
}

static size_t unsent(const struct load_ws *w)
{
    return w->phase == LOAD_WS_OPEN ? w->out.len : w->head;
}

bool load_ws_wants_out(const struct load_ws *w)
{
    return unsent(w) > 0;
}

short load_ws_events(const struct load_ws *w)
{
    return (short)(POLLIN | (load_ws_wants_out(w) ? POLLOUT : 0));
}

static void write_out(struct load_ws *w)
{
    ssize_t n = send(w->fd, w->out.data, unsent(w), MSG_NOSIGNAL);
    if (n > 0) {
        steno_buf_drop(&w->out, (size_t)n);
        w->head -= w->head < (size_t)n ? w->head : (size_t)n;
    } else if (errno != EAGAIN && errno != EINTR && errno != ENOTCONN) {
        if (w->phase != LOAD_WS_OPEN)
            closed(w, 1006);
        steno_buf_reset(&w->out); /* the server may have said why before it closed */
    }
}

void load_ws_pump(struct load_ws *w, load_ws_fn fn, void *user)
{
    char buf[16384];
    ssize_t n;
    if (w->phase == LOAD_WS_CLOSED)
        return;
    if (unsent(w))
        write_out(w);
    while ((n = recv(w->fd, buf, sizeof buf, 0)) > 0) {
        if (steno_buf_add(&w->in, buf, (size_t)n)) {
            closed(w, 1006);
            return;
        }
        if (w->phase == LOAD_WS_HANDSHAKE) {
            parse_handshake(w);
            if (w->phase == LOAD_WS_OPEN && unsent(w))
                write_out(w);
        }
        while (w->phase == LOAD_WS_OPEN && parse_frame(w, fn, user))
            ;
        if (w->phase == LOAD_WS_CLOSED)
            return;
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN))
        closed(w, 1006);
}
