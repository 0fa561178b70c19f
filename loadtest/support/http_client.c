#include "loadtest/support/http_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_ANSWER ((size_t)64 << 20)

void load_http_init(struct load_http *h)
{
    *h = (struct load_http){.fd = -1};
    steno_buf_init(&h->head, 8192);
    steno_buf_init(&h->answer, MAX_ANSWER);
}

void load_http_disconnect(struct load_http *h)
{
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
}

void load_http_close(struct load_http *h)
{
    load_http_disconnect(h);
    steno_buf_free(&h->head);
    steno_buf_free(&h->answer);
}

steno_status load_http_begin(struct load_http *h, const struct load_url *u, const char *head,
                             const char *body, size_t n, steno_err *err)
{
    steno_status st;
    steno_buf_reset(&h->head);
    steno_buf_reset(&h->answer);
    h->body = body;
    h->body_len = n;
    h->sent = h->at = 0;
    h->status = h->retry_after = 0;
    h->want_out = true;
    st = steno_buf_printf(&h->head, "%s %s HTTP/1.1\r\nHost: %s:%s\r\n%s", n ? "POST" : "GET",
                          u->path, u->host, u->port, head);
    if (!st && n)
        st = steno_buf_printf(&h->head, "Content-Length: %zu\r\n", n);
    if (!st)
        st = steno_buf_puts(&h->head, "\r\n");
    if (st)
        return steno_fail(err, st, "request head of %s", u->path);
    if (h->fd < 0)
        h->fd = load_url_connect(u, err);
    return h->fd < 0 ? STENO_ERR_IO : STENO_OK;
}

static bool fail(struct load_http *h)
{
    load_http_disconnect(h);
    h->status = -1;
    return true;
}

/* Send the rest of the request; false if the connection broke. */
static bool send_more(struct load_http *h)
{
    size_t total = h->head.len + h->body_len;
    while (h->sent < total) {
        bool in_head = h->sent < h->head.len;
        const char *p = in_head ? h->head.data + h->sent : h->body + (h->sent - h->head.len);
        size_t left = in_head ? h->head.len - h->sent : total - h->sent;
        ssize_t n = send(h->fd, p, left, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
        h->sent += (size_t)n;
    }
    h->want_out = false;
    return true;
}

/* Return the value of a header, "" if it is absent. name: with its colon. */
static const char *value_of(const char *head, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = head; (p = strstr(p, "\r\n")); p += 2)
        if (!strncasecmp(p + 2, name, n))
            return p + 2 + n + strspn(p + 2 + n, " ");
    return "";
}

static size_t number_of(const char *head, const char *name)
{
    return strtoul(value_of(head, name), NULL, 10);
}

static bool whole(struct load_http *h)
{
    const char *end = h->answer.data ? strstr(h->answer.data, "\r\n\r\n") : NULL;
    if (!end || sscanf(h->answer.data, "HTTP/1.1 %d", &h->status) != 1)
        return false;
    h->retry_after = (int)number_of(h->answer.data, "retry-after:");
    h->at = (size_t)(end + 4 - h->answer.data);
    if (h->answer.len - h->at >= number_of(h->answer.data, "content-length:"))
        return true;
    h->status = 0;
    return false;
}

bool load_http_pump(struct load_http *h)
{
    char buf[65536];
    ssize_t n;
    const bool broken = h->want_out && !send_more(h); /* perhaps because it was answered early */
    while ((n = recv(h->fd, buf, sizeof buf, 0)) > 0)
        if (steno_buf_add(&h->answer, buf, (size_t)n))
            return fail(h);
    if (whole(h)) {
        /* answered before all was sent, or `Connection: close`: drop the connection */
        if (h->want_out || n == 0 ||
            !strncasecmp(value_of(h->answer.data, "connection:"), "close", 5)) {
            int status = h->status;
            (void)fail(h);
            h->status = status;
        }
        return true;
    }
    return broken || n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN)
               ? fail(h)
               : false;
}
