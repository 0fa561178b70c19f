/* Attention to bytes by smlal: bytes become 16 bits when they are read. The four rows of a step are
 * the lanes of a column's sum, which are added at the end. */
#include "nn/kernels/arm/vec_i32_neon.h"

#include "nn/kernels/attend_i8.h"
#include "nn/kernels/tmpl/math_tmpl.h"

#include <stdbool.h>
#include <stdint.h>

enum { MOST = 4 };

struct numbers {
    int16_t n[STENO_ATTEND_SIZE];
};

static inline void put_numbers(struct numbers *to, size_t i, vi v)
{
    vst1_s16(to->n + i, vqmovn_s32(v));
}

static inline __attribute__((always_inline)) void columns_of(const uint8_t *b, size_t row,
                                                             size_t steps, const struct numbers *a,
                                                             int32_t minus, float *out, bool first,
                                                             int n)
{
    vi sum[4 * MOST];
    (void)first; /* the CPU prefetches what is read in order */
#pragma GCC unroll 16
    for (int v = 0; v < 4 * n; v++)
        sum[v] = vi_zero();
    for (size_t s = 0; s < steps; s++, b += row) {
        const int16x4_t x = vld1_s16(a->n + 4 * s);
#pragma GCC unroll 8
        for (int v = 0; v < 4 * n; v += 2) {
            const int16x8_t w = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(b + 4 * v)));
            sum[v] = vmlal_s16(sum[v], vget_low_s16(w), x);
            sum[v + 1] = vmlal_s16(sum[v + 1], vget_high_s16(w), x);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < n; v++) {
        const vi low = vpaddq_s32(sum[4 * v], sum[4 * v + 1]),
                 high = vpaddq_s32(sum[4 * v + 2], sum[4 * v + 3]);
        v_store(out + v * VL, vi_to_float(vi_add(vpaddq_s32(low, high), vi_set1(minus))));
    }
}

#include "nn/kernels/tmpl/attend_i8_tmpl.h"
