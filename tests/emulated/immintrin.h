/* The instructions of AVX-512 (F, BW, DQ, VL, VNNI, BF16) and of AVX-VNNI that
 * engine/nn/kernels/x86 uses, in C and AVX2. This file precedes the compiler's <immintrin.h> on the
 * include path, so that the kernels of every level run on a CPU with AVX2 (tests/emulated.sh). The
 * results are those that the Intel SDM vol. 2 defines; speed does not matter. GCC only.
 *
 * Two halves of 32 bytes where AVX2 has the same operation, else lane by lane. */
#ifndef TESTS_EMULATED_IMMINTRIN_H
#define TESTS_EMULATED_IMMINTRIN_H

/* include all of <immintrin.h> up to AVX2; later headers would declare the names below */
#define _IMMINTRIN_H_INCLUDED
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <f16cintrin.h>
#include <fmaintrin.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float __m512 __attribute__((vector_size(64), may_alias));
typedef double __m512d __attribute__((vector_size(64), may_alias));
typedef long long __m512i __attribute__((vector_size(64), may_alias));
typedef __m512i __m512bh;
typedef __m256i __m256bh;
typedef uint8_t __mmask8;
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

enum { _MM_MANT_NORM_p5_1 = 2, _MM_MANT_SIGN_src = 0 };

/* A register, by the type of its elements. */
union emulated {
    __m512 ps;
    __m512d pd;
    __m512i si;
    __m256 ps2[2];
    __m256d pd2[2];
    __m256i si2[2];
    __m128i si4[4];
    float f[16];
    int8_t i8[64];
    uint8_t u8[64];
    int16_t i16[32];
    uint16_t u16[32];
    int32_t i32[16];
    uint32_t u32[16];
};

#define EMULATED static inline __attribute__((always_inline, unused))
#define EMULATED_LANES(n) for (int i = 0; i < (n); i++)

/* ---- two halves ---- */

/* name: the 512-bit instruction; half: the 256-bit one; what: a field of the union. */
#define EMULATED_1(type, name, half, what)                                                         \
    EMULATED type name(type a)                                                                     \
    {                                                                                              \
        union emulated x = {.what = a};                                                            \
        EMULATED_LANES(2) x.what##2 [i] = half(x.what##2 [i]);                                     \
        return x.what;                                                                             \
    }
#define EMULATED_2(type, name, half, what)                                                         \
    EMULATED type name(type a, type b)                                                             \
    {                                                                                              \
        union emulated x = {.what = a}, y = {.what = b};                                           \
        EMULATED_LANES(2) x.what##2 [i] = half(x.what##2 [i], y.what##2 [i]);                      \
        return x.what;                                                                             \
    }
#define EMULATED_3(type, name, half, what)                                                         \
    EMULATED type name(type a, type b, type c)                                                     \
    {                                                                                              \
        union emulated x = {.what = a}, y = {.what = b}, z = {.what = c};                          \
        EMULATED_LANES(2) x.what##2 [i] = half(x.what##2 [i], y.what##2 [i], z.what##2 [i]);       \
        return x.what;                                                                             \
    }
#define EMULATED_SHIFT(name, half)                                                                 \
    EMULATED __m512i name(__m512i a, unsigned by)                                                  \
    {                                                                                              \
        union emulated x = {.si = a};                                                              \
        EMULATED_LANES(2) x.si2[i] = half(x.si2[i], (int)by);                                      \
        return x.si;                                                                               \
    }
