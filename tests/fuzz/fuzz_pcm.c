/* Live feeds of every encoding: the first three bytes select encoding, channels and split. */
/* covers: engine/speech/audio/feed.c engine/speech/audio/pcm.c engine/speech/audio/encoding.c */
#include "speech/audio/feed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const names[] = {"s16le", "f32le", "mulaw", "alaw", "u8",      "s24le",
                                    "s32le", "f64le", "wav",   "opus", "ogg-opus"};

/* A hash over the bits of all samples in order: any influence of the split would show. */
static uint64_t run(const struct steno_feed_options *opt, const uint8_t *data, size_t n,
                    size_t piece, size_t *total)
{
    static float out[STENO_FEED_MIN_OUT];
    uint64_t hash = 0;
    size_t used, made;
    steno_feed *f;
    bool truncated;
    *total = 0;
    if (steno_feed_open(&f, opt, NULL))
        return 0;
    for (size_t at = 0; at < n; at += used) {
        size_t k = piece < n - at ? piece : n - at;
        steno_status st =
            steno_feed_push(f, data + at, k, &used, out, STENO_FEED_MIN_OUT, &made, NULL);
        if (st > STENO_NEED_MORE)
            break;
        if (!used && !made)
            abort();
        for (size_t i = 0; i < made; i++, ++*total) {
            uint32_t bits;
            if (!isfinite(out[i]) || fabsf(out[i]) > STENO_PCM_FLOAT_MAX)
                abort();
            memcpy(&bits, &out[i], sizeof bits);
            hash = (hash ^ bits) * 1099511628211u;
        }
    }
    (void)!steno_feed_end(f, &truncated, NULL);
    steno_feed_close(f);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_feed_options opt = {.sample_rate = 8000};
    size_t a, b, piece;
    uint64_t ha, hb;
    if (n < 3)
        return 0;
    opt.encoding = names[data[0] % (sizeof names / sizeof names[0])];
    opt.channels = 1 + data[1] % 6;
    opt.channel = data[1] / 6 % (opt.channels + 1);
    piece = 1 + data[2];
    if (!strcmp(opt.encoding, "wav"))
        opt.sample_rate = 0;
    data += 3;
    n -= 3;
    ha = run(&opt, data, n, piece, &a);
    if (!strcmp(opt.encoding, "opus"))
        return 0; /* one push is one packet: the split is part of the input */
    hb = run(&opt, data, n, n ? n : 1, &b);
    if (a != b || ha != hb)
        abort();
    return 0;
}
