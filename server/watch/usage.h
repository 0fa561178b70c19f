/* Use of API keys that outlives the process: the file `usage` in server.state. It is read at open,
 * and written every half minute if something changed, and at close. A process that is killed loses
 * the counts of the last half minute. Locked: one mutex; a thread of its own writes. */
#ifndef STENO_SERVER_WATCH_USAGE_H
#define STENO_SERVER_WATCH_USAGE_H

#include "server/core/config.h"
#include "server/core/keys.h"

typedef struct steno_usage_file steno_usage_file;

/* Write the directory to out [size]: conf->state, else of systemd's $STATE_DIRECTORY the only one
 * or the one named steno-state. False: none. */
bool steno_state_directory(const struct steno_config *conf, char *out, size_t size);
/* *out is NULL without a directory. keys outlives it. STENO_ERR_IO, STENO_ERR_FORMAT: the file
 * exists and cannot be read: it is not overwritten. */
STENO_MUST steno_status steno_usage_open(steno_usage_file **out, const struct steno_config *conf,
                                         steno_keys *keys, steno_err *err);
/* Write the file and join the thread. Accepts NULL. */
void steno_usage_close(steno_usage_file *u);

#endif