EMULATED_2(__m512, _mm512_add_ps, _mm256_add_ps, ps)
EMULATED_2(__m512, _mm512_and_ps, _mm256_and_ps, ps)
EMULATED_2(__m512, _mm512_andnot_ps, _mm256_andnot_ps, ps)
EMULATED_2(__m512, _mm512_or_ps, _mm256_or_ps, ps)
EMULATED_2(__m512, _mm512_xor_ps, _mm256_xor_ps, ps)
EMULATED_2(__m512, _mm512_max_ps, _mm256_max_ps, ps)
EMULATED_2(__m512, _mm512_min_ps, _mm256_min_ps, ps)
EMULATED_2(__m512, _mm512_unpackhi_ps, _mm256_unpackhi_ps, ps)
EMULATED_2(__m512, _mm512_unpacklo_ps, _mm256_unpacklo_ps, ps)
EMULATED_2(__m512d, _mm512_unpackhi_pd, _mm256_unpackhi_pd, pd)
EMULATED_2(__m512d, _mm512_unpacklo_pd, _mm256_unpacklo_pd, pd)
EMULATED_3(__m512, _mm512_fmadd_ps, _mm256_fmadd_ps, ps)
EMULATED_3(__m512, _mm512_fnmadd_ps, _mm256_fnmadd_ps, ps)
EMULATED_1(__m512, _mm512_sqrt_ps, _mm256_sqrt_ps, ps)
EMULATED_2(__m512i, _mm512_add_epi32, _mm256_add_epi32, si)
EMULATED_2(__m512i, _mm512_sub_epi32, _mm256_sub_epi32, si)
EMULATED_2(__m512i, _mm512_sub_epi16, _mm256_sub_epi16, si)
EMULATED_2(__m512i, _mm512_subs_epu16, _mm256_subs_epu16, si)
EMULATED_2(__m512i, _mm512_mullo_epi32, _mm256_mullo_epi32, si)
EMULATED_2(__m512i, _mm512_madd_epi16, _mm256_madd_epi16, si)
EMULATED_2(__m512i, _mm512_max_epi32, _mm256_max_epi32, si)
EMULATED_2(__m512i, _mm512_min_epi32, _mm256_min_epi32, si)
EMULATED_2(__m512i, _mm512_max_epu16, _mm256_max_epu16, si)
EMULATED_2(__m512i, _mm512_and_si512, _mm256_and_si256, si)
EMULATED_2(__m512i, _mm512_or_si512, _mm256_or_si256, si)
EMULATED_2(__m512i, _mm512_xor_si512, _mm256_xor_si256, si)
EMULATED_2(__m512i, _mm512_packs_epi32, _mm256_packs_epi32, si)
EMULATED_2(__m512i, _mm512_packs_epi16, _mm256_packs_epi16, si)
EMULATED_2(__m512i, _mm512_packus_epi16, _mm256_packus_epi16, si)
EMULATED_2(__m512i, _mm512_shuffle_epi8, _mm256_shuffle_epi8, si)
EMULATED_2(__m512i, _mm512_unpackhi_epi8, _mm256_unpackhi_epi8, si)
EMULATED_2(__m512i, _mm512_unpacklo_epi8, _mm256_unpacklo_epi8, si)
EMULATED_2(__m512i, _mm512_unpackhi_epi32, _mm256_unpackhi_epi32, si)
EMULATED_2(__m512i, _mm512_unpacklo_epi32, _mm256_unpacklo_epi32, si)
EMULATED_2(__m512i, _mm512_unpackhi_epi64, _mm256_unpackhi_epi64, si)
EMULATED_2(__m512i, _mm512_unpacklo_epi64, _mm256_unpacklo_epi64, si)
EMULATED_SHIFT(_mm512_slli_epi16, _mm256_slli_epi16)
EMULATED_SHIFT(_mm512_srli_epi16, _mm256_srli_epi16)
EMULATED_SHIFT(_mm512_slli_epi32, _mm256_slli_epi32)
EMULATED_SHIFT(_mm512_srli_epi32, _mm256_srli_epi32)
EMULATED_SHIFT(_mm512_srai_epi32, _mm256_srai_epi32)

/* ---- constants, memory, other types ---- */

EMULATED __m512 _mm512_set1_ps(float v)
{
    union emulated x;
    EMULATED_LANES(16) x.f[i] = v;
    return x.ps;
}
EMULATED __m512i _mm512_set1_epi32(int v)
{
    union emulated x;
    EMULATED_LANES(16) x.i32[i] = v;
    return x.si;
}
EMULATED __m512i _mm512_set1_epi16(short v)
{
    union emulated x;
    EMULATED_LANES(32) x.i16[i] = v;
    return x.si;
}
EMULATED __m512i _mm512_set1_epi8(char v)
{
    union emulated x;
    EMULATED_LANES(64) x.u8[i] = (uint8_t)v;
    return x.si;
}
EMULATED __m512 _mm512_setzero_ps(void)
{
    return (__m512){0};
}
EMULATED __m512i _mm512_setzero_si512(void)
{
    return (__m512i){0};
}
#define _mm512_setr_epi32(...) (((union emulated){.i32 = {__VA_ARGS__}}).si)
#define _mm512_setr_ps(...) (((union emulated){.f = {__VA_ARGS__}}).ps)
/* The last lane comes first. */
EMULATED __m512i emulated_reverse32(union emulated a)
{
    union emulated x;
    EMULATED_LANES(16) x.i32[i] = a.i32[15 - i];
    return x.si;
}
EMULATED __m512i emulated_reverse16(union emulated a)
{
    union emulated x;
    EMULATED_LANES(32) x.i16[i] = a.i16[31 - i];
    return x.si;
}
#define _mm512_set_epi32(...) emulated_reverse32((union emulated){.i32 = {__VA_ARGS__}})
#define _mm512_set_epi16(...) emulated_reverse16((union emulated){.i16 = {__VA_ARGS__}})

