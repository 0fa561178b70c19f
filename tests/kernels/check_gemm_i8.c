/* The 8-bit product and the rounding to 8 bits: exact at every level. */
#include "tests/kernels/kcheck.h"

#include "base/arena.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    size_t m, n, k;
};

/* Edges of the register tiles, of lanes of 2 and 4 bytes, of panels and of the blocks of K (1024
 * and 2048 bytes), then shapes of real models. */
static const struct shape shapes[] = {
    {0, 5, 3},      {1, 0, 3},     {1, 1, 0},    {3, 33, 0},     {1, 1, 1},     {1, 31, 7},
    {1, 32, 8},     {1, 129, 41},  {1, 161, 64}, {2, 33, 9},     {2, 96, 255},  {3, 17, 256},
    {3, 70, 66},    {4, 16, 257},  {4, 95, 30},  {5, 65, 513},   {6, 128, 512}, {7, 15, 30},
    {8, 48, 1023},  {9, 40, 1025}, {10, 64, 66}, {11, 20, 2047}, {12, 13, 14},  {13, 64, 2049},
    {14, 32, 256},  {15, 33, 31},  {16, 100, 6}, {25, 256, 256}, {29, 70, 300}, {84, 32, 64},
    {85, 47, 300},  {113, 36, 65}, {5, 9, 4099}, {170, 40, 520}, {250, 33, 3},  {33, 72, 100},
    {48, 33, 1000}, {35, 3, 17000}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

struct setup {
    struct steno_gemm_i8 g;
    struct steno_weights_i8 w;
    float *a_mem, *b_mem, *c_mem, *bias, *residual, *scale, *row_scale;
    int32_t *a_zero, *b_zero;
    void *packed;
    struct steno_gemm_epilogue ep;
};

/* n bytes that end at an inaccessible page; *mem receives the allocation itself. */
static uint8_t *bytes_new(size_t n, float **mem)
{
    size_t floats = (n + 3) / 4;
    uint8_t *p;
    *mem = guard_new(floats);
    p = (uint8_t *)*mem + floats * 4 - n;
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)random_bits();
    return p;
}

static size_t span(size_t rows, size_t cols, size_t ld)
{
    return rows && cols ? (rows - 1) * ld + cols : 0;
}

static int32_t any_byte(bool is_signed)
{
    return (int32_t)random_below(256) - (is_signed ? 128 : 0);
}

static float *floats_new(size_t n)
{
    float *p = guard_new(n);
    fill_uniform(p, n);
    return p;
}

static int32_t *zeros_new(size_t n, bool is_signed)
{
    int32_t *z = calloc(n + 1, sizeof *z);
    for (size_t i = 0; z && i < n; i++)
        z[i] = any_byte(is_signed);
    return z;
}

/* Bits of variant: 1 A signed, 2 B signed, 4 B transposed, 8 zero points of A (16: by row), 32 of B
 * (64: by column), 128 floats (256 row scales, 512 bias, 1024 residual), 2048 an activation. */
