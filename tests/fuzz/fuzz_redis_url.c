/* URLs of a Redis server. */
/* covers: server/jobs/redis_url.c */
/* link: server/jobs/redis_url.c */
#include "server/jobs/redis_url.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_text(const char *p, size_t room)
{
    return memchr(p, '\0', room) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steno_redis_url u;
    steno_err err = {STENO_OK, ""};
    char *url = malloc(size + 1);
    steno_status st;
    if (!url)
        return 0;
    if (size)
        memcpy(url, data, size);
    url[size] = '\0';
    memset(&u, 0x5a, sizeof u);
    st = steno_redis_url_read(url, &u, &err);
    if (st ? err.code != st || !*err.msg || u.host[0] != 0x5a
           : !*u.host || u.port < 1 || u.port > 65535 || u.database < 0 ||
                 !is_text(u.host, sizeof u.host) || !is_text(u.user, sizeof u.user) ||
                 !is_text(u.password, sizeof u.password))
        abort();
    free(url);
    return 0;
}
