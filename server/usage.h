/* Use of API keys that outlives the process: the file `usage` in server.state. It is read at open,
 * and written every half minute if something changed, and at close. A process that is killed loses
 * the counts of the last half minute. Locked: one mutex; a thread of its own writes. */
#ifndef STENO_SERVER_USAGE_H
#define STENO_SERVER_USAGE_H

#include "server/config.h"
#include "server/keys.h"

typedef struct steno_usage_file steno_usage_file;

/* The directory: conf->state, else systemd's $STATE_DIRECTORY; NULL: none. */
const char *steno_state_directory(const struct steno_config *conf);
/* *out is NULL without a directory. keys outlives it. STENO_ERR_IO, STENO_ERR_FORMAT: the file
 * exists and cannot be read: it is not overwritten. */
STENO_MUST steno_status steno_usage_open(steno_usage_file **out, const struct steno_config *conf,
                                         steno_keys *keys, steno_err *err);
/* Write the file and join the thread. Accepts NULL. */
void steno_usage_close(steno_usage_file *u);

#endif
