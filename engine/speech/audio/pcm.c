#include "speech/audio/pcm.h"

#include "base/little_endian.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    size_t bytes;
} formats[STENO_PCM_COUNT] = {
    [STENO_PCM_U8] = {"u8", 1},       [STENO_PCM_S16LE] = {"s16le", 2},
    [STENO_PCM_S24LE] = {"s24le", 3}, [STENO_PCM_S32LE] = {"s32le", 4},
    [STENO_PCM_F32LE] = {"f32le", 4}, [STENO_PCM_F64LE] = {"f64le", 8},
    [STENO_PCM_MULAW] = {"mulaw", 1}, [STENO_PCM_ALAW] = {"alaw", 1},
};

static const struct {
    const char *name;
    enum steno_pcm_format format;
} aliases[] = {
    {"pcm16", STENO_PCM_S16LE},     {"s16", STENO_PCM_S16LE},       {"pcm_s16le", STENO_PCM_S16LE},
    {"linear16", STENO_PCM_S16LE},  {"f32", STENO_PCM_F32LE},       {"float32", STENO_PCM_F32LE},
    {"pcm_f32le", STENO_PCM_F32LE}, {"s24", STENO_PCM_S24LE},       {"s32", STENO_PCM_S32LE},
    {"linear32", STENO_PCM_S32LE},  {"f64", STENO_PCM_F64LE},       {"ulaw", STENO_PCM_MULAW},
    {"pcmu", STENO_PCM_MULAW},      {"g711_ulaw", STENO_PCM_MULAW}, {"pcm_mulaw", STENO_PCM_MULAW},
    {"pcma", STENO_PCM_ALAW},       {"g711_alaw", STENO_PCM_ALAW},  {"pcm_alaw", STENO_PCM_ALAW},
};

size_t steno_pcm_bytes(enum steno_pcm_format f)
{
    return formats[f].bytes;
}

const char *steno_pcm_name(enum steno_pcm_format f)
{
    return formats[f].name;
}

steno_status steno_pcm_parse(const char *name, enum steno_pcm_format *out, steno_err *err)
{
    size_t i;
    for (i = 0; i < STENO_PCM_COUNT; i++) {
        if (!strcasecmp(name, formats[i].name)) {
            *out = (enum steno_pcm_format)i;
            return STENO_OK;
        }
    }
    for (i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (!strcasecmp(name, aliases[i].name)) {
            *out = aliases[i].format;
            return STENO_OK;
        }
    }
    return steno_fail(
        err, STENO_ERR_UNSUPPORTED,
        "unknown audio encoding '%.32s' (known: s16le, f32le, mulaw, alaw, u8, s24le, "
        "s32le, f64le)",
        name);
}

/* ITU-T G.711, mu-law: complement, sign, 3-bit exponent, 4-bit mantissa, bias 33 (x4 for the
 * 14-bit result on a 16-bit scale: 0x84). */
static int mulaw_to_s16(unsigned char u)
{
    int v, t;
    v = ~u & 0xFF;
    t = ((v & 0x0F) << 3) + 0x84;
    t <<= (v & 0x70) >> 4;
    return v & 0x80 ? 0x84 - t : t - 0x84;
}

/* ITU-T G.711, A-law: even bits inverted; the 13-bit result on a 16-bit scale. */
static int alaw_to_s16(unsigned char a)
{
    int v = a ^ 0x55, t, seg;
    t = (v & 0x0F) << 4;
    seg = (v & 0x70) >> 4;
    if (!seg)
        t += 8;
    else
        t = (t + 0x108) << (seg - 1);
    return v & 0x80 ? t : -t;
}

static float clean(float v)
{
    /* One comparison rejects NaN and infinities. The limit keeps squares and sums finite. */
    if (!(fabsf(v) <= STENO_PCM_FLOAT_MAX))
        return isfinite(v) ? copysignf(STENO_PCM_FLOAT_MAX, v) : 0.0f;
    return v;
}

static float f32_at(const unsigned char *p)
{
    return clean(steno_le_f32(p));
}

