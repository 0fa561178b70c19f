/* The listening sockets of the one port: addresses that the configuration names, sockets that
 * systemd passes, and the addresses of Wyoming. Confined. */
#ifndef STENO_SERVER_PORT_LISTENERS_H
#define STENO_SERVER_PORT_LISTENERS_H

#include "base/status.h"
#include "server/port/address.h"
#include "server/port/settings.h"

#include <sys/un.h>

#define STENO_MAX_LISTENERS (2 * STENO_MAX_ADDRESSES)

struct steno_listener {
    int fd;
    char *url;
    bool wyoming; /* its clients send no request head */
    char *path;   /* of a unix socket that was bound here, which close removes; NULL: none */
};

struct steno_listeners {
    struct steno_listener at[STENO_MAX_LISTENERS];
    size_t n;
};

/* Bind every address of set->listen, or take the sockets that systemd passed (sd_listen_fds(3));
 * then bind those of set->wyoming_listen. l: zeroed; close it on failure too.
 * STENO_ERR_IO names the address ("127.0.0.1:8080: Address already in use"). */
STENO_MUST steno_status steno_listeners_open(struct steno_listeners *l,
                                             const struct steno_port_settings *set,
                                             steno_err *err);
/* Close every socket and remove the files of unix sockets. A second call does nothing. */
void steno_listeners_close(struct steno_listeners *l);
/* The port of the first address of set->wyoming_listen; 0: there is none. */
uint16_t steno_listeners_wyoming_port(const struct steno_listeners *l);
/* Try to bind an address, and release it. STENO_ERR_BUSY: it is in use; STENO_ERR_IO: it cannot be
 * bound. */
STENO_MUST steno_status steno_listeners_try(const struct steno_address *addr, steno_err *err);
/* Remove the file of a unix socket on which nobody listens, as a killed server leaves it. Anything
 * else at the path stays. */
void steno_listeners_remove_dead(const struct sockaddr_un *addr);

#endif
