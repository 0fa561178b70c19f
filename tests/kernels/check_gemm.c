#include "tests/kernels/kcheck.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "nn/kernels/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    size_t m, n, k;
};

/* Edges of both register tiles and of the K block, then shapes of real models: digits-en (6 frames,
 * width 128), an ESPnet conformer (25 frames, width 256, heads of 64), an LM step, a tall one. */
static const struct shape shapes[] = {
    {0, 5, 3},      {1, 0, 3},      {1, 1, 0},     {3, 33, 0},     {1, 1, 1},     {1, 31, 7},
    {1, 32, 8},     {1, 128, 40},   {1, 161, 64},  {2, 33, 9},     {2, 96, 255},  {3, 17, 256},
    {4, 16, 257},   {5, 65, 513},   {6, 128, 512}, {7, 15, 30},    {8, 48, 16},   {9, 40, 33},
    {10, 64, 64},   {11, 20, 11},   {12, 13, 14},  {13, 64, 100},  {14, 32, 256}, {15, 33, 31},
    {16, 100, 64},  {25, 256, 256}, {25, 64, 25},  {29, 70, 300},  {84, 32, 64},  {85, 47, 300},
    {100, 100, 64}, {170, 40, 520}, {2, 70, 1100}, {12, 40, 1030}, {33, 72, 100}, {48, 33, 1000},
    {35, 3, 9000}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* Blocks of rows, several parts of K whose sums meet in C, and panels that are not full. */
static const struct shape large[] = {
    {1, 70, 2100},  {17, 64, 1100}, {33, 97, 130}, {300, 50, 600},  {65, 40, 64},    {257, 33, 900},
    {40, 32, 9000}, {24, 96, 512},  {31, 64, 32},  {600, 20, 2200}, {250, 40, 9728}, {60, 70, 700}};

struct setup {
    struct shape s;
    size_t lda, ldb, ldc;
    bool trans_a, trans_b;
    float *a, *b, *c, *bias, *residual;
    struct steno_gemm_epilogue ep;
    const struct steno_gemm_epilogue *use;
    double slack; /* added to the magnitude of the products, times that of A; usually 0 */
    bool approx;  /* SiLU and GELU are within 2^-13 */
};

static size_t span(size_t rows, size_t cols, size_t ld)
{
    return rows && cols ? (rows - 1) * ld + cols : 0;
}

static size_t c_span(const struct setup *t)
{
    return span(t->s.m, t->s.n, t->ldc);
}

static void setup_new(struct setup *t, struct shape s, bool trans_a, bool trans_b, int variant)
{
    size_t a_rows = trans_a ? s.k : s.m, a_cols = trans_a ? s.m : s.k;
    size_t b_rows = trans_b ? s.n : s.k, b_cols = trans_b ? s.k : s.n;
    memset(t, 0, sizeof *t);
    t->s = s;
    t->trans_a = trans_a;
    t->trans_b = trans_b;
    t->lda = a_cols + (variant & 1);
    t->ldb = b_cols + (size_t)(variant & 2);
    t->ldc = s.n + (size_t)(variant & 3);
    t->a = guard_new(span(a_rows, a_cols, t->lda));
    t->b = guard_new(span(b_rows, b_cols, t->ldb));
    t->c = guard_new(c_span(t));
    t->bias = guard_new(variant & 8 ? s.m : s.n);
    t->residual = guard_new(span(s.m, s.n, s.n + 1));
    fill_uniform(t->a, span(a_rows, a_cols, t->lda));
    fill_uniform(t->b, span(b_rows, b_cols, t->ldb));
    fill_uniform(t->bias, variant & 8 ? s.m : s.n);
    fill_uniform(t->residual, span(s.m, s.n, s.n + 1));
    for (size_t i = 0; i < c_span(t); i++)
        t->c[i] = 77.0f;
    t->ep = (struct steno_gemm_epilogue){.alpha = variant & 4 ? 0.125f : 1.0f,
                                         .bias = variant & 1 ? t->bias : NULL,
                                         .bias_rows = variant & 8,
                                         .residual = variant & 2 ? t->residual : NULL,
                                         .ldr = s.n + 1,
                                         .act = (enum steno_activation)(variant % N_ACTIVATIONS),
                                         .act_min = -0.25f,
                                         .act_max = 0.5f};
    t->use = variant ? &t->ep : NULL;
}

static void setup_free(struct setup *t)
{
    guard_free(t->a);
    guard_free(t->b);
    guard_free(t->c);
    guard_free(t->bias);
    guard_free(t->residual);
}

static double sum_of_magnitudes(const float *x, size_t step, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)x[i * step]);
    return sum;
}

