/* Connections to a Redis or Valkey server that several machines share. Four links, so that who
 * answers requests never waits for who moves recordings:
 *
 *     FRONT   reads and removals of HTTP threads     2 s
 *     STORE   submissions and callbacks             10 s
 *     RUN     the thread that runs jobs              5 s
 *     LIVE    the thread that stores live sessions   2 s
 *
 * The times are those after which a command fails. Once a link has failed, FRONT and STORE fail at
 * once, until RUN, which tries every second, has reached the server again. So an outage stops an
 * HTTP thread for 2 s at most, and once. A link that failed is connected anew by its next command;
 * LIVE, of which the others know nothing, at most once a second.
 * Locked: any thread. */
#ifndef STENO_SERVER_JOBS_REDIS_H
#define STENO_SERVER_JOBS_REDIS_H

#include "server/jobs/redis_url.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct steno_redis steno_redis;
enum steno_redis_link {
    STENO_REDIS_FRONT,
    STENO_REDIS_STORE,
    STENO_REDIS_RUN,
    STENO_REDIS_LIVE,
    STENO_REDIS_LINKS
};

/* Connect. STENO_ERR_IO names the server and the reason; STENO_ERR_UNSUPPORTED: it is older than
 * Redis 7. Logs a warning when its settings may lose what it has acknowledged. */
STENO_MUST steno_status steno_redis_open(steno_redis **out, const struct steno_redis_url *url,
                                         steno_err *err);
void steno_redis_close(steno_redis *r); /* accepts NULL */

/* Run one command of n words; len as of redisCommandArgv. *out is not an error and is freed by
 * the caller. again: it may be sent twice, which it is when the server has closed the connection.
 * STENO_ERR_IO: no answer, or the server's error. Without an answer the command may have run. */
STENO_MUST steno_status steno_redis_command(steno_redis *r, enum steno_redis_link link, bool again,
                                            int n, const char **v, const size_t *len,
                                            redisReply **out, steno_err *err);
/* A command of n words; len as of redisCommandArgv, not NULL. */
struct steno_redis_words {
    int n;
    const char **v;
    const size_t *len;
};
/* Send n commands at once and read their answers into out [n], which the caller frees; they may be
 * errors of the server. Each may run twice: all are sent again when the server has closed the
 * connection. STENO_ERR_IO: the answers did not all come, and out has none; any may have run. */
STENO_MUST steno_status steno_redis_pipeline(steno_redis *r, enum steno_redis_link link, size_t n,
                                             const struct steno_redis_words *c, redisReply **out,
                                             steno_err *err);
/* ms for which RUN has been connected; 0: it is not. */
int64_t steno_redis_connected(steno_redis *r);

#endif
