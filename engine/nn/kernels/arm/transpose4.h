/* Transpose in blocks of 4 x 4 floats. Same name as in x86/transpose8.h. */
#ifndef STENO_NN_KERNELS_ARM_TRANSPOSE4_H
#define STENO_NN_KERNELS_ARM_TRANSPOSE4_H

#include "nn/kernels/arm/vec_neon.h"

/* A block of rows x cols, 1..4 each. Reads and writes nothing else. */
static inline void transpose4(float *dst, size_t ldd, const float *src, size_t lds, size_t rows,
                              size_t cols)
{
    const vm in = v_tail(cols), out = v_tail(rows);
    vf r[4], t[4];
    for (size_t i = 0; i < 4; i++)
        r[i] = i < rows ? v_load_m(src + i * lds, in) : v_zero();
    t[0] = vtrn1q_f32(r[0], r[1]);
    t[1] = vtrn2q_f32(r[0], r[1]);
    t[2] = vtrn1q_f32(r[2], r[3]);
    t[3] = vtrn2q_f32(r[2], r[3]);
    r[0] = vcombine_f32(vget_low_f32(t[0]), vget_low_f32(t[2]));
    r[1] = vcombine_f32(vget_low_f32(t[1]), vget_low_f32(t[3]));
    r[2] = vcombine_f32(vget_high_f32(t[0]), vget_high_f32(t[2]));
    r[3] = vcombine_f32(vget_high_f32(t[1]), vget_high_f32(t[3]));
    for (size_t i = 0; i < cols; i++)
        v_store_m(dst + i * ldd, out, r[i]);
}

/* dst [cols][ldd] = transpose of src [rows][lds]. */
static inline void transpose_blocks(float *dst, size_t ldd, const float *src, size_t lds,
                                    size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r += 4)
        for (size_t c = 0; c < cols; c += 4)
            transpose4(dst + c * ldd + r, ldd, src + r * lds + c, lds, rows - r < 4 ? rows - r : 4,
                       cols - c < 4 ? cols - c : 4);
}

#endif
