#include "speech/audio/mpeg.h"

#include <mpg123.h>
#include <stdlib.h>
#include <string.h>

struct steno_mpeg {
    mpg123_handle *mh;
    struct steno_mpeg_info info;
};

static unsigned be32(const unsigned char *p)
{
    return (unsigned)p[0] << 24 | (unsigned)p[1] << 16 | (unsigned)p[2] << 8 | p[3];
}

size_t steno_mpeg_frame_bytes(const unsigned char *h, unsigned *samples)
{
    /* kbit/s by table and index: MPEG-1 layers I, II, III; MPEG-2 layer I; MPEG-2 layers II, III */
    static const unsigned short rates[5][15] = {
        {0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
        {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
        {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
        {0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
        {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}};
    static const unsigned hz[3] = {44100, 48000, 32000};
    unsigned version = h[1] >> 3 & 3, layer = 4 - (h[1] >> 1 & 3), index = h[2] >> 4;
    unsigned rate_index = h[2] >> 2 & 3, pad = h[2] >> 1 & 1, rate, kbit, n;
    if (h[0] != 0xFF || (h[1] & 0xE0) != 0xE0 || version == 1 || layer == 4 || index == 15 ||
        !index || rate_index == 3)
        return 0;
    rate = hz[rate_index] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    kbit = rates[version == 3 ? layer - 1 : layer == 1 ? 3 : 4][index];
    n = layer == 1 ? 384 : layer == 3 && version != 3 ? 576 : 1152;
    if (samples)
        *samples = n;
    return layer == 1 ? (12000 * kbit / rate + pad) * 4 : n / 8 * 1000 * kbit / rate + pad;
}

steno_status steno_mpeg_open(steno_mpeg **out, steno_err *err)
{
    steno_mpeg *m = calloc(1, sizeof *m);
    if (m) {
        (void)mpg123_init(); /* does nothing since 1.27 */
        m->mh = mpg123_new(NULL, NULL);
        m->info.stated = -1;
    }
    if (!m || !m->mh ||
        mpg123_param(m->mh, MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_SKIP_ID3V2 | MPG123_GAPLESS,
                     0) ||
        mpg123_param(m->mh, MPG123_RESYNC_LIMIT, -1, 0) || mpg123_format_none(m->mh) ||
        mpg123_format2(m->mh, 0, MPG123_MONO | MPG123_STEREO, MPG123_ENC_FLOAT_32) ||
        mpg123_open_feed(m->mh)) {
        steno_mpeg_close(m);
        return steno_fail(err, STENO_ERR_NOMEM, "MPEG audio: the decoder cannot be opened");
    }
    *out = m;
    return STENO_OK;
}

void steno_mpeg_close(steno_mpeg *m)
{
    if (!m)
        return;
    if (m->mh)
        mpg123_delete(m->mh);
    free(m);
}

/* Xing and Info stand behind the side information, VBRI 32 bytes behind the header. LAME's delay
 * and padding, 12 bits each, stand 141 bytes behind the start of Xing. */
void steno_mpeg_read_length(steno_mpeg *m, const unsigned char *head, size_t n)
{
    unsigned samples = 0, frames = 0, trim = 0;
    size_t at, bytes = n >= 4 ? steno_mpeg_frame_bytes(head, &samples) : 0;
    bool mono, v1;
    if (!bytes || n < bytes)
        return;
    mono = head[3] >> 6 == 3;
    v1 = (head[1] >> 3 & 3) == 3;
    at = 4 + (v1 ? (mono ? 17u : 32u) : (mono ? 9u : 17u));
    if (at + 12 <= bytes && (!memcmp(head + at, "Xing", 4) || !memcmp(head + at, "Info", 4)) &&
        (head[at + 7] & 1)) {
        frames = be32(head + at + 8);
        if (at + 144 <= bytes)
            trim = (unsigned)(head[at + 141] << 4 | head[at + 142] >> 4) +
                   (unsigned)((head[at + 142] & 15) << 8 | head[at + 143]);
    } else if (36 + 18 <= bytes && !memcmp(head + 36, "VBRI", 4)) {
        frames = be32(head + 36 + 14);
    }
    if (!frames)
        return;
    m->info.stated = (int64_t)frames * samples - trim;
    if (m->info.stated < 0)
        m->info.stated = -1;
}

steno_status steno_mpeg_feed(steno_mpeg *m, const void *data, size_t n, steno_err *err)
{
    if (mpg123_feed(m->mh, data, n))
        return steno_fail(err, STENO_ERR_NOMEM, "MPEG audio: %s", mpg123_strerror(m->mh));
    return STENO_OK;
}

static void take_format(steno_mpeg *m)
{
    long rate = 0;
    int channels = 0, encoding = 0;
    if (mpg123_getformat(m->mh, &rate, &channels, &encoding))
        return;
    m->info.sample_rate = (int)rate;
    m->info.channels = (unsigned)channels;
}

steno_status steno_mpeg_read(steno_mpeg *m, const float **out, size_t *frames, steno_err *err)
{
    unsigned char *audio = NULL;
    size_t bytes = 0;
    off_t num = 0;
    for (;;) {
        int got = mpg123_decode_frame(m->mh, &num, &audio, &bytes);
        if (got == MPG123_NEW_FORMAT) {
            take_format(m);
            continue;
        }
        if (got == MPG123_NEED_MORE || got == MPG123_DONE)
            return STENO_NEED_MORE;
        if (got != MPG123_OK)
            return steno_fail(err, STENO_ERR_FORMAT, "MPEG audio: %s", mpg123_strerror(m->mh));
        if (bytes && m->info.channels) {
            *out = (const float *)(const void *)audio;
            *frames = bytes / sizeof(float) / m->info.channels;
            m->info.samples += (int64_t)*frames;
            return STENO_OK;
        }
    }
}

void steno_mpeg_get_info(const steno_mpeg *m, struct steno_mpeg_info *info)
{
    *info = m->info;
}