static void setup_new(struct setup *t, const steno_kernels *k, struct shape s, unsigned variant)
{
    memset(t, 0, sizeof *t);
    t->w = (struct steno_weights_i8){.k = s.k, .n = s.n, .trans = variant & 4};
    t->w.is_signed = variant & 2;
    t->w.ldb = (t->w.trans ? s.k : s.n) + (variant & 1);
    t->w.b = bytes_new(span(t->w.trans ? s.n : s.k, t->w.trans ? s.k : s.n, t->w.ldb), &t->b_mem);
    t->b_zero = zeros_new(s.n, t->w.is_signed);
    t->w.zero = variant & 32 ? t->b_zero : NULL;
    t->w.zero_step = !!(variant & 64);
    t->g = (struct steno_gemm_i8){.m = s.m, .n = s.n, .k = s.k, .a_signed = variant & 1};
    t->g.lda = s.k + (variant >> 1 & 3);
    if (!(variant & 1) && variant % 3 == 0) { /* the layout that rounding writes */
        t->g.lda = steno_gemm_i8_lda(s.k);
        t->g.a_rows = steno_gemm_i8_rows(s.m);
    }
    t->g.a = bytes_new(t->g.a_rows ? t->g.a_rows * t->g.lda : span(s.m, s.k, t->g.lda), &t->a_mem);
    t->a_zero = zeros_new(s.m, t->g.a_signed);
    t->g.a_zero = variant & 8 ? t->a_zero : NULL;
    t->g.a_zero_step = !!(variant & 16);
    t->g.ldc = s.n + (variant & 3);
    t->g.c = t->c_mem = guard_new(span(s.m, s.n, t->g.ldc));
    t->bias = floats_new(s.n);
    t->residual = floats_new(span(s.m, s.n, s.n + 1));
    t->scale = floats_new(s.n);
    t->row_scale = floats_new(s.m);
    t->g.scale = variant & 128 ? t->scale : NULL;
    t->g.row_scale = variant & 256 ? t->row_scale : NULL;
    t->ep = (struct steno_gemm_epilogue){
        .alpha = 1,
        .bias = variant & 512 ? t->bias : NULL,
        .residual = variant & 1024 ? t->residual : NULL,
        .ldr = s.n + 1,
        .act = variant & 2048 ? (enum steno_activation)(variant % N_ACTIVATIONS) : STENO_ACT_NONE,
        .act_min = -20.0f,
        .act_max = 50.0f};
    t->g.ep = variant & (512 | 1024 | 2048) ? &t->ep : NULL;
    t->packed = steno_aligned_alloc(k->gemm_i8_packed_bytes(s.k, s.n));
    if (!t->a_zero || !t->b_zero || !t->packed)
        exit(2);
    k->gemm_i8_pack(t->packed, &t->w);
    t->g.packed = t->packed;
}

static void setup_free(struct setup *t)
{
    guard_free(t->a_mem);
    guard_free(t->b_mem);
    guard_free(t->c_mem);
    guard_free(t->bias);
    guard_free(t->residual);
    guard_free(t->scale);
    guard_free(t->row_scale);
    free(t->a_zero);
    free(t->b_zero);
    steno_aligned_free(t->packed);
}

static int64_t byte(const uint8_t *p, bool is_signed)
{
    return is_signed ? (int8_t)*p : *p;
}

/* The definition, in 64 bits. */
static int32_t exact(const struct setup *t, size_t i, size_t j)
{
    const uint8_t *a = (const uint8_t *)t->g.a + i * t->g.lda, *b = t->w.b;
    int64_t az = t->g.a_zero ? t->g.a_zero[i * t->g.a_zero_step] : 0, sum = 0;
    int64_t bz = t->w.zero ? t->w.zero[j * t->w.zero_step] : 0;
    for (size_t k = 0; k < t->g.k; k++)
        sum +=
            (byte(a + k, t->g.a_signed) - az) *
            (byte(t->w.trans ? b + j * t->w.ldb + k : b + k * t->w.ldb + j, t->w.is_signed) - bz);
    return (int32_t)(uint32_t)sum;
}

static void compare_float(const struct setup *t, size_t i, size_t j, int32_t sum)
{
    float got = ((const float *)t->g.c)[i * t->g.ldc + j], v = (float)sum * t->scale[j];
    double want, bound = 0;
    if (t->g.row_scale)
        v *= t->row_scale[i];
    if (t->ep.bias)
        v += t->bias[j];
    want = (double)v;
    if (t->ep.act)
        want = activation_of(want, &t->ep);
    if (t->ep.act == STENO_ACT_SILU)
        bound = fabs(want) / 8192;
    if (t->ep.act == STENO_ACT_GELU)
        bound = fabs(want) / 8192 + 0x1p-18;
    if (t->ep.act == STENO_ACT_HARD_SIGMOID || t->ep.act == STENO_ACT_SWOOSH)
        bound = 4 * EPS * ((double)t->ep.act_max + 100); /* sums of numbers of that size */
    if (t->ep.residual)
        want += (double)t->residual[i * t->ep.ldr + j];
    bound = 8 * EPS * (fabs(want) + 2) + bound;
    if (t->ep.act ? !close_to(got, want, bound) : got != (float)want)
        test_fail("m %zu n %zu k %zu act %d: c[%zu,%zu] = %a, want %a", t->g.m, t->g.n, t->g.k,
                  (int)t->ep.act, i, j, (double)got, want);
}

