/* Complete HTTP error answers for connections that neither library answers: those of the acceptor,
 * refused upgrades, and uploads that stopped. Pure, except that it allocates. */
#ifndef STENO_SERVER_PORT_REFUSAL_H
#define STENO_SERVER_PORT_REFUSAL_H

#include "base/buf.h"

#define STENO_REFUSAL_BYTES 4096 /* enough for one answer */

/* Append an answer that closes the connection, in the error form of the routes (docs/server.md).
 * extra: further header lines, each ended by CR LF; "" = none. */
STENO_MUST steno_status steno_refusal_write(struct steno_buf *out, int status, const char *code,
                                            const char *message, const char *extra);
/* The same with a JSON body of the caller's, of at least one byte. */
STENO_MUST steno_status steno_refusal_write_body(struct steno_buf *out, int status,
                                                 const char *extra, const struct steno_buf *body);
/* Write an answer to a socket without waiting. Best effort: what does not fit into the socket's
 * empty send buffer is lost with the connection. */
void steno_refusal_send(int fd, int status, const char *code, const char *message,
                        const char *extra);
/* The same as an error event of the Wyoming protocol. */
void steno_refusal_send_wyoming(int fd, const char *code, const char *message);

#endif