/* Against double: k eps sum|a b| for the product, then the roundings of the epilogue; activations
 * have slope <= 1.13. */
static void compare_element(const struct setup *t, size_t i, size_t j)
{
    const float *a = t->a + i * (t->trans_a ? 1 : t->lda),
                *b = t->b + j * (t->trans_b ? t->ldb : 1);
    const size_t next_a = t->trans_a ? t->lda : 1, next_b = t->trans_b ? 1 : t->ldb;
    double sum = 0, mag = 0, of_a = 0, want, bound;
    for (size_t l = 0; l < t->s.k; l++) {
        const double v = (double)a[l * next_a] * (double)b[l * next_b];
        sum += v;
        mag += fabs(v);
    }
    if (t->slack > 0)
        of_a = sum_of_magnitudes(a, next_a, t->s.k);
    mag += t->slack * of_a;
    bound = 1.2 * (double)(t->s.k + 1) * EPS * mag + 1e-30;
    want = sum;
    if (t->use) {
        const struct steno_gemm_epilogue *ep = t->use;
        want *= (double)ep->alpha;
        bound *= (double)ep->alpha;
        if (ep->bias)
            want += (double)ep->bias[ep->bias_rows ? i : j];
        bound += 8 * EPS * (fabs(want) + 1);
        bound *= ep->act == STENO_ACT_HARD_SWISH ? 1.5 : 1; /* its slope */
        want = activation_of(want, ep);
        bound += t->approx && ep->act == STENO_ACT_SILU ? 0x1p-13 * fabs(want) : 0;
        bound += t->approx && ep->act == STENO_ACT_GELU ? 0x1p-13 * fabs(want) + 0x1p-18 : 0;
        if (ep->residual)
            want += (double)ep->residual[i * ep->ldr + j];
        bound += 4 * EPS * fabs(want);
    }
    if (!close_to(t->c[i * t->ldc + j], want, bound))
        test_fail("m %zu n %zu k %zu ta %d tb %d act %d: c[%zu,%zu] = %a, exact %a, bound %.3g",
                  t->s.m, t->s.n, t->s.k, t->trans_a, t->trans_b, t->use ? (int)t->use->act : -1, i,
                  j, (double)t->c[i * t->ldc + j], want, bound);
}

/* All of C, or that number of random elements of it. Nothing may be written between its rows. */
static void compare(const struct setup *t)
{
    const size_t total = t->s.m * t->s.n, most = KCHECK_FEW ? 200 : 2000;
    for (size_t e = 0; e < (total < most ? total : most); e++) {
        size_t at = total < most ? e : random_below(total);
        compare_element(t, at / t->s.n, at % t->s.n);
    }
    for (size_t i = 0; i < c_span(t); i++)
        if (i % t->ldc >= t->s.n && t->c[i] != 77.0f)
            test_fail("m %zu n %zu: wrote beyond row %zu", t->s.m, t->s.n, i / t->ldc);
}

static void *pack(const steno_kernels *k, const struct setup *t)
{
    void *p = steno_aligned_alloc(k->gemm_f32_packed_bytes(t->s.k, t->s.n));
    if (!p)
        exit(2);
    k->gemm_f32_pack(p, t->b, t->ldb, t->trans_b, t->s.k, t->s.n);
    return p;
}

