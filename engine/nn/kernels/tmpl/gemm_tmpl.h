/* C = act(alpha A B + bias) + residual in f32 for one vector width.
 *
 * Packed B: panels of NR = 2 VL columns, each [K][NR] row-major, the last one padded with zero
 * columns. So a panel is one sequential stream for every M.
 *
 * Register tile: MR rows x NR columns. AVX-512 has 32 registers: 14 x 2 accumulators + 2 of B + 1
 * broadcast of A. AVX2 has 16: 6 x 2 + 2 + 1. M is divided into tiles of nearly equal height and
 * not 14, 14, ..., 2, because a low tile has too few independent sums to hide the FMA latency. For
 * the same reason low tiles take several panels at a time.
 *
 * Blocks: KC rows of B x NR columns stay in L2 while they are multiplied by MC rows of A, and the
 * first tiles prefetch the next panel. Those rows of A are first copied to the stack with a fixed
 * row stride. So the inner loop addresses them by constants, and the power-of-two strides of real
 * models do not fall into the same cache sets. Measured on a 2.5 GHz Cascade Lake (1 MiB L2, 153
 * GFLOP/s): KC 256 to 512 gains 10 % at K = 1024 (C is read and written half as often), prefetch
 * another 8 %.
 *
 * Every element of C is summed over k in order, in blocks of KC. Its bits do not depend on M, on
 * the tile, or on the division of the work. */
#include "nn/kernels/internal.h"

#include "nn/kernels/tmpl/math_tmpl.h"

#ifdef GEMM_APPROX /* the output is rounded to bf16 anyway */
#include "nn/kernels/tmpl/approx_tmpl.h"
#define ACTIVATE_EACH activate_approx_each
#define ACTIVATE activate_approx
#else
#include "nn/kernels/tmpl/activate_tmpl.h"
#define ACTIVATE_EACH activate_each
#define ACTIVATE activate
#endif

#include "nn/kernels/tmpl/prefetch.h"

#include <stdalign.h>
#include <string.h>

/* An element of packed B is a float, or with GEMM_W16 what the includer defines:
 *   b_t, b_load    an element, and a vector of elements widened to f32 (gemm_w16_tmpl.h)
 * With GEMM_PAIRS too, an element is two consecutive bf16 along K, and so is an element of the copy
 * of A (gemm_bf16.c):
 *   mac            sum + a * b, both products of each lane
 *   round_pairs    n floats of A as (n + 1) / 2 pairs, the last one padded with zero
 * K then counts pairs, in products and below. */
#ifndef GEMM_W16
enum { FLOATS = 1 };
typedef float b_t;
static inline vf b_load(const b_t *p)
{
    return v_load(p);
}
#else
enum { FLOATS = 0 };
#endif
#ifdef AMX_DOT
enum { K_STEP = 2, KC_STEP = AMX_LANES }; /* panels are padded to a multiple of this many pairs */
#elif defined(GEMM_PAIRS)
enum { K_STEP = 2, KC_STEP = 1 };
#else
enum { K_STEP = 1, KC_STEP = 1 };
static inline vf mac(vf a, vf b, vf sum)
{
    return v_fma(a, b, sum);
}
#endif

#ifndef BEGIN /* before and after the work of a call with that many rows */
#define BEGIN(rows) ((void)0)
#define END() ((void)0)
#endif

enum {
    NR = 2 * VL,
#ifdef AMX_DOT
    MR = 32,
    MC = 512, /* maximum of rows; reading a panel from L3 takes as long as its product with 200
               * rows */
    KC = 256, /* columns of A that are gathered and rounded at a time */
    A_LD = 0, /* these are single rows */
    A_ROOM = MC * 400, /* of the copy of A: 800 KiB of L2; with 1 MiB, weights and C displace it */
#else
    MR = VL == 16  ? 14
         : VL == 4 ? 8
                   : 6,
    MC = VL == 8 ? 6 * MR
                 : 126, /* rows of A copied at a time: a multiple of MR; 260 to 290 KiB, in L2 */
    KC = VL == 8 ? 2048 : 512,
    A_LD = KC + 16, /* row stride of the copy */
    A_ROOM = MC * A_LD,
#endif
    STEPS = VL == 16 ? 1 : 4, /* values of k per step of the inner loop */
    B_ROW = NR * sizeof(b_t), /* bytes of one k in a panel */
    PREFETCHERS = B_ROW * STEPS < 128
                      ? 1
                      : B_ROW * STEPS / 64, /* tiles that together prefetch the next panel */
    SHORT = 128,     /* up to this many columns of A are copied without a call of memcpy */
    L1_DISTANCE = 8, /* prefetch distance in rows of B into L1, for B of several tiles, which is in
                      * L2 by then */
    L2_DISTANCE = VL == 8 && sizeof(b_t) == 4
                      ? 16
                      : 64, /* prefetch distance in rows of B for a single tile */
    L2_DISTANCE_FEW =
        sizeof(b_t) == 4 ? 16 : 0, /* the same for one or two rows; 0: as for several tiles */
    IN_L1 = VL == 16 && FLOATS
                ? 48
                : 0, /* the same for three or four rows, into L1 and not L2; 0: as for more rows */
    STREAM_DISTANCE =
        12288, /* prefetch distance in bytes of B into L1, for a tile that reads STREAM */
    STREAM_DISTANCE_FEW = FLOATS ? 8192 : STREAM_DISTANCE /* the same for up to four rows */
};

