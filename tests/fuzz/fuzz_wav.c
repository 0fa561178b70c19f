/* WAV: any bytes are parsed or refused, and the split of the input changes neither the result
 * nor a sample. */
/* covers: engine/speech/audio/wav.c */
#include "speech/audio/wav.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct outcome {
    steno_status st;
    bool truncated;
    size_t samples;
    uint64_t hash;
};

static struct outcome parse(const uint8_t *data, size_t n, uint32_t seed)
{
    struct outcome o = {0};
    float out[STENO_CHANNELS_MAX + 5];
    steno_wav *w = steno_wav_new();
    size_t used, frames;
    if (!w)
        return o;
    for (size_t at = 0; at < n; at += used) {
        size_t k = n - at;
        if (seed) {
            seed = seed * 1103515245u + 12345u;
            k = 1 + (seed >> 16) % 19 < k ? 1 + (seed >> 16) % 19 : k;
        }
        o.st = steno_wav_push(w, data + at, k, &used, out, STENO_CHANNELS_MAX + (seed >> 20) % 6,
                              &frames, NULL);
        if (o.st > STENO_NEED_MORE)
            break;
        if (used > k || (frames && !steno_wav_info(w)))
            abort();
        for (size_t i = 0; frames && i < frames * steno_wav_info(w)->channels; i++, o.samples++) {
            uint32_t bits;
            if (!isfinite(out[i]))
                abort();
            memcpy(&bits, &out[i], sizeof bits);
            o.hash = (o.hash ^ bits) * 1099511628211u; /* FNV-1a */
        }
    }
    if (o.st <= STENO_NEED_MORE)
        o.st = steno_wav_end(w, &o.truncated, NULL);
    steno_wav_free(w);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct outcome whole = parse(data, n, 0), cut = parse(data, n, 1 + (uint32_t)n);
    if (whole.st != cut.st || whole.samples != cut.samples || whole.hash != cut.hash ||
        whole.truncated != cut.truncated)
        abort();
    return 0;
}
