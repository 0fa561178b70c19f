/* kcheck --bench: time of every slot at every level, as a Markdown table.
 * A number is the smallest of several short samples of this thread's CPU time. Other processes can
 * only add to a sample (caches, memory, the sibling hyperthread), so the smallest is closest to the
 * cost of the code. */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "nn/kernels/peak.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEVELS = 4, SAMPLES = 9, MAX_FLOATS = 9 << 20 };

struct run { /* the data of one measured call */
    const steno_kernels *k;
    const struct bench *b;
    float *x, *w, *y; /* inputs, weights or second input, output */
    void *packed, *work;
    struct steno_conv conv;
};

struct bench {
    const char *name;
    void (*call)(const struct run *r);
    size_t m, n, k;              /* rows or 1; columns or elements; inner size */
    double flops_per, bytes_per; /* per m * n (* k for flops of products) */
    enum { PLAIN, PRODUCT, PAIR, CONV } kind;
};

#define UNARY_CALL(op)                                                                             \
    static void call_##op(const struct run *r)                                                     \
    {                                                                                              \
        r->k->op##_f32(r->y, r->x, r->b->n);                                                       \
    }
UNARY_CALL(exp)
UNARY_CALL(log)
UNARY_CALL(tanh)
UNARY_CALL(sigmoid)
UNARY_CALL(erf)
UNARY_CALL(silu)
UNARY_CALL(gelu)
UNARY_CALL(relu)

static void call_add(const struct run *r)
{
    r->k->add_f32(r->y, r->x, 1, r->w, 1, r->b->n);
}
static void call_mul(const struct run *r)
{
    r->k->mul_f32(r->y, r->x, 1, r->w, 1, r->b->n);
}
static void call_glu(const struct run *r)
{
    r->k->glu_f32(r->y, r->x, r->w, r->b->n);
}
static void call_swoosh(const struct run *r)
{
    r->k->swoosh_f32(r->y, r->x, r->b->n, 4, 0.035f);
}
static void call_hard_swish(const struct run *r)
{
    r->k->hard_swish_f32(r->y, r->x, r->b->n);
}
static void call_elu(const struct run *r)
{
    r->k->elu_f32(r->y, r->x, r->b->n, 1, 1);
}
static void call_softplus(const struct run *r)
{
    r->k->softplus_f32(r->y, r->x, r->b->n);
}
static void call_mish(const struct run *r)
{
    r->k->mish_f32(r->y, r->x, r->b->n);
}
static void call_sum(const struct run *r)
{
    r->y[0] = r->k->sum_f32(r->x, r->b->n);
}
static void call_max(const struct run *r)
{
    r->y[0] = r->k->max_reduce_f32(r->x, r->b->n);
}
static void call_dot(const struct run *r)
{
    r->y[0] = r->k->dot_f32(r->x, r->w, r->b->n);
}
static void call_dots(const struct run *r)
{
    r->k->dots_f32(r->y, 2, r->x, r->b->n, r->b->m / 2, r->w, r->b->n, 2, r->b->n);
}
static void call_softmax(const struct run *r)
{
    r->k->softmax_f32(r->y, r->x, r->b->m, r->b->n);
}
static void call_log_softmax(const struct run *r)
{
    r->k->log_softmax_f32(r->y, r->x, r->b->m, r->b->n);
}
static void call_layernorm(const struct run *r)
{
    r->k->layernorm_f32(r->y, r->x, r->b->m, r->b->n, r->w, r->w + r->b->n, 1e-5f);
}
static void call_rmsnorm(const struct run *r)
{
    r->k->rmsnorm_f32(r->y, r->x, r->b->m, r->b->n, r->w, 1e-5f);
}
static void call_transpose(const struct run *r)
{
    r->k->transpose_f32(r->y, r->b->m, r->x, r->b->n, r->b->m, r->b->n);
}
static void call_packed(const struct run *r)
{
    r->k->gemm_f32_packed(r->b->m, r->b->n, r->b->k, r->x, r->b->k, r->packed, r->y, r->b->n, NULL);
}
static void call_packed_silu(const struct run *r)
{
    struct steno_gemm_epilogue ep = {.alpha = 1, .bias = r->w, .act = STENO_ACT_SILU};
    r->k->gemm_f32_packed(r->b->m, r->b->n, r->b->k, r->x, r->b->k, r->packed, r->y, r->b->n, &ep);
}
static void call_pair(const struct run *r) /* scores: A B^T */
{
    r->k->gemm_f32(r->b->m, r->b->n, r->b->k, r->x, r->b->k, false, r->w, r->b->k, true, r->y,
                   r->b->n, NULL, r->work);
}
static void call_pair_nn(const struct run *r)
{
    r->k->gemm_f32(r->b->m, r->b->n, r->b->k, r->x, r->b->k, false, r->w, r->b->n, false, r->y,
                   r->b->n, NULL, r->work);
}
static void call_dwconv(const struct run *r)
{
    r->k->dwconv_f32(r->y, r->x, r->w, r->w + r->b->k * r->b->n, r->b->m, r->b->n, r->b->k);
}
static void call_conv(const struct run *r)
{
    r->k->conv_f32(&r->conv, r->x, r->packed, r->y, NULL, r->work, 0, 1);
}