/* How up to PACED_ROWS rows read B with GEMM_PACED: load a vector at p, and prefetch the one
 * `prefetch` elements later. B of up to L2_BYTES bytes is probably in L2, if the network is
 * small. */
#ifdef GEMM_PACED
enum { PACED_ROWS = 6, L2_BYTES = 0 };
#define LOAD_PACED GEMM_PACED
#else
enum { PACED_ROWS = 0, L2_BYTES = VL == 16 ? 256 << 10 : 0 };
#define LOAD_PACED(p, prefetch) b_load(p)
#endif

typedef void micro_fn(size_t kc, const float *a, const b_t *b, size_t b_row, size_t b_next,
                      const b_t *prefetch, float *tile);

#ifndef AMX_DOT
/* acc += a column of A times a row of B, w vectors wide. A tile that alone reads B prefetches all
 * of it, L2_DISTANCE rows before its use. With three rows and more, computing takes as long as
 * reading memory, and without prefetching the CPU would do one after the other. One and two rows
 * compute for less time. With 16 lanes they prefetch at a distance of 2 KiB; with fewer lanes, or
 * when numbers are widened, they do not prefetch. Three and four rows are in between: f32 with 16
 * lanes prefetches into L1. With eight floats the CPU has time to fetch rows from L2 into L1 by
 * itself. */
static inline __attribute__((always_inline)) void micro_step(enum reads reads, int mr, int w,
                                                             const float *a, const b_t *b,
                                                             size_t b_row, size_t b_next,
                                                             const b_t *stream_b, vf *acc)
{
    const bool few = !reads_shared(reads), paced = few && mr <= PACED_ROWS;
    vf bv[8];
    for (size_t i = 0; i < NR && !paced; i += 64 / sizeof *b)
        if (reads == STREAM)
            __builtin_prefetch(mr < 5 ? b + STREAM_DISTANCE_FEW / sizeof *b + i : stream_b + i, 0,
                               3);
        else if (few && IN_L1 && (mr == 3 || mr == 4))
            __builtin_prefetch(b + IN_L1 * b_row + i, 0, 3);
        else if (few)
            __builtin_prefetch(b + (mr < 3 ? L2_DISTANCE_FEW : L2_DISTANCE) * b_row + i, 0, 2);
        else if (VL != 8)
            __builtin_prefetch(b + L1_DISTANCE * b_row + i, 0, 3);
#pragma GCC unroll 8
    for (int j = 0; j < w; j++) {
        const b_t *from = b + (size_t)(j / 2) * b_next + (size_t)(j % 2) * VL;
        bv[j] = paced ? LOAD_PACED(from, L2_DISTANCE * b_row) : b_load(from);
    }
#pragma GCC unroll 14
    for (int r = 0; r < mr; r++) {
        vf av = v_set1(a[(size_t)r * A_LD]);
#pragma GCC unroll 8
        for (int j = 0; j < w; j++)
            acc[r * w + j] = mac(av, bv[j], acc[r * w + j]);
    }
}

/* micro_step for all kc rows of B. With a shared B it prefetches `lines` (1 or 2) times kc / STEPS
 * cache lines from `prefetch` on. With STREAM and more than four rows it prefetches its own rows of
 * B first and then those at `prefetch`, because panels of a convolution do not follow each other in
 * memory. */
static inline __attribute__((always_inline)) void
micro_steps(enum reads reads, size_t lines, int mr, int w, size_t kc, const float *a, const b_t *b,
            size_t b_row, size_t b_next, const b_t *prefetch, vf *acc)
{
    const size_t stream_rows = STREAM_DISTANCE / B_ROW,
                 last_streamed = kc > stream_rows ? kc - stream_rows : 0;
    const b_t *stream_b = b + stream_rows * b_row, *start = prefetch;
    size_t k = 0;
    for (; k + STEPS <= kc;
         k += STEPS, a += STEPS, b += STEPS * b_row, prefetch += lines * 64 / sizeof *b) {
        if (reads == STREAM && mr > 4 && k == last_streamed)
            stream_b = start;
        prefetch_next(reads, prefetch);
        if (lines == 2)
            prefetch_next(reads, prefetch + 64 / sizeof *b);
#pragma GCC unroll 4
        for (size_t u = 0; u < STEPS; u++)
            micro_step(reads, mr, w, a + u, b + u * b_row, b_row, b_next, stream_b, acc);
        stream_b += b_row;
    }
    for (; STEPS > 1 && k < kc; k++, a++, b += b_row)
        micro_step(reads, mr, w, a, b, b_row, b_next, stream_b, acc);
}

/* tile [mr][w * VL] = A [mr][kc] * B; rows of B are b_row floats apart, panels b_next. Always
 * inlined with constant lines, mr and w, so that acc stays in registers. In the highest tile of
 * AVX2 each k takes 12 FMA. With four k per step and constant offsets in a packed panel there are
 * 21 operations per k, with one k per step 27. A core dispatches 24 to 36 in the time of 12 FMA,
 * and half of that when its other thread works too. */
