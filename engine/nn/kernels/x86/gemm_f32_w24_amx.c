/* f32 products by AMX's products of bytes: a core makes 29 times as many of them as f32
 * multiply-adds (Granite Rapids). Numbers become 24-bit integers, scaled by a power of two that the
 * largest of them determines: per column for weights and per row for A, both anew for each block of
 * up to 512 of K. An integer is three digits of a byte, q = 2^16 h + 2^8 m + l, each in [-128,
 * 127]. Of the nine products of the digits of two numbers,
 *     q r = 2^32 h h' + 2^24 (h m' + m h') + 2^16 (h l' + m m' + l h') + 2^8 (m l' + l m') + l l'
 * eight are computed and summed over the block in four sums, without any rounding. The ninth is
 * below 2^-30 of the product of the two largest numbers. (Without the two products of 2^8 the error
 * would be twice that of f32 sums.) Ootomo, Ozaki and Yokota, DGEMM on integer matrix
 * multiplication unit (2024), arXiv:2306.11975, after Ozaki, Ogita, Oishi and Rump, Error-free
 * transformations of matrix multiplication (2012): with digits in place of slices.
 *
 * The error depends on the largest number of a block of a row or column, not on each number. It is
 * at most 2^-23 of that number times the sum of the numbers it is multiplied by; f32 sums of that
 * length lose as much. Weights take 24 bits of memory and not 32. Products of few rows, which are
 * bound by memory, are faster by that factor.
 *
 * Packed B: panels of 16 columns, each with its blocks of K. A block has the exponents of the
 * columns, 16 floats, and then for every 64 of K three tiles of 16 x 64 bytes, highest digits
 * first. Row i of a tile has for each column k = i, 16 + i, 32 + i, 48 + i. So a row of A is used
 * in the order of 4 vectors of 16 floats. */
#include "nn/kernels/x86/amx.h"
#include "nn/kernels/x86/vec_avx512.h"

/* Load a line, and prefetch a later one from memory. */
#define GEMM_PACED(p, prefetch) paced_line(p, (p) + (prefetch))
static inline __attribute__((always_inline)) vf paced_line(const float *p, const float *later)
{
    __builtin_prefetch(later, 0, 2);
    const vf v = (vf)amx_line(p);
    AMX_PACE(4);
    return v;
}

#define GEMM_NO_SLOTS
#include "nn/kernels/tmpl/gemm_tmpl.h"
#include "nn/kernels/tmpl/patches_tmpl.h"

enum {
    DIGITS = 3,
    SPAN = 64,              /* of K per step; also bytes of a tile's row */
    COLUMNS = AMX_LANES,    /* columns of a panel */
    TILE = AMX_ROWS * SPAN, /* bytes of one digit of 16 rows or columns, for one step */
    STEP = DIGITS * TILE,
    PRODUCTS = 8, /* products of digits, out of 9 */
    SCALES = 4,   /* sums of products of digits, for 2^32, 2^24, 2^16 and 2^8 */
    HEAD = COLUMNS * sizeof(float),
    BLOCK = 8,      /* maximum of steps of a block of K: 24 KiB of a panel, in L1 */
    MOST = 256,     /* maximum of rows at a time */
    ROOM = 1 << 20, /* bytes of the digits of these rows, in L2 */
    SUMS = SCALES * AMX_ROWS * COLUMNS,
    FEW_ROWS_DISTANCE = 8192 /* prefetch distance in bytes for weights of few rows */
};

/* ---- shapes ---- */

static size_t steps_of(size_t k)
{
    return (k + SPAN - 1) / SPAN;
}

static size_t blocks_of(size_t steps)
{
    return steps ? (steps + BLOCK - 1) / BLOCK : 1;
}

static size_t block_step(size_t steps, size_t block)
{
    return steps * block / blocks_of(steps);
}

static size_t panel_bytes(size_t k)
{
    return blocks_of(steps_of(k)) * HEAD + steps_of(k) * STEP;
}

