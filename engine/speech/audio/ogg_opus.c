/* Three layers, each a state machine that stops wherever input or output runs out:
 *
 *   bytes --libogg sync--> pages --on_page--> packets of one page --decode_next--> samples
 *
 * All packets of a page are collected before the first is decoded. Only the page's granule position
 * less the durations of all its packets gives the position of the first one: this shows lost pages
 * and trimmed ends (RFC 7845 section 4). Positions count at 48 kHz, the unit of granule positions,
 * whatever the decoding rate. */
#include "speech/audio/ogg_opus.h"

#include <inttypes.h>
#include <limits.h>
#include <ogg/ogg.h>
#include <opus.h>
#include <opus_multistream.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE_RATE 48000
#define MAX_PACKET_48K 5760
#define MAX_CONCEAL_48K 48000 /* maximum per gap */
#define FEED_BYTES 4096
#define MAX_PAGE_PACKETS 255
#define MAX_PACKET_BYTES (1 << 20) /* a packet that grows to this size is dropped */

int steno_opus_rate_for(int rate)
{
    static const int rates[] = {8000, 12000, 16000, 24000, 48000};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (rate <= rates[i])
            return rates[i];
    return 48000;
}

static steno_status check_rate(int rate, steno_err *err)
{
    if (rate >= STENO_RATE_MIN && rate == steno_opus_rate_for(rate))
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL,
                      "Opus decodes at 8000, 12000, 16000, 24000 or 48000 Hz, not %d", rate);
}

/* ---- packets ---------------------------------------------------------------------------------*/

struct steno_opus {
    OpusDecoder *dec;
    int rate;
    int last; /* samples of the previous packet, at rate */
};

steno_status steno_opus_open(steno_opus **out, int rate, steno_err *err)
{
    steno_opus *o;
    int code = OPUS_OK;
    steno_status st = check_rate(rate, err);
    if (st)
        return st;
    o = calloc(1, sizeof *o);
    if (o) {
        o->rate = rate;
        o->dec = opus_decoder_create(rate, 1, &code);
    }
    if (!o || !o->dec) {
        steno_opus_close(o);
        return steno_fail(err, STENO_ERR_NOMEM, "Opus decoder: %s",
                          code == OPUS_OK ? "out of memory" : opus_strerror(code));
    }
    *out = o;
    return STENO_OK;
}

void steno_opus_close(steno_opus *o)
{
    if (!o)
        return;
    if (o->dec)
        opus_decoder_destroy(o->dec);
    free(o);
}

size_t steno_opus_frames(const steno_opus *o, const void *packet, size_t n)
{
    const int frames = !n            ? o->last
                       : n > INT_MAX ? -1
                                     : opus_decoder_get_nb_samples(o->dec, packet, (opus_int32)n);
    return frames > 0 ? (size_t)frames : STENO_OPUS_MAX_FRAMES(o->rate);
}

steno_status steno_opus_push(steno_opus *o, const void *packet, size_t n, float *out, size_t max,
                             size_t *frames, steno_err *err)
{
    const size_t want = steno_opus_frames(o, packet, n);
    int got;
    if (max < want)
        return steno_fail(err, STENO_ERR_INVAL, "Opus: room for %zu samples, %zu needed", max,
                          want);
    if (n > INT_MAX)
        return steno_fail(err, STENO_ERR_FORMAT, "Opus: packet of %zu bytes", n);
    if (!n && !o->last) {
        *frames = 0;
        return STENO_OK;
    }
    got = opus_decode_float(o->dec, n ? packet : NULL, (opus_int32)n, out, (int)want, 0);
    if (got < 0)
        return steno_fail(err, got == OPUS_ALLOC_FAIL ? STENO_ERR_NOMEM : STENO_ERR_FORMAT,
                          "Opus: packet of %zu bytes: %s", n, opus_strerror(got));
    o->last = got;
    steno_pcm_clean(out, (size_t)got, out);
    *frames = (size_t)got;
    return STENO_OK;
}

/* ---- Ogg -------------------------------------------------------------------------------------*/

enum phase { WANT_HEAD, WANT_TAGS, AUDIO };