static void compare_element(const struct setup *t, size_t i, size_t j)
{
    int32_t sum = exact(t, i, j), got;
    if (t->g.scale) {
        compare_float(t, i, j, sum);
        return;
    }
    got = ((const int32_t *)t->g.c)[i * t->g.ldc + j];
    if (got != sum)
        test_fail("m %zu n %zu k %zu as %d bs %d: c[%zu,%zu] = %d, exact %d", t->g.m, t->g.n,
                  t->g.k, t->g.a_signed, t->w.is_signed, i, j, got, sum);
}

static void product(const steno_kernels *k, struct shape s, unsigned variant, size_t n_parts)
{
    struct setup t;
    size_t total = s.m * s.n, most = KCHECK_FEW ? 200 : 600, filled;
    setup_new(&t, k, s, variant);
    filled = span(s.m, s.n, t.g.ldc);
    for (size_t i = 0; i < filled; i++)
        t.c_mem[i] = 77.0f;
    for (size_t p = n_parts; p-- > 0;)
        k->gemm_i8_part(&t.g, p, n_parts);
    for (size_t e = 0; e < (total < most ? total : most); e++) {
        size_t at = total < most ? e : random_below(total);
        compare_element(&t, at / s.n, at % s.n);
    }
    for (size_t i = 0; i < filled; i++)
        if (i % t.g.ldc >= s.n && t.c_mem[i] != 77.0f)
            test_fail("m %zu n %zu: wrote beyond row %zu", s.m, s.n, i / t.g.ldc);
    setup_free(&t);
}

/* 255 * 127 everywhere: a 16-bit sum of two products cannot hold it. */
static void extremes(const steno_kernels *k)
{
    static const uint8_t ends[] = {0x00, 0x7f, 0x80, 0xff};
    for (unsigned e = 0; e < 16; e++)
        for (unsigned variant = 0; variant < 4; variant++) {
            struct setup t;
            struct shape s = {5, 40, 131};
            setup_new(&t, k, s, variant);
            memset((uint8_t *)t.a_mem, ends[e % 4], span(s.m, s.k, t.g.lda));
            memset((uint8_t *)t.b_mem, ends[e / 4], span(s.k, s.n, t.w.ldb));
            t.g.a = t.a_mem;
            t.w.b = t.b_mem;
            k->gemm_i8_pack(t.packed, &t.w);
            k->gemm_i8_part(&t.g, 0, 1);
            for (size_t i = 0; i < s.m * s.n; i++)
                compare_element(&t, i / s.n, i % s.n);
            setup_free(&t);
        }
}

static void rounding(const steno_kernels *k)
{
    static const float special[] = {NAN,  INFINITY, -INFINITY, 0.0f,  -0.0f, 0.5f,
                                    1.5f, 2.5f,     -0.5f,     -1.5f, 1e30f, -1e30f};
    for (size_t n = 0; n < 140; n += n < 40 ? 1 : 33)
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            float *x = guard_new(n), *mem, scale = n % 3 ? 0.37f : 1.0f;
            uint8_t *q = bytes_new(n, &mem);
            int32_t zero = any_byte(is_signed);
            fill_uniform(x, n);
            for (size_t i = 0; i < n; i++)
                x[i] = random_below(3) ? x[i] * 150 : special[random_below(12)];
            k->quantize_f32(q, x, n, scale, zero, is_signed);
            for (size_t i = 0; i < n; i++) {
                float v = nearbyintf(x[i] / scale) + (float)zero;
                float want =
                    v != v ? 0 : fminf(fmaxf(v, is_signed ? -128 : 0), is_signed ? 127 : 255);
                if ((float)byte(q + i, is_signed) != want)
                    test_fail("n %zu: %a / %a + %d to %s: %d, want %g", n, (double)x[i],
                              (double)scale, zero, is_signed ? "i8" : "u8",
                              (int)byte(q + i, is_signed), (double)want);
            }
            guard_free(x);
            guard_free(mem);
        }
}

