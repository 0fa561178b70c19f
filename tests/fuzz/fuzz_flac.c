/* Recordings of any kind through steno_audio: by our readers and by libsndfile over our
 * virtual I/O. A recording that opens can be read to its end or to an error, and all samples are
 * finite. */
/* covers: engine/speech/audio/file.c engine/speech/audio/detect.c */
/* covers: engine/speech/audio/ogg_vorbis.c */
/* covers: engine/speech/audio/mpeg.c engine/speech/audio/source.c */
#include "speech/audio/file.h"

#include "tests/fuzz/ogg_repair.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MAX_SAMPLES 2000000

static void read_all(const uint8_t *data, size_t n)
{
    static float out[4096];
    static steno_decoders *none; /* no processes: fuzz_av has what they read */
    struct steno_audio_options opt = {.channel = n % 3, .max_seconds = 600};
    struct steno_audio_info info;
    steno_audio *a;
    size_t got, total = 0;
    if (!none && steno_decoders_open(&none, 0, NULL))
        abort();
    opt.decoders = none;
    if (steno_audio_open_mem(&a, data, n, &opt, NULL))
        return;
    steno_audio_get_info(a, &info);
    if (info.sample_rate < STENO_RATE_MIN || info.sample_rate > STENO_RATE_MAX || !info.channels)
        abort();
    while (total < MAX_SAMPLES && !steno_audio_read(a, out, 4096, &got, NULL) && got) {
        for (size_t i = 0; i < got; i++)
            if (!isfinite(out[i]))
                abort();
        total += got;
    }
    steno_audio_close(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy;
    read_all(data, n);
    if (n < 4 || memcmp(data, "OggS", 4))
        return 0;
    copy = malloc(n);
    if (!copy)
        return 0;
    memcpy(copy, data, n);
    ogg_repair(copy, n);
    read_all(copy, n);
    free(copy);
    return 0;
}
