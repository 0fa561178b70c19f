/* Containers through FFmpeg as steno-decode calls it: seekable and as a stream, by the name that
 * detection gives and by FFmpeg's own. What comes out is one format, then whole frames of finite
 * length, until the end or an error with a message. */
/* covers: engine/tools/decode/av.c engine/speech/audio/detect.c */
/* link: engine/tools/decode/av.c engine/tools/decode/boxes.c engine/tools/decode/timeline.c */
/* ldflags: -Wl,--no-as-needed -lavformat -lavcodec -lswresample -lavutil -Wl,--as-needed */
#include "speech/audio/detect.h"
#include "tools/decode/av.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MAX_FRAMES 400000 /* of more, decoding would take too long here */

struct world {
    const uint8_t *data;
    size_t n, at;
    uint32_t channels;
    size_t frames;
};

static int64_t take(void *ctx, unsigned char *buf, size_t n)
{
    struct world *w = ctx;
    size_t k = w->n - w->at < n ? w->n - w->at : n;
    if (k)
        memcpy(buf, w->data + w->at, k);
    w->at += k;
    return (int64_t)k;
}

static void seek(void *ctx, int64_t to)
{
    struct world *w = ctx;
    if (to < 0 || to > (int64_t)w->n)
        abort();
    w->at = (size_t)to;
}

static steno_status see_format(void *ctx, const struct steno_decode_format *f)
{
    struct world *w = ctx;
    if (w->channels || !f->channels || f->channels > 64 || !f->sample_rate ||
        !memchr(f->container, 0, sizeof f->container) || !memchr(f->codec, 0, sizeof f->codec))
        abort();
    w->channels = f->channels;
    return STENO_OK;
}

static steno_status see_samples(void *ctx, const float *x, size_t frames)
{
    struct world *w = ctx;
    volatile float last;
    if (!w->channels || !frames || frames * w->channels * sizeof(float) > STENO_DECODE_BODY_MAX)
        abort();
    last = x[frames * w->channels - 1]; /* inside the block */
    (void)last;
    w->frames += frames;
    return w->frames > MAX_FRAMES ? STENO_ERR_LIMIT : STENO_OK;
}

static void decode(const uint8_t *data, size_t n, bool stream, const char *demuxer)
{
    struct world w = {.data = data, .n = n};
    struct steno_av_io io = {.ctx = &w,
                             .read = take,
                             .seek = seek,
                             .format = see_format,
                             .samples = see_samples,
                             .size = stream ? -1 : (int64_t)n};
    struct steno_decode_end end;
    steno_err err = {0};
    steno_status st = steno_av_decode(&io, demuxer, &end, &err);
    if ((st && st != STENO_ERR_LIMIT && !*err.msg) || (!st && !w.channels))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const struct steno_audio_container *is = steno_audio_container_of(data, n, true);
    decode(data, n, n & 1, is && n & 2 ? is->demuxer : "");
    return 0;
}
