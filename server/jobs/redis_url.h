/* URLs that name a Redis or Valkey server. Pure. */
#ifndef STENO_SERVER_JOBS_REDIS_URL_H
#define STENO_SERVER_JOBS_REDIS_URL_H

#include "base/status.h"

struct steno_redis_url {
    char host[256]; /* name or address, without the brackets of IPv6 */
    int port;
    int database;
    char user[64];      /* of an ACL; "" = the default user */
    char password[256]; /* "" = none */
};

/* Read redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]. User and password may be percent-encoded;
 * the host may be [IPv6]. *out is unchanged on failure. STENO_ERR_INVAL names the part that is
 * wrong; STENO_ERR_UNSUPPORTED: rediss://. No message contains the password. */
STENO_MUST steno_status steno_redis_url_read(const char *url, struct steno_redis_url *out,
                                             steno_err *err);

#endif
