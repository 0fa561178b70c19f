#include "server/server.h"

#include <stdio.h>
#include <sys/random.h>

char *steno_id_new(char *out, const char *prefix)
{
    unsigned char bits[16] = {0};
    size_t n = (size_t)snprintf(out, STENO_ID_SIZE, "%.6s_", prefix);
    (void)!getrandom(bits, sizeof bits, 0); /* up to 256 bytes never fail once seeded: random(7) */
    for (size_t i = 0; i < sizeof bits; i++)
        snprintf(out + n + 2 * i, 3, "%02x", bits[i]);
    return out;
}