static void packed_of(const steno_kernels *k, struct shape s, int variant)
{
    struct setup t;
    void *b;
    setup_new(&t, s, false, variant % 3 == 1, variant);
    b = pack(k, &t);
    if (variant % 2)
        k->gemm_f32_packed(t.s.m, t.s.n, t.s.k, t.a, t.lda, b, t.c, t.ldc, t.use);
    for (size_t p = 0; p < 2 && variant % 2 == 0; p++)
        k->gemm_f32_packed_part(t.s.m, t.s.n, t.s.k, t.a, t.lda, b, t.c, t.ldc, t.use, p, 2);
    compare(&t);
    steno_aligned_free(b);
    setup_free(&t);
}

static void packed(const steno_kernels *k)
{
    for (size_t i = 0; i < N_SHAPES; i++)
        for (int variant = 0; variant < 16; variant++)
            packed_of(k, shapes[i], variant);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        for (int variant = 0; variant < 16; variant += KCHECK_FEW ? 7 : 3)
            packed_of(k, large[i], variant);
}

static void unpacked(const steno_kernels *k)
{
    for (size_t i = 0; i < N_SHAPES; i++)
        for (int variant = 0; variant < 16; variant++) {
            struct setup t;
            void *work;
            setup_new(&t, shapes[i], variant & 2, (variant + variant / 4) & 1, variant);
            work = steno_aligned_alloc(k->gemm_f32_work(t.s.m, t.s.n, t.s.k));
            k->gemm_f32(t.s.m, t.s.n, t.s.k, t.a, t.lda, t.trans_a, t.b, t.ldb, t.trans_b, t.c,
                        t.ldc, t.use, work);
            compare(&t);
            steno_aligned_free(work);
            setup_free(&t);
        }
}

static void same_bits(const struct setup *t, const float *whole, const char *what)
{
    for (size_t i = 0; i < t->s.m; i++)
        if (memcmp(whole + i * t->ldc, t->c + i * t->ldc, t->s.n * sizeof *whole))
            test_fail("m %zu n %zu k %zu: row %zu differs %s", t->s.m, t->s.n, t->s.k, i, what);
}

/* Any number of parts, and any set of rows computed together, give the same bits. */
static void parts(const steno_kernels *k)
{
    for (size_t i = 0; i < N_SHAPES; i++)
        for (size_t n_parts = 1; n_parts <= 5; n_parts++) {
            struct setup t;
            float *whole;
            void *b;
            setup_new(&t, shapes[i], false, false, 5);
            b = pack(k, &t);
            k->gemm_f32_packed(t.s.m, t.s.n, t.s.k, t.a, t.lda, b, t.c, t.ldc, t.use);
            whole = t.c;
            t.c = guard_new(c_span(&t));
            for (size_t p = n_parts; p-- > 0;)
                k->gemm_f32_packed_part(t.s.m, t.s.n, t.s.k, t.a, t.lda, b, t.c, t.ldc, t.use, p,
                                        n_parts);
            same_bits(&t, whole, "when shared out");
            for (size_t r = 0; r < t.s.m; r++)
                k->gemm_f32_packed(1, t.s.n, t.s.k, t.a + r * t.lda, t.lda, b, t.c + r * t.ldc,
                                   t.ldc, t.use);
            same_bits(&t, whole, "when computed alone");
            guard_free(whole);
            steno_aligned_free(b);
            setup_free(&t);
        }
}

static void nan_stays_in_its_row(const steno_kernels *k)
{
    struct setup t;
    void *b;
    setup_new(&t, (struct shape){9, 40, 33}, false, false, 0);
    t.a[4 * t.lda + 7] = NAN;
    b = pack(k, &t);
    k->gemm_f32_packed(t.s.m, t.s.n, t.s.k, t.a, t.lda, b, t.c, t.ldc, NULL);
    for (size_t i = 0; i < t.s.m; i++)
        for (size_t j = 0; j < t.s.n; j++)
            if (!!isnan(t.c[i * t.ldc + j]) != (i == 4))
                test_fail("NaN of row 4: c[%zu,%zu] = %a", i, j, (double)t.c[i * t.ldc + j]);
    steno_aligned_free(b);
    setup_free(&t);
}

