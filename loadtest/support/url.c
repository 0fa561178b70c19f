#include "loadtest/support/url.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool split(struct load_url *u, const char *text)
{
    char scheme[5] = "";
    const char *rest = strstr(text, "://");
    long port;
    if (!rest || sscanf(text, "%4[a-z]", scheme) != 1)
        return false;
    u->ws = !strcmp(scheme, "ws");
    if (!u->ws && strcmp(scheme, "http") != 0)
        return false;
    if (sscanf(rest, "://[%127[^]]]:%7[0-9]%511s", u->host, u->port, u->path) < 2 &&
        sscanf(rest, "://%127[^:/]:%7[0-9]%511s", u->host, u->port, u->path) < 2)
        return false;
    port = strtol(u->port, NULL, 10);
    return port > 0 && port < 65536 && strlen(u->path) < sizeof u->path - 1;
}

steno_status load_url_parse(struct load_url *u, const char *text, steno_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    int rc;
    memset(u, 0, sizeof *u);
    if (!split(u, text))
        return steno_fail(err, STENO_ERR_INVAL,
                          "url: '%s' is not ws://HOST:PORT/PATH or http://HOST:PORT/PATH", text);
    if (!u->path[0])
        snprintf(u->path, sizeof u->path, "%s", u->ws ? "/v1/stream" : "/v1/transcribe");
    rc = getaddrinfo(u->host, u->port, &hints, &list);
    if (rc)
        return steno_fail(err, STENO_ERR_IO, "%s: %s", u->host, gai_strerror(rc));
    memcpy(&u->addr, list->ai_addr, list->ai_addrlen);
    u->addr_len = list->ai_addrlen;
    freeaddrinfo(list);
    return STENO_OK;
}

int load_url_connect(const struct load_url *u, steno_err *err)
{
    int one = 1, fd = socket(u->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (!connect(fd, (const struct sockaddr *)&u->addr, u->addr_len) || errno == EINPROGRESS)
            return fd;
    }
    (void)steno_fail(err, STENO_ERR_IO, "connect %s:%s: %s", u->host, u->port, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}