#define EMULATED_LOAD(type, name)                                                                  \
    EMULATED type name(const void *p)                                                              \
    {                                                                                              \
        type v;                                                                                    \
        memcpy(&v, p, sizeof v);                                                                   \
        return v;                                                                                  \
    }
#define EMULATED_STORE(type, name)                                                                 \
    EMULATED void name(void *p, type v)                                                            \
    {                                                                                              \
        memcpy(p, &v, sizeof v);                                                                   \
    }
EMULATED_LOAD(__m512, _mm512_loadu_ps)
EMULATED_LOAD(__m512i, _mm512_loadu_si512)
EMULATED_STORE(__m512, _mm512_storeu_ps)
EMULATED_STORE(__m512i, _mm512_storeu_si512)
/* The address must be a multiple of 64: otherwise the instruction faults. */
EMULATED __m512i _mm512_load_si512(const void *p)
{
    if ((uintptr_t)p % 64)
        __builtin_trap();
    return _mm512_loadu_si512(p);
}
EMULATED void _mm512_store_si512(void *p, __m512i v)
{
    if ((uintptr_t)p % 64)
        __builtin_trap();
    _mm512_storeu_si512(p, v);
}

EMULATED __m512d _mm512_castps_pd(__m512 a)
{
    return (__m512d)a;
}
EMULATED __m512 _mm512_castpd_ps(__m512d a)
{
    return (__m512)a;
}
EMULATED __m512 _mm512_castsi512_ps(__m512i a)
{
    return (__m512)a;
}
EMULATED __m256 _mm512_castps512_ps256(__m512 a)
{
    return ((union emulated){.ps = a}).ps2[0];
}
EMULATED __m128i _mm512_castsi512_si128(__m512i a)
{
    return ((union emulated){.si = a}).si4[0];
}
EMULATED __m256 _mm512_extractf32x8_ps(__m512 a, int which)
{
    return ((union emulated){.ps = a}).ps2[which & 1];
}
EMULATED __m512i _mm512_broadcast_i32x4(__m128i a)
{
    union emulated x;
    EMULATED_LANES(4) x.si4[i] = a;
    return x.si;
}

EMULATED __m512 _mm512_cvtepi32_ps(__m512i a)
{
    union emulated x = {.si = a};
    EMULATED_LANES(2) x.ps2[i] = _mm256_cvtepi32_ps(x.si2[i]);
    return x.ps;
}
/* The low byte of each lane. */
EMULATED __m128i _mm512_cvtepi32_epi8(__m512i a)
{
    union emulated x = {.si = a};
    int8_t low[16];
    __m128i y;
    EMULATED_LANES(16) low[i] = (int8_t)(uint8_t)x.i32[i];
    memcpy(&y, low, sizeof y);
    return y;
}
EMULATED __m512i _mm512_cvtps_epi32(__m512 a)
{
    union emulated x = {.ps = a};
    EMULATED_LANES(2) x.si2[i] = _mm256_cvtps_epi32(x.ps2[i]);
    return x.si;
}
/* Lanes `from` of `part`, a field of the register's union, widened to lanes `to`. */
#define EMULATED_WIDEN(name, type, part, from, lanes, to)                                          \
    EMULATED __m512i name(type a)                                                                  \
    {                                                                                              \
        union emulated x, y = {.part = {a}};                                                       \
        EMULATED_LANES(lanes) x.to[i] = y.from[i];                                                 \
        return x.si;                                                                               \
    }