struct steno_ogg_opus {
    int rate;
    unsigned channel; /* the channel that the caller asked for */
    enum phase phase;
    ogg_sync_state sync;
    ogg_stream_state stream;
    bool sync_ok, stream_ok;
    unsigned char magic[4]; /* the first bytes of the input, until they are compared */
    unsigned n_magic;
    unsigned gaps;   /* lost pages so far */
    bool ate;        /* the next byte pushed was already taken: see pump */
    uint64_t offset; /* bytes taken */

    /* the current logical stream */
    bool has_headers, ended; /* an Opus header was read; its end-of-stream page was read */
    unsigned channels;       /* channels of the stream */
    unsigned decoded;        /* channels that the decoder outputs: 1, or all */
    OpusMSDecoder *dec;
    float *scratch; /* [STENO_OPUS_MAX_FRAMES, decoded] when decoded > 1 */
    int64_t skip;   /* samples at rate still to discard (pre-skip) */
    bool have_pos;
    int64_t pos; /* granule position after the last packet of the last page */

    /* packets of the current page */
    ogg_packet packet[MAX_PAGE_PACKETS];
    int duration[MAX_PAGE_PACKETS]; /* 48 kHz samples; 0 = damaged */
    unsigned at, count;
    int64_t conceal;   /* 48 kHz samples missing before packet[at] */
    int64_t trim;      /* samples at rate at the page's end that are not part of the signal */
    int64_t page_left; /* 48 kHz samples from packet[at] to the end of the page */
    steno_err error;
};

static int64_t at_rate(const steno_ogg_opus *o, int64_t n48)
{
    return n48 * o->rate / GRANULE_RATE;
}

steno_status steno_ogg_opus_open(steno_ogg_opus **out, int rate, unsigned channel, steno_err *err)
{
    steno_ogg_opus *o;
    steno_status st = check_rate(rate, err);
    if (st)
        return st;
    o = calloc(1, sizeof *o);
    if (o) {
        o->rate = rate;
        o->channel = channel;
        o->sync_ok = !ogg_sync_init(&o->sync);
        o->stream_ok = !ogg_stream_init(&o->stream, 0);
    }
    if (!o || !o->sync_ok || !o->stream_ok) {
        steno_ogg_opus_close(o);
        return steno_fail(err, STENO_ERR_NOMEM, "Ogg Opus: out of memory");
    }
    *out = o;
    return STENO_OK;
}

static void drop_decoder(steno_ogg_opus *o)
{
    if (o->dec)
        opus_multistream_decoder_destroy(o->dec);
    o->dec = NULL;
    free(o->scratch);
    o->scratch = NULL;
}

void steno_ogg_opus_close(steno_ogg_opus *o)
{
    if (!o)
        return;
    if (o->sync_ok)
        ogg_sync_clear(&o->sync);
    if (o->stream_ok)
        ogg_stream_clear(&o->stream);
    drop_decoder(o);
    free(o);
}

/* The contents of OpusHead (RFC 7845 section 5.1). */
struct head {
    unsigned channels, preskip, streams, coupled;
    int gain;
    unsigned char mapping[255];
};

static steno_status parse_mapping(steno_ogg_opus *o, const unsigned char *p, size_t n,
                                  struct head *h)
{
    unsigned family = p[18];
    if (family == 0) {
        if (h->channels > 2)
            return steno_fail(&o->error, STENO_ERR_FORMAT,
                              "Ogg Opus: mapping family 0 with %u channels", h->channels);
        h->streams = 1;
        h->coupled = h->channels - 1;
        h->mapping[1] = 1;
        return STENO_OK;
    }
    if (family != 1 && family != 255)
        return steno_fail(&o->error, STENO_ERR_UNSUPPORTED, "Ogg Opus: channel mapping family %u",
                          family);
    if (n < 21 + h->channels || (family == 1 && h->channels > 8))
        return steno_fail(&o->error, STENO_ERR_FORMAT,
                          "Ogg Opus: header of %zu bytes for %u channels of family %u", n,
                          h->channels, family);
    h->streams = p[19];
    h->coupled = p[20];
    memcpy(h->mapping, p + 21, h->channels);
    if (!h->streams || h->coupled > h->streams || h->streams + h->coupled > 255)
        return steno_fail(&o->error, STENO_ERR_FORMAT, "Ogg Opus: %u streams, %u of them coupled",
                          h->streams, h->coupled);
    return STENO_OK;
}

