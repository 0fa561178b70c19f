/* What the parts of the daemon share. Frozen once the threads run; the parts lock themselves. */
#ifndef STENO_SERVER_SERVER_H
#define STENO_SERVER_SERVER_H

#include "pool/pool.h"
#include "server/config.h"
#include "server/limits.h"
#include "server/stats.h"
#include "steno.h"

struct steno_server {
    const struct steno_config *conf;
    steno_model *model;
    struct steno_model_info info; /* of the model */
    steno_pool *pool;
    steno_limits *limits;
    struct steno_stats *stats;
    int64_t started; /* s since 1970 */
};

/* Whether a request may call our model by this name: its own name or an alias; NULL and "" mean the
 * default model. */
bool steno_server_knows_model(const struct steno_server *srv, const char *name);

#define STENO_ID_SIZE 40
/* A fresh random name: prefix, '_', 128 random bits in hexadecimal ("req_9f..."). out:
 * STENO_ID_SIZE bytes; prefix up to 6 letters. Returns out. */
char *steno_id_new(char *out, const char *prefix);

#endif
