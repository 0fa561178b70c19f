/* A recording of any known format -> mono f32 at its own rate, pulled piece by piece: memory is
 * bounded whatever its length. The first bytes decide, never a name: WAV, RF64 and BW64 go to our
 * own reader, as does Ogg Opus from a pipe; the rest (FLAC, Ogg Vorbis, Ogg Opus, MP3, AIFF, AU,
 * CAF, W64, WAV with ADPCM or GSM) to libsndfile over virtual I/O. */
#ifndef STENO_AUDIO_FILE_H
#define STENO_AUDIO_FILE_H

#include "audio/pcm.h"

typedef struct steno_audio steno_audio;

struct steno_audio_options { /* zero-initialised = defaults */
    unsigned channel;        /* 0 = mean of all channels; k = the k-th, counted from 1 */
    double max_seconds;      /* longer audio is STENO_ERR_LIMIT; 0 = no limit */
    size_t max_bytes; /* of a pipe that must be held whole (not WAV, not Opus); 0 = 512 MiB */
};

struct steno_audio_info {
    int sample_rate;
    unsigned channels;
    const char *format; /* "wav", "flac", "ogg", "mp3", ...: static storage */
    const char *codec;  /* "s16le", "opus", "vorbis", ...: static storage */
    int64_t frames;     /* -1 = not known before the end */
    bool truncated;     /* the file ended early; final once read has returned 0 samples */
};

/* data: [n] bytes, borrowed until close. Confined.
 * STENO_ERR_FORMAT "the input is empty", "not a recognised audio format (starts with "Hello wor")",
 * or what is wrong in the header; STENO_ERR_UNSUPPORTED sample rate or encoding; STENO_ERR_LIMIT
 * when the header already promises more than max_seconds; STENO_ERR_INVAL channel > channels. */
STENO_MUST steno_status steno_audio_open_mem(steno_audio **out, const void *data, size_t n,
                                             const struct steno_audio_options *opt, steno_err *err);
/* From a descriptor, borrowed until close: a file is read in place; a pipe with WAV or Ogg Opus is
 * decoded as it comes; a pipe with anything else is first read to its end (those formats need
 * seeking). */
STENO_MUST steno_status steno_audio_open_fd(steno_audio **out, int fd,
                                            const struct steno_audio_options *opt, steno_err *err);
void steno_audio_close(steno_audio *a);

void steno_audio_get_info(const steno_audio *a, struct steno_audio_info *info);

/* Next samples: mono [max], *n of them; 0 = the end. A pipe gives what is there, waiting only for
 * the first sample. STENO_ERR_LIMIT once max_seconds is passed, STENO_ERR_FORMAT when the middle of
 * the file does not decode (samples before it have been delivered). */
STENO_MUST steno_status steno_audio_read(steno_audio *a, float *mono, size_t max, size_t *n,
                                         steno_err *err);

#endif