static steno_status parse_head(steno_ogg_opus *o, const unsigned char *p, size_t n, struct head *h)
{
    memset(h, 0, sizeof *h);
    if (n < 19)
        return steno_fail(&o->error, STENO_ERR_FORMAT,
                          "Ogg Opus: header of %zu bytes, expected at least 19", n);
    if (p[8] & 0xF0)
        return steno_fail(&o->error, STENO_ERR_UNSUPPORTED, "Ogg Opus: version %u", p[8]);
    h->channels = p[9];
    h->preskip = p[10] | (unsigned)p[11] << 8;
    h->gain = (int16_t)(p[16] | p[17] << 8);
    if (!h->channels || h->channels > STENO_CHANNELS_MAX)
        return steno_fail(&o->error, STENO_ERR_FORMAT, "Ogg Opus: %u channels", h->channels);
    if (o->channel > h->channels)
        return steno_fail(&o->error, STENO_ERR_INVAL, "channel %u was requested, the audio has %u",
                          o->channel, h->channels);
    return parse_mapping(o, p, n, h);
}

static steno_status make_decoder(steno_ogg_opus *o, const struct head *h)
{
    int code;
    /* A mono decoder mixes a stereo stream itself, at half the cost. */
    bool mono = !o->channel && h->streams == 1;
    drop_decoder(o);
    o->decoded = mono ? 1 : h->channels;
    o->dec = mono ? opus_multistream_decoder_create(o->rate, 1, 1, 0, h->mapping, &code)
                  : opus_multistream_decoder_create(o->rate, (int)h->channels, (int)h->streams,
                                                    (int)h->coupled, h->mapping, &code);
    if (!o->dec)
        return steno_fail(&o->error, code == OPUS_BAD_ARG ? STENO_ERR_FORMAT : STENO_ERR_NOMEM,
                          "Ogg Opus: %u channels in %u streams: %s", h->channels, h->streams,
                          opus_strerror(code));
    opus_multistream_decoder_ctl(o->dec, OPUS_SET_GAIN(h->gain));
    if (o->decoded > 1) {
        o->scratch = calloc(STENO_OPUS_MAX_FRAMES(o->rate) * o->decoded, sizeof *o->scratch);
        if (!o->scratch)
            return steno_fail(&o->error, STENO_ERR_NOMEM, "Ogg Opus: out of memory");
    }
    return STENO_OK;
}

/* First page of a logical stream: this is our stream if it begins with OpusHead. */
static steno_status on_first_page(steno_ogg_opus *o, const ogg_page *page)
{
    struct head h;
    steno_status st;
    if (page->body_len < 8 || memcmp(page->body, "OpusHead", 8))
        return STENO_OK;
    if (o->phase == WANT_TAGS)
        return STENO_OK; /* a second, parallel Opus stream: only the first one counts */
    st = parse_head(o, page->body, (size_t)page->body_len, &h);
    if (!st)
        st = make_decoder(o, &h);
    if (st)
        return st;
    ogg_stream_reset_serialno(&o->stream, ogg_page_serialno(page));
    o->channels = h.channels;
    o->skip = at_rate(o, h.preskip);
    o->have_pos = o->ended = false;
    o->has_headers = true;
    o->phase = WANT_TAGS;
    return STENO_OK;
}

/* Comments may contain megabytes of pictures: they are skipped page by page, never collected. */
static void on_tags_page(steno_ogg_opus *o, const ogg_page *page)
{
    if (!ogg_page_packets(page))
        return;
    o->phase = AUDIO;
    ogg_stream_reset(&o->stream);
}

/* Collect the packets of the current page. Returns their total length at 48 kHz. */
static int64_t collect_packets(steno_ogg_opus *o)
{
    int64_t total = 0;
    int got;
    o->at = o->count = 0;
    while (o->count < MAX_PAGE_PACKETS) {
        ogg_packet *p = &o->packet[o->count];
        int n = 0;
        got = ogg_stream_packetout(&o->stream, p);
        if (got < 0)
            continue; /* a hole: the positions give its length */
        if (!got)
            break;
        if (p->bytes > 0)
            n = opus_packet_get_nb_samples(p->packet, (opus_int32)p->bytes, GRANULE_RATE);
        o->duration[o->count++] = n > 0 && n <= MAX_PACKET_48K ? n : 0;
        total += n > 0 && n <= MAX_PACKET_48K ? n : 0;
    }
    return total;
}

