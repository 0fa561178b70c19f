/* A state machine over (id, size) chunks. Every state says how many bytes it needs in `head`, and
 * the bytes are collected there, so the cut of the input does not matter. Only the samples of the
 * data chunk are not collected: they go directly from the input to the output. */
#include "speech/audio/wav.h"

#include "base/little_endian.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_PCM = 1, TAG_FLOAT = 3, TAG_ALAW = 6, TAG_MULAW = 7, TAG_EXTENSIBLE = 0xFFFE };

enum state {
    RIFF,  /* 12 bytes: RIFF size WAVE */
    CHUNK, /* 8 bytes: id, size */
    DS64,  /* 28 bytes of the ds64 chunk */
    FMT,   /* up to 40 bytes of the fmt chunk */
    SKIP,  /* skip `skip` bytes, then CHUNK */
    DATA,
    PROBE, /* 8 bytes after a data chunk of length 0: another chunk, or samples? */
    HELD,  /* samples: those 8 bytes come first */
    DONE,  /* the bytes after the data */
    FAILED
};

#define FMT_MAX 40 /* WAVEFORMATEXTENSIBLE */
#define DS64_BYTES 28

struct steno_wav {
    enum state state;
    unsigned char head[FMT_MAX];
    unsigned have, want;
    uint64_t offset;    /* bytes taken so far */
    uint64_t skip;      /* SKIP: bytes left, including the pad byte */
    uint64_t riff_size; /* as in the header; ds64's for RF64 */
    uint64_t ds64_data; /* data size from ds64 */
    bool rf64, have_ds64, have_fmt;
    uint64_t chunk_rest; /* FMT, DS64: bytes of the chunk after the collected ones */
    bool data_unknown;
    uint64_t data_left; /* bytes of the data chunk left, if known */
    unsigned align;     /* bytes per frame */
    struct steno_pcm pcm;
    unsigned in_frame; /* samples of an unfinished frame, held in frame[] */
    float frame[STENO_CHANNELS_MAX];
    struct steno_wav_info info;
    steno_err error;
};

steno_wav *steno_wav_new(void)
{
    steno_wav *w = calloc(1, sizeof *w);
    if (w) {
        w->state = RIFF;
        w->want = 12;
    }
    return w;
}

void steno_wav_free(steno_wav *w)
{
    free(w);
}

static void collect_next(steno_wav *w, enum state s, unsigned want)
{
    w->state = s;
    w->want = want;
    w->have = 0;
}

static void skip_then_chunk(steno_wav *w, uint64_t n)
{
    w->skip = n;
    if (n)
        w->state = SKIP;
    else
        collect_next(w, CHUNK, 8);
}

steno_wav *steno_wav_new_raw(enum steno_pcm_format format, int sample_rate, unsigned channels)
{
    steno_wav *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->state = DATA;
    w->data_unknown = true;
    w->info = (struct steno_wav_info){
        .sample_rate = sample_rate, .channels = channels, .format = format, .frames = -1};
    steno_pcm_init(&w->pcm, format);
    return w;
}

static steno_status on_riff(steno_wav *w)
{
    const unsigned char *h = w->head;
    w->rf64 = !memcmp(h, "RF64", 4) || !memcmp(h, "BW64", 4);
    if (!w->rf64 && memcmp(h, "RIFF", 4))
        return steno_fail(&w->error, STENO_ERR_FORMAT,
                          "WAV: the first four bytes are %02x %02x %02x %02x, not 'RIFF'", h[0],
                          h[1], h[2], h[3]);
    if (memcmp(h + 8, "WAVE", 4))
        return steno_fail(&w->error, STENO_ERR_FORMAT,
                          "WAV: bytes 8 to 11 are %02x %02x %02x %02x, not 'WAVE'", h[8], h[9],
                          h[10], h[11]);
    w->riff_size = steno_le32(h + 4);
    collect_next(w, CHUNK, 8);
    return STENO_OK;
}

