/* Series whose value is read when they are scraped: the process, the pool, what is loaded. */
#ifndef STENO_SERVER_GAUGES_H
#define STENO_SERVER_GAUGES_H

#include "server/server.h"

/* srv must outlive its registry. */
void steno_gauges_register(struct steno_server *srv);
/* The whole page, with series of models that were found since; errors as of steno_metrics_write.
 * Any thread. */
STENO_MUST steno_status steno_gauges_write(const struct steno_server *srv, struct steno_buf *out);

#endif
