#include "speech/audio/feed.h"

#include "speech/audio/ogg_opus.h"
#include "speech/audio/wav.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Interleaved samples decoded at a time: 8 KiB of stack, which a live session would hold for the
 * whole of its life otherwise. */
#define BLOCK 2048
#define CONTAINER_FRAMES 8192 /* of what a process has decoded, taken at a time at most */
#define OGG_PACKETS 4         /* of the longest, decoded at a time */

enum kind { RAW, WAV, PACKETS, OGG, CONTAINER };

struct steno_feed {
    enum kind kind;
    int rate, wanted_rate;
    unsigned channels, channel;
    struct steno_pcm pcm;
    unsigned partial; /* RAW: samples of an unfinished frame, in rest */
    float rest[STENO_CHANNELS_MAX];
    steno_wav *wav;
    steno_opus *opus;
    steno_ogg_opus *ogg;
    steno_container *container;
    bool over;       /* its last sample came */
    const float *at; /* [left, channels] of it, not yet delivered */
    size_t left;
};

/* Samples that a frame has in the output. */
static unsigned width(const steno_feed *f)
{
    return f->channel == STENO_FEED_ALL_CHANNELS ? f->channels : 1;
}

/* Deliver frames as the options want them. Returns the number of samples. */
static size_t deliver(const steno_feed *f, const float *in, size_t frames, float *out)
{
    if (f->channel == STENO_FEED_ALL_CHANNELS && in != out)
        memcpy(out, in, frames * f->channels * sizeof *out);
    else if (in != out)
        steno_pcm_mix(in, frames, f->channels, f->channel, out);
    return frames * width(f);
}

static bool has_channel(const steno_feed *f, unsigned channels)
{
    return f->channel == STENO_FEED_ALL_CHANNELS || f->channel <= channels;
}

static steno_status raw_setup(steno_feed *f, const struct steno_feed_options *o, const char *name,
                              steno_err *err)
{
    enum steno_pcm_format format;
    if (steno_pcm_parse(name, &format, NULL))
        return steno_fail(err, STENO_ERR_UNSUPPORTED,
                          "unknown audio encoding '%.32s' (known: s16le, f32le, mulaw, alaw, u8, "
                          "s24le, s32le, f64le, wav, opus, ogg-opus)",
                          name);
    if (o->sample_rate < STENO_RATE_MIN || o->sample_rate > STENO_RATE_MAX)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "sample rate %d Hz is outside %d to %d",
                          o->sample_rate, STENO_RATE_MIN, STENO_RATE_MAX);
    if (f->channels > STENO_CHANNELS_MAX || !has_channel(f, f->channels))
        return steno_fail(err, STENO_ERR_INVAL, "channel %u of %u (at most %d)", f->channel,
                          f->channels, STENO_CHANNELS_MAX);
    f->kind = RAW;
    f->rate = o->sample_rate;
    steno_pcm_init(&f->pcm, format);
    return STENO_OK;
}

static steno_status setup(steno_feed *f, const struct steno_feed_options *o, steno_err *err)
{
    const char *name = o->encoding ? o->encoding : "s16le";
    const bool packets = !strcasecmp(name, "opus");
    const bool ogg = !strcasecmp(name, "ogg-opus") || !strcasecmp(name, "ogg_opus");
    f->channels = o->channels ? o->channels : 1;
    f->channel = o->channel;
    if (!strcasecmp(name, "wav")) {
        f->kind = WAV;
        f->wanted_rate = o->sample_rate;
        f->wav = steno_wav_new();
        return f->wav ? STENO_OK : steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    }
    if (!packets && !ogg)
        return raw_setup(f, o, name, err);
    if (f->channel == STENO_FEED_ALL_CHANNELS)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "multichannel: not possible with bare Opus");
    f->rate = o->sample_rate > 0 ? steno_opus_rate_for(o->sample_rate) : 48000;
    f->kind = packets ? PACKETS : OGG;
    return packets ? steno_opus_open(&f->opus, f->rate, err)
                   : steno_ogg_opus_open(&f->ogg, f->rate, f->channel, err);
}

steno_status steno_feed_open(steno_feed **out, const struct steno_feed_options *opt, steno_err *err)
{
    steno_feed *f = calloc(1, sizeof *f);
    steno_status st;
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    st = setup(f, opt, err);
    if (st)
        steno_feed_close(f);
    else
        *out = f;
    return st;
}