static size_t panels_of(size_t n)
{
    return (n + COLUMNS - 1) / COLUMNS;
}

/* ---- numbers to digits ---- */

typedef __m512i vi;

/* The power of two that makes numbers integers of at most 0x7f7f7f, whose digits are 127. most: the
 * bits of the largest number, without its sign. The power is at most 2^126. */
static inline vi shift_of(vi most)
{
    const vi exponent = _mm512_srli_epi32(_mm512_add_epi32(most, _mm512_set1_epi32(0x20000)), 23);
    return _mm512_min_epi32(_mm512_sub_epi32(_mm512_set1_epi32(22 + 127), exponent),
                            _mm512_set1_epi32(126));
}

static inline vf power_of(vi shift)
{
    return (vf)_mm512_slli_epi32(_mm512_add_epi32(shift, _mm512_set1_epi32(127)), 23);
}

static inline vi magnitude(vf v)
{
    return _mm512_and_si512((vi)v, _mm512_set1_epi32(0x7fffffff));
}

enum { NONFINITE = 0x7f800000 }; /* magnitudes from here on are infinite or NaN */

/* 64 numbers to a row of a tile of each digit. The tiles are TILE apart, highest digits first. Lane
 * i has number i of each q. */
static inline __attribute__((always_inline)) void put_digits(int8_t *to, const vi q[4])
{
    const vi half =
        _mm512_set1_epi32(0x8080); /* digits of q + half are the digits of q, raised by 128 */
    vi u[4], even[2], odd[2];
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++)
        u[t] = _mm512_xor_si512(_mm512_add_epi32(q[t], half), half);
#pragma GCC unroll 2
    for (int t = 0; t < 2; t++) { /* l l h h, and m m */
        even[t] =
            _mm512_mask_mov_epi8(u[2 * t], 0xaaaaaaaaaaaaaaaa, _mm512_slli_epi16(u[2 * t + 1], 8));
        odd[t] =
            _mm512_mask_mov_epi8(_mm512_srli_epi16(u[2 * t], 8), 0xaaaaaaaaaaaaaaaa, u[2 * t + 1]);
    }
    _mm512_storeu_si512(to,
                        _mm512_mask_mov_epi16(_mm512_srli_epi32(even[0], 16), 0xaaaaaaaa, even[1]));
    _mm512_storeu_si512(to + TILE,
                        _mm512_mask_mov_epi16(odd[0], 0xaaaaaaaa, _mm512_slli_epi32(odd[1], 16)));
    _mm512_storeu_si512(to + 2 * TILE,
                        _mm512_mask_mov_epi16(even[0], 0xaaaaaaaa, _mm512_slli_epi32(even[1], 16)));
}

/* ---- packing ---- */

/* Up to 16 columns of rows of B, a vector each. */
struct source {
    const float *b;
    size_t ldb;
    vm m;
};

static vf source_row(const struct source *s, size_t k, size_t n)
{
    return k < n ? v_load_m(s->b + k * s->ldb, s->m) : v_zero();
}

/* Pack n rows into a block of a panel with `steps` steps. */
static void pack_block(int8_t *to, const struct source *s, size_t n, size_t steps)
{
    vi most = _mm512_setzero_si512(), shift;
    vf by;
    for (size_t k = 0; k < n; k++)
        most = _mm512_max_epi32(most, magnitude(source_row(s, k, n)));
    shift = shift_of(most);
    by = power_of(shift);
    v_store((float *)(void *)to,
            v_select(_mm512_cmpge_epi32_mask(most, _mm512_set1_epi32(NONFINITE)), v_set1(NAN),
                     v_neg(_mm512_cvtepi32_ps(shift))));
    to += HEAD;
    for (size_t step = 0; step < steps; step++, to += STEP)
        for (size_t i = 0; i < AMX_ROWS; i++) {
            vi q[4];
            for (size_t t = 0; t < 4; t++)
                q[t] = _mm512_cvtps_epi32(source_row(s, step * SPAN + 16 * t + i, n) * by);
            put_digits(to + i * SPAN, q);
        }
}