/* ---- weights of 16 bits ---- */

/* Every row computed alone, against all together in three parts. */
static void rows_alone(const struct steno_gemm_weights *g, struct setup *t, const void *b)
{
    float *whole = t->c;
    struct steno_gemm_epilogue ep = t->ep;
    t->c = guard_new(c_span(t));
    for (size_t r = 0; r < t->s.m; r++) {
        ep.residual = t->ep.residual ? t->ep.residual + r * ep.ldr : NULL;
        g->part(1, t->s.n, t->s.k, t->a + r * t->lda, t->lda, b, t->c + r * t->ldc, t->ldc,
                t->use ? &ep : NULL, 0, 1);
    }
    same_bits(t, whole, "when computed alone");
    guard_free(t->c);
    t->c = whole;
}

typedef uint16_t round_fn(float x);
typedef float widen_fn(uint16_t h);

/* No neighbour is closer, and ties go to even; NaN and infinities stay. */
static void rounds_to_nearest(round_fn *round_to, widen_fn *widen, uint16_t infinity)
{
    for (int i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)random_bits();
        uint16_t h;
        float x;
        double d;
        if (i % 3 == 0) /* the range of halves, and ties */
            bits = (bits & 0x8000ffffu) | (uint32_t)(0x3280 + random_below(0x1600)) << 16;
        if (i % 3 == 1)
            bits &= 0xfffff000u;
        memcpy(&x, &bits, sizeof x);
        h = round_to(x);
        if (isnan(x) ? !isnan(widen(h)) : (h & 0x7fff) > infinity)
            test_fail("%a becomes %04x", (double)x, h);
        if (isnan(x) || (h & 0x7fff) == infinity || (h & 0x7fff) == 0)
            continue;
        d = fabs((double)x - (double)widen(h));
        for (int s = -1; s <= 1; s += 2) {
            double other = fabs((double)x - (double)widen((uint16_t)(h + s)));
            if (other < d || (other == d && h & 1))
                test_fail("%a becomes %04x, %04x is closer", (double)x, h, h + s);
        }
    }
    if (round_to(INFINITY) != infinity || round_to(-INFINITY) != (infinity | 0x8000) ||
        round_to(-0.0f) != 0x8000 || round_to(1e-30f) != round_to(widen(round_to(1e-30f))))
        test_fail("an end of the range is off");
}

static void round_all(float *x, size_t n, round_fn *round_to, widen_fn *widen)
{
    for (size_t i = 0; i < n; i++)
        x[i] = widen(round_to(x[i]));
}

/* rounds_a: the level's kernel also rounds A. */
static void sixteen_bits(const struct steno_gemm_weights *g, round_fn *round_to, widen_fn *widen,
                         bool rounds_a)
{
    for (size_t i = 0; i < N_SHAPES; i++)
        for (int variant = 0; variant < 16; variant++) {
            struct setup t;
            void *b;
            setup_new(&t, shapes[i], false, variant % 3 == 1, variant);
            b = steno_aligned_alloc(g->packed_bytes(t.s.k, t.s.n));
            if (!b)
                exit(2);
            g->pack(b, t.b, t.ldb, t.trans_b, t.s.k, t.s.n);
            for (size_t p = 0; p < 3; p++)
                g->part(t.s.m, t.s.n, t.s.k, t.a, t.lda, b, t.c, t.ldc, t.use, p, 3);
            if (!(variant & 8)) /* no bias per row */
                rows_alone(g, &t, b);
            round_all(t.b, span(t.trans_b ? t.s.n : t.s.k, t.trans_b ? t.s.k : t.s.n, t.ldb),
                      round_to, widen);
            if (rounds_a)
                round_all(t.a, span(t.s.m, t.s.k, t.lda), round_to, widen);
            t.approx = rounds_a;
            compare(&t);
            steno_aligned_free(b);
            setup_free(&t);
        }
}

