#include "speech/audio/detect.h"

#include "speech/audio/mpeg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 9          /* bytes shown in the message when the input is not audio */
#define MAX_JUNK 65536   /* foreign bytes before a recording */
#define JUNK_MARGIN 8192 /* three MPEG frames of the longest kind */
#define MAX_OGG_STREAMS 16
#define TS_SYNC 0x47 /* first byte of each packet of MPEG-TS (ISO 13818-1, 2.4.3) */
#define TS_BYTES 188
#define GSM_MARK 0xD /* first half byte of each GSM frame (ETSI TS 101 318, 5.1) */
#define GSM_BYTES 33
#define REPEATS 8 /* packets or frames that begin so */

static bool starts(const unsigned char *h, size_t n, const char *magic, size_t len)
{
    return n >= len && !memcmp(h, magic, len);
}

static const struct magic {
    size_t at;
    const char *bytes;
    size_t n;
    struct steno_audio_container is;
    bool shared; /* another reader reads the format too, most of the time */
} magics[] = {
    {0, "\x1A\x45\xDF\xA3", 4, {"matroska", "WebM or Matroska"}, false},
    {4, "ftyp", 4, {"mov", "MP4"}, false},
    {4, "moov", 4, {"mov", "MP4"}, false}, /* QuickTime before it had ftyp */
    {4, "mdat", 4, {"mov", "MP4"}, false},
    {4, "wide", 4, {"mov", "MP4"}, false},
    {4, "styp", 4, {"mov", "MP4"}, false},
    {0, "#!AMR", 5, {"amr", "AMR"}, false},
    {0, "\x30\x26\xB2\x75\x8E\x66\xCF\x11", 8, {"asf", "WMA"}, false},
    {0, "\x0B\x77", 2, {"", "AC-3"}, false}, /* E-AC-3 begins so too */
    {0, "ADIF", 4, {"aac", "AAC"}, false},
    {0, "FLV\1", 4, {"flv", "FLV"}, false},
    {0, "\0\0\1\xBA", 4, {"mpeg", "MPEG"}, false},
    {8, "AVI ", 4, {"avi", "AVI"}, false},
    {0, ".RMF", 4, {"rm", "RealMedia"}, false},
    {0, "wvpk", 4, {"wv", "WavPack"}, false},
    {0, "TTA1", 4, {"tta", "TTA"}, false},
    {0, "MAC ", 4, {"ape", "Monkey's Audio"}, false},
    {28, "Speex   ", 8, {"ogg", "Ogg Speex"}, false},
    {0, "OggS", 4, {"ogg", "Ogg"}, true},
    {0, "fLaC", 4, {"flac", "FLAC"}, true},
    {0, "caff", 4, {"caf", "CAF"}, true},
    {8, "AIFC", 4, {"aiff", "AIFF-C"}, true},
    {8, "WAVE", 4, {"wav", "WAV"}, true},
};

static const struct magic *find_magic(const unsigned char *h, size_t n)
{
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (n >= magics[i].at + magics[i].n &&
            !memcmp(h + magics[i].at, magics[i].bytes, magics[i].n))
            return &magics[i];
    return NULL;
}

/* ADTS: 12 set bits, layer 0, a rate that exists (ISO 14496-3, 1.A.2.2). */
static bool is_adts(const unsigned char *h, size_t n)
{
    return n >= 4 && h[0] == 0xFF && (h[1] & 0xF6) == 0xF0 && (h[2] & 0x3C) < 13 << 2;
}

const struct steno_audio_container *steno_audio_container_of(const unsigned char *h, size_t n,
                                                             bool weak)
{
    static const struct steno_audio_container adts = {"aac", "AAC"}, ts = {"mpegts", "MPEG-TS"},
                                              gsm = {"gsm", "GSM"};
    const struct magic *m = find_magic(h, n);
    if (m)
        return &m->is;
    if (is_adts(h, n))
        return &adts;
    if (!weak || !n)
        return NULL;
    return h[0] == TS_SYNC ? &ts : h[0] >> 4 == GSM_MARK ? &gsm : NULL;
}

static bool is_container(const unsigned char *h, size_t n)
{
    const struct magic *m = find_magic(h, n);
    return m ? !m->shared : is_adts(h, n);
}

