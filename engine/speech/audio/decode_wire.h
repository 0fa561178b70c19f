/* What steno-decode writes: records, each a head of two little-endian u32 (kind, bytes of the body)
 * and its body. First FORMAT, then SAMPLES, last END or ERROR; an ERROR may come at any time. The
 * reader (audio/container.c) trusts nothing of it. */
#ifndef STENO_AUDIO_DECODE_WIRE_H
#define STENO_AUDIO_DECODE_WIRE_H

#include <stdint.h>

enum steno_decode_kind {
    STENO_DECODE_FORMAT = 1, /* struct steno_decode_format */
    STENO_DECODE_SAMPLES,    /* f32 [frames, channels], whole frames */
    STENO_DECODE_END,        /* struct steno_decode_end */
    STENO_DECODE_ERROR       /* u32 steno_status, then the message, not terminated */
};

#define STENO_DECODE_BODY_MAX 32768 /* bytes of a record's body */

/* Both programs are built together and run on one machine: structs travel as they are. */
struct steno_decode_head {
    uint32_t kind, bytes;
};

struct steno_decode_format {
    uint32_t sample_rate, channels;
    int64_t frames;                /* stated by the file; -1 = unknown */
    char container[16], codec[16]; /* names of FFmpeg, terminated */
};

struct steno_decode_end {
    uint32_t truncated; /* 1: the input ended inside a packet */
    uint32_t damaged;   /* packets that could not be decoded */
};

#endif