EMULATED_WIDEN(_mm512_cvtepi8_epi16, __m256i, si2, i8, 32, i16)
EMULATED_WIDEN(_mm512_cvtepu16_epi32, __m256i, si2, u16, 16, u32)
EMULATED_WIDEN(_mm512_cvtepu8_epi32, __m128i, si4, u8, 16, u32)
EMULATED __m512 _mm512_cvtph_ps(__m256i a)
{
    union emulated x, y = {.si2 = {a}};
    EMULATED_LANES(2) x.ps2[i] = _mm256_cvtph_ps(y.si4[i]);
    return x.ps;
}

/* ---- order of lanes ---- */

#define EMULATED_PERMUTE(name, lanes, field)                                                       \
    EMULATED __m512i name(__m512i at, __m512i a)                                                   \
    {                                                                                              \
        union emulated x, y = {.si = a}, k = {.si = at};                                           \
        EMULATED_LANES(lanes) x.field[i] = y.field[k.field[i] & (lanes - 1)];                      \
        return x.si;                                                                               \
    }
EMULATED_PERMUTE(_mm512_permutexvar_epi16, 32, u16)
EMULATED_PERMUTE(_mm512_permutexvar_epi32, 16, u32)
EMULATED __m512 _mm512_permutexvar_ps(__m512i at, __m512 a)
{
    return (__m512)_mm512_permutexvar_epi32(at, (__m512i)a);
}
EMULATED __m512 _mm512_permutex2var_ps(__m512 a, __m512i at, __m512 b)
{
    union emulated x, y[2] = {{.ps = a}, {.ps = b}}, k = {.si = at};
    EMULATED_LANES(16) x.f[i] = y[k.u32[i] >> 4 & 1].f[k.u32[i] & 15];
    return x.ps;
}
EMULATED __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int which)
{
    union emulated x, y[2] = {{.si = a}, {.si = b}};
    EMULATED_LANES(4) x.si4[i] = y[i / 2].si4[which >> 2 * i & 3];
    return x.si;
}
EMULATED __m512 _mm512_shuffle_f32x4(__m512 a, __m512 b, int which)
{
    return (__m512)_mm512_shuffle_i32x4((__m512i)a, (__m512i)b, which);
}

/* ---- masks ---- */

EMULATED __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int how)
{
    union emulated x = {.ps = a}, y = {.ps = b};
    unsigned m = 0;
    EMULATED_LANES(16)
    {
        const _Bool nan = x.f[i] != x.f[i] || y.f[i] != y.f[i];
        switch (how) {
        case _CMP_LT_OQ:
            m |= (unsigned)(x.f[i] < y.f[i]) << i;
            break;
        case _CMP_UNORD_Q:
            m |= (unsigned)nan << i;
            break;
        case _CMP_ORD_Q:
            m |= (unsigned)!nan << i;
            break;
        default:
            __builtin_trap();
        }
    }
    return (__mmask16)m;
}
/* One bit per lane: the result of op on the two lanes. */
#define EMULATED_MASK(name, type, lanes, field, op)                                                \
    EMULATED type name(__m512i a, __m512i b)                                                       \
    {                                                                                              \
        union emulated x = {.si = a}, y = {.si = b};                                               \
        uint64_t m = 0;                                                                            \
        EMULATED_LANES(lanes) m |= (uint64_t)((x.field[i] op y.field[i]) != 0) << i;               \
        return (type)m;                                                                            \
    }
EMULATED_MASK(_mm512_cmpge_epi32_mask, __mmask16, 16, i32, >=)
EMULATED_MASK(_mm512_cmpeq_epi16_mask, __mmask32, 32, i16, ==)
EMULATED_MASK(_mm512_cmpgt_epi16_mask, __mmask32, 32, i16, >)
EMULATED_MASK(_mm512_test_epi16_mask, __mmask32, 32, i16, &)
EMULATED_MASK(_mm512_test_epi8_mask, __mmask64, 64, i8, &)

/* Lanes of b where the bit is set, else of a. */
EMULATED __m512 _mm512_mask_blend_ps(__mmask16 m, __m512 a, __m512 b)
{
    union emulated x = {.ps = a}, y = {.ps = b};
    EMULATED_LANES(16) x.f[i] = m >> i & 1 ? y.f[i] : x.f[i];
    return x.ps;
}
#define EMULATED_MOV(name, mask, lanes, field)                                                     \
    EMULATED __m512i name(__m512i a, mask m, __m512i b)                                            \
    {                                                                                              \
        union emulated x = {.si = a}, y = {.si = b};                                               \
        EMULATED_LANES(lanes) x.field[i] = m >> i & 1 ? y.field[i] : x.field[i];                   \
        return x.si;                                                                               \
    }