steno_status steno_feed_open_container(steno_feed **out, const struct steno_container_options *opt,
                                       unsigned channel, steno_err *err)
{
    steno_feed *f = calloc(1, sizeof *f);
    steno_status st;
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    f->kind = CONTAINER;
    f->channel = channel;
    st = steno_container_open_live(&f->container, opt, err);
    if (st)
        steno_feed_close(f);
    else
        *out = f;
    return st;
}

void steno_feed_close(steno_feed *f)
{
    if (!f)
        return;
    steno_wav_free(f->wav);
    steno_opus_close(f->opus);
    steno_ogg_opus_close(f->ogg);
    steno_container_close(f->container);
    free(f);
}

/* Of one channel the samples are decoded to where they are wanted. */
static steno_status push_raw(steno_feed *f, const unsigned char *p, size_t n, size_t *used,
                             float *out, size_t max, size_t *made)
{
    float block[BLOCK];
    size_t at = 0, got = 0;
    if (f->channels == 1) {
        *made = steno_pcm_push(&f->pcm, p, n, used, out, max);
        return *made || *used < n ? STENO_OK : STENO_NEED_MORE;
    }
    memcpy(block, f->rest, f->partial * sizeof *block);
    while (at < n && got + width(f) <= max) {
        size_t room = (max - got) / width(f) * f->channels, have, frames, k;
        room = room < BLOCK ? room : BLOCK / f->channels * f->channels;
        have = f->partial +
               steno_pcm_push(&f->pcm, p + at, n - at, &k, block + f->partial, room - f->partial);
        at += k;
        frames = have / f->channels;
        f->partial = (unsigned)(have - frames * f->channels);
        got += deliver(f, block, frames, out + got);
        memmove(block, block + frames * f->channels, f->partial * sizeof *block);
    }
    memcpy(f->rest, block, f->partial * sizeof *block);
    *used = at;
    *made = got;
    return got || at < n ? STENO_OK : STENO_NEED_MORE;
}

/* Check the header of a WAV stream, which has just become known, against the options. */
static steno_status accept_wav(steno_feed *f, const struct steno_wav_info *w, steno_err *err)
{
    if (f->wanted_rate && f->wanted_rate != w->sample_rate)
        return steno_fail(err, STENO_ERR_INVAL,
                          "sample rate %d Hz was announced, the WAV header says %d", f->wanted_rate,
                          w->sample_rate);
    if (!has_channel(f, w->channels))
        return steno_fail(err, STENO_ERR_INVAL, "channel %u was requested, the audio has %u",
                          f->channel, w->channels);
    f->rate = w->sample_rate;
    f->channels = w->channels;
    return STENO_OK;
}

/* Read up to the first sample. */
static steno_status push_wav_header(steno_feed *f, const unsigned char *p, size_t n, size_t *used,
                                    steno_err *err)
{
    size_t frames;
    steno_status st = steno_wav_push(f->wav, p, n, used, NULL, 0, &frames, err);
    return st ? st : accept_wav(f, steno_wav_info(f->wav), err);
}