static inline __attribute__((always_inline)) void micro(enum reads reads, size_t lines, int mr,
                                                        int w, size_t kc, const float *a,
                                                        const b_t *b, size_t b_row, size_t b_next,
                                                        const b_t *prefetch, float *tile)
{
    vf acc[MR * 2];
#pragma GCC unroll 28
    for (int i = 0; i < mr * w; i++)
        acc[i] = v_zero();
    if (STEPS > 1 && b_row == NR)
        micro_steps(reads, lines, mr, w, kc, a, b, NR, b_next, prefetch, acc);
    else
        micro_steps(reads, lines, mr, w, kc, a, b, b_row, b_next, prefetch, acc);
#pragma GCC unroll 28
    for (int i = 0; i < mr * w; i++)
        v_store(tile + (size_t)i * VL, acc[i]);
}

#define MICRO(name, reads, mr, panels)                                                             \
    static void name##_##mr##x##panels(size_t kc, const float *a, const b_t *b, size_t b_row,      \
                                       size_t b_next, const b_t *prefetch, float *tile)            \
    {                                                                                              \
        micro(reads == ALONE && mr < 3 && !L2_DISTANCE_FEW ? SHARED : reads, 1, mr, 2 * panels,    \
              kc, a, b, b_row, b_next, prefetch, tile);                                            \
    }
/* The same for the first half of a panel whose second half is empty. */
#define HALF(mr)                                                                                   \
    static void half_##mr(size_t kc, const float *a, const b_t *b, size_t b_row, size_t b_next,    \
                          const b_t *prefetch, float *tile)                                        \
    {                                                                                              \
        micro(SHARED, 1, mr, 1, kc, a, b, b_row, b_next, prefetch, tile);                          \
    }
MICRO(micro, SHARED, 1, 4)
MICRO(micro, SHARED, 2, 2)
/* Kernels of two panels at once, by rows. */
#if VL == 8
MICRO(few, ALONE, 3, 2)
static micro_fn *const two_panels[] = {NULL, NULL, micro_2x2, few_3x2};
#else
MICRO(micro, SHARED, 3, 2)
MICRO(micro, SHARED, 4, 2)
static micro_fn *const two_panels[] = {NULL, NULL, micro_2x2, micro_3x2, micro_4x2};
#endif
#include "nn/kernels/tmpl/tiles_tmpl.h"
HALF(1)
HALF(2)
HALF(3)
HALF(4)
HALF(5)
HALF(6)
#if VL == 16
HALF(7)
HALF(8)
HALF(9)
HALF(10)
HALF(11)
HALF(12)
HALF(13)
HALF(14)
static micro_fn *const half_by_rows[MR + 1] = {NULL,    half_1,  half_2,  half_3,  half_4,
                                               half_5,  half_6,  half_7,  half_8,  half_9,
                                               half_10, half_11, half_12, half_13, half_14};
#elif VL == 8
static micro_fn *const half_by_rows[MR + 1] = {NULL,   half_1, half_2, half_3,
                                               half_4, half_5, half_6};
#else
HALF(7)
HALF(8)
static micro_fn *const half_by_rows[MR + 1] = {NULL,   half_1, half_2, half_3, half_4,
                                               half_5, half_6, half_7, half_8};
#endif
#if VL == 8 && !defined(GEMM_W16)
/* When the tiles are too few to prefetch all of the next panel at one line per step, they prefetch
 * two. */
#define TWO_LINES(mr)                                                                              \
    static void two_##mr(size_t kc, const float *a, const b_t *b, size_t b_row, size_t b_next,     \
                         const b_t *prefetch, float *tile)                                         \
    {                                                                                              \
        micro(SHARED, 2, mr, 2, kc, a, b, b_row, b_next, prefetch, tile);                          \
    }
TWO_LINES(3)
TWO_LINES(4)
TWO_LINES(5)
TWO_LINES(6)
static micro_fn *const two_by_rows[MR + 1] = {NULL, NULL, NULL, two_3, two_4, two_5, two_6};
#else
#define two_by_rows micro_by_rows /* two tiles at one line per step suffice */
#endif
/* Panels that a tile of this height takes at a time, where one panel has too few sums to hide the
 * FMA latency. Wide vectors take one panel, so that weights from memory are read as one stream; if
 * B is small they take several. */
static size_t panels_at_once(size_t rows, bool small)
{
    const size_t most = VL == 16 ? 4 : VL == 8 && sizeof(b_t) == 4 ? 3 : 2;
    return (VL == 16 && !small) || rows > most ? 1 : rows == 1 ? 4 : 2;
}
#endif