EMULATED_MOV(_mm512_mask_mov_epi16, __mmask32, 32, u16)
EMULATED_MOV(_mm512_mask_mov_epi8, __mmask64, 64, u8)
EMULATED __m512i _mm512_maskz_mov_epi16(__mmask32 m, __m512i a)
{
    return _mm512_mask_mov_epi16(_mm512_setzero_si512(), m, a);
}
EMULATED __m512i _mm512_ternarylogic_epi32(__m512i a, __m512i b, __m512i c, int table)
{
    union emulated x = {.si = a}, y = {.si = b}, z = {.si = c}, r = {.si = _mm512_setzero_si512()};
    EMULATED_LANES(16)
    for (int bits = 0; bits < 8; bits++)
        if (table >> bits & 1)
            r.u32[i] |= (bits & 4 ? x.u32[i] : ~x.u32[i]) & (bits & 2 ? y.u32[i] : ~y.u32[i]) &
                        (bits & 1 ? z.u32[i] : ~z.u32[i]);
    return r.si;
}
EMULATED __m512i _mm512_maskz_add_epi8(__mmask64 m, __m512i a, __m512i b)
{
    union emulated x = {.si = a}, y = {.si = b};
    EMULATED_LANES(64) x.u8[i] = (uint8_t)(m >> i & 1 ? x.u8[i] + y.u8[i] : 0);
    return x.si;
}
EMULATED __m512i _mm512_maskz_cvtps_epi32(__mmask16 m, __m512 a)
{
    union emulated x = {.si = _mm512_cvtps_epi32(a)};
    EMULATED_LANES(16) x.i32[i] = m >> i & 1 ? x.i32[i] : 0;
    return x.si;
}

/* Memory of lanes whose bit is not set is not accessed. */
EMULATED __m512 _mm512_maskz_loadu_ps(__mmask16 m, const void *p)
{
    union emulated x = {.ps = {0}};
    EMULATED_LANES(16) if (m >> i & 1) memcpy(&x.f[i], (const char *)p + 4 * i, 4);
    return x.ps;
}
EMULATED __m512i _mm512_maskz_loadu_epi32(__mmask16 m, const void *p)
{
    return (__m512i)_mm512_maskz_loadu_ps(m, p);
}
EMULATED __m512i _mm512_mask_loadu_epi8(__m512i a, __mmask64 m, const void *p)
{
    union emulated x = {.si = a};
    EMULATED_LANES(64) x.u8[i] = m >> i & 1 ? ((const uint8_t *)p)[i] : x.u8[i];
    return x.si;
}
EMULATED __m512i _mm512_maskz_loadu_epi8(__mmask64 m, const void *p)
{
    return _mm512_mask_loadu_epi8(_mm512_setzero_si512(), m, p);
}
EMULATED void _mm512_mask_storeu_ps(void *p, __mmask16 m, __m512 v)
{
    union emulated x = {.ps = v};
    EMULATED_LANES(16) if (m >> i & 1) memcpy((char *)p + 4 * i, &x.f[i], 4);
}
EMULATED void _mm512_mask_storeu_epi32(void *p, __mmask16 m, __m512i v)
{
    _mm512_mask_storeu_ps(p, m, (__m512)v);
}
EMULATED void _mm512_mask_storeu_epi16(void *p, __mmask32 m, __m512i v)
{
    union emulated x = {.si = v};
    EMULATED_LANES(32) if (m >> i & 1) memcpy((char *)p + 2 * i, &x.u16[i], 2);
}
EMULATED void _mm512_mask_cvtepi32_storeu_epi8(void *p, __mmask16 m, __m512i v)
{
    union emulated x = {.si = v};
    EMULATED_LANES(16) if (m >> i & 1)((uint8_t *)p)[i] = (uint8_t)x.u32[i];
}
EMULATED __m256 _mm256_maskz_loadu_ps(__mmask8 m, const void *p)
{
    union emulated x = {.ps = {0}};
    EMULATED_LANES(8) if (m >> i & 1) memcpy(&x.f[i], (const char *)p + 4 * i, 4);
    return x.ps2[0];
}
EMULATED void _mm256_mask_storeu_ps(void *p, __mmask8 m, __m256 v)
{
    union emulated x = {.ps2 = {v}};
    EMULATED_LANES(8) if (m >> i & 1) memcpy((char *)p + 4 * i, &x.f[i], 4);
}
EMULATED void _mm512_mask_i32scatter_epi32(void *p, __mmask16 m, __m512i at, __m512i v, int scale)
{
    union emulated x = {.si = v}, k = {.si = at};
    EMULATED_LANES(16) if (m >> i & 1) memcpy((char *)p + (int64_t)k.i32[i] * scale, &x.i32[i], 4);
}