enum steno_audio_kind steno_audio_sniff(const unsigned char *h, size_t n)
{
    /* MPEG audio: 11 set bits, then version, layer, bitrate and rate with no reserved value. */
    bool mpeg = n >= 4 && h[0] == 0xFF && (h[1] & 0xE0) == 0xE0 && (h[1] & 0x18) != 0x08 &&
                (h[1] & 0x06) != 0 && (h[2] & 0xF0) != 0xF0 && (h[2] & 0x0C) != 0x0C;
    if (is_container(h, n))
        return STENO_AUDIO_CONTAINER;
    if (starts(h, n, "RIFF", 4) || starts(h, n, "RF64", 4) || starts(h, n, "BW64", 4))
        return STENO_AUDIO_WAV;
    if (starts(h, n, "OggS", 4) && n >= 44 && !memcmp(h + 28, "OpusHead", 8))
        return STENO_AUDIO_OPUS;
    if (starts(h, n, "OggS", 4) && n >= 35 && !memcmp(h + 28, "\1vorbis", 7))
        return STENO_AUDIO_VORBIS;
    if (mpeg)
        return STENO_AUDIO_MPEG;
    if (starts(h, n, "fLaC", 4) || starts(h, n, "OggS", 4) || starts(h, n, "FORM", 4) ||
        starts(h, n, ".snd", 4) || starts(h, n, "caff", 4) || starts(h, n, "RIFX", 4) ||
        starts(h, n, "riff\x2E\x91\xCF\x11", 8))
        return STENO_AUDIO_SNDFILE;
    return STENO_AUDIO_UNKNOWN;
}

steno_status steno_audio_refuse(const unsigned char *h, size_t n, steno_err *err)
{
    char text[4 * SHOWN + 1];
    size_t len = 0;
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        bool plain = h[i] >= 0x20 && h[i] < 0x7F && h[i] != '"' && h[i] != '\\';
        len += (size_t)snprintf(text + len, sizeof text - len, plain ? "%c" : "\\x%02x", h[i]);
    }
    return steno_fail(err, STENO_ERR_FORMAT, "not a recognised audio format (starts with \"%s\")",
                      text);
}

/* Formats that one byte marks: it must stand at the beginning of every packet. */
static bool repeats(struct steno_source *src, size_t bytes, unsigned char mask, unsigned char want)
{
    unsigned char h;
    for (int i = 0; i < REPEATS; i++) {
        ssize_t n = steno_source_peek(src, (int64_t)(i * bytes), &h, 1);
        if (n != 1)
            return i > 1 && !n;
        if ((h & mask) != want)
            return false;
    }
    return true;
}

/* Ogg: the kind of the first logical stream that we can read. First pages of all streams stand at
 * the beginning. */
static enum steno_audio_kind sniff_ogg(struct steno_source *src)
{
    unsigned char h[27 + 255 + 8];
    int64_t at = 0;
    for (int pages = 0; pages < MAX_OGG_STREAMS; pages++) {
        ssize_t n = steno_source_peek(src, at, h, 28);
        size_t body = 0, lacing;
        if (n < 28 || memcmp(h, "OggS", 4) || !(h[5] & 2))
            break;
        lacing = h[26];
        n = steno_source_peek(src, at, h, 27 + lacing + 8);
        if (n < (ssize_t)(27 + lacing + 7))
            break;
        if (!memcmp(h + 27 + lacing, "\1vorbis", 7))
            return STENO_AUDIO_VORBIS;
        if (!memcmp(h + 27 + lacing, "\177FLAC", 5))
            return STENO_AUDIO_SNDFILE;
        if (n == (ssize_t)(27 + lacing + 8) && !memcmp(h + 27 + lacing, "Speex   ", 8))
            return STENO_AUDIO_CONTAINER;
        if (n == (ssize_t)(27 + lacing + 8) && !memcmp(h + 27 + lacing, "OpusHead", 8))
            return STENO_AUDIO_OPUS;
        for (size_t i = 0; i < lacing; i++)
            body += h[27 + i];
        at += (int64_t)(27 + lacing + body);
    }
    return STENO_AUDIO_VORBIS; /* its reader names what is wrong */
}

/* Bytes of an ID3v2 tag (id3.org, version 2.4.0, section 3.1); 0 = h [10] is none. */
static int64_t id3_bytes(const unsigned char *h)
{
    if (memcmp(h, "ID3", 3) || h[3] == 0xFF || ((h[6] | h[7] | h[8] | h[9]) & 0x80))
        return 0;
    return 10 + ((int64_t)h[6] << 21 | h[7] << 14 | h[8] << 7 | h[9]) + (h[5] & 0x10 ? 10 : 0);
}