static void bytes_as_floats(const steno_kernels *k)
{
    for (size_t n = 0; n < 140; n += n < 40 ? 1 : 33)
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            float *y = guard_new(n), *mem, scale = n % 3 ? 0.37f : -1e-3f;
            uint8_t *q = bytes_new(n, &mem);
            int32_t zero = any_byte(is_signed);
            for (size_t i = 0; i < n; i++)
                q[i] = (uint8_t)random_bits();
            k->dequantize_f32(y, q, n, scale, zero, is_signed);
            for (size_t i = 0; i < n; i++) {
                const float want = (float)(byte(q + i, is_signed) - zero) * scale;
                if (y[i] != want)
                    test_fail("n %zu: (%d - %d) * %a: %a, want %a", n, (int)byte(q + i, is_signed),
                              zero, (double)scale, (double)y[i], (double)want);
            }
            guard_free(y);
            guard_free(mem);
        }
}

/* Every level against the definition, element by element. For infinities and ranges that overflow,
 * only the scale is checked. */
static void rows_rounded(const steno_kernels *k)
{
    static const float special[] = {NAN, 0.0f, -0.0f, 1e-40f, -1e-38f, 3e38f, -3e38f, INFINITY};
    for (size_t n = 0; n < 140; n += n < 40 ? 1 : 33)
        for (size_t kind = 0; kind < 13; kind++) {
            float *x = guard_new(n), *mem, lo = 0, hi = 0, scale, got, range[2] = {0, 0};
            uint8_t *q = bytes_new(n, &mem);
            int32_t zero = -1, at;
            fill_uniform(x, n);
            for (size_t i = 0; i < n; i++) {
                x[i] = kind == 0   ? 0
                       : kind == 1 ? fabsf(x[i])
                       : kind == 2 ? -fabsf(x[i])
                                   : x[i] * 99;
                if (kind > 3 && kind < 12 && random_below(3) == 0)
                    x[i] = special[kind - 4];
                if (kind == 12)
                    x[i] *= 1e-40f;
                lo = fminf(lo, x[i]);
                hi = fmaxf(hi, x[i]);
            }
            got = k->quantize_row_f32(q, x, n, &zero);
            k->range_f32(x, n, range);
            if (range[0] != lo || range[1] != hi)
                test_fail("n %zu kind %zu: range %a to %a, want %a to %a", n, kind,
                          (double)range[0], (double)range[1], (double)lo, (double)hi);
            scale = (hi - lo) / 255;
            scale = scale > 0 && 1 / scale <= FLT_MAX ? scale : 1;
            at = (int32_t)nearbyintf(fminf(fmaxf(-lo * (1 / scale), 0), 255));
            if (memcmp(&got, &scale, sizeof scale) || zero != at)
                test_fail("n %zu kind %zu: scale %a zero %d, want %a and %d", n, kind, (double)got,
                          zero, (double)scale, at);
            for (size_t i = 0; i < n; i++) {
                float v = nearbyintf(x[i] * (1 / scale)) + (float)at;
                float want = v != v ? 0 : fminf(fmaxf(v, 0), 255);
                if ((float)q[i] != want)
                    test_fail("n %zu kind %zu: %a to %d, want %g", n, kind, (double)x[i], (int)q[i],
                              (double)want);
            }
            guard_free(x);
            guard_free(mem);
        }
}

