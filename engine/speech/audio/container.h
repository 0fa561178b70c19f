/* Recordings and live streams that the program steno-decode decodes in a process of its own
 * (engine/tools/decode/): WebM, MP4, AAC and the rest. The engine starts it, gives it bytes, reads
 * its records (audio/decode_wire.h) and checks every field of them: a program that crashes, hangs
 * or lies is an error of this input alone. */
#ifndef STENO_AUDIO_CONTAINER_H
#define STENO_AUDIO_CONTAINER_H

#include "speech/audio/source.h"
#include "base/status.h"

/* Number of processes of steno-decode that run, and its limit. Locked: any thread. */
typedef struct steno_decoders steno_decoders;

/* max: processes at once; 0 = none at all. Does not look for the program; steno_container_open
 * does. */
STENO_MUST steno_status steno_decoders_open(steno_decoders **out, int max, steno_err *err);
void steno_decoders_close(steno_decoders *d); /* after all of its containers; NULL too */
int steno_decoders_running(const steno_decoders *d);
/* Whether steno-decode is where it is looked for. */
bool steno_decoders_installed(void);

typedef struct steno_container steno_container;

struct steno_container_options {
    const char *demuxer;      /* FFmpeg's name of the format; NULL = found by its first bytes */
    steno_decoders *decoders; /* NULL: any number */
    double max_seconds;       /* limit on decoded audio; the limit on processor time follows from
                               * it; 0 = none */
};

struct steno_container_info {
    int sample_rate;            /* 0 = not known yet */
    unsigned channels;          /* 1..STENO_CHANNELS_MAX */
    int64_t frames;             /* stated; -1 = unknown */
    char format[16], codec[16]; /* "matroska", "opus" */
    unsigned damaged;           /* packets; at the end */
    bool truncated;             /* likewise */
};

/* Start decoding a recording; src: memory, a file, or a pipe that is held. Memory is copied for the
 * process. STENO_ERR_UNSUPPORTED: the program is not installed or does not start; the message
 * says what is missing. STENO_ERR_BUSY: too many run. */
STENO_MUST steno_status steno_container_open(steno_container **out, const struct steno_source *src,
                                             const struct steno_container_options *opt,
                                             steno_err *err);
/* The same for bytes that steno_container_push brings. */
STENO_MUST steno_status steno_container_open_live(steno_container **out,
                                                  const struct steno_container_options *opt,
                                                  steno_err *err);
/* Records from a descriptor, which the container then owns, instead of a process: for tests. */
STENO_MUST steno_status steno_container_open_records(steno_container **out, int fd, steno_err *err);
void steno_container_close(steno_container *c); /* ends the process; NULL too */

/* Give bytes to the process without waiting: *used of n were taken. Bytes after its end are
 * dropped. */
STENO_MUST steno_status steno_container_push(steno_container *c, const void *data, size_t n,
                                             size_t *used, steno_err *err);
/* No more bytes follow. */
void steno_container_end(steno_container *c);
/* Read the next frames, *samples [*frames, channels], valid until the next call; 0 frames = the
 * end. wait: wait for them; otherwise STENO_NEED_MORE when there are none now. The errors of
 * steno-decode, and STENO_ERR_FORMAT when it crashed or was stopped for what it did; an error
 * stays. Confined. */
STENO_MUST steno_status steno_container_read(steno_container *c, bool wait, const float **samples,
                                             size_t *frames, steno_err *err);
void steno_container_get_info(const steno_container *c, struct steno_container_info *info);
/* Descriptors to wait for: records to read; room for bytes (-1: none are pushed). */
void steno_container_descriptors(const steno_container *c, int *readable, int *writable);

#endif
