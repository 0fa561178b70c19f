/* Ogg Opus: any bytes are decoded or refused. The split of the input and the room for output
 * change neither the result nor a sample. */
/* covers: engine/speech/audio/ogg_opus.c */
#include "speech/audio/ogg_opus.h"

#include "tests/fuzz/ogg_repair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define RATE 8000
#define MAX_SAMPLES 4000000 /* a changed granule position conceals at most a second per page */

struct outcome {
    steno_status st;
    bool truncated;
    size_t samples;
    uint64_t hash;
};

static struct outcome decode(const uint8_t *data, size_t n, unsigned channel, uint32_t seed)
{
    static float out[RATE];
    struct outcome o = {0};
    steno_ogg_opus *d;
    size_t used, made;
    if (steno_ogg_opus_open(&d, RATE, channel, NULL))
        return o;
    for (size_t at = 0; at < n && o.samples < MAX_SAMPLES; at += used) {
        size_t k = n - at, room = RATE;
        if (seed) {
            seed = seed * 1103515245u + 12345u;
            k = 1 + (seed >> 16) % 97 < k ? 1 + (seed >> 16) % 97 : k;
            room = STENO_OPUS_MAX_FRAMES(RATE) + (seed >> 16) % 100;
        }
        o.st = steno_ogg_opus_push(d, data + at, k, &used, out, room, &made, NULL);
        if (o.st > STENO_NEED_MORE)
            break;
        if (used > k || made > room)
            abort();
        for (size_t i = 0; i < made; i++, o.samples++) {
            uint32_t bits;
            if (!isfinite(out[i]))
                abort();
            memcpy(&bits, &out[i], sizeof bits);
            o.hash = (o.hash ^ bits) * 1099511628211u;
        }
    }
    if (o.st <= STENO_NEED_MORE)
        o.st = steno_ogg_opus_end(d, &o.truncated, NULL);
    steno_ogg_opus_close(d);
    return o;
}

static void check(const uint8_t *data, size_t n)
{
    unsigned channel = n % 3;
    struct outcome whole = decode(data, n, channel, 0), cut = decode(data, n, channel, 7);
    if (whole.samples < MAX_SAMPLES && cut.samples < MAX_SAMPLES &&
        (whole.st != cut.st || whole.samples != cut.samples || whole.hash != cut.hash ||
         whole.truncated != cut.truncated))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = calloc(n + 1, 1);
    if (!copy)
        return 0;
    if (n)
        memcpy(copy, data, n);
    ogg_repair(copy, n);
    check(copy, n);
    free(copy);
    if (n < 400) /* the unrepaired input: checksums and resynchronization */
        check(data, n);
    return 0;
}