static size_t packed_bytes(size_t k, size_t n)
{
    return panels_of(n) * panel_bytes(k);
}

static void pack(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    alignas(64) float transposed[BLOCK * SPAN * COLUMNS];
    const size_t steps = steps_of(k), blocks = blocks_of(steps);
    int8_t *to = dst;
    for (size_t j = 0; j < n; j += COLUMNS) {
        const size_t cols = n - j < COLUMNS ? n - j : COLUMNS;
        for (size_t i = 0; i < blocks; i++) {
            const size_t s0 = block_step(steps, i), s1 = block_step(steps, i + 1);
            const size_t k0 = s0 * SPAN, rows = (k < s1 * SPAN ? k : s1 * SPAN) - k0;
            struct source s = {b + k0 * ldb + j, ldb, v_tail(cols)};
            if (trans) {
                transpose_blocks(transposed, COLUMNS, b + j * ldb + k0, ldb, cols, rows);
                s = (struct source){transposed, COLUMNS, v_tail(cols)};
            }
            pack_block(to, &s, rows, s1 - s0);
            to += HEAD + (s1 - s0) * STEP;
        }
    }
}

/* ---- rows of A ---- */

/* Rows of A for some blocks of K, as digits: [tiles][steps][DIGITS][16][64]. The tiles have nearly
 * the same number of rows, because the time of a product depends on the rows of its tile. Data
 * after the rows of the last tile is not used. */
struct rows {
    const struct product *p;
    int8_t *digits;
    size_t i0, rows, tiles;
    size_t high;                                   /* rows of a tile; the last may have fewer */
    size_t step0, steps;                           /* of K */
    size_t block0, blocks;                         /* of K */
    bool nonfinite;                                /* a row has infinities or NaN */
    float exponent[ROOM / STEP / BLOCK + 1][MOST]; /* for each block and row */
};

/* n numbers of a row to the digits of `steps` steps, padded with zeros. Returns the exponent that
 * the digits must be multiplied by, or NaN for a row with infinities or NaN, which has no
 * digits. */
static float row_to_digits(int8_t *to, const float *x, size_t n, size_t steps)
{
    vi most = _mm512_setzero_si512(), most2 = most, shift;
    size_t i = 0;
    vf by;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        most = _mm512_max_epi32(most, magnitude(v_load(x + i)));
        most2 = _mm512_max_epi32(most2, magnitude(v_load(x + i + VL)));
    }
    for (; i < n; i += VL)
        most = _mm512_max_epi32(most, magnitude(v_load_m(x + i, v_tail(n - i < VL ? n - i : VL))));
    most = _mm512_set1_epi32(_mm512_reduce_max_epi32(_mm512_max_epi32(most, most2)));
    if (_mm512_cmpge_epi32_mask(most, _mm512_set1_epi32(NONFINITE)))
        return NAN;
    shift = shift_of(most);
    by = power_of(shift);
    for (size_t step = 0; step < steps; step++, to += STEP) {
        const size_t at = step * SPAN;
        vi q[4];
        if (at + SPAN <= n)
#pragma GCC unroll 4
            for (size_t t = 0; t < 4; t++)
                q[t] = _mm512_cvtps_epi32(v_load(x + at + t * VL) * by);
        else
            for (size_t t = 0; t < 4; t++) {
                const size_t from = at + t * VL, left = from < n ? n - from : 0;
                q[t] = _mm512_cvtps_epi32(
                    v_load_m(left ? x + from : x, v_tail(left < VL ? left : VL)) * by);
            }
        put_digits(to, q);
    }
    return (float)-_mm_cvtsi128_si32(_mm512_castsi512_si128(shift));
}

