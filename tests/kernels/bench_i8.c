/* kcheck --bench: products of 8-bit integers, in the shapes of real models, at every level. */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "nn/kernels/peak.h"

#include <stdio.h>
#include <string.h>

enum { LEVELS = 5, MAX_BYTES = 16 << 20 };

static const struct {
    size_t m, n, k;
} shapes[] = {
    {1, 512, 512},    {1, 2048, 512},   {1, 4096, 2048},  {2, 2048, 512},
    {4, 2048, 512},   {6, 512, 128},    {10, 2048, 512},  {16, 512, 512},
    {24, 2048, 512},  {24, 512, 2048},  {25, 256, 256},   {100, 512, 512},
    {100, 2048, 256}, {250, 512, 2048}, {456, 512, 4608}, {1000, 1024, 1024},
};

struct run {
    const steno_kernels *k;
    struct steno_gemm_i8 g;
    float *fa, *fc;
    void *f_packed;
};

static void call_i8(const void *arg)
{
    const struct run *r = arg;
    r->k->gemm_i8_part(&r->g, 0, 1);
}

static void call_f32(const void *arg)
{
    const struct run *r = arg;
    r->k->gemm_f32_packed(r->g.m, r->g.n, r->g.k, r->fa, r->g.k, r->f_packed, r->fc, r->g.n, NULL);
}

/* Time of one product at level k with f32 input and output, as IntLinear uses it; then of the f32
 * product. */
static double time_one(const steno_kernels *k, size_t at, uint8_t *bytes, float *floats,
                       double *f32)
{
    size_t m = shapes[at].m, n = shapes[at].n, kk = shapes[at].k;
    struct steno_weights_i8 w = {.k = kk, .n = n, .b = bytes, .ldb = n, .is_signed = true};
    int32_t zero = 117;
    struct run r = {k,
                    {.m = m,
                     .n = n,
                     .k = kk,
                     .a = bytes,
                     .lda = kk,
                     .a_zero = &zero,
                     .scale = floats,
                     .c = floats + MAX_BYTES / 8,
                     .ldc = n},
                    floats,
                    floats + MAX_BYTES / 8,
                    NULL};
    void *packed = steno_aligned_alloc(k->gemm_i8_packed_bytes(kk, n));
    double ns;
    if (!packed)
        return 0;
    k->gemm_i8_pack(packed, &w);
    r.g.packed = packed;
    ns = bench_time(call_i8, &r);
    steno_aligned_free(packed);
    if (f32) {
        r.f_packed = steno_aligned_alloc(k->gemm_f32_packed_bytes(kk, n));
        k->gemm_f32_pack(r.f_packed, floats, n, false, kk, n);
        *f32 = bench_time(call_f32, &r);
        steno_aligned_free(r.f_packed);
    }
    return ns;
}

static void call_quantize(const void *arg)
{
    const struct run *r = arg;
    r->k->quantize_f32(r->fc, r->fa, 51200, 0.01f, 128, false);
}

static void bench_quantize(const steno_kernels *levels, int n, float *floats)
{
    double ns[LEVELS] = {0};
    for (int i = 0; i < n; i++) {
        struct run r = {.k = &levels[i], .fa = floats, .fc = floats + MAX_BYTES / 8};
        ns[i] = bench_time(call_quantize, &r);
    }
    printf("| quantize_f32 51200 | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f GB/s | | |\n", ns[0],
           ns[1], ns[2], ns[3], ns[4], 51200 * 5 / ns[n - 1]);
}

int bench_i8(void)
{
    static const char *const names[LEVELS] = {"scalar", "avx2", "avx512", "vnni", "amx"};
    steno_kernels levels[LEVELS];
    double peak[LEVELS];
    uint8_t *bytes = steno_aligned_alloc(MAX_BYTES);
    float *floats = steno_aligned_alloc(MAX_BYTES);
    int n = 0;
    if (!bytes || !floats)
        return 1;
    for (size_t i = 0; i < MAX_BYTES; i++)
        bytes[i] = (uint8_t)random_bits();
    fill_uniform(floats, MAX_BYTES / 4);
    for (int i = 0; i < LEVELS; i++) {
        unsigned mask;
        if (steno_cpu_level(names[i], steno_cpu_detect(), &mask, NULL))
            continue;
        memset(&levels[n], 0, sizeof levels[n]);
        steno_kernels_init(&levels[n], mask);
        if (strcmp(levels[n].level, names[i]))
            continue;
        peak[n] = steno_peak_ops_i8(&levels[n]);
        printf("peak int8 %s: %.1f GOP/s\n", names[i], peak[n++] * 1e-9);
    }
    printf("\n| gemm_i8 MxNxK | scalar ns | avx2 ns | avx512 ns | vnni ns | amx ns | best level | "
           "of peak | "
           "weights read | x f32 |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        double ns[LEVELS] = {0}, f32 = 0, ops, size;
        char shape[32];
        for (int i = 0; i < n; i++)
            ns[i] = time_one(&levels[i], s, bytes, floats, i == n - 1 ? &f32 : NULL);
        size = (double)shapes[s].n * (double)shapes[s].k;
        ops = 2 * (double)shapes[s].m * size;
        snprintf(shape, sizeof shape, "%zux%zux%zu", shapes[s].m, shapes[s].n, shapes[s].k);
        printf("| %-14s | %10.0f | %9.0f | %9.0f | %9.0f | %9.0f | %6.1f GOP/s | %3.0f %% | %5.1f "
               "GB/s | "
               "%4.2f |\n",
               shape, ns[0], ns[1], ns[2], ns[3], ns[4], ops / ns[n - 1],
               100 * ops / ns[n - 1] / peak[n - 1] * 1e9, size / ns[n - 1], f32 / ns[n - 1]);
        fflush(stdout);
    }
    bench_quantize(levels, n, floats);
    steno_aligned_free(bytes);
    steno_aligned_free(floats);
    return 0;
}