/* True if a recording begins at p [n]. Headers that random bytes may hold are confirmed: MPEG audio
 * by two more frames. */
static bool begins(const unsigned char *p, size_t n)
{
    size_t k, k2;
    if (p[0] == 'O')
        return n >= 28 && !memcmp(p, "OggS\0", 5) && (p[5] & 0xFA) == 2;
    if (p[0] == 'f')
        return n >= 8 && !memcmp(p, "fLaC", 4) && !(p[4] & 0x7F) && !p[5] && !p[6] && p[7] == 34;
    if (p[0] == 'R')
        return n >= 12 && !memcmp(p, "RIFF", 4) && !memcmp(p + 8, "WAVE", 4);
    if (p[0] != 0xFF || n < 4 || !(k = steno_mpeg_frame_bytes(p, NULL)) || n < k + 4)
        return false;
    k2 = steno_mpeg_frame_bytes(p + k, NULL);
    return k2 && n >= k + k2 + 4 && steno_mpeg_frame_bytes(p + k + k2, NULL) &&
           (p[1] & 0xFE) == (p[k + 1] & 0xFE) && (p[1] & 0xFE) == (p[k + k2 + 1] & 0xFE);
}

/* Skip foreign bytes before the recording, if one begins within MAX_JUNK bytes. */
static steno_status skip_junk(struct steno_source *src, size_t *junk, steno_err *err)
{
    unsigned char *p = malloc(MAX_JUNK + JUNK_MARGIN);
    ssize_t n = p ? steno_source_peek(src, 0, p, MAX_JUNK + JUNK_MARGIN) : 0;
    steno_status st = !p      ? steno_fail(err, STENO_ERR_NOMEM, "audio: out of memory")
                      : n < 0 ? steno_source_error(src, errno, err)
                              : STENO_OK;
    for (size_t i = 1; !st && i < MAX_JUNK && i < (size_t)n; i++)
        if (begins(p + i, (size_t)n - i)) {
            steno_source_skip(src, (int64_t)i);
            *junk += i;
            break;
        }
    free(p);
    return st;
}

steno_status steno_audio_detect(struct steno_source *src, enum steno_audio_kind *k,
                                unsigned char *head, size_t *n, size_t *junk, steno_err *err)
{
    unsigned char first[STENO_AUDIO_HEAD];
    ssize_t got = steno_source_peek(src, 0, first, STENO_AUDIO_HEAD);
    steno_status st = STENO_OK;
    if (got < 0)
        return steno_source_error(src, errno, err);
    if (!got)
        return steno_fail(err, STENO_ERR_FORMAT, "the input is empty");
    memcpy(head, first, (size_t)got);
    *n = (size_t)got;
    while (*n >= 10 && id3_bytes(head)) {
        unsigned char next[STENO_AUDIO_HEAD];
        int64_t skip = id3_bytes(head);
        got = steno_source_peek(src, skip, next, STENO_AUDIO_HEAD);
        if (got < 0)
            return steno_source_error(src, errno, err);
        if (!got) /* a tag longer than the file: what is behind its header may be audio */
            break;
        steno_source_skip(src, skip);
        memcpy(head, next, (size_t)got);
        *n = (size_t)got;
    }
    *k = steno_audio_sniff(head, *n);
    if (*k == STENO_AUDIO_UNKNOWN &&
        (repeats(src, TS_BYTES, 0xFF, TS_SYNC) || repeats(src, GSM_BYTES, 0xF0, GSM_MARK << 4)))
        *k = STENO_AUDIO_CONTAINER;
    if (*k == STENO_AUDIO_UNKNOWN) {
        st = skip_junk(src, junk, err);
        if (st)
            return st;
        if (!*junk) {
            memcpy(head, first, STENO_AUDIO_HEAD);
            return STENO_OK;
        }
        got = steno_source_peek(src, 0, head, STENO_AUDIO_HEAD);
        *n = got > 0 ? (size_t)got : 0;
        *k = steno_audio_sniff(head, *n);
    }
    if (*k == STENO_AUDIO_SNDFILE && starts(head, *n, "OggS", 4))
        *k = sniff_ogg(src);
    return STENO_OK;
}