static void rows_to_digits(struct rows *a)
{
    const struct product *p = a->p;
    const size_t all = steps_of(p->depth);
    float gathered[BLOCK * SPAN];
    a->nonfinite = false;
    for (size_t r = 0; r < a->rows; r++) {
        int8_t *to = a->digits + r / a->high * a->steps * STEP + r % a->high * SPAN;
        for (size_t b = 0; b < a->blocks; b++) {
            const size_t s0 = block_step(all, a->block0 + b),
                         s1 = block_step(all, a->block0 + b + 1);
            const size_t k0 = s0 * SPAN, n = (p->depth < s1 * SPAN ? p->depth : s1 * SPAN) - k0;
            a->exponent[b][r] =
                row_to_digits(to, row_of(p, gathered, a->i0 + r, k0, n), n, s1 - s0);
            a->nonfinite |= isnan(a->exponent[b][r]);
            to += (s1 - s0) * STEP;
        }
    }
}

/* ---- finished sums to C ---- */

/* Finished sums. Rows [r, rows) are not in C yet; they are stored between later products. */
struct waiting {
    const struct product *p;
    const int32_t *sums; /* [SCALES][16][16] */
    size_t i0, r, rows, j;
    const float *exponent; /* of the rows */
    vf columns;            /* exponents of the columns */
    vm m;
    bool first, last; /* of all of K */
};

/* high + low / 256, rounded. */
static inline vi add_shifted(vi high, vi low)
{
    return _mm512_add_epi32(high,
                            _mm512_srai_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(128)), 8));
}

V_MANY_OF finish_rows(const struct waiting *w, size_t r, int n)
{
    const struct product *p = w->p;
    const struct steno_gemm_epilogue *ep = w->last ? p->ep : NULL;
    float *c = p->c + (w->i0 + r) * p->ldc + w->j;
    const int32_t *s = w->sums + r * COLUMNS;
    vf v[V_MANY];
    V_EACH(i, n)
    {
        const int32_t *at = s + i * COLUMNS;
        const vi sum = add_shifted(_mm512_load_si512(at + AMX_ROWS * COLUMNS),
                                   add_shifted(_mm512_load_si512(at + 2 * AMX_ROWS * COLUMNS),
                                               _mm512_load_si512(at + 3 * AMX_ROWS * COLUMNS)));
        v[i] = v_ldexp(v_fma(_mm512_cvtepi32_ps(_mm512_load_si512(at)), v_set1(256.0f),
                             _mm512_cvtepi32_ps(sum)),
                       w->columns + v_set1(w->exponent[r + i] + 24.0f));
    }
    if (!w->first)
        V_EACH(i, n) v[i] = v[i] + v_load_m(c + (size_t)i * p->ldc, w->m);
    if (ep) {
        const vf alpha = v_set1(ep->alpha);
        vf bias = v_zero();
        if (ep->bias && !ep->bias_rows)
            bias = v_load_m(ep->bias + w->j, w->m);
        V_EACH(i, n)
        v[i] =
            v_fma(v[i], alpha, ep->bias && ep->bias_rows ? v_set1(ep->bias[w->i0 + r + i]) : bias);
        if (ep->act)
            activate_each(v, n, ep);
        if (ep->residual)
            V_EACH(i, n)
        v[i] = v[i] + v_load_m(ep->residual + (w->i0 + r + i) * ep->ldr + w->j, w->m);
    }
    V_EACH(i, n) v_store_m(c + (size_t)i * p->ldc, w->m, v[i]);
}

/* Store n more rows. noinline: its constants must not take registers of the loops around it. */
static __attribute__((noinline)) void finish(struct waiting *w, size_t n)
{
    n = w->rows - w->r < n ? w->rows : w->r + n;
    for (; w->r + V_MANY <= n; w->r += V_MANY)
        finish_rows(w, w->r, V_MANY);
    for (; w->r < n; w->r++)
        finish_rows(w, w->r, 1);
}

static inline void finish_some(struct waiting *w, size_t n)
{
    if (w->r < w->rows)
        finish(w, n);
}

/* ---- products ---- */

