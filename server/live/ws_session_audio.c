/* Audio on its way to the recogniser: which decoder its bytes need, the samples that they become in
 * the recogniser's buffer, and the bytes that are held back while that is full. */
#include "server/live/ws_session_internal.h"

#include "speech/audio/detect.h"

#include <stdlib.h>
#include <string.h>

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
    const unsigned n = steno_feed_channels(s->audio.feed);
    if (!s->d.start.multichannel) {
        s->d.mixed = s->d.start.audio.channel || n < 2 ? 0 : n;
        return STENO_OK;
    }
    if (n < 1 || n > STENO_AUDIO_MAX_CHANNELS)
        return steno_fail(err, STENO_ERR_LIMIT,
                          "multichannel: %u channels, at most %d are possible", n,
                          STENO_AUDIO_MAX_CHANNELS);
    pthread_mutex_lock(&s->mx);
    s->audio.width = s->d.channels = n;
    s->d.start.audio.channels = (int)n;
    pthread_mutex_unlock(&s->mx);
    return STENO_OK;
}

/* Open the stream once the rate is known. */
static steno_status open_engine(steno_ws_session *s, steno_err *err)
{
    steno_status st;
    if (s->stream.opened)
        return STENO_OK;
    s->audio.rate = steno_feed_rate(s->audio.feed);
    if (!s->audio.rate)
        return STENO_OK;
    st = count_channels(s, err);
    if (st)
        return st;
    st = s->engine->open(s->ctx, &s->d.start, s->audio.rate, err);
    s->stream.opened = !st;
    s->stream.by_client = !s->d.start.endpointing;
    return st;
}

steno_status steno_ws_session_open_raw(steno_ws_session *s, steno_err *err)
{
    struct steno_feed_options o = {.encoding = steno_encoding_name(s->d.start.audio.encoding),
                                   .sample_rate = s->d.start.audio.sample_rate,
                                   .channels = (unsigned)s->d.start.audio.channels,
                                   .channel = wanted_channel(s)};
    steno_status st = steno_feed_open(&s->audio.feed, &o, err);
    return st ? st : open_engine(s, err);
}

/* Opus: the first bytes distinguish Ogg from bare packets. No packet begins with "OggS": its first
 * byte would mean code 3, and "g" then 39 frames, more than the 120 ms allowed (RFC 6716, 3.2.5). A
 * packet of the first byte alone lacks the frame count. */
static steno_status open_opus(steno_ws_session *s, const char *p, size_t n, steno_err *err)
{
    steno_status st;
    struct steno_feed_options o = {.sample_rate = s->d.start.audio.sample_rate,
                                   .channel = wanted_channel(s)};
    s->audio.whole_packets = memcmp(p, "OggS", n < 4 ? n : 4) != 0;
    o.encoding = s->audio.whole_packets ? "opus" : "ogg-opus";
    st = steno_ws_session_check_resumable(s, s->audio.whole_packets ? NULL : "Ogg", err);
    if (!st)
        st = steno_feed_open(&s->audio.feed, &o, err);
    return st ? st : open_engine(s, err);
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
    if (s->audio.rate)
        s->audio.silent_bytes = 0;
    else if (n < s->audio.silent_bytes)
        s->audio.silent_bytes -= n;
    else
        return steno_fail(err, STENO_ERR_FORMAT,
                          "encoding: no sound was found in the audio, which begins as %s",
                          s->audio.container ? s->audio.container : "no container that is known");
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
    s->audio.container = is ? is->name : NULL;
    s->audio.silent_bytes = has_pictures(p, n) ? PICTURE_BYTES : SILENT_BYTES;
    if (!s->engine->decode)
        return steno_fail(err, STENO_ERR_UNSUPPORTED, "audio: containers are not decoded here");
    return s->engine->decode(s->ctx, &o, channel, &s->audio.feed, err);
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
    steno_buf_init(&s->held.bytes, most > PAUSED_BYTES ? most : PAUSED_BYTES);
}

/* pcm [n, width], the samples of the session from `at` on: silence what is in a final already. */
static void silence_finals(const steno_ws_session *s, float *pcm, size_t n, int64_t at)
{
    if (!s->stored || !s->stored->apart)
        return;
    for (unsigned c = 0; c < s->audio.width; c++)
        for (size_t i = 0; i < n && at + (int64_t)i < s->audio.restored[c]; i++)
            pcm[i * s->audio.width + c] = 0;
}

/* Of frames [n, width] that were decoded: move those that count to the front. Returns their
 * number. */
static size_t choose_frames(steno_ws_session *s, float *pcm, size_t n, bool *too_long)
{
    const int64_t most = (int64_t)(s->limits.audio_seconds * s->audio.rate);
    const size_t again = s->audio.skip < (int64_t)n ? (size_t)s->audio.skip : n;
    s->audio.skip -= (int64_t)again;
    n -= again;
    if (again)
        memmove(pcm, pcm + again * s->audio.width, n * s->audio.width * sizeof *pcm);
    s->audio.received += (int64_t)n;
    *too_long = s->limits.audio_seconds > 0 && s->audio.samples + (int64_t)n > most;
    if (*too_long) {
        s->audio.lost += s->audio.samples + (int64_t)n - most;
        n = (size_t)(most - s->audio.samples);
    }
    return n;
}