/* ---- arithmetic lane by lane ---- */

EMULATED int _mm512_reduce_add_epi32(__m512i a)
{
    union emulated x = {.si = a};
    for (int i = 1; i < 16; i++)
        x.i32[0] = (int32_t)((uint32_t)x.i32[0] + (uint32_t)x.i32[i]);
    return x.i32[0];
}
EMULATED int _mm512_reduce_max_epi32(__m512i a)
{
    union emulated x = {.si = a};
    EMULATED_LANES(16) x.i32[0] = x.i32[i] > x.i32[0] ? x.i32[i] : x.i32[0];
    return x.i32[0];
}
EMULATED float _mm512_reduce_max_ps(__m512 a)
{
    union emulated x = {.ps = a};
    __m256 y = _mm256_max_ps(x.ps2[0], x.ps2[1]);
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_shuffle_ps(z, z, 1)));
}

/* how: bits 0 to 2 are the direction (0 nearest, 1 down), the bits above 3 the number of fraction
 * bits to keep. */
EMULATED __m512 _mm512_roundscale_ps(__m512 a, int how)
{
    union emulated x = {.ps = a};
    const float scale = (float)(1 << (how >> 4));
    EMULATED_LANES(2)
    {
        const __m256 v = _mm256_mul_ps(x.ps2[i], _mm256_set1_ps(scale));
        const __m256 r = (how & 7) == 1
                             ? _mm256_floor_ps(v)
                             : _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        x.ps2[i] = _mm256_div_ps(r, _mm256_set1_ps(scale));
    }
    return x.ps;
}
/* The remainder of roundscale; 0 for an infinity. */
EMULATED __m512 _mm512_reduce_ps(__m512 a, int how)
{
    union emulated x = {.ps = a}, y = {.ps = _mm512_roundscale_ps(a, how & 0xf7)};
    EMULATED_LANES(16) x.f[i] = isinf(x.f[i]) ? 0 : x.f[i] - y.f[i];
    return x.ps;
}
/* a 2^floor(b) */
EMULATED __m512 _mm512_scalef_ps(__m512 a, __m512 b)
{
    union emulated x = {.ps = a}, y = {.ps = b};
    EMULATED_LANES(16)
    {
        const float e = floorf(y.f[i]);
        if (isnan(x.f[i]) || isnan(e))
            x.f[i] = x.f[i] + e;
        else if (isinf(e) && e > 0)
            x.f[i] = x.f[i] == 0 ? NAN : copysignf(INFINITY, x.f[i]);
        else if (isinf(e))
            x.f[i] = isinf(x.f[i]) ? NAN : copysignf(0, x.f[i]);
        else
            x.f[i] = (float)ldexp((double)x.f[i], (int)fmaxf(fminf(e, 1000), -1000));
    }
    return x.ps;
}
/* floor(log2 |a|) */
EMULATED __m512 _mm512_getexp_ps(__m512 a)
{
    union emulated x = {.ps = a};
    EMULATED_LANES(16)
    x.f[i] = isnan(x.f[i])   ? x.f[i]
             : isinf(x.f[i]) ? INFINITY
             : x.f[i] == 0   ? -INFINITY
                             : logbf(x.f[i]);
    return x.ps;
}
/* a times a power of 2, in [1/2, 1). For 0, infinities and NaN the instruction returns 1. */
EMULATED __m512 _mm512_getmant_ps(__m512 a, int norm, int sign)
{
    union emulated x = {.ps = a};
    if (norm != _MM_MANT_NORM_p5_1 || sign != _MM_MANT_SIGN_src)
        __builtin_trap();
    EMULATED_LANES(16)
    {
        int e;
        if (x.f[i] < 0)
            x.f[i] = isinf(x.f[i]) ? NAN : frexpf(x.f[i], &e);
        else if (x.f[i] == 0 || isinf(x.f[i]))
            x.f[i] = copysignf(1, x.f[i]);
        else
            x.f[i] = frexpf(x.f[i], &e);
    }
    return x.ps;
}
/* Relative error below 2^-14, and no more accurate than that. */
EMULATED __m512 _mm512_rcp14_ps(__m512 a)
{
    union emulated x = {.ps = a};
    EMULATED_LANES(16)
    {
        x.f[i] = 1 / x.f[i];
        x.u32[i] &= isnan(x.f[i]) ? 0xffffffff : 0xfffffc00;
    }
    return x.ps;
}