/* Sums of one, two and four rows, and their range: exact operations in one order. */
static void rows_summed(const steno_kernels *k)
{
    static const size_t counts[] = {1, 2, 4};
    for (size_t n = 0; n < 140; n += n < 40 ? 1 : 33)
        for (unsigned v = 0; v < 12; v++) {
            const size_t n_x = counts[v / 4];
            const bool minus[2] = {v & 1, v & 2};
            const float s0 = minus[0] ? -1 : 1, s1 = minus[1] ? -1 : 1;
            float *x[4], *to = guard_new(n), range[2] = {0, 0}, lo = 0, hi = 0;
            const float *from[4], *got;
            for (size_t t = 0; t < 4; t++) {
                from[t] = x[t] = guard_new(n);
                fill_uniform(x[t], n);
            }
            if (n > 2)
                x[0][n / 2] = NAN;
            got = k->sum_rows_f32(to, from, n_x, minus, n, range);
            for (size_t i = 0; i < n; i++) {
                float want = x[0][i];
                if (n_x > 1)
                    want += s1 * x[1][i];
                if (n_x == 4)
                    want += s0 * (x[2][i] + s1 * x[3][i]);
                lo = fminf(lo, want);
                hi = fmaxf(hi, want);
                if (!(got[i] == want) && want == want)
                    test_fail("n %zu rows %zu: %zu is %a, want %a", n, n_x, i, (double)got[i],
                              (double)want);
            }
            if (range[0] != lo || range[1] != hi)
                test_fail("n %zu rows %zu: range %a to %a, want %a to %a", n, n_x, (double)range[0],
                          (double)range[1], (double)lo, (double)hi);
            for (size_t t = 0; t < 4; t++)
                guard_free(x[t]);
            guard_free(to);
        }
}

static void row_spread(const steno_kernels *k)
{
    for (size_t n = 1; n < 140; n += n < 40 ? 1 : 33)
        for (unsigned v = 0; v < 36; v++) {
            const size_t count[2] = {1 + v % 3, 1 + v / 3 % 3}, line = count[1] * n + v % 2;
            const size_t all = (count[0] - 1) * line + count[1] * n;
            const bool minus[2] = {v / 9 & 1, v / 9 & 2};
            float *y = guard_new(all), *row = guard_new(n), *want = guard_new(all);
            fill_uniform(y, all);
            fill_uniform(row, n);
            memcpy(want, y, all * sizeof *y);
            for (size_t a = 0; a < count[0]; a++)
                for (size_t b = 0; b < count[1]; b++)
                    for (size_t i = 0; i < n; i++)
                        want[a * line + b * n + i] +=
                            ((minus[0] && a == 1) != (minus[1] && b == 1) ? -1.0f : 1.0f) * row[i];
            k->spread_row_f32(y, line, count, minus, row, n);
            for (size_t i = 0; i < all; i++)
                if (y[i] != want[i])
                    test_fail("n %zu to %zu x %zu: %zu is %a, want %a", n, count[0], count[1], i,
                              (double)y[i], (double)want[i]);
            guard_free(y);
            guard_free(row);
            guard_free(want);
        }
}

void check_gemm_i8(const steno_kernels *k)
{
    if (test_begin(k, "gemm_i8_part")) {
        for (size_t i = 0; i < N_SHAPES; i++)
            for (unsigned v = 0; v < 24; v++)
                product(k, shapes[i], v < 4 ? v : (unsigned)random_bits() & 4095, 1 + v % 4);
        extremes(k);
        test_end();
    }
    if (test_begin(k, "quantize_f32")) {
        rounding(k);
        test_end();
    }
    if (test_begin(k, "dequantize_f32")) {
        bytes_as_floats(k);
        test_end();
    }
    if (test_begin(k, "quantize_row_f32")) {
        rows_rounded(k);
        test_end();
    }
    if (test_begin(k, "sum_rows_f32")) {
        rows_summed(k);
        test_end();
    }
    if (test_begin(k, "spread_row_f32")) {
        row_spread(k);
        test_end();
    }
}
