/* Opus as a stream: single packets (WebSocket frames, RTP), and Ogg Opus bytes cut anywhere. RFC
 * 6716 (Opus, loss concealment), RFC 7845 (Ogg encapsulation: pre-skip, granule position, output
 * gain, channel mapping families 0 and 1). libopus decodes directly at the requested rate: 8000,
 * 12000, 16000, 24000 or 48000 Hz. */
#ifndef STENO_AUDIO_OGG_OPUS_H
#define STENO_AUDIO_OGG_OPUS_H

#include "speech/audio/pcm.h"

/* Samples of the longest packet at a rate: 120 ms (RFC 6716 section 3.2.5). */
#define STENO_OPUS_MAX_FRAMES(rate) ((size_t)(rate)*120 / 1000)

/* The libopus rate for a consumer that wants `rate`: the smallest that is not lower. */
int steno_opus_rate_for(int rate);

/* ---- packets ---------------------------------------------------------------------------------*/
typedef struct steno_opus steno_opus;

/* Open a packet decoder. STENO_ERR_INVAL: libopus does not have the rate. Mono output: the decoder
 * mixes stereo packets. Confined. */
STENO_MUST steno_status steno_opus_open(steno_opus **out, int rate, steno_err *err);
void steno_opus_close(steno_opus *o);
/* The samples of a packet, or of a lost one (n = 0); where it does not tell, the most that any
 * has. */
size_t steno_opus_frames(const steno_opus *o, const void *packet, size_t n);
/* Decode one packet to mono out [max], max >= steno_opus_frames; *frames samples were written. n =
 * 0: the packet was lost; as many samples as in the previous packet are concealed (none before the
 * first packet). STENO_ERR_FORMAT: a damaged packet; the decoder stays usable. */
STENO_MUST steno_status steno_opus_push(steno_opus *o, const void *packet, size_t n, float *out,
                                        size_t max, size_t *frames, steno_err *err);

/* ---- Ogg -------------------------------------------------------------------------------------*/
typedef struct steno_ogg_opus steno_ogg_opus;

/* Open an Ogg Opus stream. channel: 0 = mean of all, k = the k-th counted from 1. Confined. */
STENO_MUST steno_status steno_ogg_opus_open(steno_ogg_opus **out, int rate, unsigned channel,
                                            steno_err *err);
void steno_ogg_opus_close(steno_ogg_opus *o);
/* Append bytes. Same contract as steno_wav_push, but out [max] is mono and max >=
 * STENO_OPUS_MAX_FRAMES(rate). Lost pages (gaps in sequence or granule position) are concealed, at
 * most one second per gap. Chained streams continue; other logical streams in the same file are
 * ignored. STENO_ERR_FORMAT: not Ogg, or no Opus stream at its beginning. */
STENO_MUST steno_status steno_ogg_opus_push(steno_ogg_opus *o, const void *data, size_t n,
                                            size_t *used, float *out, size_t max, size_t *frames,
                                            steno_err *err);
/* End the input. Same contract as steno_wav_end. *truncated: no end-of-stream page was read. */
STENO_MUST steno_status steno_ogg_opus_end(const steno_ogg_opus *o, bool *truncated,
                                           steno_err *err);
unsigned steno_ogg_opus_channels(const steno_ogg_opus *o); /* 0 until the header is read */
unsigned steno_ogg_opus_gaps(const steno_ogg_opus *o);     /* lost pages so far */

#endif
