/* What proxies tell about their clients: the PROXY protocol's header, X-Forwarded-For and a path
 * prefix; and which peers are believed. Pure. */
#ifndef STENO_SERVER_PORT_PROXY_H
#define STENO_SERVER_PORT_PROXY_H

#include "base/status.h"

#include <sys/socket.h>

#define STENO_MAX_NETWORKS 32

/* Peers that are believed. */
struct steno_networks {
    struct {
        unsigned char host[16]; /* IPv4 as IPv6 (RFC 4291, 2.5.5.2) */
        int bits;               /* that must be equal */
    } list[STENO_MAX_NETWORKS];
    size_t n;
    bool local; /* peers of unix sockets */
};

/* Parse "127.0.0.1, 10.0.0.0/8, 2001:db8::/32, unix"; "" is no peer. STENO_ERR_INVAL. */
STENO_MUST steno_status steno_networks_parse(const char *text, struct steno_networks *out,
                                             steno_err *err);
bool steno_networks_hold(const struct steno_networks *w, const struct sockaddr_storage *addr);

struct steno_proxy_header {
    size_t len;                     /* bytes of the header */
    bool known;                     /* client is set; otherwise the proxy speaks for itself */
    struct sockaddr_storage client; /* IPv4 or IPv6 */
};

/* Parse the header, version 1 or 2, at p [n], the begin of a connection. STENO_NEED_MORE while it
 * is incomplete; STENO_ERR_FORMAT says what is wrong. (haproxy, The PROXY protocol, sections 2.1
 * and 2.2.) */
STENO_MUST steno_status steno_proxy_parse(const char *p, size_t n, struct steno_proxy_header *out,
                                          steno_err *err);
/* The client in the value of X-Forwarded-For: the last address that is not a trusted proxy's, or
 * the first one when all are. False: the value has no such address. */
bool steno_forwarded_client(const char *value, const struct steno_networks *trusted,
                            struct sockaddr_storage *client);
/* Bytes to skip of a path [len] that begins with prefix [n] ("/stt"), so that "/..." is left; 0
 * when it does not, or when prefix is empty or odd. */
size_t steno_path_skip(const char *path, size_t len, const char *prefix, size_t n);

#endif
