/* The product with bf16 weights and f32 sums, on CPUs that multiply bf16. A is rounded to bf16, to
 * nearest even, when it is copied. Denormals count as zero on both sides. Included after
 * vec_avx512.h by
 *   gemm_bf16.c       vdpbf16ps: adds two products to each of 16 sums
 *   gemm_bf16_amx.c   AMX tiles, with AMX_DOT defined
 *
 * Packed B: panels of NR columns as in gemm_tmpl.h, each [(K + 1) / 2][NR] pairs of weights that
 * are consecutive along K. An odd K is padded with zero (for AMX to a multiple of 16 pairs). One
 * vector of pairs is multiplied by a broadcast pair of A. Tiles and blocks are those of f32 (a pair
 * is as wide as a float), so a block is 2 KC deep. */
#include <stdint.h>

#include "nn/kernels/tmpl/math_tmpl.h"

#include "nn/kernels/tmpl/approx_tmpl.h" /* the output is rounded to bf16 anyway */
#define ACTIVATE_EACH activate_approx_each
#define ACTIVATE activate_approx

typedef uint32_t b_t;
enum { K_STEP = 2 };

static inline vf b_load(const b_t *p)
{
    return _mm512_loadu_ps(p);
}

static inline vf mac(vf a, vf b, vf sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

/* Up to 2 VL numbers as pairs. */
static inline __m512i pairs(const float *x, size_t n)
{
    const vm low = v_tail(n < VL ? n : VL), high = v_tail(n < VL ? 0 : n < 2 * VL ? n - VL : VL);
    return (__m512i)_mm512_cvtne2ps_pbh(v_load_m(x + VL, high), v_load_m(x, low));
}

/* n numbers as (n + 1) / 2 pairs, the last one padded with zero. */
static inline void round_pairs(float *to, const float *from, size_t n)
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        _mm512_storeu_ps(to + i / 2,
                         (__m512)_mm512_cvtne2ps_pbh(v_load(from + i + VL), v_load(from + i)));
    if (i < n)
        v_store_m(to + i / 2, v_tail((n - i + 1) / 2), (__m512)pairs(from + i, n - i));
}

#include "nn/kernels/tmpl/gemm_tmpl.h"

/* Columns [k0, k0 + n) of row i of A in place, or NULL. */
static const float *row_in_place(const struct product *p, size_t i, size_t k0, size_t n)
{
    if (!p->gather)
        return p->a + i * p->a_row + k0;
    return p->in_place ? p->in_place(p, i, k0, n) : NULL;
}

/* The same, or else gathered into buf. */
static const float *row_of(const struct product *p, float *buf, size_t i, size_t k0, size_t n)
{
    const float *x = row_in_place(p, i, k0, n);
    if (x)
        return x;
    p->gather(p, buf, i, 1, k0, n);
    return buf;
}

static void copy_a(const struct product *p, float *buf, size_t i0, size_t rows, size_t k0,
                   size_t kc)
{
    const size_t from = K_STEP * k0,
                 n = p->depth - from < K_STEP * kc ? p->depth - from : K_STEP * kc;
    alignas(64) float row[K_STEP * KC];
    for (size_t i = i0; i < i0 + rows; i++, buf += copy_ld(kc)) {
        for (size_t at = 0, some; at < n; at += some) {
            some = n - at < K_STEP * KC ? n - at : K_STEP * KC;
            round_pairs(buf + at / K_STEP, row_of(p, row, i, from + at, some), some);
        }
        for (size_t u = (n + 1) / 2; u < kc; u++)
            buf[u] = 0;
    }
}

static size_t packed_bytes(size_t k, size_t n)
{
    return panels(n) * depth_of(k) * NR * sizeof(b_t);
}

/* Transpose 16 vectors of 16 32-bit lanes. */
static inline void transpose_rows(__m512i r[VL])
{
    __m512i t[VL];
#pragma GCC unroll 8
    for (int i = 0; i < VL; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < VL; i += 4) { /* r[i + c]: column c of each 128-bit lane, four rows */
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        const __m512i a = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88),
                      b = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
        const __m512i x = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
        const __m512i y = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
        t[c] = _mm512_shuffle_i32x4(a, x, 0x88);
        t[8 + c] = _mm512_shuffle_i32x4(a, x, 0xdd);
        t[4 + c] = _mm512_shuffle_i32x4(b, y, 0x88);
        t[12 + c] = _mm512_shuffle_i32x4(b, y, 0xdd);
    }
    memcpy(r, t, sizeof t);
}

/* Columns of a panel, VL of them, that are rows of b. */
static void pack_transposed(b_t *p, const float *b, size_t ldb, size_t k, size_t cols)
{
    for (size_t i = 0; i < k; i += 2 * VL, p += VL * NR) {
        const size_t left = (k - i + 1) / 2, lanes = left < VL ? left : VL;
        __m512i r[VL];
        for (size_t x = 0; x < VL; x++) {
            __builtin_prefetch(b + (x + 4 * VL) * ldb + i, 0, 2);
            __builtin_prefetch(b + (x + 4 * VL) * ldb + i + VL, 0, 2);
            r[x] = x < cols ? pairs(b + x * ldb + i, k - i) : _mm512_setzero_si512();
        }
        transpose_rows(r);
        for (size_t l = 0; l < lanes; l++)
            _mm512_storeu_si512(p + l * NR, r[l]);
    }
}

/* VL columns of the rows b and b2, as pairs; b2 may be NULL (zeros). */
static inline __m512i pairs_of(const float *b, const float *b2, vm m)
{
    const __m512i both =
        (__m512i)_mm512_cvtne2ps_pbh(b2 ? v_load_m(b2, m) : v_zero(), v_load_m(b, m));
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, both);
}

static void pack(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    b_t *p = dst;
    for (size_t j = 0; j < n; j += NR) {
        const size_t cols = n - j < NR ? n - j : NR, low = cols < VL ? cols : VL;
        const vm m0 = v_tail(low), m1 = v_tail(cols - low);
        if (trans) {
            pack_transposed(p, b + j * ldb, ldb, k, low);
            pack_transposed(p + VL, b + (j + VL) * ldb, ldb, k, cols - low);
        }
        for (size_t i = 0; !trans && i < k; i += 2) {
            const float *at = b + i * ldb + j, *next = i + 1 < k ? at + ldb : NULL;
            for (size_t r = 16; r < 18; r++) {
                __builtin_prefetch(at + r * ldb);
                __builtin_prefetch(at + r * ldb + VL);
            }
            _mm512_storeu_si512(p + i / 2 * NR, pairs_of(at, next, m0));
            _mm512_storeu_si512(p + i / 2 * NR + VL,
                                pairs_of(at + VL, next ? next + VL : NULL, m1));
        }
        p += depth_of(k) * NR;
        memset(p - (depth_of(k) - (k + 1) / 2) * NR, 0,
               (depth_of(k) - (k + 1) / 2) * NR * sizeof *p);
    }
}

#include "nn/kernels/tmpl/gemm_w16_part_tmpl.h"
