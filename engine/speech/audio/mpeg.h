/* MPEG audio (layers I to III: MP3) as a stream, by libmpg123: bytes in, cut anywhere; interleaved
 * f32 frames out. The encoder's delay and padding are cut off where the file states them (LAME's
 * header). Foreign bytes between frames are skipped. Files that were joined continue, each with its
 * own rate and channels. Pure. */
#ifndef STENO_AUDIO_MPEG_H
#define STENO_AUDIO_MPEG_H

#include "base/status.h"

typedef struct steno_mpeg steno_mpeg;

struct steno_mpeg_info {
    int sample_rate; /* of the last frames read; 0 = none yet */
    unsigned channels;
    int64_t samples; /* per channel, so far */
    int64_t stated;  /* per channel, by the header of the first frame; -1 = not stated */
};

/* Open a reader. STENO_ERR_NOMEM. Confined. */
STENO_MUST steno_status steno_mpeg_open(steno_mpeg **out, steno_err *err);
void steno_mpeg_close(steno_mpeg *m);
/* Read the number of frames from the first frame's Xing, Info or VBRI header. head: [n] bytes from
 * the first frame on; more than that frame is not needed. */
void steno_mpeg_read_length(steno_mpeg *m, const unsigned char *head, size_t n);
/* Append bytes. Call steno_mpeg_read until it needs more before the next call. */
STENO_MUST steno_status steno_mpeg_feed(steno_mpeg *m, const void *data, size_t n, steno_err *err);
/* The frames of the next MPEG frame: *out is valid until the next call. STENO_NEED_MORE: feed
 * first. STENO_ERR_FORMAT: the decoder gave up. */
STENO_MUST steno_status steno_mpeg_read(steno_mpeg *m, const float **out, size_t *frames,
                                        steno_err *err);
void steno_mpeg_get_info(const steno_mpeg *m, struct steno_mpeg_info *info);

/* Bytes of the MPEG frame with this header, h [4]; 0 = not a header, or free format.
 * *samples: per channel; may be NULL. ISO/IEC 11172-3 section 2.4.1.3, 13818-3 section 2.4.2.3. */
size_t steno_mpeg_frame_bytes(const unsigned char *h, unsigned *samples);

#endif
