/* Four floats at a time in plain C: GCC's and Clang's vector types, which become SSE, NEON or
 * scalar code. Loops written with them do not need the permission to reorder sums. */
#ifndef STENO_NN_KERNELS_VEC4_H
#define STENO_NN_KERNELS_VEC4_H

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

/* Lanes of a and b by number; those of b start at 4. Both compilers make one or two shuffles of
 * it. */
#if defined(__clang__)
#define V4_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define V4_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (steno_v4i){i, j, k, l})
#endif

/* The horizontal sums of a, b, c and d. */
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

#define V steno_v4
#define VI steno_v4i
#define SET1 v4_set1
#define LOG v4_log
#include "nn/kernels/tmpl/log_tmpl.h"

static inline float v4_sum(steno_v4 v)
{
    return (v[0] + v[1]) + (v[2] + v[3]);
}

#endif