/* A packet was decoded whole. */
static void note_packet(steno_ws_session *s, int64_t samples)
{
    pthread_mutex_lock(&s->mx);
    if (s->stored && samples > 0) {
        if (!s->stored->packet)
            s->stored->packet = samples;
        else if (s->stored->packet != samples)
            s->stored->packet = -1; /* where one begins is not known */
    }
    pthread_mutex_unlock(&s->mx);
}

/* Add the frames [n, width] that were decoded into the room that was reserved. */
static steno_status add_frames(steno_ws_session *s, float *pcm, size_t n, steno_err *err)
{
    steno_status st;
    bool too_long;
    if (s->audio.whole_packets && !s->audio.skip)
        note_packet(s, (int64_t)n);
    silence_finals(s, pcm, n, s->audio.samples - s->audio.skip);
    n = choose_frames(s, pcm, n, &too_long);
    pthread_mutex_lock(&s->mx);
    s->audio.samples += (int64_t)n;
    pthread_mutex_unlock(&s->mx);
    st = s->engine->add(s->ctx, pcm, n, err);
    if (!st && too_long)
        st = steno_fail(err, STENO_ERR_LIMIT, "audio: longer than the limit of %g s",
                        s->limits.audio_seconds);
    return st;
}

/* Decode a piece of p [n] into the recogniser's buffer. held.full: there is no room. */
static steno_status feed_piece(steno_ws_session *s, const char *p, size_t n, size_t *used,
                               size_t *made, steno_err *err)
{
    size_t least, most, room = 0;
    float *to = NULL;
    steno_status st = STENO_OK;
    steno_feed_room(s->audio.feed, p, n, &least, &most);
    if (least)
        st = s->engine->room(s->ctx, least, most, &to, &room, err);
    if (st == STENO_ERR_CANCELLED) { /* the stream failed; its DONE note has the reason */
        *used = n;
        return STENO_OK;
    }
    s->held.full = !st && least && !room;
    if (st || s->held.full)
        return st;
    st = steno_feed_push(s->audio.feed, p, n, used, to, room * s->audio.width, made, err);
    if (st == STENO_NEED_MORE)
        st = STENO_OK;
    if (least && (st || !*made))
        (void)!s->engine->add(s->ctx, to, 0, NULL);
    else if (least)
        st = add_frames(s, to, *made / s->audio.width, err);
    return st;
}

static steno_status hold_back(steno_ws_session *s, const char *p, size_t n, steno_err *err)
{
    if (!n || !steno_buf_add(&s->held.bytes, p, n))
        return STENO_OK;
    s->held.full = s->held.bytes.len; /* else nothing waits for room, and no room ends the pause */
    return steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory");
}

steno_status steno_ws_session_feed(steno_ws_session *s, const char *p, size_t n, steno_err *err)
{
    bool more = !s->held.full;
    steno_status st = STENO_OK;
    while (!st && more) {
        const bool had_rate = s->audio.rate;
        size_t used = 0, made = 0;
        bool decodes;
        st = feed_piece(s, p, n, &used, &made, err);
        if (st || s->held.full)
            break;
        p += used;
        n -= used;
        st = open_engine(s, err);
        if (!st && s->audio.silent_bytes)
            st = count_silent(s, used, err);
        decodes = steno_feed_decodes(s->audio.feed);
        more = n || (made && decodes);
        if (!had_rate && s->audio.rate) /* samples that the reader has already */
            more = true;
        else if (!used && !made && decodes)
            break; /* until steno_ws_session_decoded */
        else if (!st && !used && !made && n)
            st = steno_fail(err, STENO_ERR_INTERNAL, "audio: decoder made no progress");
    }
    return st ? st : hold_back(s, p, n, err);
}

steno_status steno_ws_session_feed_held(steno_ws_session *s, steno_err *err)
{
    struct steno_buf rest = s->held.bytes;
    steno_status st;
    steno_ws_session_init_held(s);
    s->held.full = false;
    st = steno_ws_session_feed(s, rest.data ? rest.data : "", rest.len, err);
    steno_buf_free(&rest);
    return st;
}

void steno_ws_session_take_audio(steno_ws_session *s, const char *p, size_t n)
{
    steno_err err;
    steno_status st = steno_ws_session_feed(s, p, n, &err);
    if (!st)
        return;
    s->audio.failed = true;
    steno_ws_session_fail(s, st, err.msg);
}

void steno_ws_session_end_container(steno_ws_session *s)
{
    bool truncated;
    if (!s->audio.last_byte || s->held.bytes.len || s->state >= ENDING)
        return;
    (void)!steno_feed_end(s->audio.feed, &truncated, NULL);
    if (steno_feed_decodes(s->audio.feed))
        return;
    if (s->audio.late)
        steno_ws_session_end_as(s, STENO_WS_BAD, 1008, STENO_ERR_INVAL, "invalid_argument",
                                STENO_WS_LATE_AUDIO);
    else
        steno_ws_session_end_as(s, STENO_WS_ENDED, 1000, STENO_OK, "", "");
}