struct product {
    size_t n, k;
    size_t depth; /* columns of A: k, or with pairs 2 k or 2 k - 1 */
    const float *a;
    size_t a_row, a_col; /* strides */
    /* Copies rows [i0, i0 + rows) and columns [k0, k0 + kc) of an A that does not exist in memory:
     * the patches of `image`, whose pixels are at a. Else NULL. */
    void (*gather)(const struct product *p, float *buf, size_t i0, size_t rows, size_t k0,
                   size_t kc);
    const struct steno_conv *image;
    /* Returns columns [k0, k0 + n) of row i where they are contiguous in memory, else NULL: then
     * gather copies them. May be NULL. */
    const float *(*in_place)(const struct product *p, size_t i, size_t k0, size_t n);
    /* winograd_tmpl.h: add sums to C. With spread, that function stores them. */
    bool add;
    void (*spread)(const struct product *p, const float *tile, size_t rows, size_t width, size_t i,
                   size_t j, size_t cols);
    const struct winograd *few;
    bool a_panels;   /* A is the transpose of a packed B: panels of NR rows of A, each [K][NR] */
    const b_t *b;    /* element (k, panel j): b[k * b_row + j * b_next] */
    const b_t *then; /* panel 0 of what is read after the last row of all panels; NULL: the panels
                      * that follow in memory */
    size_t b_row, b_next;
    float *c;
    size_t ldc;
    const struct steno_gemm_epilogue *ep;
};

/* k in the unit in which products count it. */
static size_t depth_of(size_t k)
{
    return (k + KC_STEP * K_STEP - 1) / (KC_STEP * K_STEP) * KC_STEP;
}

/* The product of a row-major A and a packed B. */
static struct product product_of(size_t n, size_t k, const float *a, size_t lda, const void *packed,
                                 float *c, size_t ldc, const struct steno_gemm_epilogue *ep)
{
    return (struct product){.n = n,
                            .k = depth_of(k),
                            .depth = k,
                            .a = a,
                            .a_row = lda,
                            .a_col = 1,
                            .b = packed,
                            .b_row = NR,
                            .b_next = depth_of(k) * NR,
                            .c = c,
                            .ldc = ldc,
                            .ep = ep};
}

/* Store finished sums of row i, columns from j on, lanes m, through the epilogue to C. */
static inline void store_vector(const struct product *p, vf v, size_t i, size_t j, vm m,
                                const struct steno_gemm_epilogue *ep)
{
    if (ep) {
        vf bias = v_zero();
        if (ep->bias)
            bias = ep->bias_rows ? v_set1(ep->bias[i]) : v_load_m(ep->bias + j, m);
        v = v_fma(v, v_set1(ep->alpha), bias);
        if (ep->act)
            v = ACTIVATE(v, ep);
        if (ep->residual)
            v = v + v_load_m(ep->residual + i * ep->ldr + j, m);
    }
    v_store_m(p->c + i * p->ldc + j, m, v);
}

/* Store `cols` columns of a tile from j on, at most a panel. */
static void store_some(const struct product *p, const float *tile, size_t rows, size_t width,
                       size_t i, size_t j, size_t cols, bool first,
                       const struct steno_gemm_epilogue *ep)
{
    const vm m[2] = {v_tail(cols < VL ? cols : VL), v_tail(cols < VL ? 0 : cols - VL)};
    const bool by_column = ep && ep->bias && !ep->bias_rows;
    const vf alpha = v_set1(ep ? ep->alpha : 1);
    vf bias[2] = {v_zero(), v_zero()};
    const size_t vectors = cols > VL ? 2 : 1;
    for (size_t x = 0; by_column && x < vectors; x++)
        bias[x] = v_load_m(ep->bias + j + x * VL, m[x]);
    for (size_t r = 0; r < rows; r++, tile += width)
        for (size_t x = 0; x < vectors; x++) {
            float *c = p->c + (i + r) * p->ldc + j + x * VL;
            vf v = v_load(tile + x * VL);
            if (!first)
                v = v + v_load_m(c, m[x]);
            if (ep) {
                v = v_fma(v, alpha, ep->bias && ep->bias_rows ? v_set1(ep->bias[i + r]) : bias[x]);
                if (ep->act)
                    v = ACTIVATE(v, ep);
                if (ep->residual)
                    v = v + v_load_m(ep->residual + (i + r) * ep->ldr + j + x * VL, m[x]);
            }
            v_store_m(c, m[x], v);
        }
}

/* Store n rows of a tile of a whole panel from row i on: without masks, and the bias stays in
 * registers. */
V_MANY_OF store_rows(const struct product *p, const float *tile, int n, size_t width, size_t i,
                     size_t j, bool first, const struct steno_gemm_epilogue *ep, const vf *bias)
{
    float *c = p->c + i * p->ldc + j;
    vf v[V_MANY];
    V_EACH(x, 2 * n) v[x] = v_load(tile + (size_t)(x / 2) * width + x % 2 * VL);
    if (!first)
        V_EACH(x, 2 * n) v[x] = v[x] + v_load(c + (size_t)(x / 2) * p->ldc + x % 2 * VL);
    if (ep) {
        const vf alpha = v_set1(ep->alpha);
        V_EACH(x, 2 * n)
        v[x] = v_fma(v[x], alpha,
                     ep->bias && ep->bias_rows ? v_set1(ep->bias[i + x / 2]) : bias[x % 2]);
        if (ep->act)
            ACTIVATE_EACH(v, 2 * n, ep);
        if (ep->residual)
            V_EACH(x, 2 * n)
        v[x] = v[x] + v_load(ep->residual + (i + x / 2) * ep->ldr + j + x % 2 * VL);
    }
    V_EACH(x, 2 * n) v_store(c + (size_t)(x / 2) * p->ldc + x % 2 * VL, v[x]);
}

