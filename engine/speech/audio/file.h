/* A recording of any known format to mono f32 at its own rate, read in pieces: memory is bounded
 * for every length. The first bytes decide the format, never a name. WAV, RF64, BW64, Ogg
 * Opus, Ogg Vorbis and MP3 go to our own readers; FLAC, AIFF, AU, CAF, W64, WAV with ADPCM or GSM
 * to libsndfile over virtual I/O; WebM, MP4, AAC and the rest to a process of its own
 * (audio/container.h). The same bytes give the same samples from memory, a file and a pipe. Tags
 * (ID3v2) and up to 64 KiB of foreign bytes before a recording are skipped.
 */
#ifndef STENO_AUDIO_FILE_H
#define STENO_AUDIO_FILE_H

#include "speech/audio/container.h"
#include "speech/audio/pcm.h"

typedef struct steno_audio steno_audio;

/* Samples without a header. */
struct steno_raw_audio {
    enum steno_pcm_format format;
    int sample_rate;   /* Hz, STENO_RATE_MIN..STENO_RATE_MAX; 0: there is a header */
    unsigned channels; /* 1..STENO_CHANNELS_MAX */
};

struct steno_audio_options {    /* zero-initialised = defaults */
    struct steno_raw_audio raw; /* a WAV or RF64 header before it counts all the same */
    unsigned channel;           /* 0 = mean of all channels; k = the k-th, counted from 1 */
    double max_seconds;         /* limit on the decoded audio; 0 = none */
    size_t max_bytes;           /* of a pipe that must be held whole (libsndfile's); 0 = 512 MiB */
    steno_decoders *decoders;   /* for containers; NULL: any number, where the program is found */
    bool dont_wait;             /* a container's samples are not waited for: STENO_NEED_MORE */
};

struct steno_audio_info {
    int sample_rate;
    unsigned channels;
    const char *format; /* "wav", "flac", "ogg", "mp3", "mp4", ...: valid until close */
    const char *codec;  /* "s16le", "opus", "vorbis", ...: likewise */
    int64_t frames;     /* stated by the file; -1 = unknown before the end */
    size_t junk;        /* foreign bytes before the recording, skipped */
    unsigned gaps;      /* lost pages, damaged packets so far (Ogg); at the end (containers) */
    bool truncated;     /* the file ended early; final once read has returned 0 samples */
};

/* Open a recording in memory. data: [n] bytes, borrowed until close. Confined.
 * STENO_ERR_FORMAT: "the input is empty", "not a recognised audio format (starts with "Hello
 * wor")", or the fault in the header. STENO_ERR_UNSUPPORTED: sample rate or encoding.
 * STENO_ERR_LIMIT: the recording is longer than max_seconds (a compressed one is decoded before it
 * is refused for what it states). STENO_ERR_INVAL: channel > channels. */
STENO_MUST steno_status steno_audio_open_mem(steno_audio **out, const void *data, size_t n,
                                             const struct steno_audio_options *opt, steno_err *err);
/* Open a descriptor, borrowed until close. A file is read in place. A pipe with WAV, Ogg Opus,
 * Ogg Vorbis or MP3 is decoded as it arrives. A pipe with anything else is first read to its end,
 * because those formats may need seeking. */
STENO_MUST steno_status steno_audio_open_fd(steno_audio **out, int fd,
                                            const struct steno_audio_options *opt, steno_err *err);
void steno_audio_close(steno_audio *a);

/* With dont_wait: STENO_NEED_MORE until the format is known and checked; only then is the info
 * filled in, and samples can be read. Otherwise STENO_OK. */
STENO_MUST steno_status steno_audio_ready(steno_audio *a, steno_err *err);
/* What to wait for (POLLIN) after STENO_NEED_MORE; -1: this recording never needs it. */
int steno_audio_descriptor(const steno_audio *a);

void steno_audio_get_info(const steno_audio *a, struct steno_audio_info *info);

/* Read the next samples: mono [max], *n of them; 0 = the end. From a pipe it returns what is
 * available and waits only for the first sample. STENO_ERR_LIMIT: max_seconds is exceeded.
 * STENO_ERR_FORMAT: the file cannot be decoded further (the samples before the fault have been
 * delivered). STENO_NEED_MORE: with dont_wait, there are none now. */
STENO_MUST steno_status steno_audio_read(steno_audio *a, float *mono, size_t max, size_t *n,
                                         steno_err *err);
/* Say what is wrong with a recording that was read to its end: cut short, damaged, foreign bytes
 * before it. text [n] is "" if nothing is. seconds: the audio that was read. */
void steno_audio_warning(const struct steno_audio_info *info, double seconds, char *text, size_t n);

#endif