static steno_status push_wav(steno_feed *f, const unsigned char *p, size_t n, size_t *used,
                             float *out, size_t max, size_t *made, steno_err *err)
{
    float block[BLOCK];
    const bool in_place = f->channels == 1;
    size_t at = 0, got = 0, frames, k, room;
    steno_status st;
    do {
        float *to = in_place ? out + got : block;
        room = (max - got) / width(f) * f->channels;
        room = in_place || room < BLOCK ? room : BLOCK;
        if (room < STENO_CHANNELS_MAX)
            break; /* nearly full: the reader needs room for a frame of the most channels */
        st = steno_wav_push(f->wav, p + at, n - at, &k, to, room, &frames, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        at += k;
        got += deliver(f, to, frames, out + got);
    } while (at < n);
    *used = at;
    *made = got;
    return got || at < n ? STENO_OK : STENO_NEED_MORE;
}

/* The format of a container has become known. */
static steno_status accept_container(steno_feed *f, steno_err *err)
{
    struct steno_container_info info;
    steno_container_get_info(f->container, &info);
    if (!has_channel(f, info.channels))
        return steno_fail(err, STENO_ERR_INVAL, "channel %u was requested, the audio has %u",
                          f->channel, info.channels);
    f->rate = info.sample_rate;
    f->channels = info.channels;
    return STENO_OK;
}

/* Take what the process has decoded. */
static steno_status pull_container(steno_feed *f, float *out, size_t max, size_t *made,
                                   steno_err *err)
{
    size_t k;
    steno_status st = STENO_OK;
    while ((!f->rate || *made + width(f) <= max) && !f->over) {
        if (!f->left) {
            st = steno_container_read(f->container, false, &f->at, &f->left, err);
            if (st)
                return st;
            f->over = !f->left;
            if (!f->rate && !f->over)
                return accept_container(f, err);
        }
        k = (max - *made) / width(f);
        k = f->left < k ? f->left : k;
        *made += deliver(f, f->at, k, out + *made);
        f->at += k * f->channels;
        f->left -= k;
    }
    return STENO_OK;
}

static steno_status push_container(steno_feed *f, const void *p, size_t n, size_t *used, float *out,
                                   size_t max, size_t *made, steno_err *err)
{
    steno_status st = STENO_OK;
    *used = *made = 0;
    if (n)
        st = steno_container_push(f->container, p, n, used, err);
    if (!st)
        st = pull_container(f, out, max, made, err);
    if (*made) /* an error comes again with the next call */
        return STENO_OK;
    return st == STENO_NEED_MORE && *used < n ? STENO_OK : st ? st : STENO_NEED_MORE;
}

void steno_feed_descriptors(const steno_feed *f, int *readable, int *writable)
{
    *readable = *writable = -1;
    if (f->container)
        steno_container_descriptors(f->container, readable, writable);
}

bool steno_feed_decodes(const steno_feed *f)
{
    return f->container && !f->over;
}

void steno_feed_room(const steno_feed *f, const void *data, size_t n, size_t *least, size_t *most)
{
    const struct steno_pcm *pcm = &f->pcm;
    *least = 1;
    *most = CONTAINER_FRAMES;
    if (f->kind == PACKETS) {
        *least = *most = steno_opus_frames(f->opus, data, n);
    } else if (f->kind == OGG) {
        *least = STENO_OPUS_MAX_FRAMES(f->rate);
        *most = OGG_PACKETS * *least;
    } else if (!f->rate) {
        *least = *most = 0;
    } else if (f->kind == WAV) {
        *least = STENO_CHANNELS_MAX;
        *most = n / (f->channels * steno_pcm_bytes(steno_wav_info(f->wav)->format)) + *least;
    } else if (f->kind == RAW) {
        *most = ((pcm->have + n) / steno_pcm_bytes(pcm->format) + f->partial) / f->channels;
    }
    *most = *most > *least ? *most : *least;
}

static steno_status push_packet(steno_feed *f, const void *data, size_t n, size_t *used, float *out,
                                size_t max, size_t *made, steno_err *err)
{
    steno_status st = steno_opus_push(f->opus, data, n, out, max, made, err);
    if (st)
        return st;
    *used = n;
    return *made ? STENO_OK : STENO_NEED_MORE;
}

steno_status steno_feed_push(steno_feed *f, const void *data, size_t n, size_t *used, float *out,
                             size_t max, size_t *made, steno_err *err)
{
    size_t least, most;
    *made = 0;
    steno_feed_room(f, data, n, &least, &most);
    if (max < least * width(f))
        return steno_fail(err, STENO_ERR_INVAL, "audio: room for %zu samples, at least %zu needed",
                          max, least * width(f));
    switch (f->kind) {
    case RAW:
        return push_raw(f, data, n, used, out, max, made);
    case WAV:
        return f->rate ? push_wav(f, data, n, used, out, max, made, err)
                       : push_wav_header(f, data, n, used, err);
    case OGG:
        return steno_ogg_opus_push(f->ogg, data, n, used, out, max, made, err);
    case CONTAINER:
        return push_container(f, data, n, used, out, max, made, err);
    case PACKETS:
        break;
    }
    return push_packet(f, data, n, used, out, max, made, err);
}

steno_status steno_feed_end(steno_feed *f, bool *truncated, steno_err *err)
{
    if (f->kind == WAV)
        return steno_wav_end(f->wav, truncated, err);
    if (f->kind == OGG)
        return steno_ogg_opus_end(f->ogg, truncated, err);
    if (f->kind == CONTAINER) /* the last samples are yet to come */
        steno_container_end(f->container);
    *truncated = f->pcm.have || f->partial;
    return STENO_OK;
}

bool steno_feed_realign(steno_feed *f)
{
    f->pcm.have = 0;
    f->partial = 0;
    return f->kind == RAW || f->kind == PACKETS;
}

unsigned steno_feed_channels(const steno_feed *f)
{
    return f->kind == RAW || ((f->kind == WAV || f->kind == CONTAINER) && f->rate) ? f->channels
                                                                                   : 0;
}

int steno_feed_rate(const steno_feed *f)
{
    return f->rate;
}
