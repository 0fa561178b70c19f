/* Live audio as it comes over a wire: bytes in any split -> mono float samples.
 *
 *     steno_audio_in_open(&in, &(struct steno_audio_format){STENO_ENCODING_S16LE, 16000}, &err);
 *     steno_audio_in_push(in, bytes, n, sink, ctx, &err);      per message, in order
 *     steno_audio_in_end(in, sink, ctx, &err);
 *
 * The sink is called from within push and end with samples at steno_audio_in_rate(), any number of
 * times, none included. Nothing is allocated per push. Confined. */
#ifndef STENO_AUDIO_H
#define STENO_AUDIO_H

#include "base/status.h"

enum steno_encoding {
    STENO_ENCODING_S16LE, /* signed 16 bit, little endian */
    STENO_ENCODING_F32LE, /* IEEE float, [-1,1] */
    STENO_ENCODING_MULAW, /* ITU-T G.711 mu-law */
    STENO_ENCODING_ALAW,  /* ITU-T G.711 A-law */
    STENO_ENCODING_OPUS,  /* an Ogg stream (RFC 7845) when the first bytes say "OggS", else one
                             packet (RFC 6716) per push */
    STENO_ENCODING_WAV,   /* RIFF header first, length may be unknown */
    STENO_ENCODING_COUNT
};

#define STENO_AUDIO_MIN_RATE 8000
#define STENO_AUDIO_MAX_RATE 192000
#define STENO_AUDIO_MAX_CHANNELS 8

struct steno_audio_format {
    enum steno_encoding encoding;
    int sample_rate; /* Hz; 0 = the encoding's own: 16000, G.711 8000, Opus 48000, WAV its header's */
    int channels;    /* interleaved, of the raw encodings; 0 = 1 */
    int channel;     /* 1..channels takes that one; 0 = the mean of all */
};

typedef struct steno_audio_in steno_audio_in;

/* pcm: [n] f32 mono in [-1,1], borrowed for the call. A status other than STENO_OK ends the push
 * and is returned by it. */
typedef steno_status (*steno_audio_sink)(void *ctx, const float *pcm, size_t n, steno_err *err);

/* "s16le", ... NULL for a value out of range. */
STENO_API const char *steno_encoding_name(enum steno_encoding e);
/* STENO_ERR_UNSUPPORTED names the unknown one and lists the known. */
STENO_API STENO_MUST steno_status steno_encoding_parse(const char *name, enum steno_encoding *out,
                                                       steno_err *err);
/* Checks rate, channels and channel, and fills in the zeros; STENO_ERR_INVAL names field and
 * range. A WAV's sample_rate stays 0 unless given. */
STENO_API STENO_MUST steno_status steno_audio_format_check(struct steno_audio_format *f,
                                                           steno_err *err);

STENO_API STENO_MUST steno_status steno_audio_in_open(steno_audio_in **out,
                                                      const struct steno_audio_format *f,
                                                      steno_err *err);
STENO_API void steno_audio_in_close(steno_audio_in *in);
/* STENO_ERR_FORMAT for bytes that are not the promised encoding: names the byte offset. */
STENO_API STENO_MUST steno_status steno_audio_in_push(steno_audio_in *in, const void *bytes,
                                                      size_t n, steno_audio_sink sink, void *ctx,
                                                      steno_err *err);
/* No more bytes. STENO_ERR_FORMAT when nothing usable came (a WAV that ended in its header); half
 * a sample at the end is dropped. */
STENO_API STENO_MUST steno_status steno_audio_in_end(steno_audio_in *in, steno_audio_sink sink,
                                                     void *ctx, steno_err *err);
/* Hz of the samples given to the sink; 0 while a container's header has not come. */
STENO_API int steno_audio_in_rate(const steno_audio_in *in);

#endif
