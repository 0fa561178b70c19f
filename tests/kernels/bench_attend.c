/* kcheck --bench attend: a row tile of attention, at the best level. */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "nn/kernels/peak.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 768, SIZE = 64, PLACES = MOST + 64 };

struct run {
    void (*attend)(const struct steno_attend *a);
    struct steno_attend a;
};

static void call(const void *arg)
{
    const struct run *r = arg;
    for (size_t i = 0; i < r->a.m; i++) {
        r->a.max[i] = -INFINITY;
        r->a.sum[i] = 0;
    }
    r->attend(&r->a);
}

static void bench_shape(const steno_kernels *k, bool use_bf16, const float *x, size_t keys,
                        bool positions, double peak, void *packed[3])
{
    void (*pack)(void *, const float *, size_t, bool, size_t, size_t) =
        use_bf16 ? k->gemm_bf16.pack : k->gemm_f32_pack;
    alignas(64) float o[STENO_ATTEND_ROWS * SIZE], state[2 * STENO_ATTEND_ROWS];
    struct run r = {use_bf16 ? k->attend_bf16 : k->attend_f32,
                    {.m = STENO_ATTEND_ROWS,
                     .keys = keys,
                     .size = SIZE,
                     .v_size = SIZE,
                     .q = x,
                     .ldq = SIZE,
                     .k = packed[0],
                     .v = packed[1],
                     .p = positions ? packed[2] : NULL,
                     .shifted = positions,
                     .to = keys,
                     .scale = 0.125f,
                     .first = true,
                     .max = state,
                     .sum = state + STENO_ATTEND_ROWS,
                     .o = o}};
    const double scores = (double)keys * STENO_ATTEND_ROWS;
    double ns, flops = scores * SIZE * 4 + (positions ? (scores + 1024) * SIZE * 2 : 0);
    pack(packed[0], x, SIZE, true, SIZE, keys);
    pack(packed[1], x, SIZE, false, keys, SIZE);
    pack(packed[2], x, SIZE, true, SIZE, (keys + 63) / 32 * 32);
    ns = bench_time(call, &r);
    printf("| %dx%zux%d%s | %9.0f | %6.1f GF/s | %3.0f %% | %5.2f |\n", STENO_ATTEND_ROWS, keys,
           SIZE, positions ? " + positions" : "", ns, flops / ns, 100 * flops / ns / peak * 1e9,
           ns / scores * 16);
    fflush(stdout);
}

static void bench_type(const steno_kernels *k, bool use_bf16, const float *x, void *packed[3])
{
    static const size_t keys[] = {24, 42, 128, 250, MOST};
    const double peak = use_bf16 ? steno_peak_bf16(k) : steno_peak_flops(k);
    printf("\n| attend_%s rows x keys x size | ns | GFLOP/s | of peak | ns a vector of scores "
           "|\n|---|---|---|---|---|\n",
           use_bf16 ? "bf16" : "f32");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (int positions = 0; positions < 2; positions++)
            bench_shape(k, use_bf16, x, keys[i], positions, peak, packed);
}

int bench_attend(void)
{
    steno_kernels k = {0};
    float *x;
    void *packed[3];
    steno_kernels_init(&k, steno_cpu_detect());
    x = steno_aligned_alloc((size_t)PLACES * SIZE * sizeof *x);
    for (int i = 0; i < 3; i++) /* as many bytes as f32 needs */
        packed[i] = steno_aligned_alloc((size_t)PLACES * SIZE * sizeof *x);
    if (x && packed[0] && packed[1] && packed[2]) {
        fill_uniform(x, (size_t)PLACES * SIZE);
        if (k.attend_f32)
            bench_type(&k, false, x, packed);
        if (k.attend_bf16)
            bench_type(&k, true, x, packed);
    }
    steno_aligned_free(x);
    for (int i = 0; i < 3; i++)
        steno_aligned_free(packed[i]);
    return 0;
}
