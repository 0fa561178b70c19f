/* Where to connect: scheme, resolved address, path. */
#ifndef STENO_LOADTEST_URL_H
#define STENO_LOADTEST_URL_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/status.h"

struct load_url {
    bool ws;                            /* else http */
    char host[128], port[8], path[512]; /* path with its query */
    struct sockaddr_storage addr;
    socklen_t addr_len;
};

/* Parse "ws://HOST:PORT/PATH" or "http://..."; HOST may be [IPV6]. Default path: /v1/stream or
 * /v1/transcribe. Resolves the name. STENO_ERR_INVAL, STENO_ERR_IO. */
STENO_MUST steno_status load_url_parse(struct load_url *u, const char *text, steno_err *err);
/* Return a non-blocking socket that has begun to connect; -1: see *err. */
int load_url_connect(const struct load_url *u, steno_err *err);

#endif
