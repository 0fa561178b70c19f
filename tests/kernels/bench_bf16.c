/* kcheck --bench gemm_bf16: products and convolutions with bf16 weights, at the levels that have
 * their own kernels for them, compared with f32. */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "nn/kernels/peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 4, MAX_FLOATS = 9 << 20 };

/* n 0: the first convolution of ESPnet, from c_in to m channels with 3x3 taps and stride 2, 49x39
 * pixels */
static const struct {
    size_t m, n, k;
} shapes[] = {{1, 512, 512},   {1, 2048, 512},   {1, 4096, 2048},  {4, 2048, 512},
              {10, 2048, 512}, {16, 512, 512},   {24, 512, 2048},  {24, 2048, 512},
              {100, 512, 512}, {250, 512, 2048}, {250, 2048, 512}, {1000, 1024, 1024},
              {256, 0, 256},   {512, 0, 512}};

struct run {
    const steno_kernels *k;
    size_t m, n, kk;
    const float *x;
    float *y;
    const void *packed;
    struct steno_conv conv;
};

static void call_bf16(const void *arg)
{
    const struct run *r = arg;
    if (r->n)
        r->k->gemm_bf16.part(r->m, r->n, r->kk, r->x, r->kk, r->packed, r->y, r->n, NULL, 0, 1);
    else
        r->k->gemm_bf16.conv(&r->conv, r->x, r->packed, r->y, NULL, 0, 1);
}

static void call_f32(const void *arg)
{
    const struct run *r = arg;
    if (r->n)
        r->k->gemm_f32_packed(r->m, r->n, r->kk, r->x, r->kk, r->packed, r->y, r->n, NULL);
    else
        r->k->conv_nhwc_f32(&r->conv, r->x, r->packed, r->y, NULL, 0, 1);
}

/* Rows and columns of the weights. */
static void weights_of(const struct run *r, size_t *k, size_t *n)
{
    *k = r->n ? r->kk : 9 * r->kk;
    *n = r->n ? r->n : r->m;
}

static double time_bf16(struct run *r, const float *w)
{
    size_t k, n;
    void *packed;
    double ns;
    weights_of(r, &k, &n);
    packed = steno_aligned_alloc(r->k->gemm_bf16.packed_bytes(k, n));
    if (!packed)
        exit(2);
    r->k->gemm_bf16.pack(packed, w, n, false, k, n);
    r->packed = packed;
    ns = bench_time(call_bf16, r);
    steno_aligned_free(packed);
    return ns;
}

static double time_f32(struct run *r, const float *w)
{
    size_t k, n;
    void *packed;
    double ns;
    weights_of(r, &k, &n);
    packed = steno_aligned_alloc(r->n ? r->k->gemm_f32_packed_bytes(k, n)
                                      : r->k->conv_nhwc_f32_packed_bytes(&r->conv));
    if (!packed)
        exit(2);
    if (r->n)
        r->k->gemm_f32_pack(packed, w, n, false, k, n);
    else
        r->k->conv_nhwc_f32_pack(packed, w, &r->conv);
    r->packed = packed;
    ns = bench_time(call_f32, r);
    steno_aligned_free(packed);
    return ns;
}

static void bench_shape(const steno_kernels *levels, int n_levels, size_t s, double peak, float *x,
                        float *w, float *y)
{
    struct run r = {.m = shapes[s].m, .n = shapes[s].n, .kk = shapes[s].k, .x = x, .y = y};
    double ns[LEVELS] = {0}, f32, flops, rows;
    char shape[48];
    size_t k, n;
    weights_of(&r, &k, &n);
    r.conv = (struct steno_conv){r.kk, r.m, 1, {49, 39}, {24, 19}, {3, 3}, {2, 2}, {1, 1}, {0, 0}};
    rows = r.n ? (double)r.m : (double)(r.conv.out[0] * r.conv.out[1]);
    for (int i = 0; i < n_levels; i++) {
        r.k = &levels[i];
        ns[i] = time_bf16(&r, w);
    }
    f32 = time_f32(&r, w);
    flops = 2 * rows * (double)k * (double)n;
    snprintf(shape, sizeof shape, r.n ? "%zux%zux%zu" : "nhwc %zu>%zu 3x3/2", r.n ? r.m : r.kk,
             r.n ? r.n : r.m, r.kk);
    printf(
        "| %-18s | %9.0f | %9.0f | %9.0f | %9.0f | %6.1f GF/s | %3.0f %% | %5.1f GB/s | %4.2f |\n",
        shape, ns[0], ns[1], ns[2], ns[3], flops / ns[n_levels - 1],
        100 * flops / ns[n_levels - 1] / peak * 1e9, 2 * (double)k * (double)n / ns[n_levels - 1],
        f32 / ns[n_levels - 1]);
    fflush(stdout);
}

int bench_bf16(void)
{
    static const char *const names[LEVELS] = {"avx2", "avx512", "bf16", "amx"};
    float *x = steno_aligned_alloc(MAX_FLOATS * sizeof *x);
    float *w = steno_aligned_alloc(MAX_FLOATS * sizeof *w);
    float *y = steno_aligned_alloc(MAX_FLOATS * sizeof *y);
    steno_kernels levels[LEVELS];
    double peak = 0;
    int n = 0;
    if (!x || !w || !y)
        return 1;
    fill_uniform(x, MAX_FLOATS);
    fill_uniform(w, MAX_FLOATS);
    for (int i = 0; i < LEVELS; i++) {
        unsigned mask;
        if (steno_cpu_level(names[i], steno_cpu_detect(), &mask, NULL))
            continue;
        memset(&levels[n], 0, sizeof levels[n]);
        steno_kernels_init(&levels[n], mask);
        if (strcmp(levels[n].level, names[i]))
            continue;
        peak = steno_peak_bf16(&levels[n++]);
        printf("peak of gemm_bf16 at %s: %.1f GFLOP/s\n", names[i], peak * 1e-9);
    }
    printf("\n| gemm_bf16 MxNxK | avx2 ns | avx512 ns | bf16 ns | amx ns | best level | of peak | "
           "weights read | x f32 |\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes && n; s++)
        bench_shape(levels, n, s, peak, x, w, y);
    steno_aligned_free(x);
    steno_aligned_free(w);
    steno_aligned_free(y);
    return 0;
}
