/* Live audio of a named encoding -> mono f32: the one entry for streams, over pcm, wav, ogg_opus.
 * Encodings: those of steno_pcm_parse, "wav", "opus" (one packet per push), "ogg-opus". Pure. */
#ifndef STENO_AUDIO_FEED_H
#define STENO_AUDIO_FEED_H

#include "audio/pcm.h"

typedef struct steno_feed steno_feed;

struct steno_feed_options {
    const char *encoding; /* NULL = "s16le" */
    int sample_rate;      /* Hz of raw samples; Opus: decoded at steno_opus_rate_for(it), 0 = 48000;
                           * WAV: 0, or what the header must say (else STENO_ERR_INVAL names both) */
    unsigned channels;    /* of raw samples, 0 = 1 */
    unsigned channel;     /* 0 = mean of all channels, k = the k-th counted from 1 */
};

/* STENO_ERR_UNSUPPORTED encoding or rate, with what there is. Confined. */
STENO_MUST steno_status steno_feed_open(steno_feed **out, const struct steno_feed_options *opt,
                                        steno_err *err);
void steno_feed_close(steno_feed *f);

/* Append bytes cut anywhere ("opus": exactly one packet; n = 0 is a lost one).
 * out [max] mono f32, max >= STENO_FEED_MIN_OUT; *used, *made as in steno_resampler_push.
 * STENO_NEED_MORE: all taken, no sample yet. Errors are final for wav and ogg-opus; after a damaged
 * Opus packet the feed goes on. */
#define STENO_FEED_MIN_OUT 5760 /* an Opus packet of 120 ms at 48 kHz */
STENO_MUST steno_status steno_feed_push(steno_feed *f, const void *data, size_t n, size_t *used,
                                        float *out, size_t max, size_t *made, steno_err *err);
/* The bytes that follow begin a new sample or packet: forget what was left of an unfinished one.
 * False when this encoding cannot go on so (wav, ogg-opus). */
bool steno_feed_realign(steno_feed *f);
/* No more bytes. STENO_ERR_FORMAT: there was no complete header. *truncated: it ended inside a
 * sample, frame, page or declared length (what was whole has been delivered). */
STENO_MUST steno_status steno_feed_end(steno_feed *f, bool *truncated, steno_err *err);

/* Rate of the samples that come out; 0 until known (WAV header). */
int steno_feed_rate(const steno_feed *f);

#endif
