#include "formats/ggml_type.h"

#include <string.h>

#include "base/little_endian.h"

#define SMALL 32  /* elements of a block with one scale */
#define LARGE 256 /* of one with eight or sixteen */

/* ---- plain numbers ------------------------------------------------------------------------- */

static void from_f32(const unsigned char *p, size_t n, float *out)
{
    memcpy(out, p, n * sizeof *out);
}

void steno_ggml_from_f16(const unsigned char *p, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        uint32_t u;
        float x;
        memcpy(&h, p + 2 * i, sizeof h);
        u = (uint32_t)(h & 0x7fffu) << 13; /* the exponent is 112 too small */
        memcpy(&x, &u, sizeof x);
        x *= 0x1p112f;
        memcpy(&u, &x, sizeof u);
        u |= (uint32_t)(h & 0x8000u) << 16 | ((h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0);
        memcpy(out + i, &u, sizeof u);
    }
}

void steno_ggml_from_bf16(const unsigned char *p, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        uint32_t u;
        memcpy(&h, p + 2 * i, sizeof h);
        u = (uint32_t)h << 16;
        memcpy(out + i, &u, sizeof u);
    }
}

static float half_at(const unsigned char *p)
{
    float x;
    steno_ggml_from_f16(p, 1, &x);
    return x;
}

/* ---- blocks of 32 -------------------------------------------------------------------------- */

/* Element j is the low nibble of byte j, j + 16 the high one; `high` has bit 4 of all. */
static void from_nibbles(const unsigned char *q, const unsigned char *high, float d, float m,
                         float *out)
{
    uint32_t bits = high ? steno_le32(high) : 0;
    for (unsigned j = 0; j < SMALL / 2; j++) {
        unsigned low = (q[j] & 15u) | (bits >> j & 1u) << 4;
        unsigned up = q[j] >> 4 | (bits >> (j + 16) & 1u) << 4;
        out[j] = d * (float)low + m;
        out[j + SMALL / 2] = d * (float)up + m;
    }
}

static void from_q4_0(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 18, out += SMALL)
        from_nibbles(p + 2, NULL, half_at(p), -8 * half_at(p), out);
}

static void from_q4_1(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 20, out += SMALL)
        from_nibbles(p + 4, NULL, half_at(p), half_at(p + 2), out);
}

static void from_q5_0(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 22, out += SMALL)
        from_nibbles(p + 6, p + 2, half_at(p), -16 * half_at(p), out);
}

static void from_q5_1(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 24, out += SMALL)
        from_nibbles(p + 8, p + 4, half_at(p), half_at(p + 2), out);
}

static void from_q8_0(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 34, out += SMALL) {
        const float d = half_at(p);
        for (int j = 0; j < SMALL; j++)
            out[j] = d * (float)(signed char)p[2 + j];
    }
}

/* ---- blocks of 256 ------------------------------------------------------------------------- */

/* Two bits of element i: those of a half of 128 are in 32 bytes, 32 elements for each pair of
 * bits. */
static unsigned pair_at(const unsigned char *q, int i)
{
    return q[32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3u;
}

/* Scale (low nibble) and minimum of 16 elements [16], pairs of bits [64], d, dmin. */
static void from_q2_k(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 84, out += LARGE) {
        const float d = half_at(p + 80), least = half_at(p + 82);
        for (int i = 0; i < LARGE; i++) {
            const float by = d * (float)(p[i / 16] & 15u), less = least * (float)(p[i / 16] >> 4);
            out[i] = by * (float)pair_at(p + 16, i) - less;
        }
    }
}

/* Scale g of sixteen, 6 bits out of 12 bytes: low nibbles in the first eight, two high bits in the
 * last four. */
static int six_bits_of_16(const unsigned char *b, int g)
{
    const unsigned low = b[g % 8] >> (g < 8 ? 0 : 4) & 15u;
    return (int)(low | (b[8 + g % 4] >> 2 * (g / 4) & 3u) << 4) - 32;
}