/* Store all rows of a tile with an activation of next to no operations. All decisions are made once
 * per tile: made once per row, they took two thirds of the time of a product of K = 16. */
static inline __attribute__((always_inline)) void
store_lightly(const struct product *p, const float *tile, size_t rows, size_t width, size_t i,
              size_t j, bool first, const struct steno_gemm_epilogue *ep, const vf *bias,
              enum steno_activation act)
{
    const struct steno_gemm_epilogue only = {
        .act = act, .act_min = ep ? ep->act_min : 0, .act_max = ep ? ep->act_max : 0};
    const vf alpha = v_set1(ep ? ep->alpha : 1), b0 = bias[0], b1 = bias[1];
    const float *residual = ep && ep->residual ? ep->residual + i * ep->ldr + j : NULL;
    const size_t ldc = p->ldc, ldr = ep ? ep->ldr : 0;
    float *c = p->c + i * ldc + j;
    for (size_t r = 0; r < rows; r++, tile += width, c += ldc) {
        vf v[2] = {v_load(tile), v_load(tile + VL)};
        if (!first) {
            v[0] = v[0] + v_load(c);
            v[1] = v[1] + v_load(c + VL);
        }
        if (ep) {
            v[0] = v_fma(v[0], alpha, b0);
            v[1] = v_fma(v[1], alpha, b1);
            ACTIVATE_EACH(v, 2, &only);
            if (residual) {
                v[0] = v[0] + v_load(residual + r * ldr);
                v[1] = v[1] + v_load(residual + r * ldr + VL);
            }
        }
        v_store(c, v[0]);
        v_store(c + VL, v[1]);
    }
}

static void store_whole(const struct product *p, const float *tile, size_t rows, size_t width,
                        size_t i, size_t j, bool first, const struct steno_gemm_epilogue *ep)
{
    const bool by_column = ep && ep->bias && !ep->bias_rows;
    const vf bias[2] = {by_column ? v_load(ep->bias + j) : v_zero(),
                        by_column ? v_load(ep->bias + j + VL) : v_zero()};
    size_t r = 0;
    if (by_column || !ep || !ep->bias)
        switch (ep ? ep->act : STENO_ACT_NONE) {
        case STENO_ACT_NONE:
            store_lightly(p, tile, rows, width, i, j, first, ep, bias, STENO_ACT_NONE);
            return;
        case STENO_ACT_RELU:
            store_lightly(p, tile, rows, width, i, j, first, ep, bias, STENO_ACT_RELU);
            return;
        case STENO_ACT_CLIP:
            store_lightly(p, tile, rows, width, i, j, first, ep, bias, STENO_ACT_CLIP);
            return;
        default:
            break;
        }
    for (; r + V_MANY / 2 <= rows; r += V_MANY / 2)
        store_rows(p, tile + r * width, V_MANY / 2, width, i + r, j, first, ep, bias);
    if (r < rows)
        store_rows(p, tile + r * width, 1, width, i + r, j, first, ep, bias);
}

static void store_tile(const struct product *p, const float *tile, size_t rows, size_t width,
                       size_t i, size_t j, size_t cols, bool first, bool last)
{
    if (p->spread) {
        p->spread(p, tile, rows, width, i, j, cols);
        return;
    }
    if (cols == NR) {
        store_whole(p, tile, rows, width, i, j, first, last ? p->ep : NULL);
        return;
    }
    store_some(p, tile, rows, width, i, j, cols, first, last ? p->ep : NULL);
}

/* Row stride of the copy of A of a block kc deep. */
static inline size_t copy_ld(size_t kc)
{
#ifdef AMX_DOT
    return amx_copy_ld(kc);
#else
    (void)kc;
    return A_LD;
#endif
}

/* Columns [k0, k0 + n) of row i of A in place, or NULL. */
__attribute__((unused)) static const float *row_in_place(const struct product *p, size_t i,
                                                         size_t k0, size_t n)
{
    if (!p->gather)
        return p->a + i * p->a_row + k0;
    return p->in_place ? p->in_place(p, i, k0, n) : NULL;
}

/* The same, or else gathered into buf. */
__attribute__((unused)) static const float *row_of(const struct product *p, float *buf, size_t i,
                                                   size_t k0, size_t n)
{
    const float *x = row_in_place(p, i, k0, n);
    if (x)
        return x;
    p->gather(p, buf, i, 1, k0, n);
    return buf;
}