/* Microsoft's GUIDs for WAVEFORMATEXTENSIBLE: the format tag, then this tail. */
static bool is_ks_guid(const unsigned char *guid)
{
    static const unsigned char tail[14] = {0, 0, 0,    0, 0x10, 0,    0x80,
                                           0, 0, 0xAA, 0, 0x38, 0x9B, 0x71};
    /* B-format of Ambisonics (ambisonic.net, "amb" files) */
    static const unsigned char ambisonic[14] = {0,    0,    0x21, 0x07, 0xD3, 0x11, 0x86,
                                                0x44, 0xC8, 0xC1, 0xCA, 0,    0,    0};
    return !memcmp(guid + 2, tail, sizeof tail) || !memcmp(guid + 2, ambisonic, sizeof ambisonic);
}

static steno_status sample_format(steno_wav *w, unsigned tag, unsigned bits,
                                  enum steno_pcm_format *f)
{
    static const struct {
        unsigned tag, bits;
        enum steno_pcm_format format;
    } known[] = {
        {TAG_PCM, 8, STENO_PCM_U8},       {TAG_PCM, 16, STENO_PCM_S16LE},
        {TAG_PCM, 24, STENO_PCM_S24LE},   {TAG_PCM, 32, STENO_PCM_S32LE},
        {TAG_FLOAT, 32, STENO_PCM_F32LE}, {TAG_FLOAT, 64, STENO_PCM_F64LE},
        {TAG_ALAW, 8, STENO_PCM_ALAW},    {TAG_MULAW, 8, STENO_PCM_MULAW},
    };
    bool tag_known = false;
    if (tag == TAG_PCM) /* 12 or 20 bits stand at the top of whole bytes; the rest is zero */
        bits = (bits + 7) / 8 * 8;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        tag_known |= known[i].tag == tag;
        if (known[i].tag == tag && known[i].bits == bits) {
            *f = known[i].format;
            return STENO_OK;
        }
    }
    if (tag_known)
        return steno_fail(&w->error, STENO_ERR_UNSUPPORTED,
                          "WAV: format tag %u with %u bits per sample", tag, bits);
    return steno_fail(&w->error, STENO_ERR_UNSUPPORTED,
                      "WAV: format tag 0x%04x is not PCM (1), float (3), A-law (6) or mu-law (7)",
                      tag);
}

static steno_status check_fmt(steno_wav *w, uint32_t rate, unsigned channels, unsigned align)
{
    unsigned bytes = (unsigned)steno_pcm_bytes(w->info.format);
    if (channels < 1 || channels > STENO_CHANNELS_MAX)
        return steno_fail(&w->error, STENO_ERR_FORMAT, "WAV: %u channels (1 to %d are possible)",
                          channels, STENO_CHANNELS_MAX);
    if (rate < STENO_RATE_MIN || rate > STENO_RATE_MAX)
        return steno_fail(&w->error, STENO_ERR_UNSUPPORTED,
                          "WAV: sample rate %" PRIu32 " Hz is outside %d to %d", rate,
                          STENO_RATE_MIN, STENO_RATE_MAX);
    if (align && align != channels * bytes)
        return steno_fail(&w->error, STENO_ERR_FORMAT,
                          "WAV: block align %u, but %u channels of %s make %u bytes", align,
                          channels, steno_pcm_name(w->info.format), channels * bytes);
    return STENO_OK;
}

static steno_status on_fmt(steno_wav *w)
{
    const unsigned char *h = w->head;
    unsigned tag = steno_le16(h), channels = steno_le16(h + 2), align = steno_le16(h + 12),
             bits = steno_le16(h + 14);
    steno_status st;
    if (tag == TAG_EXTENSIBLE) {
        if (w->have < FMT_MAX)
            return steno_fail(&w->error, STENO_ERR_FORMAT,
                              "WAV: extensible fmt chunk has %u bytes, expected at least %d",
                              w->have, FMT_MAX);
        if (!is_ks_guid(h + 24))
            return steno_fail(&w->error, STENO_ERR_UNSUPPORTED,
                              "WAV: extensible sub-format is not one of Microsoft's (tag 0x%04x)",
                              (unsigned)steno_le16(h + 24));
        tag = steno_le16(h + 24);
    }
    st = sample_format(w, tag, bits, &w->info.format);
    if (!st)
        st = check_fmt(w, steno_le32(h + 4), channels, align);
    if (st)
        return st;
    w->info.channels = channels;
    w->info.sample_rate = (int)steno_le32(h + 4);
    w->align = channels * (unsigned)steno_pcm_bytes(w->info.format);
    w->have_fmt = true;
    skip_then_chunk(w, w->chunk_rest);
    return STENO_OK;
}

