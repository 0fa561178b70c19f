/* Series that are read at a scrape: the process, the pools, the loaded models. */
#ifndef STENO_SERVER_WATCH_GAUGES_H
#define STENO_SERVER_WATCH_GAUGES_H

#include "server/core/server.h"

/* Register the series. srv must outlive its registry. */
void steno_gauges_register(struct steno_server *srv);
/* Append the whole page, in OpenMetrics if `open`. It first registers series of models that were
 * found since the last call. Errors as of steno_metrics_write. Any thread. */
STENO_MUST steno_status steno_gauges_write(const struct steno_server *srv, bool open,
                                           struct steno_buf *out);

#endif