/* Copy rows [i0, i0 + rows) and columns [k0, k0 + kc) of A to buf [rows][copy_ld(kc)]. */
#ifdef GEMM_PAIRS
static void copy_a(const struct product *p, float *buf, size_t i0, size_t rows, size_t k0,
                   size_t kc)
{
    const size_t from = K_STEP * k0,
                 n = p->depth - from < K_STEP * kc ? p->depth - from : K_STEP * kc;
    alignas(64) float row[K_STEP * KC];
    for (size_t i = i0; i < i0 + rows; i++, buf += copy_ld(kc)) {
        for (size_t at = 0, some; at < n; at += some) {
            some = n - at < K_STEP * KC ? n - at : K_STEP * KC;
            round_pairs(buf + at / K_STEP, row_of(p, row, i, from + at, some), some);
        }
        for (size_t u = (n + 1) / 2; u < kc; u++)
            buf[u] = 0;
    }
}
#else
static void copy_a(const struct product *p, float *buf, size_t i0, size_t rows, size_t k0,
                   size_t kc)
{
    const float *a = p->a + i0 * p->a_row + k0 * p->a_col;
    if (p->gather) {
        p->gather(p, buf, i0, rows, k0, kc);
    } else if (p->a_panels) {
        for (size_t r = 0, h; r < rows; r += h) {
            size_t in = (i0 + r) % NR;
            h = rows - r < NR - in ? rows - r : NR - in;
            transpose_blocks(buf + r * A_LD, A_LD, p->a + ((i0 + r) / NR * p->k + k0) * NR + in, NR,
                             kc, h);
        }
    } else if (p->a_col == 1) {
        for (size_t r = 0; r < rows; r++, buf += A_LD, a += p->a_row)
            if (kc > SHORT)
                memcpy(buf, a, kc * sizeof *buf);
            else /* a call for each row would take as long as its sums */
                for (size_t x = 0; x < kc; x += VL)
                    v_store(buf + x, v_load_m(a + x, v_tail(kc - x < VL ? kc - x : VL)));
    } else {
        transpose_blocks(buf, A_LD, a, p->a_col, kc, rows);
    }
}
#endif

/* The input of a block: rows copied to buf, k from k0 on. b: row k0 of panel 0. */
struct part {
    const float *buf;
    const b_t *b;
    size_t i0, k0, kc;
};

#ifdef AMX_DOT
enum { AMX_MOST = MC, AMX_B_ROW = 4 * NR };
#define AMX_DEEP(rows) 256
#include "nn/kernels/tmpl/amx_tmpl.h"

static void amx_done(const struct product *p, const struct part *part, const void *tile, size_t r0,
                     size_t h, size_t j)
{
    const size_t left = p->n - j * NR;
    store_tile(p, tile, h, NR, part->i0 + r0, j * NR, left < NR ? left : NR, true,
               part->k0 + part->kc == p->k);
}

static void block(const struct product *p, const struct part *a, size_t rows, size_t j0, size_t j1)
{
    const struct amx_block x = {.p = p,
                                .part = a,
                                .a = (const char *)a->buf,
                                .a_row = copy_ld(a->kc) * sizeof *a->buf,
                                .rows = rows,
                                .lanes = a->kc,
                                .b = (const char *)a->b,
                                .panel = p->b_next * sizeof *a->b,
                                .c = (char *)(p->c + a->i0 * p->ldc),
                                .c_row = p->ldc * sizeof *p->c,
                                .n = p->n,
                                .first = a->k0 == 0,
                                .last = a->k0 + a->kc == p->k,
                                .plain = !p->ep};
    amx_block(&x, j0, j1);
}
#else
/* Rows [r0, r0 + h) of the part times `step` panels from j on, by a kernel of one panel from
 * `by_rows`; prefetches from `prefetch` on. */
static inline void tile_at(const struct product *p, const struct part *a, size_t r0, size_t h,
                           size_t j, size_t step, micro_fn *const *by_rows, const b_t *prefetch)
{
    alignas(64) float tile[MR * NR];
    const bool first = a->k0 == 0 && !p->add, last = a->k0 + a->kc == p->k;
    const bool alone = by_rows == few_by_rows || by_rows == stream_by_rows;
    const bool half = step == 1 && !alone && p->n - j * NR <= VL && !p->spread;
    const size_t width = half ? VL : step * NR;
    micro_fn *fn = half ? half_by_rows[h] : by_rows[h];
    fn = step == 4 ? micro_1x4 : step == 2 ? two_panels[h] : fn;
    if ((VL == 8 || (VL == 16 && !alone)) && !p->spread)
        prefetch_stored(p->c, p->ldc, p->ep, a->i0 + r0, h, j * NR, NR);
    fn(a->kc, a->buf + r0 * A_LD, a->b + j * p->b_next, p->b_row, p->b_next, prefetch, tile);
    for (size_t q = 0; q < step; q++) {
        size_t col = (j + q) * NR, cols = p->n - col < NR ? p->n - col : NR;
        store_tile(p, tile + q * NR, h, width, a->i0 + r0, col, cols, first, last);
    }
}

/* What is read after panels [j0, j1) of a part: the first of them further down K, or what comes
 * next. */
static inline const b_t *after(const struct product *p, const struct part *a, size_t j0, size_t j1)
{
    if (a->k0 + a->kc < p->k)
        return a->b + a->kc * p->b_row + j0 * p->b_next;
    return p->then ? p->then + j0 * p->b_next : a->b - a->k0 * p->b_row + j1 * p->b_next;
}

