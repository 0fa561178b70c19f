/* 16-bit floats for weights. Conversions round to nearest even and keep infinities and NaN. */
#ifndef STENO_NN_KERNELS_HALF_H
#define STENO_NN_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint16_t half_to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u); /* quiet */
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

static inline float half_from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* IEEE 754 binary16: infinity above 65504, denormal below 2^-14. */
static inline uint16_t half_to_f16(float x)
{
    uint32_t u, sign, mag;
    float f;
    memcpy(&u, &x, sizeof u);
    sign = u >> 16 & 0x8000u;
    mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (mag >= 0x477ff000u) /* rounds to 2^16 or more */
        return (uint16_t)(sign | 0x7c00u);
    if (mag >= 0x38800000u)
        return (uint16_t)(sign | ((mag - 0x38000000u + 0xfffu + (mag >> 13 & 1u)) >> 13));
    memcpy(&f, &mag, sizeof f);
    f +=
        0.5f; /* an ulp of 0.5 is 2^-24, the step of denormal halves, so the sum is rounded to it */
    memcpy(&u, &f, sizeof u);
    return (uint16_t)(sign | (u - 0x3f000000u));
}

static inline float half_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 0x3ffu, u;
    float x;
    if (e == 0) {
        x = (float)m * 5.9604645e-8f; /* 2^-24: exact */
        return sign ? -x : x;
    }
    u = sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | m << 13;
    memcpy(&x, &u, sizeof x);
    return x;
}

#endif
