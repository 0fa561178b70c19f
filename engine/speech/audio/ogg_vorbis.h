/* Ogg Vorbis as a stream: bytes in, cut anywhere; interleaved f32 frames out (Vorbis I
 * specification, appendix A; RFC 3533). Links of a chain follow each other, and each may have its
 * own rate and channels. Other logical streams in the same file are ignored. Pure. */
#ifndef STENO_AUDIO_OGG_VORBIS_H
#define STENO_AUDIO_OGG_VORBIS_H

#include "base/status.h"

typedef struct steno_ogg_vorbis steno_ogg_vorbis;

struct steno_ogg_vorbis_info {
    int sample_rate; /* of the last frames read; 0 = no header yet */
    unsigned channels;
    unsigned gaps; /* so far: lost pages, damaged packets, foreign bytes between pages */
};

/* Open a reader. STENO_ERR_NOMEM. Confined. */
STENO_MUST steno_status steno_ogg_vorbis_open(steno_ogg_vorbis **out, steno_err *err);
void steno_ogg_vorbis_close(steno_ogg_vorbis *o);
/* Append bytes. Call steno_ogg_vorbis_read until it needs more before the next call. */
STENO_MUST steno_status steno_ogg_vorbis_feed(steno_ogg_vorbis *o, const void *data, size_t n,
                                              steno_err *err);
/* Read frames of one format to out [max] floats, max >= 255. STENO_NEED_MORE: feed first.
 * STENO_ERR_FORMAT names the damaged header. STENO_ERR_LIMIT: headers of more than 16 MiB. */
STENO_MUST steno_status steno_ogg_vorbis_read(steno_ogg_vorbis *o, float *out, size_t max,
                                              size_t *frames, steno_err *err);
/* End the input, after STENO_NEED_MORE. STENO_ERR_FORMAT: no audio began. *truncated: no
 * end-of-stream page was read. */
STENO_MUST steno_status steno_ogg_vorbis_end(const steno_ogg_vorbis *o, bool *truncated,
                                             steno_err *err);
void steno_ogg_vorbis_get_info(const steno_ogg_vorbis *o, struct steno_ogg_vorbis_info *info);

#endif
