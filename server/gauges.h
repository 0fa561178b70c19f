/* Series whose value is read when they are scraped: the process, the pool, what is loaded. */
#ifndef STENO_SERVER_GAUGES_H
#define STENO_SERVER_GAUGES_H

#include "server/server.h"

/* srv must outlive its registry. */
void steno_gauges_register(struct steno_server *srv);
/* Series of models that were found since. Not at the same time as another call. */
void steno_gauges_models(struct steno_server *srv);

#endif