/* Compare the page's position with ours: samples missing before it, and excess samples at its
 * end. */
static void place_page(steno_ogg_opus *o, const ogg_page *page, int64_t total)
{
    int64_t end = ogg_page_granulepos(page), start;
    o->conceal = o->trim = 0;
    o->page_left = total;
    if (!o->count)
        return; /* a long packet continues after this page */
    if (end < 0 || end > INT64_MAX / 64) {
        o->pos += total; /* an impossible position: use the durations */
        return;
    }
    start = end - total;
    if (!o->have_pos)
        o->pos = start > 0 ? start : 0;
    o->gaps += start > o->pos;
    if (start > o->pos)
        o->conceal = start - o->pos < MAX_CONCEAL_48K ? start - o->pos : MAX_CONCEAL_48K;
    else if (o->pos + total > end && ogg_page_eos(page))
        o->trim = at_rate(o, o->pos + total - end < total ? o->pos + total - end : total);
    o->pos = end;
    o->have_pos = true;
}

static void on_audio_page(steno_ogg_opus *o, ogg_page *page)
{
    if (ogg_stream_pagein(&o->stream, page))
        return; /* another serial number, or a damaged page: positions show the gap */
    place_page(o, page, collect_packets(o));
    if (o->stream.body_fill - o->stream.body_returned > MAX_PACKET_BYTES)
        ogg_stream_reset(&o->stream);
    if (ogg_page_eos(page))
        o->ended = true;
}

static steno_status on_page(steno_ogg_opus *o, ogg_page *page)
{
    bool ours = o->has_headers && ogg_page_serialno(page) == o->stream.serialno;
    if (ogg_page_bos(page))
        return on_first_page(o, page);
    if (!o->has_headers)
        return steno_fail(&o->error, STENO_ERR_FORMAT, "Ogg without an Opus stream");
    if (ours && o->phase == WANT_TAGS)
        on_tags_page(o, page);
    else if (ours && o->phase == AUDIO)
        on_audio_page(o, page);
    return STENO_OK;
}

/* Decode or conceal n48 samples into out, and apply pre-skip and end trimming. Returns the
 * samples. */
static size_t emit(steno_ogg_opus *o, const ogg_packet *p, int n48, float *out)
{
    float *dst = o->decoded > 1 ? o->scratch : out;
    int want = (int)at_rate(o, n48), got;
    int64_t skip, keep;
    got = p ? opus_multistream_decode_float(o->dec, p->packet, (opus_int32)p->bytes, dst, want, 0)
            : opus_multistream_decode_float(o->dec, NULL, 0, dst, want, 0);
    if (got < 0 && p) /* damaged inside: its duration is known */
        got = opus_multistream_decode_float(o->dec, NULL, 0, dst, want, 0);
    if (got < 0) {
        memset(dst, 0, (size_t)want * o->decoded * sizeof *dst);
        got = want;
    }
    if (o->decoded > 1)
        steno_pcm_mix(dst, (size_t)got, o->decoded, o->channel, out);
    skip = o->skip < got ? o->skip : got;
    o->skip -= skip;
    keep = got - skip;
    if (p) { /* remove samples after the end of the signal */
        int64_t behind = at_rate(o, o->page_left - n48);
        int64_t cut = o->trim > behind ? o->trim - behind : 0;
        keep = cut > keep ? 0 : keep - cut;
        o->page_left -= n48;
    }
    steno_pcm_clean(out + skip, (size_t)keep, out + skip);
    if (skip)
        memmove(out, out + skip, (size_t)keep * sizeof *out);
    return (size_t)keep;
}

/* Decode or conceal the next part of the current page, if out has room. Returns false if no packet
 * is left, or if there is no room (*full). */
static bool decode_next(steno_ogg_opus *o, float *out, size_t room, size_t *made, bool *full)
{
    int n48 = o->conceal > 960 ? 960 : (int)(o->conceal / 120 * 120); /* 20 ms; 2.5 ms units */
    if (o->at == o->count)
        return false;
    if (!n48)
        o->conceal = 0;
    *full = (size_t)at_rate(o, n48 ? n48 : o->duration[o->at]) > room;
    if (*full)
        return false;
    if (n48) {
        *made = emit(o, NULL, n48, out);
        o->conceal -= n48;
        return true;
    }
    *made = o->duration[o->at] ? emit(o, &o->packet[o->at], o->duration[o->at], out) : 0;
    o->at++;
    return true;
}

