/* Bytes of a container or of a bare codec stream to interleaved f32 samples, by FFmpeg: the first
 * audio stream, marked as default if one is. Video and subtitles are never decoded. Only formats
 * and codecs of a fixed list are opened. Confined. */
#ifndef STENO_DECODE_AV_H
#define STENO_DECODE_AV_H

#include "speech/audio/decode_wire.h"
#include "base/status.h"

struct steno_av_io {
    void *ctx;
    /* Read up to n bytes; waits for the first. 0 = the end, -1 = error. */
    int64_t (*read)(void *ctx, unsigned char *buf, size_t n);
    int64_t size; /* bytes; -1 = the input comes once, in order */
    /* Set the position of the next read, 0..size. Used only when size >= 0. */
    void (*seek)(void *ctx, int64_t to);
    /* Take the format, once, and then the samples: [frames, channels]. */
    steno_status (*format)(void *ctx, const struct steno_decode_format *f);
    steno_status (*samples)(void *ctx, const float *x, size_t frames);
};

/* Decode a whole input. demuxer: FFmpeg's name of the format ("matroska"); "" = by the first bytes.
 * *end is set on success. STENO_ERR_FORMAT: not such a file, damaged, no audio in it.
 * STENO_ERR_UNSUPPORTED: a codec that is not on the list. Errors of `format` and `samples` are
 * passed on. */
STENO_MUST steno_status steno_av_decode(const struct steno_av_io *io, const char *demuxer,
                                        struct steno_decode_end *end, steno_err *err);

#endif
