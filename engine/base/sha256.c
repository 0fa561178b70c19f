#include "base/sha256.h"

#include "base/hex.h"

#include <string.h>

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* A round (6.2.2, step 3). The caller turns the names of the eight variables instead of their
 * values: moving them took half of the time. */
static inline void mix_round(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e,
                             uint32_t f, uint32_t g, uint32_t *h, uint32_t kw)
{
    uint32_t t1 = *h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + kw;
    uint32_t t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    *d += t1;
    *h = t1 + t2;
}

static void take_block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i += 8) {
        mix_round(v[0], v[1], v[2], &v[3], v[4], v[5], v[6], &v[7], k[i] + w[i]);
        mix_round(v[7], v[0], v[1], &v[2], v[3], v[4], v[5], &v[6], k[i + 1] + w[i + 1]);
        mix_round(v[6], v[7], v[0], &v[1], v[2], v[3], v[4], &v[5], k[i + 2] + w[i + 2]);
        mix_round(v[5], v[6], v[7], &v[0], v[1], v[2], v[3], &v[4], k[i + 3] + w[i + 3]);
        mix_round(v[4], v[5], v[6], &v[7], v[0], v[1], v[2], &v[3], k[i + 4] + w[i + 4]);
        mix_round(v[3], v[4], v[5], &v[6], v[7], v[0], v[1], &v[2], k[i + 5] + w[i + 5]);
        mix_round(v[2], v[3], v[4], &v[5], v[6], v[7], v[0], &v[1], k[i + 6] + w[i + 6]);
        mix_round(v[1], v[2], v[3], &v[4], v[5], v[6], v[7], &v[0], k[i + 7] + w[i + 7]);
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void steno_sha256_begin(struct steno_sha256 *s)
{
    static const uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->h, h, sizeof h);
    s->n = 0;
}

void steno_sha256_add(struct steno_sha256 *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    size_t have = s->n % 64;
    s->n += n;
    if (have && have + n >= 64) {
        memcpy(s->block + have, p, 64 - have);
        take_block(s->h, s->block);
        p += 64 - have;
        n -= 64 - have;
        have = 0;
    }
    if (!have)
        for (; n >= 64; n -= 64, p += 64)
            take_block(s->h, p);
    if (n)
        memcpy(s->block + have, p, n);
}

void steno_sha256_end(struct steno_sha256 *s, uint8_t out[STENO_SHA256_BYTES])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = s->n * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    steno_sha256_add(s, padding, 1 + (119 - s->n % 64) % 64);
    steno_sha256_add(s, length, 8);
    for (int i = 0; i < STENO_SHA256_BYTES; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void steno_sha256_text(const uint8_t digest[STENO_SHA256_BYTES], char out[STENO_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < STENO_SHA256_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * STENO_SHA256_BYTES] = '\0';
}

bool steno_sha256_parse(const char *text, uint8_t out[STENO_SHA256_BYTES])
{
    uint8_t d[STENO_SHA256_BYTES];
    if (strlen(text) != 2 * STENO_SHA256_BYTES)
        return false;
    for (int i = 0; i < STENO_SHA256_BYTES; i++) {
        int high = steno_hex(text[2 * i]), low = steno_hex(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        d[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(out, d, sizeof d);
    return true;
}