static steno_status check_magic(steno_ogg_opus *o, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n && o->n_magic < 4; i++)
        o->magic[o->n_magic++] = p[i];
    if (memcmp(o->magic, "OggS", o->n_magic))
        return steno_fail(&o->error, STENO_ERR_FORMAT,
                          "not an Ogg stream: it starts with %02x %02x %02x %02x, not 'OggS'",
                          o->magic[0], o->magic[1], o->magic[2], o->magic[3]);
    return STENO_OK;
}

/* The next page of the bytes fed so far; damage is skipped. */
static bool next_page(steno_ogg_opus *o, ogg_page *page)
{
    int got;
    do
        got = ogg_sync_pageout(&o->sync, page);
    while (got < 0);
    return got > 0;
}

static steno_status feed_bytes(steno_ogg_opus *o, const unsigned char *p, size_t n)
{
    char *dst = ogg_sync_buffer(&o->sync, (long)n);
    if (!dst)
        return steno_fail(&o->error, STENO_ERR_NOMEM, "Ogg Opus: out of memory");
    memcpy(dst, p, n);
    if (ogg_sync_wrote(&o->sync, (long)n))
        return steno_fail(&o->error, STENO_ERR_INTERNAL, "Ogg Opus: libogg refused %zu bytes", n);
    o->offset += n;
    return o->n_magic < 4 ? check_magic(o, p, n) : STENO_OK;
}

/* libogg may hold several pages when all input was fed and out is full. "All bytes taken" must
 * still mean "nothing left inside". So the last byte is then reported as not taken, and skipped
 * when it is pushed again (`ate`). */
static steno_status pump_opus(steno_ogg_opus *o, const unsigned char *p, size_t n, size_t *at,
                              float *out, size_t max, size_t *made)
{
    ogg_page page;
    bool full = false;
    size_t k;
    steno_status st = STENO_OK;
    if (o->ate && n) {
        o->ate = false;
        *at = 1;
    }
    for (;;) {
        if (decode_next(o, out + *made, max - *made, &k, &full)) {
            *made += k;
        } else if (full) {
            break;
        } else if (next_page(o, &page)) {
            st = on_page(o, &page);
        } else if (*at < n) {
            k = n - *at < FEED_BYTES ? n - *at : FEED_BYTES;
            st = feed_bytes(o, p + *at, k);
            *at += k;
        } else {
            break;
        }
        if (st) /* samples come first; the error is kept for the next call */
            return *made ? STENO_OK : st;
    }
    if (full && *at == n && n) {
        o->ate = true;
        --*at;
    }
    return STENO_OK;
}

steno_status steno_ogg_opus_push(steno_ogg_opus *o, const void *data, size_t n, size_t *used,
                                 float *out, size_t max, size_t *frames, steno_err *err)
{
    size_t at = 0, made = 0, least = STENO_OPUS_MAX_FRAMES(o->rate);
    steno_status st;
    if (max < least)
        return steno_fail(err, STENO_ERR_INVAL, "Ogg Opus: room for %zu samples, %zu needed", max,
                          least);
    st = o->error.code ? o->error.code : pump_opus(o, data, n, &at, out, max, &made);
    if (st) {
        if (err)
            *err = o->error;
        return st;
    }
    *used = at;
    *frames = made;
    return made || at < n ? STENO_OK : STENO_NEED_MORE;
}

steno_status steno_ogg_opus_end(const steno_ogg_opus *o, bool *truncated, steno_err *err)
{
    if (o->error.code) {
        if (err)
            *err = o->error;
        return o->error.code;
    }
    if (!o->offset)
        return steno_fail(err, STENO_ERR_FORMAT, "the input is empty");
    if (!o->has_headers)
        return steno_fail(err, STENO_ERR_FORMAT,
                          "Ogg Opus: cut off after %" PRIu64 " bytes, before any audio data",
                          o->offset);
    *truncated = !o->ended;
    return STENO_OK;
}

unsigned steno_ogg_opus_gaps(const steno_ogg_opus *o)
{
    return o->gaps;
}

unsigned steno_ogg_opus_channels(const steno_ogg_opus *o)
{
    return o->has_headers ? o->channels : 0;
}