static void on_ds64(steno_wav *w)
{
    w->riff_size = steno_le64(w->head);
    w->ds64_data = steno_le64(w->head + 8);
    w->have_ds64 = true;
    skip_then_chunk(w, w->chunk_rest);
}

/* Lengths that writers to a pipe use: all ones, or that less the length of a header (ffmpeg,
 * GStreamer); about 2 GiB (sox 0x7FFFF000, arecord 0x80000000). */
static bool placeholder(uint64_t size)
{
    return (size >= 0xFFFFFF00u && size <= 0xFFFFFFFFu) ||
           (size >= 0x7FFFF000u && size <= 0x80000100u);
}

/* True if the data length in the header is a placeholder; see wav.h. */
static bool length_unknown(const steno_wav *w, uint32_t size)
{
    if (w->have_ds64 && size == 0xFFFFFFFFu)
        return w->ds64_data == UINT64_MAX || !w->ds64_data;
    if (size)
        return placeholder(size);
    /* so far offset - 8 bytes belong to the RIFF chunk: does its size exceed them? */
    return w->riff_size <= w->offset - 8 || placeholder(w->riff_size);
}

static steno_status on_data(steno_wav *w, uint32_t size)
{
    if (!w->have_fmt)
        return steno_fail(&w->error, STENO_ERR_FORMAT,
                          "WAV: the data chunk at byte %" PRIu64 " comes before any fmt chunk",
                          w->offset - 8);
    w->data_unknown = length_unknown(w, size);
    w->data_left = w->have_ds64 && size == 0xFFFFFFFFu ? w->ds64_data : size;
    w->info.frames = w->data_unknown                       ? -1
                     : w->data_left / w->align > INT64_MAX ? INT64_MAX
                                                           : (int64_t)(w->data_left / w->align);
    w->info.data_offset = w->offset;
    steno_pcm_init(&w->pcm, w->info.format);
    if (w->data_unknown || w->data_left)
        w->state = DATA;
    else
        collect_next(w, PROBE, 8);
    return STENO_OK;
}

/* The data chunk has length 0, but the RIFF size has room for more. Either another chunk follows an
 * empty data chunk, or the recorder did not go back to write the length. A chunk has a printable id
 * and ends within the RIFF size; random bytes match that in 1 of 10^5 files of 2 MB. */
static void on_probe(steno_wav *w)
{
    bool chunk = w->offset + steno_le32(w->head + 4) <= w->riff_size + 8;
    for (int i = 0; i < 4; i++)
        chunk = chunk && w->head[i] >= 0x20 && w->head[i] < 0x7F;
    if (chunk) {
        w->state = DONE;
        return;
    }
    w->state = HELD;
    w->offset -= 8; /* they are counted when they are taken as samples */
    w->data_unknown = true;
    w->info.frames = -1;
}

/* A chunk header is complete: its id decides the next state. */
static steno_status on_chunk(steno_wav *w)
{
    uint32_t size = steno_le32(w->head + 4);
    uint64_t padded = (uint64_t)size + (size & 1);
    if (!memcmp(w->head, "data", 4))
        return on_data(w, size);
    if (!memcmp(w->head, "fmt ", 4) && !w->have_fmt) {
        if (size < 16)
            return steno_fail(&w->error, STENO_ERR_FORMAT,
                              "WAV: fmt chunk at byte %" PRIu64 " has %" PRIu32
                              " bytes, expected at least 16",
                              w->offset - 8, size);
        collect_next(w, FMT, size < FMT_MAX ? size : FMT_MAX);
        w->chunk_rest = padded - w->want;
        return STENO_OK;
    }
    if (!memcmp(w->head, "ds64", 4) && w->rf64 && size >= DS64_BYTES) {
        collect_next(w, DS64, DS64_BYTES);
        w->chunk_rest = padded - w->want;
        return STENO_OK;
    }
    if (size > 0x7FFFFFFFu)
        return steno_fail(&w->error, STENO_ERR_FORMAT,
                          "WAV: the chunk at byte %" PRIu64 " (id %02x %02x %02x %02x) claims "
                          "%" PRIu32 " bytes, before any audio data",
                          w->offset - 8, w->head[0], w->head[1], w->head[2], w->head[3], size);
    skip_then_chunk(w, padded);
    return STENO_OK;
}

