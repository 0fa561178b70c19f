/* Audio on its way to the recogniser: which decoder its bytes need, the samples that they become,
 * and the samples and bytes that are held back while the recogniser's buffer is full. */
#include "server/live/ws_session_internal.h"

#include "audio/detect.h"

#include <stdlib.h>
#include <string.h>

#define SCRATCH_SAMPLES 8192 /* decoded at a time; >= STENO_FEED_MIN_OUT */
/* Bytes of a container before the first sound. Those of formats that may begin with pictures are
 * more. */
#define SILENT_BYTES (1u << 20)
#define PICTURE_BYTES (16u << 20)
#define PAUSED_BYTES (1 << 20) /* of a message part that came when the buffer became full */

/* ---- decoders -------------------------------------------------------------------------------- */

steno_status steno_ws_session_check_resumable(const steno_ws_session *s, const char *container,
                                              steno_err *err)
{
    if (s->d.start.resumable && s->d.start.audio.encoding == STENO_ENCODING_WAV)
        container = "wav";
    if (s->d.start.resumable && container)
        return steno_fail(err, STENO_ERR_INVAL,
                          "resumable: needs raw samples or bare Opus packets, not %s", container);
    return STENO_OK;
}

static unsigned wanted_channel(const steno_ws_session *s)
{
    return s->d.start.multichannel ? STENO_FEED_ALL_CHANNELS : (unsigned)s->d.start.audio.channel;
}

/* The number of channels is known: how many transcripts there are. */
static steno_status count_channels(steno_ws_session *s, steno_err *err)
{
    const unsigned n = steno_feed_channels(s->feed);
    if (!s->d.start.multichannel) {
        s->d.mixed = s->d.start.audio.channel || n < 2 ? 0 : n;
        return STENO_OK;
    }
    if (n < 1 || n > STENO_AUDIO_MAX_CHANNELS)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "multichannel: %u channels, at most %d are possible", n,
                          STENO_AUDIO_MAX_CHANNELS);
    pthread_mutex_lock(&s->mx);
    s->width = s->d.channels = n;
    s->d.start.audio.channels = (int)n;
    pthread_mutex_unlock(&s->mx);
    return STENO_OK;
}

/* Open the stream once the rate is known. */
static steno_status take_place(steno_ws_session *s, steno_err *err)
{
    steno_status st;
    if (s->opened)
        return STENO_OK;
    s->rate = steno_feed_rate(s->feed);
    if (!s->rate)
        return STENO_OK;
    st = count_channels(s, err);
    if (st)
        return st;
    st = s->engine->open(s->ctx, &s->d.start, s->rate, err);
    s->opened = !st;
    return st;
}

steno_status steno_ws_session_open_raw(steno_ws_session *s, steno_err *err)
{
    struct steno_feed_options o = {.encoding = steno_encoding_name(s->d.start.audio.encoding),
                                   .sample_rate = s->d.start.audio.sample_rate,
                                   .channels = (unsigned)s->d.start.audio.channels,
                                   .channel = wanted_channel(s)};
    steno_status st = steno_feed_open(&s->feed, &o, err);
    return st ? st : take_place(s, err);
}

/* Opus: the first bytes distinguish Ogg from bare packets. No packet begins with "OggS": its first
 * byte would mean code 3, and "g" then 39 frames, more than the 120 ms allowed (RFC 6716, 3.2.5). A
 * packet of the first byte alone lacks the frame count. */
static steno_status open_opus(steno_ws_session *s, const char *p, size_t n, steno_err *err)
{
    steno_status st;
    struct steno_feed_options o = {.sample_rate = s->d.start.audio.sample_rate,
                                   .channel = wanted_channel(s)};
    s->whole_packets = memcmp(p, "OggS", n < 4 ? n : 4) != 0;
    o.encoding = s->whole_packets ? "opus" : "ogg-opus";
    st = steno_ws_session_check_resumable(s, s->whole_packets ? NULL : "Ogg", err);
    if (!st)
        st = steno_feed_open(&s->feed, &o, err);
    return st ? st : take_place(s, err);
}

