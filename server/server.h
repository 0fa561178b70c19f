/* What the parts of the daemon share. Frozen once the threads run; the parts have their own locks.
 */
#ifndef STENO_SERVER_SERVER_H
#define STENO_SERVER_SERVER_H

#include "audio/container.h"
#include "protocol/vad.h"
#include "server/config.h"
#include "server/keys.h"
#include "server/limits.h"
#include "server/models.h"
#include "server/proxy.h"
#include "server/stats.h"
#include "server/waker.h"
#include "steno.h"

struct steno_server {
    const struct steno_config *conf;
    struct steno_networks trusted; /* proxies */
    steno_models *models;
    steno_limits *limits;
    steno_keys *keys;
    struct steno_stats *stats;
    steno_vad *vad_rule, *vad_net; /* speech detectors; vad_net NULL: no vad.model */
    steno_decoders *decoders;      /* processes of steno-decode */
    steno_waker *waker;            /* for their pipes */
    int64_t started;               /* s since 1970 */
};

/* Open the detectors that vad.mode and vad.model name. */
STENO_MUST steno_status steno_server_open_vad(struct steno_server *srv, steno_err *err);
/* The detector for a stream that asks for `ask`; NULL for off. STENO_ERR_INVAL: silero without
 * vad.model. */
STENO_MUST steno_status steno_server_vad(const struct steno_server *srv, enum steno_vad_choice ask,
                                         const steno_vad **out, steno_err *err);

#define STENO_ID_SIZE 40
/* Make a new random name: prefix, '_', 128 random bits in hexadecimal ("req_9f..."). out:
 * STENO_ID_SIZE bytes; prefix: up to 6 letters. Returns out. */
char *steno_id_new(char *out, const char *prefix);

#endif
