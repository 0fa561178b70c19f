/* kcheck --bench attend: a row tile of attention, at the level of STENO_CPU or the best. */
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

struct kernel {
    const char *name;
    const struct steno_attend_kernel *by;
    bool is_best; /* at this level */
    double peak;
    bool positions;
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

static void bench_shape(const struct kernel *k, const float *x, size_t keys, bool positions,
                        void *packed[3])
{
    alignas(64) float o[STENO_ATTEND_ROWS * SIZE], state[2 * STENO_ATTEND_ROWS];
    struct run r = {k->by->attend,
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
    k->by->pack(packed[0], x, SIZE, true, SIZE, keys);
    k->by->pack(packed[1], x, SIZE, false, keys, SIZE);
    if (positions)
        k->by->pack(packed[2], x, SIZE, true, SIZE, (keys + 63) / 32 * 32);
    ns = bench_time(call, &r);
    printf("| %dx%zux%d%s | %9.0f | %6.1f GF/s | %3.0f %% | %5.2f |\n", STENO_ATTEND_ROWS, keys,
           SIZE, positions ? " + positions" : "", ns, flops / ns, 100 * flops / ns / k->peak * 1e9,
           ns / scores * 16);
    fflush(stdout);
}

static void bench_type(const struct kernel *k, const float *x, void *packed[3])
{
    static const size_t keys[] = {24, 42, 128, 250, MOST};
    if (!k->is_best)
        return;
    printf("\n| %s rows x keys x size | ns | GFLOP/s | of peak | ns a vector of scores "
           "|\n|---|---|---|---|---|\n",
           k->name);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (int positions = 0; positions <= k->positions; positions++)
            bench_shape(k, x, keys[i], positions, packed);
}

/* ---- keys and values in KV pages, 1,500 of one head ---- */

enum { WINDOW = 1500, PAGES = (WINDOW + STENO_KV_PAGE_KEYS - 1) / STENO_KV_PAGE_KEYS };

struct paged {
    const steno_kernels *k;
    struct steno_attend a; /* bf16 */
    struct steno_attend_i8 i8;
};

static void call_i8(const void *arg)
{
    const struct paged *p = arg;
    p->k->attend_i8(&p->i8);
}

static void call_bf16(const void *arg)
{
    const struct paged *p = arg;
    struct steno_attend a = p->a;
    for (size_t i = 0; i < a.m; i++) {
        a.max[i] = -INFINITY;
        a.sum[i] = 0;
    }
    for (size_t at = 0; at < WINDOW; at += STENO_KV_PAGE_KEYS, a.first = false) {
        a.k =
            (const char *)p->a.k + at / STENO_KV_PAGE_KEYS * steno_kv_page_bytes(p->k, SIZE, SIZE);
        a.v = (const char *)a.k + steno_kv_page_key_bytes(p->k, SIZE);
        a.to = WINDOW - at < STENO_KV_PAGE_KEYS ? WINDOW - at : STENO_KV_PAGE_KEYS;
        p->k->attend_bf16.attend(&a);
    }
}

static void paged_row(const char *name, void (*call_of)(const void *), const struct paged *p,
                      size_t m, size_t page_bytes)
{
    const double ns = bench_time(call_of, p), bytes = (double)page_bytes * PAGES;
    printf("| %s | %2zu | %8.0f | %6.1f | %5.1f |\n", name, m, ns, ns / (double)m / PAGES,
           bytes / ns);
    fflush(stdout);
}

static void bench_paged(const steno_kernels *k, const float *x)
{
    alignas(64) static float y[STENO_ATTEND_ROWS * SIZE], state[2 * STENO_ATTEND_ROWS];
    const size_t i8 = steno_kv_i8_page_bytes(SIZE, SIZE),
                 bf16 = k->attend_rounded_as == STENO_ATTEND_BF16
                            ? steno_kv_page_bytes(k, SIZE, SIZE)
                            : 0;
    char *pages = steno_aligned_zeroed(PAGES * (i8 > bf16 ? i8 : bf16));
    printf("\n| KV pages, %d keys of %d | rows | ns | ns a row and page | GB/s |\n"
           "|---|---|---|---|---|\n",
           WINDOW, SIZE);
    for (size_t m = 1; pages && m <= STENO_ATTEND_ROWS; m = m == 1 ? 5 : m == 5 ? 32 : 64) {
        struct paged p = {.k = k,
                          .a = {.m = m,
                                .keys = STENO_KV_PAGE_KEYS,
                                .size = SIZE,
                                .v_size = SIZE,
                                .q = x,
                                .ldq = SIZE,
                                .k = pages,
                                .scale = 0.125f,
                                .first = true,
                                .cold = true,
                                .max = state,
                                .sum = state + STENO_ATTEND_ROWS,
                                .o = y},
                          .i8 = {m, WINDOW, SIZE, SIZE, x, SIZE, pages, 0.125f, y, SIZE}};
        for (size_t i = 0; i < PAGES; i++)
            k->kv_pack_i8(pages + i * i8, SIZE, SIZE, STENO_KV_PAGE_KEYS, x, SIZE, x, SIZE);
        paged_row("i8", call_i8, &p, m, i8);
        for (size_t i = 0; bf16 && i < PAGES; i++)
            k->kv_append_bf16(pages + i * bf16, SIZE, SIZE, 0, STENO_KV_PAGE_KEYS, x, SIZE, x,
                              SIZE);
        if (bf16)
            paged_row("bf16", call_bf16, &p, m, bf16);
    }
    steno_aligned_free(pages);
}

int bench_attend(void)
{
    steno_kernels k = {0};
    unsigned cpu;
    float *x;
    void *packed[3];
    if (steno_cpu_choose(NULL, &cpu, NULL))
        return 1;
    steno_kernels_init(&k, cpu);
    x = steno_aligned_alloc((size_t)PLACES * SIZE * sizeof *x);
    for (int i = 0; i < 3; i++) /* as many bytes as f32 needs */
        packed[i] = steno_aligned_alloc((size_t)PLACES * SIZE * sizeof *x);
    if (x && packed[0] && packed[1] && packed[2]) {
        fill_uniform(x, (size_t)PLACES * SIZE);
        const double peak = steno_peak_flops(&k);
        const struct kernel kernels[] = {
            {"attend_f32", &k.attend_f32, k.attend_as == STENO_ATTEND_F32, peak, true},
            {"attend_bf16", &k.attend_bf16, k.attend_rounded_as == STENO_ATTEND_BF16,
             steno_peak_bf16(&k), true},
            {"attend_i16 (peak of f32)", &k.attend_i16, k.attend_rounded_as == STENO_ATTEND_I16,
             peak, false}};
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            bench_type(&kernels[i], x, packed);
        bench_paged(&k, x);
    }
    steno_aligned_free(x);
    for (int i = 0; i < 3; i++)
        steno_aligned_free(packed[i]);
    return 0;
}