/* Whether the format may have pictures before the sound. */
static bool has_pictures(const char *p, size_t n)
{
    return (n >= 3 && !memcmp(p, "ID3", 3)) || (n >= 4 && !memcmp(p, "fLaC", 4)) ||
           (n >= 8 && !memcmp(p + 4, "ftyp", 4));
}

/* Refuse bytes that are no container's. Fewer than detection needs are left to FFmpeg. */
static steno_status check_container(const char *p, size_t n, steno_err *err)
{
    const unsigned char *h = (const unsigned char *)p;
    steno_status st;
    if (n < STENO_AUDIO_HEAD || steno_audio_container_of(h, n, true) ||
        steno_audio_sniff(h, n) != STENO_AUDIO_UNKNOWN || has_pictures(p, n))
        return STENO_OK;
    st = steno_audio_refuse(h, n, err);
    return steno_fail_in(err, st, "encoding: a container was named");
}

/* Count bytes that have brought no sound yet. */
static steno_status count_silent(steno_ws_session *s, size_t n, steno_err *err)
{
    if (s->rate)
        s->silent_bytes = 0;
    else if (n < s->silent_bytes)
        s->silent_bytes -= n;
    else
        return steno_fail(err, STENO_ERR_FORMAT,
                          "encoding: no sound was found in the audio, which begins as %s",
                          s->container ? s->container : "no container that is known");
    return STENO_OK;
}

/* Open a container by its first bytes. */
static steno_status open_container(steno_ws_session *s, const char *p, size_t n, steno_err *err)
{
    const struct steno_audio_container *is =
        steno_audio_container_of((const unsigned char *)p, n, false);
    const struct steno_container_options o = {.demuxer = is ? is->demuxer : NULL,
                                              .max_seconds = s->limits.audio_seconds};
    const unsigned channel = wanted_channel(s);
    steno_status st = steno_ws_session_check_resumable(s, "a container", err);
    if (!st)
        st = check_container(p, n, err);
    if (st)
        return st;
    s->container = is ? is->name : NULL;
    s->silent_bytes = has_pictures(p, n) ? PICTURE_BYTES : SILENT_BYTES;
    if (!s->engine->decode)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "audio: containers are not decoded here");
    return s->engine->decode(s->ctx, &o, channel, &s->feed, err);
}

static bool is_webm(const char *p, size_t n)
{
    return n >= 4 && !memcmp(p, "\x1A\x45\xDF\xA3", 4);
}

steno_status steno_ws_session_open_feed(steno_ws_session *s, const char *p, size_t n,
                                        steno_err *err)
{
    const bool ogg = n >= 4 && !memcmp(p, "OggS", 4);
    /* WebM is what browsers record, and their programs call it Opus */
    if (s->d.start.audio.encoding == STENO_ENCODING_CONTAINER || is_webm(p, n) ||
        (ogg && s->d.start.multichannel)) /* our reader of Ogg Opus mixes */
        return open_container(s, p, n, err);
    return open_opus(s, p, n, err);
}

/* ---- bytes and samples ----------------------------------------------------------------------- */

void steno_ws_session_init_held(steno_ws_session *s)
{
    const size_t most = s->limits.message_bytes; /* of bytes that can arrive at once */
    steno_buf_init(&s->held_bytes, most > PAUSED_BYTES ? most : PAUSED_BYTES);
}

void steno_ws_session_drop_held(steno_ws_session *s)
{
    free(s->held);
    s->held = NULL;
    s->n_held = 0;
}

static steno_status hold(steno_ws_session *s, const float *pcm, size_t n, steno_err *err)
{
    s->held = malloc(n * s->width * sizeof *pcm);
    if (!s->held)
        return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    memcpy(s->held, pcm, n * s->width * sizeof *pcm);
    s->n_held = n;
    return STENO_OK;
}