/* Panels [j0, j1) for rows that are one tile and n consecutive parts along k. All of k of one panel
 * comes before the next panel, so that weights from memory are one stream. The hardware prefetcher
 * follows such a stream; it stops where only a block of k of each panel is read. */
static void one_tile(const struct product *p, const struct part *a, size_t n, size_t rows,
                     size_t j0, size_t j1)
{
    const bool small = p->n * p->k * sizeof(b_t) <= L2_BYTES;
    micro_fn *const *by_rows = small               ? micro_by_rows
                               : streams_weights() ? stream_by_rows
                                                   : few_by_rows;
    for (size_t j = j0, step; j < j1; j += step) {
        step = panels_at_once(rows, small);
        if (step > j1 - j)
            step = 1;
        for (size_t i = 0; i < n; i++)
            tile_at(p, &a[i], 0, rows, j, step, by_rows,
                    i + 1 < n       ? a[i + 1].b + j * p->b_next
                    : j + step < j1 ? a[0].b + (j + step) * p->b_next
                                    : after(p, &a[i], j0, j1));
    }
}

/* Panels [j0, j1) for `rows` copied rows. It takes panel by panel, so that a panel stays in the
 * caches while it is multiplied by all rows. Where all panels fit there together (short K), it
 * takes tile by tile, so that C is written along its rows: a convolution of 1 channel to 512 spends
 * its time there. */
static void block(const struct product *p, const struct part *a, size_t rows, size_t j0, size_t j1)
{
    const size_t tiles = (rows + MR - 1) / MR,
                 lines = PREFETCHERS > 2 && tiles < PREFETCHERS ? 2 : 1;
    micro_fn *const *by_rows = lines == 2 ? two_by_rows : shared_by_rows();
    const bool along_rows = (j1 - j0) * NR * a->kc * sizeof(b_t) <= (size_t)192 << 10;
    if (tiles == 1) {
        one_tile(p, a, 1, rows, j0, j1);
        return;
    }
    for (size_t t = 0; along_rows && t < tiles; t++) {
        size_t r0 = rows * t / tiles, h = rows * (t + 1) / tiles - r0;
        for (size_t j = j0; j < j1; j++)
            tile_at(p, a, r0, h, j, 1, micro_by_rows, a->b + j * p->b_next);
    }
    for (size_t j = j0; !along_rows && j < j1; j++) {
        const b_t *next = j + 1 < j1 ? a->b + (j + 1) * p->b_next : after(p, a, j0, j1);
        for (size_t t = 0; t < tiles; t++) {
            size_t r0 = rows * t / tiles, h = rows * (t + 1) / tiles - r0;
            tile_at(p, a, r0, h, j, 1, by_rows,
                    next + t % (PREFETCHERS / lines) * lines * (a->kc / STEPS) * 64 / sizeof *next);
        }
    }
}
#endif

/* Rows to copy at a time: nearly the same number each time, because a low block reads all of B too;
 * or whole tiles. */
static size_t rows_of(size_t left)
{
#ifdef AMX_DOT
    return amx_rows_of(left);
#else
    const size_t blocks = (left + MC - 1) / MC;
    return (left + blocks - 1) / blocks;
#endif
}

/* Rows [i0, i1), panels [j0, j1), k from k0 on; b: row k0 of panel 0. */
static void multiply_block(const struct product *p, const b_t *b, size_t i0, size_t i1, size_t j0,
                           size_t j1, size_t k0, size_t kc)
{
    alignas(64) float buf[A_ROOM];
    for (size_t i = i0, rows; i < i1;) {
        struct part a = {buf, b, i, k0, kc};
        rows = rows_of(i1 - i);
        copy_a(p, buf, i, rows, k0, kc);
        block(p, &a, rows, j0, j1);
        i += rows;
    }
}

#ifndef AMX_DOT
/* All of k for rows that are one tile. */
static void multiply_tile(const struct product *p, size_t i0, size_t rows, size_t j0, size_t j1)
{
    alignas(64) float buf[A_ROOM];
    struct part a[MC];
    size_t n = 0;
    for (size_t k0 = 0; k0 < p->k; k0 += KC, n++) {
        a[n] = (struct part){buf + n * rows * A_LD, p->b + k0 * p->b_row, i0, k0,
                             p->k - k0 < KC ? p->k - k0 : KC};
        copy_a(p, buf + n * rows * A_LD, i0, rows, k0, a[n].kc);
    }
    one_tile(p, a, n, rows, j0, j1);
}
#endif

/* K of a block. For AMX all blocks have nearly the same depth, and with few rows they are
 * deeper. */
static size_t depth_of_block(size_t k, size_t rows)
{
#ifdef AMX_DOT
    return amx_depth(k, rows, A_ROOM);
#else
    (void)k;
    (void)rows;
    return KC;
#endif
}