/* Third bits [32], pairs of bits [64], scales of 16 elements [12], d. */
static void from_q3_k(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 110, out += LARGE) {
        const float d = half_at(p + 108);
        for (int i = 0; i < LARGE; i++) {
            const int high = p[i % 32] >> (i / 32) & 1;
            const float by = d * (float)six_bits_of_16(p + 96, i / 16);
            out[i] = by * (float)((int)pair_at(p + 32, i) - (high ? 0 : 4));
        }
    }
}

/* Scale and minimum of group g of eight, 6 bits each, out of 12 bytes: the first four of both are
 * the low bits of bytes 0..7; the last four have their low nibbles in bytes 8..11 and their two
 * high bits above those of the first. */
static void six_bits(const unsigned char *b, int g, unsigned *scale, unsigned *least)
{
    if (g < 4) {
        *scale = b[g] & 63u;
        *least = b[g + 4] & 63u;
        return;
    }
    *scale = (b[g + 4] & 15u) | (unsigned)(b[g - 4] >> 6) << 4;
    *least = b[g + 4] >> 4 | (unsigned)(b[g] >> 6) << 4;
}

/* d, dmin, 12 bytes of scales, then nibbles: groups 2k and 2k + 1 are the low and high ones of 32
 * bytes. high: bit g of byte j is bit 4 of element j of group g, or NULL. */
static void from_groups(const unsigned char *p, const unsigned char *high, const unsigned char *q,
                        float *out)
{
    const float d = half_at(p), least = half_at(p + 2);
    for (int g = 0; g < 8; g++, out += 32) {
        unsigned scale, minimum;
        float by, less;
        six_bits(p + 4, g, &scale, &minimum);
        by = d * (float)scale;
        less = least * (float)minimum;
        for (int j = 0; j < 32; j++) {
            const unsigned nibble = q[32 * (g / 2) + j] >> (g % 2 ? 4 : 0) & 15u;
            const unsigned bit = high ? high[j] >> g & 1u : 0;
            out[j] = by * (float)(nibble | bit << 4) - less;
        }
    }
}

static void from_q4_k(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 144, out += LARGE)
        from_groups(p, NULL, p + 16, out);
}

static void from_q5_k(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 176, out += LARGE)
        from_groups(p, p + 16, p + 48, out);
}

/* Low nibbles [128], two high bits of each element [64], scales of 16 elements i8 [16], d. */
static void from_q6_k(const unsigned char *p, size_t n, float *out)
{
    for (; n; n--, p += 210, out += LARGE) {
        const float d = half_at(p + 208);
        for (int i = 0; i < LARGE; i++) {
            const int half = i / 128, group = i / 32 % 4, j = i % 32;
            const unsigned low = p[64 * half + 32 * (group % 2) + j] >> (group < 2 ? 0 : 4) & 15u;
            const unsigned high = p[128 + 32 * half + j] >> 2 * group & 3u;
            const float by = d * (float)(signed char)p[192 + i / 16];
            out[i] = by * (float)((int)(low | high << 4) - 32);
        }
    }
}

/* ---- the list ------------------------------------------------------------------------------ */

static const struct steno_ggml_type types[] = {
    {"f32", 0, 4, 1, from_f32},
    {"f16", 1, 2, 1, steno_ggml_from_f16},
    {"q4_0", 2, 18, SMALL, from_q4_0},
    {"q4_1", 3, 20, SMALL, from_q4_1},
    {"q5_0", 6, 22, SMALL, from_q5_0},
    {"q5_1", 7, 24, SMALL, from_q5_1},
    {"q8_0", 8, 34, SMALL, from_q8_0},
    {"q2_K", 10, 84, LARGE, from_q2_k},
    {"q3_K", 11, 110, LARGE, from_q3_k},
    {"q4_K", 12, 144, LARGE, from_q4_k},
    {"q5_K", 13, 176, LARGE, from_q5_k},
    {"q6_K", 14, 210, LARGE, from_q6_k},
    {"bf16", 30, 2, 1, steno_ggml_from_bf16},
};

const struct steno_ggml_type *steno_ggml_type(uint32_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

bool steno_ggml_bytes(const struct steno_ggml_type *t, size_t row, size_t count, size_t *bytes)
{
    return row % t->per == 0 && count % t->per == 0 && count <= SIZE_MAX / 64 &&
           steno_mul_size(count / t->per, t->bytes, bytes);
}
