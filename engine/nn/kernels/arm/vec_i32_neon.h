/* Four 32-bit integers at a time: NEON. Same names as x86/vec_i32_avx2.h, which explains them. */
#ifndef STENO_NN_KERNELS_ARM_VEC_I32_NEON_H
#define STENO_NN_KERNELS_ARM_VEC_I32_NEON_H

#include "nn/kernels/arm/vec_neon.h"

#include <stdint.h>
#include <string.h>

typedef int32x4_t vi;

static inline vi vi_zero(void)
{
    return vdupq_n_s32(0);
}
static inline vi vi_set1(int32_t x)
{
    return vdupq_n_s32(x);
}
static inline vi vi_load(const void *p)
{
    return vreinterpretq_s32_u8(vld1q_u8(p));
}
static inline void vi_store(void *p, vi v)
{
    vst1q_u8(p, vreinterpretq_u8_s32(v));
}
static inline vi vi_load_m(const void *p, vm m)
{
    return vreinterpretq_s32_f32(v_load_m(p, m));
}
static inline void vi_store_m(void *p, vm m, vi v)
{
    v_store_m(p, m, vreinterpretq_f32_s32(v));
}
static inline vi vi_bytes(const void *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vreinterpretq_s32_u32(
        vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))))));
}
static inline vi vi_and(vi a, vi b)
{
    return vandq_s32(a, b);
}
static inline vi vi_shift4(vi a)
{
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), 4));
}
static inline vi vi_times256(vi a)
{
    return vshlq_n_s32(a, 8);
}
static inline vi vi_add(vi a, vi b)
{
    return vaddq_s32(a, b);
}
static inline vi vi_sub(vi a, vi b)
{
    return vsubq_s32(a, b);
}
static inline vi vi_mul(vi a, vi b)
{
    return vmulq_s32(a, b);
}
static inline vi vi_digits(vi x)
{
    return x;
}
static inline vi vi_less(vi s, vi digits, int32_t z)
{
    return vi_sub(s, vi_mul(digits, vi_set1(z)));
}
static inline vf vi_to_float(vi a)
{
    return vcvtq_f32_s32(a);
}
/* The low four bits of each as a float. */
static inline vf vi_nibbles(vi a)
{
    return vi_to_float(vi_and(a, vi_set1(15)));
}
static inline vi vi_widen(const void *p)
{
    return vreinterpretq_s32_s16(vmovl_s8(vld1_s8(p)));
}
static inline vi vi_madd(vi acc, vi a, vi b)
{
    const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    return vaddq_s32(acc,
                     vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
}
static inline int32_t vi_hsum(vi a)
{
    return vaddvq_s32(a);
}
static inline vi vi_round(vf v)
{
    return vbslq_s32(vceqq_f32(v, v), vcvtnq_s32_f32(v), vdupq_n_s32(INT32_MIN));
}
static inline void vi_store_u8x4(uint8_t *p, vi a, vi b, vi c, vi d)
{
    const int16x8_t low = vcombine_s16(vqmovn_s32(a), vqmovn_s32(b));
    const int16x8_t high = vcombine_s16(vqmovn_s32(c), vqmovn_s32(d));
    vst1q_u8(p, vcombine_u8(vqmovun_s16(low), vqmovun_s16(high)));
}
/* The same, clamped to -128 and 127. */
static inline void vi_store_i8x4(uint8_t *p, vi a, vi b, vi c, vi d)
{
    const int16x8_t low = vcombine_s16(vqmovn_s32(a), vqmovn_s32(b));
    const int16x8_t high = vcombine_s16(vqmovn_s32(c), vqmovn_s32(d));
    vst1q_u8(p, vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high))));
}
static inline vf v_ldexp_normal(vf a, vf n)
{
    const int32x4_t e = vshlq_n_s32(vcvtnq_s32_f32(n), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), e));
}
static inline vf v_fraction(vf t, vf *whole)
{
    t = v_min(v_set1(150.0f), v_max(v_set1(-126.0f), t));
    *whole = v_round(t);
    return t - *whole;
}
static inline vf v_approx_recip(vf a)
{
    return v_set1(1.0f) / a;
}
static inline void vi_store_bytes(uint8_t *p, vf v, vf from, size_t n)
{
    const uint32x4_t ordered = vceqq_f32(from, from);
    const uint32x4_t i = vandq_u32(vreinterpretq_u32_s32(vcvtnq_s32_f32(v)), ordered);
    const uint8x8_t low = vmovn_u16(vcombine_u16(vmovn_u32(i), vmovn_u32(i)));
    const uint32_t b = vget_lane_u32(vreinterpret_u32_u8(low), 0);
    memcpy(p, &b, n);
}

#endif