/* Rows [i0, i1), panels [j0, j1). */
__attribute__((unused)) static void multiply(const struct product *p, size_t i0, size_t i1,
                                             size_t j0, size_t j1)
{
    const size_t most = depth_of_block(p->k, i1 - i0);
    size_t k0 = 0;
    if (j0 >= j1)
        return;
#ifndef AMX_DOT
    if (p->k > KC && i1 > i0 && i1 - i0 <= MR && (p->k + KC - 1) / KC * (i1 - i0) <= MC) {
        multiply_tile(p, i0, i1 - i0, j0, j1);
        return;
    }
#endif
    do { /* runs once even for k = 0, where the result is the epilogue of zeros */
        size_t kc = p->k - k0 < most ? p->k - k0 : most;
        multiply_block(p, p->b + k0 * p->b_row, i0, i1, j0, j1, k0, kc);
        k0 += kc;
    } while (k0 < p->k);
}

static size_t panels(size_t n)
{
    return (n + NR - 1) / NR;
}

#ifndef GEMM_W16
/* Parts divide the rows when every part gets some full tiles. Weights larger than the caches are
 * better read by one part each: then parts divide the columns. */
__attribute__((unused)) static void multiply_part(const struct product *p, size_t m, size_t part,
                                                  size_t n_parts)
{
    const size_t np = panels(p->n);
    if (m >= 4 * MR * n_parts && np < 4 * n_parts)
        multiply(p, m * part / n_parts, m * (part + 1) / n_parts, 0, np);
    else
        multiply(p, 0, m, np * part / n_parts, np * (part + 1) / n_parts);
}
#endif

#if !defined(GEMM_W16) && !defined(GEMM_NO_SLOTS)
static size_t V_NAME(gemm_f32_packed_bytes)(size_t k, size_t n)
{
    return panels(n) * k * NR * sizeof(float);
}

/* Pack one panel: columns [0, cols) of b, the rest zero. */
static void pack_panel(float *dst, const float *b, size_t ldb, bool trans, size_t k, size_t cols)
{
    if (trans) {
        if (cols < NR)
            memset(dst, 0, k * NR * sizeof *dst);
        transpose_blocks(dst, NR, b, ldb, cols, k);
        return;
    }
    for (size_t i = 0; i < k; i++, dst += NR, b += ldb) {
        v_store(dst, v_load_m(b, v_tail(cols < VL ? cols : VL)));
        v_store(dst + VL, v_load_m(b + VL, v_tail(cols < VL ? 0 : cols - VL)));
    }
}

static void V_NAME(gemm_f32_pack)(void *dst, const float *b, size_t ldb, bool trans, size_t k,
                                  size_t n)
{
    float *p = dst;
    for (size_t j = 0; j < n; j += NR, p += k * NR)
        pack_panel(p, b + j * (trans ? ldb : 1), ldb, trans, k, n - j < NR ? n - j : NR);
}

static void V_NAME(gemm_f32_packed)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                    const void *packed, float *c, size_t ldc,
                                    const struct steno_gemm_epilogue *ep)
{
    struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    multiply(&p, 0, m, 0, panels(n));
}

static void V_NAME(gemm_f32_packed_part)(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                         const void *packed, float *c, size_t ldc,
                                         const struct steno_gemm_epilogue *ep, size_t part,
                                         size_t n_parts)
{
    const struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    multiply_part(&p, m, part, n_parts);
}

static size_t V_NAME(gemm_f32_work)(size_t m, size_t n, size_t k)
{
    (void)m;
    return V_NAME(gemm_f32_packed_bytes)(k, n);
}

/* An unpacked B is read row by row where it fills whole panels. A transposed B and the last,
 * partial panel are packed first. */
static void V_NAME(gemm_f32)(size_t m, size_t n, size_t k, const float *a, size_t lda, bool trans_a,
                             const float *b, size_t ldb, bool trans_b, float *c, size_t ldc,
                             const struct steno_gemm_epilogue *ep, void *work)
{
    struct product p = product_of(n, k, a, lda, work, c, ldc, ep);
    size_t full = trans_b ? 0 : n / NR, np = panels(n);
    p.a_row = trans_a ? 1 : lda;
    p.a_col = trans_a ? lda : 1;
    if (full) {
        struct product direct = p;
        direct.b = b;
        direct.b_row = ldb;
        direct.b_next = NR;
        multiply(&direct, 0, m, 0, full);
    }
    if (full == np)
        return;
    for (size_t j = full; j < np; j++)
        pack_panel((float *)work + (j - full) * k * NR, b + j * NR * (trans_b ? ldb : 1), ldb,
                   trans_b, k, n - j * NR < NR ? n - j * NR : NR);
    p.b = (float *)work - full * p.b_next;
    multiply(&p, 0, m, full, np);
}

void V_NAME(steno_kernels_gemm)(steno_kernels *k)
{
    k->gemm_f32_packed_bytes = V_NAME(gemm_f32_packed_bytes);
    k->gemm_panel = NR;
    k->gemm_f32_pack = V_NAME(gemm_f32_pack);
    k->gemm_f32_packed = V_NAME(gemm_f32_packed);
    k->gemm_f32_packed_part = V_NAME(gemm_f32_packed_part);
    k->gemm_f32_work = V_NAME(gemm_f32_work);
    k->gemm_f32 = V_NAME(gemm_f32);
}
#endif
