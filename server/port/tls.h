/* TLS in front of all other parts: a thread for handshakes, and one that decrypts what clients send
 * and encrypts what the server answers. A TLS connection becomes an ordinary socket, one end of a
 * pair, which the acceptor treats like any other: peeking, both libraries, refusals, lingering and
 * timeouts work on it.
 *
 * Why not the TLS of libmicrohttpd: upgrades would go through a second pair and its thread, answers
 * that this server writes to the socket itself (102, 408) would be impossible, and limits of heads
 * would be its own. OpenSSL is loaded in any case, by libwebsockets. */
#ifndef STENO_SERVER_PORT_TLS_H
#define STENO_SERVER_PORT_TLS_H

#include "base/status.h"

typedef struct steno_tls steno_tls;

/* Load a certificate chain and its key (PEM files) and start the threads. idle_timeout: s that a
 * client may take no byte of an answer whose connection the server has closed. STENO_ERR_IO and
 * STENO_ERR_INVAL name the file; STENO_ERR_INTERNAL. */
STENO_MUST steno_status steno_tls_open(steno_tls **out, const char *certificate, const char *key,
                                       double idle_timeout, steno_err *err);
/* Load and check both files, and nothing else. */
STENO_MUST steno_status steno_tls_check(const char *certificate, const char *key, steno_err *err);
/* Load the files again. New connections get the new certificate. On an error the old one stays. */
STENO_MUST steno_status steno_tls_reload(steno_tls *t, steno_err *err);
/* Take ownership of fd, a non-blocking socket with its TLS hello unread. Returns the socket with
 * the decrypted bytes, non-blocking, which belongs to the caller; -1: fd is closed. Any thread. */
int steno_tls_wrap(steno_tls *t, int fd);
/* Wait until the remaining answers are sent, at most 2 s, close all connections and join. Accepts
 * NULL. */
void steno_tls_close(steno_tls *t);

#endif