static void call_nhwc(const struct run *r)
{
    r->k->conv_nhwc_f32(&r->conv, r->x, r->packed, r->y, NULL, 0, 1);
}

/* ESPnet's subsampling (1 -> 256 -> 256 channels, stride 2), that of the shipped model, depthwise
 * along time, pointwise. m: row of this table. */
static const struct steno_conv convs[] = {
    {1, 256, 1, {100, 80}, {49, 39}, {3, 3}, {2, 2}, {1, 1}, {0, 0}},
    {256, 256, 1, {49, 39}, {24, 19}, {3, 3}, {2, 2}, {1, 1}, {0, 0}},
    {1, 16, 1, {27, 40}, {13, 19}, {3, 3}, {2, 2}, {1, 1}, {0, 0}},
    {16, 32, 1, {13, 19}, {6, 9}, {3, 3}, {2, 2}, {1, 1}, {0, 0}},
    {256, 256, 256, {1, 100}, {1, 100}, {1, 15}, {1, 1}, {1, 1}, {0, 7}},
    {128, 128, 128, {1, 14}, {1, 6}, {1, 9}, {1, 1}, {1, 1}, {0, 0}},
    {256, 512, 1, {1, 100}, {1, 100}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {1, 258, 1, {1, 640}, {1, 4}, {1, 256}, {1, 128}, {1, 1}, {0, 0}}, /* silero-vad */
    {129, 128, 1, {1, 4}, {1, 4}, {1, 3}, {1, 1}, {1, 1}, {0, 1}},
    {96, 96, 96, {24, 24}, {24, 24}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, /* spelling-cnn */
    {96, 24, 1, {24, 24}, {24, 24}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
};

static const struct bench benches[] = {
    {"exp_f32", call_exp, 1, 4096, 1, 0, 8, PLAIN},
    {"log_f32", call_log, 1, 4096, 1, 0, 8, PLAIN},
    {"tanh_f32", call_tanh, 1, 4096, 1, 0, 8, PLAIN},
    {"sigmoid_f32", call_sigmoid, 1, 4096, 1, 0, 8, PLAIN},
    {"erf_f32", call_erf, 1, 4096, 1, 0, 8, PLAIN},
    {"silu_f32", call_silu, 1, 4096, 1, 0, 8, PLAIN},
    {"gelu_f32", call_gelu, 1, 4096, 1, 0, 8, PLAIN},
    {"relu_f32", call_relu, 1, 4096, 1, 0, 8, PLAIN},
    {"add_f32", call_add, 1, 4096, 1, 0, 12, PLAIN},
    {"mul_f32", call_mul, 1, 4096, 1, 0, 12, PLAIN},
    {"glu_f32", call_glu, 1, 4096, 1, 0, 12, PLAIN},
    {"swoosh_f32", call_swoosh, 1, 4096, 1, 0, 8, PLAIN},
    {"hard_swish_f32", call_hard_swish, 1, 4096, 1, 0, 8, PLAIN},
    {"elu_f32", call_elu, 1, 4096, 1, 0, 8, PLAIN},
    {"softplus_f32", call_softplus, 1, 4096, 1, 0, 8, PLAIN},
    {"mish_f32", call_mish, 1, 4096, 1, 0, 8, PLAIN},
    {"sum_f32", call_sum, 1, 4096, 1, 0, 4, PLAIN},
    {"max_reduce_f32", call_max, 1, 4096, 1, 0, 4, PLAIN},
    {"dot_f32", call_dot, 1, 4096, 1, 0, 8, PLAIN},
    {"dot_f32", call_dot, 1, 512, 1, 2, 8, PLAIN},
    {"dots_f32", call_dots, 16, 512, 1, 2, 4, PLAIN}, /* 8 rows times 2 rows */
    {"softmax_f32", call_softmax, 100, 100, 1, 0, 8, PLAIN},
    {"log_softmax_f32", call_log_softmax, 25, 5000, 1, 0, 8, PLAIN},
    {"layernorm_f32", call_layernorm, 100, 256, 1, 0, 8, PLAIN},
    {"layernorm_f32", call_layernorm, 25, 512, 1, 0, 8, PLAIN},
    {"rmsnorm_f32", call_rmsnorm, 100, 256, 1, 0, 8, PLAIN},
    {"transpose_f32", call_transpose, 256, 100, 1, 0, 8, PLAIN},
    {"gemm_f32_packed", call_packed, 1, 128, 128, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 1, 512, 512, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 1, 2048, 512, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 1, 4096, 2048, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 2, 2048, 512, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 4, 2048, 512, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 6, 512, 128, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 6, 128, 512, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 6, 128, 128, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 10, 2048, 512, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 16, 512, 512, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 24, 2048, 256, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 25, 256, 256, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 25, 2048, 512, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 100, 512, 512, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 100, 2048, 256, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 250, 512, 2048, 2, 4, PRODUCT},
    {"gemm_f32_packed", call_packed, 1000, 1024, 1024, 2, 4, PRODUCT},
    {"gemm_f32_packed+silu", call_packed_silu, 100, 2048, 256, 2, 4, PRODUCT},
    {"gemm_f32 A*B'", call_pair, 6, 30, 32, 2, 4, PAIR},
    {"gemm_f32 A*B'", call_pair, 25, 25, 64, 2, 4, PAIR},
    {"gemm_f32 A*B'", call_pair, 100, 100, 64, 2, 4, PAIR},
    {"gemm_f32 A*B'", call_pair, 250, 250, 64, 2, 4, PAIR},
    {"gemm_f32 A*B", call_pair_nn, 6, 32, 30, 2, 4, PAIR},
    {"gemm_f32 A*B", call_pair_nn, 1, 64, 100, 2, 4, PAIR},
    {"gemm_f32 A*B", call_pair_nn, 100, 64, 100, 2, 4, PAIR},
    {"gemm_f32 A*B", call_pair_nn, 250, 64, 250, 2, 4, PAIR},
    {"dwconv_f32", call_dwconv, 6, 128, 9, 2, 4, PRODUCT},
    {"dwconv_f32", call_dwconv, 25, 256, 15, 2, 4, PRODUCT},
    {"dwconv_f32", call_dwconv, 100, 256, 31, 2, 4, PRODUCT},
    {"conv 1>256 3x3/2", call_conv, 0, 0, 0, 2, 0, CONV},
    {"conv 256>256 3x3/2", call_conv, 1, 0, 0, 2, 0, CONV},
    {"conv 1>16 3x3/2", call_conv, 2, 0, 0, 2, 0, CONV},
    {"conv 16>32 3x3/2", call_conv, 3, 0, 0, 2, 0, CONV},
    {"conv dw 256 k15 T100", call_conv, 4, 0, 0, 2, 0, CONV},
    {"conv dw 128 k9 T6", call_conv, 5, 0, 0, 2, 0, CONV},
    {"conv 256>512 1x1 T100", call_conv, 6, 0, 0, 2, 0, CONV},
    {"conv 1>258 k256/128", call_conv, 7, 0, 0, 2, 0, CONV},
    {"conv 129>128 k3 T4", call_conv, 8, 0, 0, 2, 0, CONV},
    {"conv dw 96 3x3 24x24", call_conv, 9, 0, 0, 2, 0, CONV},
    {"conv 96>24 1x1 24x24", call_conv, 10, 0, 0, 2, 0, CONV},
    {"nhwc 1>256 3x3/2", call_nhwc, 0, 0, 0, 2, 0, CONV},
    {"nhwc 256>256 3x3/2", call_nhwc, 1, 0, 0, 2, 0, CONV},
    {"nhwc 1>16 3x3/2", call_nhwc, 2, 0, 0, 2, 0, CONV},
    {"nhwc 16>32 3x3/2", call_nhwc, 3, 0, 0, 2, 0, CONV},
    {"nhwc dw 256 k15 T100", call_nhwc, 4, 0, 0, 2, 0, CONV},
    {"nhwc dw 128 k9 T6", call_nhwc, 5, 0, 0, 2, 0, CONV},
    {"nhwc dw 96 3x3 24x24", call_nhwc, 9, 0, 0, 2, 0, CONV},
};

static int64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

double bench_time(void (*call)(const void *arg), const void *arg)
{
    double best = INFINITY;
    size_t times = 1;
    for (int s = 0; s < SAMPLES;) {
        int64_t start = cpu_ns(), ns;
        for (size_t i = 0; i < times; i++)
            call(arg);
        ns = cpu_ns() - start;
        if (ns < 300000 &&
            times < 1000000) { /* short samples fit into the time slices between other processes */
            times *= ns < 30000 ? 8 : 2;
            continue;
        }
        best = fmin(best, (double)ns / (double)times);
        s++;
        if (ns > 200000000)
            break;
    }
    return best;
}

struct measured {
    void (*call)(const struct run *);
    const struct run *r;
};

static void call_measured(const void *arg)
{
    const struct measured *m = arg;
    m->call(m->r);
}

static double measure(void (*call)(const struct run *), const struct run *r)
{
    struct measured m = {call, r};
    return bench_time(call_measured, &m);
}

static void sgemm(const struct run *r)
{
    const struct bench *b = r->b;
    bool trans = b->call == call_pair;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, trans ? CblasTrans : CblasNoTrans, (int)b->m,
                (int)b->n, (int)b->k, 1, r->x, (int)b->k, r->w, trans ? (int)b->k : (int)b->n, 0,
                r->y, (int)b->n);
}

static double flops_of(const struct run *r)
{
    const struct bench *b = r->b;
    const struct steno_conv *c = &r->conv;
    if (b->kind == CONV)
        return 2.0 * (double)(c->c_out * c->out[0] * c->out[1] * (c->c_in / c->group) *
                              c->kernel[0] * c->kernel[1]);
    return b->kind == PLAIN ? 0 : 2.0 * (double)b->m * (double)b->n * (double)b->k;
}

static double time_level(struct run *r)
{
    const struct bench *b = r->b;
    double ns;
    r->packed = r->work = NULL;
    if (b->kind == PRODUCT && b->call != call_dwconv) {
        r->packed = steno_aligned_alloc(r->k->gemm_f32_packed_bytes(b->k, b->n));
        r->k->gemm_f32_pack(r->packed, r->w, b->n, false, b->k, b->n);
    }
    if (b->kind == PAIR)
        r->work = steno_aligned_alloc(r->k->gemm_f32_work(b->m, b->n, b->k));
    if (b->kind == CONV) {
        r->conv = convs[b->m];
        const bool last = b->call == call_nhwc;
        r->packed = steno_aligned_alloc(
            (last ? r->k->conv_nhwc_f32_packed_bytes : r->k->conv_f32_packed_bytes)(&r->conv));
        r->work = steno_aligned_alloc(r->k->conv_f32_work(&r->conv, 1));
        (last ? r->k->conv_nhwc_f32_pack : r->k->conv_f32_pack)(r->packed, r->w, &r->conv);
    }
    ns = measure(b->call, r);
    steno_aligned_free(r->packed);
    steno_aligned_free(r->work);
    return ns;
}

static void print_row(struct run *r, const steno_kernels *levels, int n_levels, double peak,
                      double bandwidth)
{
    const struct bench *b = r->b;
    double ns[LEVELS] = {0}, best, flops, bytes = b->bytes_per * (double)b->m * (double)b->n;
    char shape[32];
    for (int i = 0; i < n_levels; i++) {
        r->k = &levels[i];
        ns[i] = time_level(r);
    }
    best = ns[n_levels - 1];
    flops = flops_of(r);
    snprintf(shape, sizeof shape, "%zux%zux%zu", b->m, b->n, b->k);
    printf("| %-21s | %-14s |", b->name, b->kind == CONV ? "" : shape);
    for (int i = 0; i < LEVELS; i++)
        printf(" %10.0f |", ns[i]);
    if (flops > 0)
        printf(" %6.1f GF/s | %3.0f %% |", flops / best, 100 * flops / best / peak * 1e9);
    else
        printf(" %6.1f GB/s | %3.0f %% |", bytes / best, 100 * bytes / best / bandwidth * 1e9);
    printf(" %6.1f |", ns[0] / best);
    if (b->kind == PAIR ||
        (b->kind == PRODUCT && b->call != call_dwconv && b->call != call_packed_silu))
        printf(" %5.2f |", measure(sgemm, r) / best);
    else
        printf("     - |");
    printf("\n");
    fflush(stdout);
}

static int bench_f32(const char *only)
{
    static const char *const names[LEVELS] = {"scalar", "avx2", "avx512", "amx"};
    steno_kernels levels[LEVELS];
    double peak[LEVELS], bandwidth = steno_peak_bandwidth();
    int n = 0;
    struct run r = {.x = steno_aligned_alloc(MAX_FLOATS * sizeof(float)),
                    .w = steno_aligned_alloc(MAX_FLOATS * sizeof(float)),
                    .y = steno_aligned_alloc(MAX_FLOATS * sizeof(float))};
    char cpu[64];
    if (!r.x || !r.w || !r.y)
        return 1;
    fill_uniform(r.x, MAX_FLOATS);
    fill_uniform(r.w, MAX_FLOATS);
    openblas_set_num_threads(1);
    printf("%s, OpenBLAS %s (%s)\n\n", steno_cpu_name(cpu, sizeof cpu), OPENBLAS_VERSION,
           openblas_get_corename());
    for (int i = 0; i < LEVELS; i++) {
        unsigned mask;
        if (steno_cpu_level(names[i], steno_cpu_detect(), &mask, NULL))
            continue;
        memset(&levels[n], 0, sizeof levels[n]);
        steno_kernels_init(&levels[n], mask);
        if (strcmp(levels[n].level, names[i]))
            continue;
        peak[n] = steno_peak_flops(&levels[n]);
        printf("peak %s: %.1f GFLOP/s\n", names[i], peak[n] * 1e-9);
        n++;
    }
    printf("reads: %.1f GB/s\n\n", bandwidth * 1e-9);
    printf("| slot | MxNxK | scalar ns | avx2 ns | avx512 ns | amx ns | best level | of peak | x "
           "scalar "
           "| x OpenBLAS |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof benches / sizeof *benches; i++) {
        if (only && !strstr(benches[i].name, only))
            continue;
        r.b = &benches[i];
        print_row(&r, levels, n, peak[n - 1], bandwidth);
    }
    steno_aligned_free(r.x);
    steno_aligned_free(r.w);
    steno_aligned_free(r.y);
    return 0;
}

int run_benchmarks(const char *only)
{
    if (only && strstr("gemm_i8", only))
        return bench_i8();
    if (only && strstr("gemm_bf16", only))
        return bench_bf16();
    if (only && strstr("conv_winograd", only))
        return bench_winograd();
    if (only && strstr("attend", only))
        return bench_attend();
    if (only && strstr("fbank_f32", only))
        return bench_fbank();
    return bench_f32(only) || (!only && (bench_bf16() || bench_i8() || bench_winograd() ||
                                         bench_attend() || bench_fbank()));
}