/* Push n samples of each channel to the recogniser; those that do not fit are held back. */
static steno_status push_pcm(steno_ws_session *s, const float *pcm, size_t n, steno_err *err)
{
    int64_t most = (int64_t)(s->limits.audio_seconds * s->rate);
    size_t taken = 0, again = s->skip_samples < (int64_t)n ? (size_t)s->skip_samples : n;
    bool too_long;
    steno_status st;
    s->skip_samples -= (int64_t)again;
    pcm += again * s->width;
    n -= again;
    if (!n)
        return STENO_OK;
    s->received += (int64_t)n;
    too_long = s->limits.audio_seconds > 0 && s->samples + (int64_t)n > most;
    if (too_long) {
        s->lost += s->samples + (int64_t)n - most;
        n = (size_t)(most - s->samples);
    }
    pthread_mutex_lock(&s->mx);
    s->samples += (int64_t)n;
    pthread_mutex_unlock(&s->mx);
    st = s->engine->push(s->ctx, pcm, n, &taken, err);
    if (!st && taken < n)
        st = hold(s, pcm + taken * s->width, n - taken, err);
    if (st)
        s->lost += (int64_t)(n - taken);
    if (st == STENO_ERR_CANCELLED) /* the stream failed; its DONE note has the reason */
        return STENO_OK;
    if (!st && too_long)
        st = steno_fail(err, STENO_ERR_LIMIT, "audio: longer than the limit of %g s",
                        s->limits.audio_seconds);
    return st;
}

/* This needs no check of the room beforehand: at most one scratch buffer of samples does not fit.
 */
steno_status steno_ws_session_feed(steno_ws_session *s, const char *p, size_t n, steno_err *err)
{
    float scratch[SCRATCH_SAMPLES];
    size_t made;
    steno_status st;
    do {
        size_t used = 0;
        made = 0;
        st = steno_feed_push(s->feed, p, n, &used, scratch, SCRATCH_SAMPLES, &made, err);
        if (st && st != STENO_NEED_MORE)
            return st;
        p += used;
        n -= used;
        st = take_place(s, err);
        if (st) {
            s->received += (int64_t)made;
            s->lost += (int64_t)made;
        } else if (made) {
            steno_ws_session_silence(s, scratch, made / s->width, s->samples - s->skip_samples);
            st = push_pcm(s, scratch, made / s->width, err);
        }
        if (!st && s->silent_bytes)
            st = count_silent(s, used, err);
        if (!st && !used && !made && steno_feed_decodes(s->feed))
            break; /* until steno_ws_session_decoded */
        if (!st && !used && !made && n)
            st = steno_fail(err, STENO_ERR_INTERNAL, "audio: decoder made no progress");
    } while (!st && (n || (made && steno_feed_decodes(s->feed))) && !s->n_held);
    if (!st && n && steno_buf_add(&s->held_bytes, p, n))
        st = steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
    return st;
}

steno_status steno_ws_session_push_held(steno_ws_session *s, steno_err *err)
{
    size_t taken = 0;
    steno_status st = s->engine->push(s->ctx, s->held, s->n_held, &taken, err);
    if (st == STENO_ERR_CANCELLED) {
        s->lost += (int64_t)s->n_held;
        taken = s->n_held, st = STENO_OK;
    }
    s->n_held -= taken;
    memmove(s->held, s->held + taken * s->width, s->n_held * s->width * sizeof *s->held);
    if (!s->n_held)
        steno_ws_session_drop_held(s);
    return st;
}

steno_status steno_ws_session_feed_held(steno_ws_session *s, steno_err *err)
{
    struct steno_buf rest = s->held_bytes;
    steno_status st;
    steno_ws_session_init_held(s);
    st = steno_ws_session_feed(s, rest.data ? rest.data : "", rest.len, err);
    steno_buf_free(&rest);
    return st;
}