/* ---- products ---- */

/* Sums of 4 products of bytes: bytes 0 and 2 of each lane, then 1 and 3. b is signed; a as `sign`
 * says. */
EMULATED __m256i emulated_bytes(__m256i sum, __m256i a, __m256i b, _Bool sign)
{
    const __m256i a0 = sign ? _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8)
                            : _mm256_and_si256(a, _mm256_set1_epi16(255));
    const __m256i a1 = sign ? _mm256_srai_epi16(a, 8) : _mm256_srli_epi16(a, 8);
    const __m256i b0 = _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8), b1 = _mm256_srai_epi16(b, 8);
    return _mm256_add_epi32(sum,
                            _mm256_add_epi32(_mm256_madd_epi16(a0, b0), _mm256_madd_epi16(a1, b1)));
}
EMULATED __m256i _mm256_dpbusd_epi32(__m256i sum, __m256i a, __m256i b)
{
    return emulated_bytes(sum, a, b, 0);
}
EMULATED __m256i _mm256_dpwssd_epi32(__m256i sum, __m256i a, __m256i b)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
EMULATED __m256i emulated_dpbssd(__m256i sum, __m256i a, __m256i b)
{
    return emulated_bytes(sum, a, b, 1);
}
#define _mm256_dpbusd_avx_epi32 _mm256_dpbusd_epi32
#define _mm256_dpwssd_avx_epi32 _mm256_dpwssd_epi32
EMULATED_3(__m512i, _mm512_dpbusd_epi32, _mm256_dpbusd_epi32, si)
EMULATED __m512i _mm512_dpwssd_epi32(__m512i sum, __m512i a, __m512i b)
{
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
}
/* Round to nearest even; numbers that are not normal become 0, NaN becomes quiet. */
EMULATED uint16_t emulated_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    if (!(u & 0x7f800000))
        return (uint16_t)(u >> 16 & 0x8000);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
EMULATED float emulated_of_bf16(uint16_t b)
{
    const uint32_t u = b & 0x7f80 ? (uint32_t)b << 16 : (uint32_t)(b & 0x8000) << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
EMULATED __m512bh _mm512_cvtne2ps_pbh(__m512 high, __m512 low)
{
    union emulated x, y[2] = {{.ps = low}, {.ps = high}};
    EMULATED_LANES(32) x.u16[i] = emulated_bf16(y[i / 16].f[i % 16]);
    return x.si;
}
EMULATED __m256bh _mm512_cvtneps_pbh(__m512 a)
{
    union emulated x = {.si = _mm512_cvtne2ps_pbh(a, a)};
    return x.si2[0];
}
/* The second product of each pair comes first, and every step is rounded; results that are not
 * normal are 0. */
EMULATED float emulated_dot_bf16(float sum, const uint16_t *a, const uint16_t *b)
{
    for (int i = 1; i >= 0; i--) {
        sum = fmaf(emulated_of_bf16(a[i]), emulated_of_bf16(b[i]), sum);
        if (fabsf(sum) < 0x1p-126f)
            sum = copysignf(0, sum);
    }
    return sum;
}
EMULATED __m512 _mm512_dpbf16_ps(__m512 sum, __m512bh a, __m512bh b)
{
    union emulated x = {.ps = sum}, y = {.si = a}, z = {.si = b};
    EMULATED_LANES(16) x.f[i] = emulated_dot_bf16(x.f[i], y.u16 + 2 * i, z.u16 + 2 * i);
    return x.ps;
}

#endif
