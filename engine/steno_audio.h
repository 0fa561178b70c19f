/* How live audio is described on a wire: encodings by name, rates, channels. audio/feed.h turns
 * such bytes into samples. */
#ifndef STENO_AUDIO_H
#define STENO_AUDIO_H

#include "base/status.h"

enum steno_encoding {
    STENO_ENCODING_S16LE,     /* signed 16 bit, little endian */
    STENO_ENCODING_F32LE,     /* IEEE float, [-1,1] */
    STENO_ENCODING_MULAW,     /* ITU-T G.711 mu-law */
    STENO_ENCODING_ALAW,      /* ITU-T G.711 A-law */
    STENO_ENCODING_OPUS,      /* an Ogg stream (RFC 7845) when the first bytes say "OggS", else one
                                 packet (RFC 6716) per push */
    STENO_ENCODING_WAV,       /* RIFF header first, length may be unknown */
    STENO_ENCODING_CONTAINER, /* WebM, MP4 in fragments, FLAC, AAC, ...: the first bytes tell */
    STENO_ENCODING_COUNT
};

#define STENO_AUDIO_MIN_RATE 8000
#define STENO_AUDIO_MAX_RATE 192000
#define STENO_AUDIO_MAX_CHANNELS 8

struct steno_audio_format {
    enum steno_encoding encoding;
    int sample_rate; /* Hz; 0 = the encoding's own: 16000, G.711 8000, WAV its header's, what suits
                        the model for Opus (which has all), a container its own */
    int channels;    /* interleaved, of the raw encodings; 0 = 1 */
    int channel;     /* 1..channels takes that one; 0 = the mean of all */
};

/* "s16le", ... NULL for a value out of range. */
const char *steno_encoding_name(enum steno_encoding e);
/* Names of containers ("webm", "mp4", "flac", ...) mean STENO_ENCODING_CONTAINER.
 * STENO_ERR_UNSUPPORTED names the unknown one and lists the known. */
STENO_MUST steno_status steno_encoding_parse(const char *name, enum steno_encoding *out,
                                             steno_err *err);
/* Checks rate, channels and channel, and fills in the zeros; STENO_ERR_INVAL names field and
 * range. That of a WAV or Opus stays 0 unless given. */
STENO_MUST steno_status steno_audio_format_check(struct steno_audio_format *f, steno_err *err);

#endif