/* Registers 0 to 3 are sums, 4 to 6 digits of A, 7 of B. */
static void begin(size_t rows)
{
    const uint8_t low = (uint8_t)(rows < AMX_ROWS ? rows : AMX_ROWS);
    amx_configure((const uint8_t[8]){low, low, low, low, low, low, low, AMX_ROWS});
}

/* Prefetch n cache lines from *prefetch on. */
static inline __attribute__((always_inline)) void prefetch_lines(const char **prefetch,
                                                                 const char **hw_prefetch, size_t n)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++)
        AMX_PREFETCH_NEXT(*prefetch, *hw_prefetch, 10);
}

/* The eight products of a step of one tile, with PREFETCH after each. */
#define EIGHT_PRODUCTS(LOAD_A, a, LOAD_B, b, PREFETCH)                                             \
    do {                                                                                           \
        LOAD_B(7, b, SPAN);                                                                        \
        LOAD_A(4, a, SPAN);                                                                        \
        AMX_DOT_I8(0, 4, 7);                                                                       \
        PREFETCH;                                                                                  \
        LOAD_A(5, (a) + TILE, SPAN);                                                               \
        AMX_DOT_I8(1, 5, 7);                                                                       \
        PREFETCH;                                                                                  \
        LOAD_A(6, (a) + 2 * TILE, SPAN);                                                           \
        AMX_DOT_I8(2, 6, 7);                                                                       \
        PREFETCH;                                                                                  \
        LOAD_B(7, (b) + TILE, SPAN);                                                               \
        AMX_DOT_I8(1, 4, 7);                                                                       \
        PREFETCH;                                                                                  \
        AMX_DOT_I8(2, 5, 7);                                                                       \
        PREFETCH;                                                                                  \
        AMX_DOT_I8(3, 6, 7);                                                                       \
        PREFETCH;                                                                                  \
        LOAD_B(7, (b) + 2 * TILE, SPAN);                                                           \
        AMX_DOT_I8(2, 4, 7);                                                                       \
        PREFETCH;                                                                                  \
        AMX_DOT_I8(3, 5, 7);                                                                       \
        PREFETCH;                                                                                  \
    } while (0)

/* One block of K of a panel. */
struct piece {
    const char *b; /* its first tile */
    size_t steps;
    const char *prefetch; /* memory to prefetch during the products */
    size_t lines;         /* lines of it at each step */
};

static size_t share_of(const struct waiting *w, size_t steps)
{
    return steps ? ((w->rows - w->r) / steps + V_MANY) / V_MANY * V_MANY : 0;
}

static void zero_sums(void)
{
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
}

static void store_sums(int32_t *sums)
{
    AMX_STORE(0, sums, SPAN);
    AMX_STORE(1, sums + AMX_ROWS * COLUMNS, SPAN);
    AMX_STORE(2, sums + 2 * AMX_ROWS * COLUMNS, SPAN);
    AMX_STORE(3, sums + 3 * AMX_ROWS * COLUMNS, SPAN);
}

/* sums [SCALES][16][16] = a tile of A times the piece. The piece's lines are prefetched at the same
 * time: no other tile uses them. */
static void tile_alone(const char *a, const struct piece *y, int32_t *sums, struct waiting *w)
{
    const size_t some = share_of(w, y->steps);
    const char *b = y->b, *prefetch = y->prefetch, *hw_prefetch = prefetch;
    zero_sums();
    for (size_t i = 0; i < y->steps; i++, a += STEP, b += STEP) {
        EIGHT_PRODUCTS(AMX_LOAD, a, AMX_PASS, b,
                       prefetch_lines(&prefetch, &hw_prefetch, STEP / 64 / PRODUCTS));
        finish_some(w, some);
    }
    finish_some(w, AMX_ROWS);
    store_sums(sums);
}

/* The same for one of several tiles, while the piece is in L1. each: lines to prefetch after each
 * product, or 0: all lines of a step before the step. */