/* Weights of few bits: the product by them, against the product with the rows of B that they
 * represent. */
static void few_bits(const steno_kernels *k)
{
    static const size_t all_bits[] = {2, 4, 8}, all_blocks[] = {16, 32, 256};
    for (size_t i = 0; i < N_SHAPES; i++)
        for (int v = 0; v < 9; v++) {
            struct setup t;
            struct steno_nbits b = {.bits = all_bits[v % 3], .block = all_blocks[v / 3]};
            size_t blocks, bytes;
            uint8_t *q;
            float *scale;
            void *packed, *work;
            if (!shapes[i].k)
                continue;
            setup_new(&t, shapes[i], false, true, v);
            b.k = t.s.k;
            b.n = t.s.n;
            blocks = (b.k + b.block - 1) / b.block;
            bytes = b.n * blocks * b.block * b.bits / 8;
            q = malloc(bytes + 1);
            scale = malloc((2 * b.n * blocks + 1) * sizeof *scale);
            b.has_zero = v % 2;
            packed = steno_aligned_alloc(k->gemm_nbits.packed_bytes(&b));
            work = steno_aligned_alloc(k->gemm_nbits.work_bytes(&b, 3) + 1);
            if (!q || !scale || !packed || !work)
                exit(2);
            for (size_t e = 0; e < bytes; e++)
                q[e] = (uint8_t)random_bits();
            fill_uniform(scale, 2 * b.n * blocks);
            for (size_t e = b.n * blocks; e < 2 * b.n * blocks; e++)
                scale[e] = (float)random_below((size_t)1 << b.bits);
            b.q = q;
            b.scale = scale;
            b.zero = scale + b.n * blocks;
            for (size_t n = 0; n < b.n; n++)
                for (size_t l = 0; l < b.k; l++) {
                    size_t at = n * blocks + l / b.block;
                    float zero = b.has_zero ? b.zero[at] : (float)(1u << (b.bits - 1));
                    t.b[n * t.ldb + l] = ((float)steno_nbits_value(&b, l, n) - zero) * scale[at];
                }
            k->gemm_nbits.pack(packed, &b);
            for (size_t p = 0; p < 3; p++)
                k->gemm_nbits.part(&b, t.s.m, t.a, t.lda, packed, t.c, t.ldc, t.use, work, p, 3);
            t.slack = 2 << b.bits; /* q and its zero point are summed separately */
            compare(&t);
            steno_aligned_free(packed);
            steno_aligned_free(work);
            free(q);
            free(scale);
            setup_free(&t);
        }
}

void check_gemm(const steno_kernels *k)
{
    if (strcmp(k->level, "blas") && test_begin(k, "gemm_nbits")) {
        few_bits(k);
        test_end();
    }
    if (strcmp(k->level, "blas") && test_begin(k, "gemm_bf16")) {
        if (!strcmp(k->level, "scalar")) /* no other level has its own */
            rounds_to_nearest(half_to_bf16, half_from_bf16, 0x7f80);
        sixteen_bits(&k->gemm_bf16, half_to_bf16, half_from_bf16, k->cpu & STENO_CPU_BF16);
        test_end();
    }
    if (strcmp(k->level, "blas") && test_begin(k, "gemm_f16")) {
        if (!strcmp(k->level, "scalar"))
            rounds_to_nearest(half_to_f16, half_from_f16, 0x7c00);
        sixteen_bits(&k->gemm_f16, half_to_f16, half_from_f16, false);
        test_end();
    }
    if (test_begin(k, "gemm_f32_packed")) {
        packed(k);
        nan_stays_in_its_row(k);
        test_end();
    }
    /* at level blas OpenBLAS decides the bits; there `packed` goes through parts instead */
    if (strcmp(k->level, "blas") && test_begin(k, "gemm_f32_packed_part")) {
        parts(k);
        test_end();
    }
    if (test_begin(k, "gemm_f32")) {
        unpacked(k);
        test_end();
    }
}
