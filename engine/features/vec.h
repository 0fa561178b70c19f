/* Four floats at a time in plain C: GCC's and Clang's vector types, which become SSE, NEON or
 * scalar code. Loops written over them need no permission to reorder sums. */
#ifndef STENO_FEATURES_VEC_H
#define STENO_FEATURES_VEC_H

#include <stdint.h>
#include <string.h>

#define STENO_V4 4
typedef float steno_v4 __attribute__((vector_size(16)));
typedef int32_t steno_v4i __attribute__((vector_size(16)));

static inline steno_v4 v4_load(const float *p)
{
    steno_v4 v;
    memcpy(&v, p, sizeof v); /* any alignment */
    return v;
}

static inline void v4_store(float *p, steno_v4 v)
{
    memcpy(p, &v, sizeof v);
}

static inline steno_v4 v4_set1(float x)
{
    return (steno_v4){x, x, x, x};
}

/* Lanes of a and b by number, b's from 4 on. Both compilers fold it into one or two shuffles. */
#if defined(__clang__)
#define V4_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define V4_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (steno_v4i){i, j, k, l})
#endif

/* The four sums of a, b, c, d. */
static inline steno_v4 v4_sums(steno_v4 a, steno_v4 b, steno_v4 c, steno_v4 d)
{
    steno_v4 ab = V4_SHUFFLE(a, b, 0, 4, 2, 6) + V4_SHUFFLE(a, b, 1, 5, 3, 7);
    steno_v4 cd = V4_SHUFFLE(c, d, 0, 4, 2, 6) + V4_SHUFFLE(c, d, 1, 5, 3, 7);
    return V4_SHUFFLE(ab, cd, 0, 1, 4, 5) + V4_SHUFFLE(ab, cd, 2, 3, 6, 7);
}

static inline steno_v4 v4_max(steno_v4 a, steno_v4 b)
{
    steno_v4i less = (steno_v4i)(a < b);
    return (steno_v4)(((steno_v4i)a & ~less) | ((steno_v4i)b & less));
}

/* Natural logarithm of normal positive numbers, within 2 ulp (test_vec walks the range). Range
 * reduction to [sqrt(1/2), sqrt(2)) and polynomial of Cephes' logf (S. L. Moshier, netlib). */
static inline steno_v4 v4_log(steno_v4 x)
{
    const steno_v4i bits = (steno_v4i)x;
    steno_v4i e = (bits >> 23) - 126, low;
    steno_v4 m = (steno_v4)((bits & 0x007FFFFF) | 0x3F000000), z, y, ef; /* [0.5, 1) */
    low = (steno_v4i)(m < v4_set1(0.707106781f));
    e += low; /* true is -1 */
    m = m - v4_set1(1) + (steno_v4)((steno_v4i)m & low);
    ef = __builtin_convertvector(e, steno_v4);
    z = m * m;
    y = v4_set1(7.0376836292e-2f) * m - v4_set1(1.1514610310e-1f);
    y = y * m + v4_set1(1.1676998740e-1f);
    y = y * m - v4_set1(1.2420140846e-1f);
    y = y * m + v4_set1(1.4249322787e-1f);
    y = y * m - v4_set1(1.6668057665e-1f);
    y = y * m + v4_set1(2.0000714765e-1f);
    y = y * m - v4_set1(2.4999993993e-1f);
    y = y * m + v4_set1(3.3333331174e-1f);
    y = y * m * z - v4_set1(2.12194440e-4f) * ef - v4_set1(0.5f) * z;
    return m + y + v4_set1(0.693359375f) * ef;
}

static inline float v4_sum(steno_v4 v)
{
    return (v[0] + v[1]) + (v[2] + v[3]);
}

#endif