static float f64_at(const unsigned char *p)
{
    uint64_t u = steno_le64(p);
    double v;
    memcpy(&v, &u, sizeof v);
    if (!(fabs(v) <= (double)STENO_PCM_FLOAT_MAX))
        return isfinite(v) ? copysignf(STENO_PCM_FLOAT_MAX, v > 0 ? 1.0f : -1.0f) : 0.0f;
    return (float)v;
}

void steno_pcm_decode(enum steno_pcm_format f, const void *in, size_t n, float *out)
{
    const unsigned char *p = in;
    size_t i;
    switch (f) {
    case STENO_PCM_U8:
        for (i = 0; i < n; i++)
            out[i] = (float)((int)p[i] - 128) * (1.0f / 128);
        break;
    case STENO_PCM_S16LE:
        for (i = 0; i < n; i++)
            out[i] = (float)(int16_t)steno_le16(p + 2 * i) * (1.0f / 32768);
        break;
    case STENO_PCM_S24LE: /* placed in the upper three bytes, so that the sign is right */
        for (i = 0; i < n; i++, p += 3)
            out[i] = (float)(int32_t)((uint32_t)p[0] << 8 | steno_le16(p + 1) << 16) *
                     (1.0f / 2147483648.0f);
        break;
    case STENO_PCM_S32LE:
        for (i = 0; i < n; i++)
            out[i] = (float)(int32_t)steno_le32(p + 4 * i) * (1.0f / 2147483648.0f);
        break;
    case STENO_PCM_F32LE:
        for (i = 0; i < n; i++)
            out[i] = f32_at(p + 4 * i);
        break;
    case STENO_PCM_F64LE:
        for (i = 0; i < n; i++)
            out[i] = f64_at(p + 8 * i);
        break;
    case STENO_PCM_MULAW:
        for (i = 0; i < n; i++)
            out[i] = (float)mulaw_to_s16(p[i]) * (1.0f / 32768);
        break;
    case STENO_PCM_ALAW:
        for (i = 0; i < n; i++)
            out[i] = (float)alaw_to_s16(p[i]) * (1.0f / 32768);
        break;
    case STENO_PCM_COUNT:
        break;
    }
}

void steno_pcm_clean(const float *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = clean(in[i]);
}

bool steno_pcm_is_clean(const float *in, size_t n)
{
    bool all = true;
    for (size_t i = 0; i < n; i++)
        all &= fabsf(in[i]) <= STENO_PCM_FLOAT_MAX; /* false for NaN */
    return all;
}

void steno_pcm_mix(const float *in, size_t frames, unsigned channels, unsigned channel, float *out)
{
    float inv = 1.0f / (float)channels;
    if (channels == 1) {
        if (in != out && frames) /* of no frames, either may be NULL */
            memmove(out, in, frames * sizeof *out);
        return;
    }
    for (size_t t = 0; t < frames; t++) {
        const float *x = in + t * channels;
        float sum = 0;
        if (channel) {
            out[t] = x[channel - 1];
            continue;
        }
        for (unsigned c = 0; c < channels; c++)
            sum += x[c];
        out[t] = sum * inv;
    }
}

void steno_pcm_init(struct steno_pcm *p, enum steno_pcm_format f)
{
    memset(p, 0, sizeof *p);
    p->format = f;
}

size_t steno_pcm_push(struct steno_pcm *p, const void *data, size_t n, size_t *used, float *out,
                      size_t max)
{
    const unsigned char *d = data;
    size_t size = steno_pcm_bytes(p->format), at = 0, made = 0, whole;
    if (!max) {
        *used = 0;
        return 0;
    }
    if (p->have) {
        while (p->have < size && at < n)
            p->part[p->have++] = d[at++];
        if (p->have < size) {
            *used = at;
            return 0;
        }
        steno_pcm_decode(p->format, p->part, 1, out);
        p->have = 0;
        made = 1;
    }
    whole = (n - at) / size;
    if (whole > max - made)
        whole = max - made;
    if (whole)
        steno_pcm_decode(p->format, d + at, whole, out + made);
    made += whole;
    at += whole * size;
    if (n - at < size) { /* the rest is a part of one sample: keep it even if out is full */
        while (at < n)
            p->part[p->have++] = d[at++];
    }
    *used = at;
    return made;
}
