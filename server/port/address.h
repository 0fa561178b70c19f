/* Socket addresses as text: "127.0.0.1:8080", "[::1]:8080", "localhost:8080", "unix:/run/x.sock".
 * "*:8080" and ":8080" mean every address. No names are looked up. Pure. */
#ifndef STENO_SERVER_PORT_ADDRESS_H
#define STENO_SERVER_PORT_ADDRESS_H

#include "base/status.h"

#include <sys/socket.h>

#define STENO_MAX_ADDRESSES 16
#define STENO_ADDRESS_TEXT 128

struct steno_address {
    struct sockaddr_storage addr;
    socklen_t len;
    bool any; /* every address: IPv6 that also takes IPv4, or IPv4 where there is no IPv6 */
};

/* Parse text [len]. STENO_ERR_INVAL says what is wrong with it. */
STENO_MUST steno_status steno_address_parse(const char *text, size_t len, struct steno_address *out,
                                            steno_err *err);
/* Parse a comma-separated list of 1..STENO_MAX_ADDRESSES addresses into out. */
STENO_MUST steno_status steno_address_parse_list(const char *text, struct steno_address *out,
                                                 size_t *n, steno_err *err);
/* Parse an IPv4 or IPv6 address [len] without a port or brackets. */
bool steno_address_parse_host(const char *text, size_t len, struct sockaddr_storage *out);
/* Parse a number of 1 to 5 digits that is at most `most`: a port, the bits of a network. */
bool steno_address_parse_number(const char *text, size_t len, unsigned most, unsigned *out);
/* addr: IPv4 or IPv6. */
void steno_address_set_port(struct sockaddr_storage *addr, uint16_t port);
/* Print as "127.0.0.1:8080" or "[::1]:8080" to out, STENO_ADDRESS_TEXT bytes. Returns out. */
const char *steno_address_print(const struct sockaddr_storage *addr, char *out);
/* Write the host as 16 bytes, IPv4 as IPv6 (RFC 4291, 2.5.5.2). False for a unix socket. */
bool steno_address_host(const struct sockaddr_storage *a, unsigned char host[16]);
/* Whether the host is of this machine alone: 127.0.0.0/8, ::1. */
bool steno_address_is_loopback(const struct sockaddr_storage *a);
/* Whether the hosts are the same; the port does not matter. IPv4 written as IPv6 (RFC 4291,
 * 2.5.5.2) equals IPv4. */
bool steno_address_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

#endif
