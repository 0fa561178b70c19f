/* kcheck --bench attend_bf16: a tile of rows of attention, at the level that has it. */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "kernels/peak.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 768, SIZE = 64, PLACES = MOST + 64 };

struct run {
    const steno_kernels *k;
    struct steno_attend_bf16 a;
};

static void call(const void *arg)
{
    const struct run *r = arg;
    for (size_t i = 0; i < r->a.m; i++) {
        r->a.max[i] = -INFINITY;
        r->a.sum[i] = 0;
    }
    r->k->attend_bf16(&r->a);
}

static void bench_shape(const steno_kernels *k, const float *x, size_t keys, bool positions, double peak, void *packed[3])
{
    alignas(64) float o[STENO_ATTEND_BF16_ROWS * SIZE], state[2 * STENO_ATTEND_BF16_ROWS];
    struct run r = {k, {.m = STENO_ATTEND_BF16_ROWS, .keys = keys, .size = SIZE, .v_size = SIZE, .q = x, .ldq = SIZE,
                        .k = packed[0], .v = packed[1], .p = positions ? packed[2] : NULL, .shifted = positions,
                        .to = keys, .scale = 0.125f, .first = true, .max = state,
                        .sum = state + STENO_ATTEND_BF16_ROWS, .o = o}};
    const double scores = (double)keys * STENO_ATTEND_BF16_ROWS;
    double ns, flops = scores * SIZE * 4 + (positions ? (scores + 1024) * SIZE * 2 : 0);
    k->gemm_bf16.pack(packed[0], x, SIZE, true, SIZE, keys);
    k->gemm_bf16.pack(packed[1], x, SIZE, false, keys, SIZE);
    k->gemm_bf16.pack(packed[2], x, SIZE, true, SIZE, (keys + 63) / 32 * 32);
    ns = bench_time(call, &r);
    printf("| %dx%zux%d%s | %9.0f | %6.1f GF/s | %3.0f %% | %5.2f |\n", STENO_ATTEND_BF16_ROWS, keys, SIZE,
           positions ? " + positions" : "", ns, flops / ns, 100 * flops / ns / peak * 1e9, ns / scores * 16);
    fflush(stdout);
}

int bench_attend(void)
{
    static const size_t keys[] = {42, 128, 250, MOST};
    steno_kernels k = {0};
    float *x;
    void *packed[3] = {NULL, NULL, NULL};
    steno_kernels_init(&k, steno_cpu_detect());
    if (!k.attend_bf16) {
        printf("no attend_bf16 on this CPU\n");
        return 0;
    }
    x = steno_aligned_alloc((size_t)PLACES * SIZE * sizeof *x);
    packed[0] = steno_aligned_alloc(k.gemm_bf16.packed_bytes(SIZE, MOST));
    packed[1] = steno_aligned_alloc(k.gemm_bf16.packed_bytes(MOST, SIZE));
    packed[2] = steno_aligned_alloc(k.gemm_bf16.packed_bytes(SIZE, PLACES));
    if (x && packed[0] && packed[1] && packed[2]) {
        const double peak = steno_peak_bf16(&k);
        fill_uniform(x, (size_t)PLACES * SIZE);
        printf("\n| attend_bf16 rows x keys x size | ns | GFLOP/s | of peak | ns a vector of scores |\n|---|---|---|---|---|\n");
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            for (int positions = 0; positions < 2; positions++)
                bench_shape(&k, x, keys[i], positions, peak, packed);
    }
    steno_aligned_free(x);
    for (int i = 0; i < 3; i++)
        steno_aligned_free(packed[i]);
    return 0;
}