static inline __attribute__((always_inline)) void
tile_of_some(const char *a, const struct piece *y, int32_t *sums, struct waiting *w, size_t each)
{
    const size_t some = share_of(w, y->steps);
    const char *b = y->b, *prefetch = y->prefetch, *hw_prefetch = prefetch;
    zero_sums();
    for (size_t i = 0; i < y->steps; i++, a += STEP, b += STEP) {
        for (const char *end = prefetch + 64 * y->lines; !each && prefetch < end;)
            prefetch_lines(&prefetch, &hw_prefetch, 1);
        EIGHT_PRODUCTS(AMX_PASS, a, AMX_LOAD, b, prefetch_lines(&prefetch, &hw_prefetch, each));
        finish_some(w, some);
    }
    finish_some(w, AMX_ROWS);
    store_sums(sums);
}

static void tile_of(const char *a, const struct piece *y, int32_t *sums, struct waiting *w)
{
    if (y->lines == 3 * PRODUCTS)
        tile_of_some(a, y, sums, w, 3);
    else if (y->lines == 2 * PRODUCTS)
        tile_of_some(a, y, sums, w, 2);
    else
        tile_of_some(a, y, sums, w, 0);
}

/* Lines per step that each of the tiles prefetches: with few tiles a whole number of lines per
 * product. */
static size_t lines_of(size_t tiles)
{
    enum { LINES = STEP / 64 };
    return tiles <= 3 ? (LINES / PRODUCTS + tiles - 1) / tiles * PRODUCTS
                      : (LINES + tiles - 1) / tiles;
}

/* ---- a single row, by vectors ---- */

/* Load 16 columns of a tile's row, and prefetch a later line from memory. */
static inline __attribute__((always_inline)) vi paced_bytes(const int8_t *p)
{
    __builtin_prefetch(p + FEW_ROWS_DISTANCE, 0, 2);
    const vi v = amx_line(p);
    AMX_PACE(8);
    return v;
}

/* Sums of the first row of a tile by vpdpbusd. Its first factor is unsigned: digits of A are raised
 * by 128, and 128 times the sums of B's digits are subtracted. So weights are read line by line in
 * their order, which is the fastest order for the memory. */
static void row_alone(const int8_t *a, const struct piece *y, int32_t *sums, struct waiting *w)
{
    const vi raise = _mm512_set1_epi8(-128);
    const int8_t *b = (const int8_t *)y->b;
    vi sum[2][SCALES], all[2][DIGITS]; /* of even and odd lines: a product takes five cycles */
    for (size_t d = 0; d < DIGITS; d++)
        all[0][d] = all[1][d] = _mm512_setzero_si512();
    for (size_t d = 0; d < SCALES; d++)
        sum[0][d] = sum[1][d] = _mm512_setzero_si512();
    for (size_t step = 0; step < y->steps; step++, a += STEP) {
        alignas(64) int32_t raised[DIGITS][AMX_ROWS];
        for (size_t d = 0; d < DIGITS; d++)
            _mm512_store_si512(raised[d],
                               _mm512_xor_si512(_mm512_loadu_si512(a + d * TILE), raise));
#pragma GCC unroll 3
        for (size_t d = 0; d < DIGITS; d++)
#pragma GCC unroll 16
            for (size_t i = 0; i < AMX_ROWS; i++, b += SPAN) {
                const vi v = paced_bytes(b);
                all[i % 2][d] = _mm512_dpbusd_epi32(all[i % 2][d], raise, v);
#pragma GCC unroll 3
                for (size_t e = 0; e < DIGITS; e++)
                    if (e + d < SCALES)
                        sum[i % 2][d + e] = _mm512_dpbusd_epi32(sum[i % 2][d + e],
                                                                _mm512_set1_epi32(raised[e][i]), v);
            }
    }
    finish_some(w, 1);
    for (size_t d = 0; d < SCALES; d++) {
        vi raised = _mm512_setzero_si512(); /* excess of the sums of 2^(32 - 8 d) */
        for (size_t i = d == SCALES - 1; i <= d && i < DIGITS; i++)
            raised = _mm512_add_epi32(raised, _mm512_add_epi32(all[0][i], all[1][i]));
        _mm512_store_si512(sums + d * AMX_ROWS * COLUMNS,
                           _mm512_sub_epi32(_mm512_add_epi32(sum[0][d], sum[1][d]), raised));
    }
}

