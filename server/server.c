#include "server/server.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

bool steno_server_knows_model(const struct steno_server *srv, const char *name)
{
    const char *p = srv->conf->aliases;
    size_t len = name ? strlen(name) : 0;
    if (!len || !strcmp(name, srv->info.name))
        return true;
    for (;;) {
        size_t n, end;
        p += strspn(p, ", \t");
        if (!*p)
            return false;
        n = end = strcspn(p, ",");
        while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
            n--;
        if (n == len && !memcmp(p, name, n))
            return true;
        p += end;
    }
}

char *steno_id_new(char *out, const char *prefix)
{
    unsigned char bits[16] = {0};
    size_t n = (size_t)snprintf(out, STENO_ID_SIZE, "%.6s_", prefix);
    (void)!getrandom(bits, sizeof bits, 0); /* up to 256 bytes never fail once seeded: random(7) */
    for (size_t i = 0; i < sizeof bits; i++)
        snprintf(out + n + 2 * i, 3, "%02x", bits[i]);
    return out;
}
