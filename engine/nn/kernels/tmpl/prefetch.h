/* How a register tile of a product reads packed weights, and what it stores.
 *
 * Prefetches with a long distance run on into the weights of the next product: they follow in
 * memory, because a run reads weights in the order of packing. So the memory stays busy while a
 * node ends and the next one begins. */
#ifndef STENO_NN_KERNELS_TMPL_PREFETCH_H
#define STENO_NN_KERNELS_TMPL_PREFETCH_H

#include "nn/kernels/kernels.h"

#include <stdbool.h>

enum reads {
    SHARED,  /* B has been prefetched into L2; prefetches the next panel into L2 */
    SHARED1, /* the same, into L1, which passes it on to L2: where streams_weights */
    ALONE,   /* the only tile that reads B, probably from memory: prefetches it */
    STREAM   /* the same, with a long distance and into L1: where streams_weights */
};

/* True where products of few rows are faster when weights are prefetched 12 to 16 KiB before their
 * use into L1: on AMD's CPUs with AVX-VNNI, Zen 5 on, whose L1 has 48 KiB. An L1 of 32 KiB is too
 * small for them (Zen 4: a sixth slower from six rows on). Intel's CPUs with 48 KiB were not
 * measured. */
static inline bool streams_weights(void)
{
#if defined(__x86_64__) && !defined(__clang__) /* clang's runtime may not know avxvnni */
    return __builtin_cpu_is("amd") && __builtin_cpu_supports("avxvnni");
#else
    return false;
#endif
}

/* Prefetch a line of the next panel. */
static inline __attribute__((always_inline)) void prefetch_next(enum reads reads, const void *line)
{
    if (reads == SHARED1)
        __builtin_prefetch(line, 0, 3);
    else if (reads == SHARED)
        __builtin_prefetch(line, 0, 2);
}

static inline __attribute__((always_inline)) bool reads_shared(enum reads reads)
{
    return reads == SHARED || reads == SHARED1;
}

/* Prefetch n floats that are read soon. The CPU does not foresee rows that are a page apart, as
 * those of one head. Always inlined, because gcc removes calls of functions that only prefetch. */
static inline __attribute__((always_inline)) void prefetch_floats(const float *x, size_t n)
{
    for (size_t c = 0; c < n; c += 16)
        __builtin_prefetch(x + c);
}

/* Prefetch what storing a tile of rows x columns from (i, j) on writes, C of f32 or int32_t, and
 * reads, a residual, while its sums are computed: with many rows neither is in L2. Always inlined
 * for the same reason. */
static inline __attribute__((always_inline)) void
prefetch_stored(const void *c, size_t ldc, const struct steno_gemm_epilogue *ep, size_t i,
                size_t rows, size_t j, size_t columns)
{
    const float *to = (const float *)c + i * ldc + j;
    const float *residual = ep && ep->residual ? ep->residual + i * ep->ldr + j : NULL;
    for (size_t r = 0; r < rows; r++)
        for (size_t x = 0; x < columns; x += 16) {
            __builtin_prefetch(to + r * ldc + x, 1);
            if (residual)
                __builtin_prefetch(residual + r * ep->ldr + x);
        }
}

#endif