/* The sums of tile t of the rows, block b of theirs, and panel j, to be finished. */
static struct waiting waiting_of(const struct rows *a, size_t t, size_t b, size_t j,
                                 const int8_t *head, const int32_t *sums)
{
    const struct product *p = a->p;
    const size_t r0 = t * a->high, left = p->n - j * COLUMNS;
    return (struct waiting){.p = p,
                            .sums = sums,
                            .i0 = a->i0 + r0,
                            .rows = a->rows - r0 < a->high ? a->rows - r0 : a->high,
                            .j = j * COLUMNS,
                            .exponent = &a->exponent[b][r0],
                            .columns = v_load((const float *)(const void *)head),
                            .m = v_tail(left < COLUMNS ? left : COLUMNS),
                            .first = a->block0 + b == 0,
                            .last = a->block0 + b + 1 == blocks_of(steps_of(p->depth))};
}

/* Panels [j0, j1). */
static void multiply_rows(const struct rows *a, size_t j0, size_t j1)
{
    alignas(64) int32_t sums[2][SUMS];
    const struct product *p = a->p;
    const size_t all = steps_of(p->depth), panel = panel_bytes(p->depth),
                 lines = lines_of(a->tiles);
    const int8_t *b0 = (const int8_t *)p->b + a->block0 * HEAD + a->step0 * STEP;
    struct waiting w = {0};
    size_t parity = 0;
    for (size_t j = j0; j < j1; j++) {
        const int8_t *head = b0 + j * panel, *digits = a->digits;
        for (size_t b = 0; b < a->blocks; b++) {
            const size_t steps =
                block_step(all, a->block0 + b + 1) - block_step(all, a->block0 + b);
            const int8_t *next = head + HEAD + steps * STEP;
            struct piece y = {(const char *)head + HEAD, steps,
                              (const char *)head + HEAD + FEW_ROWS_DISTANCE, lines};
            if (b + 1 == a->blocks)
                next = b0 + (j + 1 < j1 ? j + 1 : j) * panel;
            for (size_t t = 0; t < a->tiles; t++, parity ^= 1) {
                const int8_t *tile = digits + t * a->steps * STEP;
                if (a->tiles > 1)
                    y.prefetch = (const char *)next + t * lines * steps * 64;
                if (a->rows == 1)
                    row_alone(tile, &y, sums[parity], &w);
                else if (a->tiles == 1)
                    tile_alone((const char *)tile, &y, sums[parity], &w);
                else
                    tile_of((const char *)tile, &y, sums[parity], &w);
                w = waiting_of(a, t, b, j, head, sums[parity]);
            }
            digits += steps * STEP;
            head = next;
        }
    }
    finish_some(&w, AMX_ROWS);
}

/* Compute row i again with f32 multiply-adds: a row that has no digits. */
static void plain_row(const struct product *p, size_t i, size_t j0, size_t j1)
{
    const size_t steps = steps_of(p->depth), panel = panel_bytes(p->depth);
    float x[BLOCK * SPAN] = {0};
    for (size_t j = j0; j < j1; j++) {
        const size_t left = p->n - j * COLUMNS;
        const vm m = v_tail(left < COLUMNS ? left : COLUMNS);
        const int8_t *b = (const int8_t *)p->b + j * panel;
        vf sum = v_zero();
        for (size_t block = 0; block < blocks_of(steps); block++) {
            const size_t s0 = block_step(steps, block), s1 = block_step(steps, block + 1);
            const size_t k0 = s0 * SPAN, n = (p->depth < s1 * SPAN ? p->depth : s1 * SPAN) - k0;
            const vf exponent = v_load((const float *)(const void *)b);
            const float *row = row_of(p, x, i, k0, n);
            b += HEAD;
            for (size_t k = 0; k < n; k++) {
                const int8_t *at = b + k / SPAN * STEP + k % AMX_ROWS * SPAN;
                const unsigned up = 24 - (unsigned)(k % SPAN / AMX_ROWS) * 8;
                vi q = _mm512_setzero_si512();
                for (int d = 0; d < DIGITS; d++)
                    q = _mm512_add_epi32(
                        _mm512_slli_epi32(q, 8),
                        _mm512_srai_epi32(_mm512_slli_epi32(_mm512_loadu_si512(at + d * TILE), up),
                                          24));
                sum = v_fma(v_set1(row[k]), v_ldexp(_mm512_cvtepi32_ps(q), exponent), sum);
            }
            b += (s1 - s0) * STEP;
        }
        store_vector(p, sum, i, j * COLUMNS, m, p->ep);
    }
}

