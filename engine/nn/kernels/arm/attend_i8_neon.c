/* Attention to bytes by smlal: bytes become 16 bits when they are read. The four rows of a step are
 * the lanes of a column's sum, which are added at the end. */
#include "nn/kernels/arm/vec_neon.h"

#include "nn/kernels/attend_i8.h"
#include "nn/kernels/tmpl/math_tmpl.h"

#include <stdbool.h>
#include <stdint.h>

static const float exponent_unit = 1;

enum { WEIGHTS = V_MANY };

static inline __attribute__((always_inline)) void weights_each(vf *x, int n)
{
    v_exp_each(x, n);
}

struct factor {
    int16_t n[STENO_ATTEND_SIZE];
    int32x4_t sum; /* in parts */
};

static inline void factor_put(struct factor *f, size_t i, vf x)
{
    const int32x4_t n = vcvtnq_s32_f32(x);
    vst1_s16(f->n + i, vqmovn_s32(n));
    f->sum = i ? vaddq_s32(f->sum, n) : n;
}

static void put_u8(uint8_t *to, vf x)
{
    uint8_t all[8];
    const int16x4_t i = vqmovn_s32(vcvtnq_s32_f32(x));
    vst1_u8(all, vqmovun_s16(vcombine_s16(i, i)));
    to[0] = all[0];
    to[1] = all[1];
    to[2] = all[2];
    to[3] = all[3];
}

static void product(const uint8_t *b, size_t steps, size_t columns, const struct factor *f,
                    float *out, bool first)
{
    enum { N = 16 };
    const int32x4_t minus = vdupq_n_s32(attend_i8_minus(vaddvq_s32(f->sum)));
    (void)first; /* the CPU prefetches what is read in order */
    for (size_t c = 0; c < columns; c += N) {
        const uint8_t *p = b + 4 * c;
        int32x4_t sum[N];
#pragma GCC unroll 16
        for (int v = 0; v < N; v++)
            sum[v] = vdupq_n_s32(0);
        for (size_t s = 0; s < steps; s++, p += 4 * columns) {
            const int16x4_t x = vld1_s16(f->n + 4 * s);
#pragma GCC unroll 8
            for (int v = 0; v < N; v += 2) {
                const int16x8_t w = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p + 4 * v)));
                sum[v] = vmlal_s16(sum[v], vget_low_s16(w), x);
                sum[v + 1] = vmlal_s16(sum[v + 1], vget_high_s16(w), x);
            }
        }
#pragma GCC unroll 4
        for (int v = 0; v < N; v += 4)
            v_store(out + c + v,
                    vcvtq_f32_s32(vaddq_s32(vpaddq_s32(vpaddq_s32(sum[v], sum[v + 1]),
                                                       vpaddq_s32(sum[v + 2], sum[v + 3])),
                                            minus)));
    }
}

#include "nn/kernels/tmpl/attend_i8_tmpl.h"
