/* Live audio of a named encoding to mono f32: one entry for streams, over pcm, wav, ogg_opus and
 * container. Encodings: those of steno_pcm_parse, "wav", "opus" (one packet per push), "ogg-opus".
 * Pure, except that another process decodes a container (audio/container.h): its samples come later
 * than its bytes. */
#ifndef STENO_AUDIO_FEED_H
#define STENO_AUDIO_FEED_H

#include "speech/audio/container.h"
#include "speech/audio/pcm.h"

typedef struct steno_feed steno_feed;

struct steno_feed_options {
    const char *encoding; /* NULL = "s16le" */
    int sample_rate;      /* Hz of raw samples. Opus is decoded at steno_opus_rate_for(sample_rate),
                           * 0 = 48000. WAV: 0, or the rate that the header must have (else
                           * STENO_ERR_INVAL names both) */
    unsigned channels;    /* of raw samples, 0 = 1 */
    unsigned channel;     /* 0 = mean of all channels, k = the k-th counted from 1, or
                           * STENO_FEED_ALL_CHANNELS */
};
/* Keep all channels, interleaved. Not possible with Opus. */
#define STENO_FEED_ALL_CHANNELS 0xFFFFFFFFu

/* Open a feed. STENO_ERR_UNSUPPORTED: unknown encoding or rate; the message lists the known ones.
 * Confined. */
STENO_MUST steno_status steno_feed_open(steno_feed **out, const struct steno_feed_options *opt,
                                        steno_err *err);
/* The same for a container; channel as above. Errors of steno_container_open_live. */
STENO_MUST steno_status steno_feed_open_container(steno_feed **out,
                                                  const struct steno_container_options *opt,
                                                  unsigned channel, steno_err *err);
void steno_feed_close(steno_feed *f);

/* The room that a push of these bytes needs, in frames: *least for it to get on, *most for all that
 * the bytes may become, as far as they tell. 0: the rate is not known yet, and they give none. */
void steno_feed_room(const steno_feed *f, const void *data, size_t n, size_t *least, size_t *most);
/* Append bytes, cut anywhere ("opus": exactly one packet; n = 0 is a lost one).
 * out [max] mono f32 (or whole frames of all channels), max as steno_feed_room says; *used, *made
 * as in steno_resampler_push. The push that makes the rate known gives no samples. STENO_NEED_MORE:
 * all bytes were taken and no sample is complete. Errors are final for wav and ogg-opus; after a
 * damaged Opus packet the feed continues. A container: *used and *made may be 0 with STENO_OK, and
 * n may be 0; then wait for its descriptors (SIGPIPE must be ignored). */
#define STENO_FEED_MIN_OUT 5760 /* an Opus packet of 120 ms at 48 kHz: is enough for all */
STENO_MUST steno_status steno_feed_push(steno_feed *f, const void *data, size_t n, size_t *used,
                                        float *out, size_t max, size_t *made, steno_err *err);
/* Discard the bytes of an unfinished sample or packet: the following bytes begin a new one. Returns
 * false if this encoding cannot continue so (wav, ogg-opus). */
bool steno_feed_realign(steno_feed *f);
/* The descriptors of a container to wait for, as steno_container_descriptors; -1 of others. */
void steno_feed_descriptors(const steno_feed *f, int *readable, int *writable);
/* True while a push without bytes may still give samples of a container. */
bool steno_feed_decodes(const steno_feed *f);
/* End the input. STENO_ERR_FORMAT: the header was incomplete. *truncated: the input ended inside a
 * sample, frame, page or declared length (all complete samples have been delivered). */
STENO_MUST steno_status steno_feed_end(steno_feed *f, bool *truncated, steno_err *err);

/* Sample rate of the output; 0 until known (WAV header). */
int steno_feed_rate(const steno_feed *f);
/* Channels of the input; 0 until known, and of Opus. */
unsigned steno_feed_channels(const steno_feed *f);

#endif
