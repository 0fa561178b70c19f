#include "nn/kernels/peak.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/cpu.h"

#include <string.h>

/* The best of up to 200 short runs, about 10 ms. The time limit ends it early where a run takes
 * long (an emulator). */
static double fastest(const steno_kernels *k, double (*peak)(size_t rounds))
{
    const int64_t until = steno_now_ns() + 500 * 1000000;
    double best = 0;
    for (int i = 0; i < 200 && steno_now_ns() < until; i++) {
        int64_t start = steno_now_ns(), ns;
        double flops = peak(k->cpu & STENO_CPU_AVX2 ? 20000 : 4000);
        ns = steno_now_ns() - start;
        if (ns > 0 && flops / (double)ns > best)
            best = flops / (double)ns;
    }
    return best * 1e9;
}

double steno_peak_flops(const steno_kernels *k)
{
    return fastest(k, k->peak_f32);
}

double steno_peak_bf16(const steno_kernels *k)
{
    return fastest(k, k->peak_bf16);
}

double steno_peak_ops_i8(const steno_kernels *k)
{
    return fastest(k, k->peak_i8);
}

enum { LINE = 64 / sizeof(float) };

/* Fastest on a core with many line buffers: a fifth faster than loads alone (docs/kernels.md). It
 * prefetches lines 2 KiB before their use and does a little work between two of them. */
static float sum_prefetched(const float *x, size_t n)
{
    enum { DISTANCE = 2048 / sizeof *x };
    float sum[4] = {0};
    for (size_t i = 0; i + LINE <= n; i += LINE) {
        __builtin_prefetch(x + i + DISTANCE);
        for (size_t j = 0; j < 4; j++)
            sum[j] += x[i + j * LINE / 4];
    }
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Fastest on a core whose hardware prefetcher follows several streams (Zen 3): it reads four of
 * them a fifth faster than one. */
static float sum_four(const float *x, size_t n)
{
    float sum[4] = {0};
    for (size_t i = 0; i + LINE <= n / 4; i += LINE)
        for (size_t j = 0; j < 4; j++)
            sum[j] += x[n / 4 * j + i] + x[n / 4 * j + i + LINE / 2];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Measures reading in three ways and returns the fastest. Every page is written first, because
 * pages that were never written are all the same page and would be read from the caches. The last
 * pages may still be in the caches, so only the first half is read. */
double steno_peak_bandwidth(void)
{
    const size_t bytes = (size_t)144 << 20, slice = (size_t)16 << 20;
    float *x = steno_aligned_alloc(2 * bytes);
    volatile float sink = 0;
    double best = 0;
    steno_kernels k;
    steno_kernels_init(&k, steno_cpu_detect());
    float (*const way[])(const float *, size_t) = {k.sum_f32, sum_prefetched, sum_four};
    if (!x)
        return 0;
    memset(x, 1, 2 * bytes);
    for (size_t at = 0; at < bytes; at += slice) {
        int64_t start = steno_now_ns(), ns;
        sink = sink + way[at / slice % 3](x + at / sizeof *x, slice / sizeof *x);
        ns = steno_now_ns() - start;
        if (ns > 0 && (double)slice / (double)ns > best)
            best = (double)slice / (double)ns;
    }
    steno_aligned_free(x);
    return best * 1e9;
}