static bool is_nonfinite_row(const struct product *p, size_t i)
{
    float x[BLOCK * SPAN];
    bool nonfinite = false;
    for (size_t k0 = 0, n; k0 < p->depth; k0 += n) {
        const float *row;
        n = p->depth - k0 < BLOCK * SPAN ? p->depth - k0 : BLOCK * SPAN;
        row = row_of(p, x, i, k0, n);
        for (size_t k = 0; k < n; k++)
            nonfinite |= !isfinite(row[k]);
    }
    return nonfinite;
}

/* Rows [i0, i1), panels [j0, j1). */
static void multiply_w24(const struct product *p, size_t i0, size_t i1, size_t j0, size_t j1)
{
    alignas(64) int8_t digits[ROOM];
    const size_t all = steps_of(p->depth), blocks = blocks_of(all);
    struct rows a; /* not cleared: that takes longer than a small product */
    a.p = p;
    a.digits = digits;
    for (size_t i = i0, rows; i < i1 && j0 < j1; i += rows) {
        const size_t left = i1 - i, parts = (left + MOST - 1) / MOST,
                     tiles = (left + AMX_ROWS - 1) / AMX_ROWS;
        bool nonfinite = false;
        size_t at_once;
        a.tiles = (tiles + parts - 1) / parts;
        rows = a.tiles * AMX_ROWS < left ? a.tiles * AMX_ROWS : left;
        a.high = (rows + a.tiles - 1) / a.tiles;
        begin(a.high);
        a.i0 = i;
        a.rows = rows;
        at_once = ROOM / (a.tiles * BLOCK * STEP);
        for (size_t b = 0; b < blocks; b += a.blocks) {
            a.block0 = b;
            a.blocks = blocks - b < at_once ? blocks - b : at_once;
            a.step0 = block_step(all, b);
            a.steps = block_step(all, b + a.blocks) - a.step0;
            rows_to_digits(&a);
            nonfinite |= a.nonfinite;
            multiply_rows(&a, j0, j1);
        }
        for (size_t r = i; nonfinite && r < i + rows; r++)
            if (is_nonfinite_row(p, r))
                plain_row(p, r, j0, j1);
    }
}

#define MULTIPLY multiply_w24
#define PANELS panels_of
#include "nn/kernels/x86/amx_weights_tmpl.h"

/* ---- the plain product, with loads and prefetches in the order that suits this memory ---- */

static void plain(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *packed,
                  float *c, size_t ldc, const struct steno_gemm_epilogue *ep)
{
    const struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    multiply(&p, 0, m, 0, panels(n));
}

static void plain_part(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *packed,
                       float *c, size_t ldc, const struct steno_gemm_epilogue *ep, size_t part,
                       size_t n_parts)
{
    const struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    multiply_part(&p, m, part, n_parts);
}

void steno_kernels_gemm_f32_w24__amx(steno_kernels *k)
{
    k->gemm_f32_packed = plain;
    k->gemm_f32_packed_part = plain_part;
    k->gemm_f32_w24 =
        (struct steno_gemm_weights){packed_bytes, pack, weights_part, weights_conv, NULL};
    k->compressed_max_rows = 0;
}
