/* The network that ends turns of live sessions, as their settings ask for it. */
#ifndef STENO_SERVER_WS_TURN_H
#define STENO_SERVER_WS_TURN_H

#include "protocol/stream_native.h"
#include "server/core/server.h"
#include "speech/pool/pool.h"

/* Fill in what opt has of the end of turns; its endpoint rules are those of s. STENO_ERR_INVAL: s
 * asks for the network, and the server has none. */
STENO_MUST steno_status steno_ws_turn(const struct steno_server *srv,
                                      const struct steno_native_start *s,
                                      struct steno_pool_stream_options *opt, steno_err *err);

#endif