/* Collect header bytes, and act when the state has all it needs. Returns the number of bytes
 * taken. */
static size_t take_header(steno_wav *w, const unsigned char *p, size_t n, steno_status *st)
{
    size_t k = w->want - w->have < n ? w->want - w->have : n;
    memcpy(w->head + w->have, p, k);
    w->have += (unsigned)k;
    w->offset += k;
    if (w->have < w->want)
        return k;
    switch (w->state) {
    case RIFF:
        *st = on_riff(w);
        break;
    case CHUNK:
        *st = on_chunk(w);
        break;
    case FMT:
        *st = on_fmt(w);
        break;
    case PROBE:
        on_probe(w);
        break;
    default:
        on_ds64(w);
        break;
    }
    if (*st)
        w->state = FAILED;
    return k;
}

/* Decode samples of the data chunk to whole frames. An unfinished frame waits in w->frame. */
static size_t take_data(steno_wav *w, const unsigned char *p, size_t n, float *out, size_t max,
                        size_t *frames)
{
    unsigned ch = w->info.channels;
    size_t used, made, room = max / ch * ch;
    if (!w->data_unknown && n > w->data_left)
        n = (size_t)w->data_left;
    memcpy(out, w->frame, w->in_frame * sizeof *out);
    made = w->in_frame;
    made += steno_pcm_push(&w->pcm, p, n, &used, out + made, room - made);
    *frames = made / ch;
    w->in_frame = (unsigned)(made - *frames * ch);
    memcpy(w->frame, out + *frames * ch, w->in_frame * sizeof *out);
    w->offset += used;
    if (!w->data_unknown) {
        w->data_left -= used;
        if (!w->data_left)
            w->state = DONE;
    }
    return used;
}

static void give_held(steno_wav *w, float *out, size_t max, size_t *frames)
{
    (void)take_data(w, w->head, 8, out, max, frames); /* max >= STENO_CHANNELS_MAX: all fit */
    w->state = DATA;
}

static steno_status fail_again(const steno_wav *w, steno_err *err)
{
    if (err)
        *err = w->error;
    return w->error.code;
}

steno_status steno_wav_push(steno_wav *w, const void *data, size_t n, size_t *used, float *out,
                            size_t max, size_t *frames, steno_err *err)
{
    const unsigned char *p = data;
    size_t at = 0, got = 0, k;
    steno_status st = STENO_OK;
    if (max && max < STENO_CHANNELS_MAX)
        return steno_fail(err, STENO_ERR_INVAL, "WAV: room for %zu samples, at least %d needed",
                          max, STENO_CHANNELS_MAX);
    while ((at < n || w->state == HELD) && !got && w->state != FAILED &&
           (max || !steno_wav_info(w))) {
        if (w->state == HELD) {
            give_held(w, out, max, &got);
        } else if (w->state == DATA) {
            at += take_data(w, p + at, n - at, out, max, &got);
        } else if (w->state == DONE) {
            w->offset += n - at;
            at = n;
        } else if (w->state == SKIP) {
            k = n - at < w->skip ? n - at : (size_t)w->skip;
            at += k;
            w->offset += k;
            skip_then_chunk(w, w->skip - k);
        } else {
            at += take_header(w, p + at, n - at, &st);
        }
    }
    if (w->state == FAILED)
        return fail_again(w, err);
    *used = at;
    *frames = got;
    return got || (!max && steno_wav_info(w)) ? STENO_OK : STENO_NEED_MORE;
}

const struct steno_wav_info *steno_wav_info(const steno_wav *w)
{
    return w->state >= DATA && w->state != FAILED ? &w->info : NULL;
}

steno_status steno_wav_end(const steno_wav *w, bool *truncated, steno_err *err)
{
    if (w->state == FAILED)
        return fail_again(w, err);
    if (!w->offset)
        return steno_fail(err, STENO_ERR_FORMAT, "the input is empty");
    if (!steno_wav_info(w))
        return steno_fail(err, STENO_ERR_FORMAT,
                          "WAV: cut off after %" PRIu64 " bytes, before any audio data", w->offset);
    *truncated = (w->state == DATA && !w->data_unknown) || (w->state == PROBE && w->have) ||
                 w->pcm.have || w->in_frame;
    return STENO_OK;
}
