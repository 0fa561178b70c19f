/* Transpose of 8x8 blocks of floats, AVX2. Both levels use it: wider blocks gain nothing, because
 * the eight cache lines that are written are the limit. */
#ifndef STENO_NN_KERNELS_X86_TRANSPOSE8_H
#define STENO_NN_KERNELS_X86_TRANSPOSE8_H

#include <immintrin.h>
#include <stddef.h>

/* Interleave pairs, then quadruples, then halves. */
static inline void transpose8_registers(__m256 r[8])
{
    __m256 t[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x20);
        t[4 + i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x31);
    }
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}

static inline void transpose8(float *dst, size_t ldd, const float *src, size_t lds)
{
    __m256 r[8];
    for (size_t i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(src + i * lds);
    transpose8_registers(r);
    for (size_t i = 0; i < 8; i++)
        _mm256_storeu_ps(dst + i * ldd, r[i]);
}

/* Store the first n of 8 floats. AVX2's masked store takes some twenty operations on Zen 4, that of
 * AVX-512 two. */
#ifdef __AVX512VL__
typedef __mmask8 transpose8_mask;
#define TRANSPOSE8_MASK(n) ((__mmask8)((1u << (n)) - 1))
#define TRANSPOSE8_LOAD(p, m) _mm256_maskz_loadu_ps(m, p)
#define TRANSPOSE8_STORE(p, m, v) _mm256_mask_storeu_ps(p, m, v)
#else
typedef __m256i transpose8_mask;
#define TRANSPOSE8_MASK(n)                                                                         \
    _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define TRANSPOSE8_LOAD(p, m) _mm256_maskload_ps(p, m)
#define TRANSPOSE8_STORE(p, m, v) _mm256_maskstore_ps(p, m, v)
#endif

/* A block of rows x cols, 1..8 each. Reads and writes nothing else. */
static inline void transpose8_edge(float *dst, size_t ldd, const float *src, size_t lds,
                                   size_t rows, size_t cols)
{
    __m256 r[8];
    const transpose8_mask in = TRANSPOSE8_MASK(cols), out = TRANSPOSE8_MASK(rows);
    for (size_t i = 0; i < 8; i++)
        r[i] = i < rows ? TRANSPOSE8_LOAD(src + i * lds, in) : _mm256_setzero_ps();
    transpose8_registers(r);
    for (size_t i = 0; i < cols; i++)
        TRANSPOSE8_STORE(dst + i * ldd, out, r[i]);
}

/* dst [cols][ldd] = transpose of src [rows][lds]. */
static inline void transpose_blocks(float *dst, size_t ldd, const float *src, size_t lds,
                                    size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r += 8) {
        size_t h = rows - r < 8 ? rows - r : 8, c = 0;
        for (; h == 8 && c + 8 <= cols; c += 8)
            transpose8(dst + c * ldd + r, ldd, src + r * lds + c, lds);
        for (; c < cols; c += 8)
            transpose8_edge(dst + c * ldd + r, ldd, src + r * lds + c, lds, h,
                            cols - c < 8 ? cols - c : 8);
    }
}

#endif
