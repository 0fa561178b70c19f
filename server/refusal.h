/* Whole HTTP answers with an error, for connections that neither library answers: the acceptor's,
 * refused upgrades, uploads that stopped. Pure, but for memory. */
#ifndef STENO_SERVER_REFUSAL_H
#define STENO_SERVER_REFUSAL_H

#include "base/buf.h"

#define STENO_REFUSAL_BYTES 4096 /* an answer fits in */

/* Append an answer that closes the connection, in the error form of the routes (docs/server.md).
 * extra: further header lines, each ended by CR LF; "" = none. */
STENO_MUST steno_status steno_refusal_write(struct steno_buf *out, int status, const char *code,
                                            const char *message, const char *extra);
/* The same with a body [> 0] of one's own, JSON. */
STENO_MUST steno_status steno_refusal_write_body(struct steno_buf *out, int status,
                                                 const char *extra, const struct steno_buf *body);
/* Write one to a socket, as far as it takes it at once. Best effort: what does not fit into the
 * socket's empty send buffer is lost with the connection. */
void steno_refusal_send(int fd, int status, const char *code, const char *message,
                        const char *extra);

#endif
