/* Four floats at a time: NEON (AArch64). Same names as x86/vec_avx2.h, which explains them, so that
 * the templates in tmpl/ are written once. */
#ifndef STENO_NN_KERNELS_ARM_VEC_NEON_H
#define STENO_NN_KERNELS_ARM_VEC_NEON_H

#include <arm_neon.h>
#include <stddef.h>

#define ISA neon
#define VL 4
#define V_REGISTER "w" /* asm constraint */

/* Heights of the register tile of a product (tmpl/tiles_tmpl.h): 8 x 2 sums. */
#define V_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)

typedef float32x4_t vf;
typedef uint32x4_t vm; /* lane mask: all ones or zero per lane */

static inline vf v_set1(float x)
{
    return vdupq_n_f32(x);
}
static inline vf v_zero(void)
{
    return vdupq_n_f32(0);
}
static inline vf v_load(const float *p)
{
    return vld1q_f32(p);
}
static inline void v_store(float *p, vf v)
{
    vst1q_f32(p, v);
}
static inline vm v_tail(size_t n)
{
    static const uint32_t lane[4] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(lane), vdupq_n_u32((uint32_t)n));
}
/* Memory of lanes outside the mask is not accessed. */
static inline vf v_load_m(const float *p, vm m)
{
    vf v = vdupq_n_f32(0);
    if (vminvq_u32(m))
        return vld1q_f32(p);
    v = vgetq_lane_u32(m, 0) ? vld1q_lane_f32(p, v, 0) : v;
    v = vgetq_lane_u32(m, 1) ? vld1q_lane_f32(p + 1, v, 1) : v;
    v = vgetq_lane_u32(m, 2) ? vld1q_lane_f32(p + 2, v, 2) : v;
    return vgetq_lane_u32(m, 3) ? vld1q_lane_f32(p + 3, v, 3) : v;
}
static inline void v_store_m(float *p, vm m, vf v)
{
    if (vminvq_u32(m)) {
        vst1q_f32(p, v);
        return;
    }
    if (vgetq_lane_u32(m, 0))
        vst1q_lane_f32(p, v, 0);
    if (vgetq_lane_u32(m, 1))
        vst1q_lane_f32(p + 1, v, 1);
    if (vgetq_lane_u32(m, 2))
        vst1q_lane_f32(p + 2, v, 2);
    if (vgetq_lane_u32(m, 3))
        vst1q_lane_f32(p + 3, v, 3);
}
static inline vf v_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}
static inline vf v_fnma(vf a, vf b, vf c)
{
    return vfmsq_f32(c, a, b);
}
/* Returns b where either is NaN, as the templates expect from x86. */
static inline vf v_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
static inline vf v_min(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
static inline vf v_sqrt(vf a)
{
    return vsqrtq_f32(a);
}
static inline vf v_round(vf a)
{
    return vrndnq_f32(a);
}
static inline vf v_select(vm m, vf a, vf b)
{
    return vbslq_f32(m, a, b);
}
static inline vm v_lt(vf a, vf b)
{
    return vcltq_f32(a, b);
}
static inline vm v_is_nan(vf a)
{
    return vmvnq_u32(vceqq_f32(a, a));
}
static inline vf v_abs(vf a)
{
    return vabsq_f32(a);
}
static inline vf v_neg(vf a)
{
    return vnegq_f32(a);
}
static inline vf v_copysign(vf a, vf s)
{
    return vbslq_f32(vdupq_n_u32(0x80000000u), s, a);
}
static inline vf v_ldexp_1p(vf a, vf n)
{
    const int32x4_t e = vcvtnq_s32_f32(n), e1 = vshrq_n_s32(e, 1), e2 = vsubq_s32(e, e1);
    const int32x4_t bias = vdupq_n_s32(127);
    const vf f1 = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(e1, bias), 23));
    const vf f2 = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(e2, bias), 23));
    return v_fma(a, f1, f1) * f2;
}
static inline vf v_frexp(vf a, vf *e)
{
    const vm tiny = v_lt(a, v_set1(1.17549435e-38f));
    uint32x4_t bits;
    a = v_select(tiny, a * v_set1(8388608.0f), a);
    bits = vreinterpretq_u32_f32(a);
    *e = vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(vshrq_n_u32(bits, 23)), vdupq_n_s32(126))) -
         v_select(tiny, v_set1(23.0f), v_zero());
    bits = vandq_u32(bits, vdupq_n_u32(0x007fffff));
    return vreinterpretq_f32_u32(vorrq_u32(bits, vdupq_n_u32(0x3f000000)));
}
static inline vf v_even(vf a, vf b)
{
    return vuzp1q_f32(a, b);
}
/* a[1], a[3], ... b[1], b[3], ... */
static inline vf v_odd(vf a, vf b)
{
    return vuzp2q_f32(a, b);
}
static inline float v_hsum(vf a)
{
    return vaddvq_f32(a);
}
static inline float v_hmax(vf a)
{
    return vmaxvq_f32(a);
}
static inline int v_any(vm m)
{
    return vmaxvq_u32(m) != 0;
}

#include "nn/kernels/arm/transpose4.h" /* transpose_blocks, for these vectors */

#endif
