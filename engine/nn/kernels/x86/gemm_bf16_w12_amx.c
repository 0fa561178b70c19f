/* The bf16 product of gemm_bf16_amx.c with weights in 12 bits. Products of few rows take the time
 * of reading their weights. The lower byte of a bf16 weight, the last bit of the exponent and the
 * fraction, is kept as it is. The upper byte is reduced to 4 bits: the sign, and the upper seven
 * bits of the exponent relative to those of the largest number of the column, as 1 to 7 (7 for the
 * largest). That covers 14 powers of two. Smaller numbers, below 2^-13 of the largest, become the
 * smallest of these powers or 0. All others do not change, and neither do the bits of a product of
 * them.
 *
 * Packed B: panels of 32 columns. A panel starts with 64 bytes: for each column the upper seven
 * bits of its largest exponent less 7, in the order of columns in rows. Steps of 32 of K follow. A
 * step has 8 units of 192 bytes for 4 of K each:
 *   64 bytes   of half bytes; the low halves for the first two of K
 *   64 bytes   of lower bytes of the first two of K
 *   64 bytes   of lower bytes of the last two of K
 * Of each 16 bytes the first 8 belong to the left half of the panel, with two of K of each column,
 * so that interleaving bytes gives a bf16 tile row of each half. Few rows widen a step into L1
 * between the products of the step before; many rows widen several steps at a time. */
#include "nn/kernels/x86/amx.h"
#include "nn/kernels/x86/vec_avx512.h"

#define GEMM_NO_SLOTS
#define GEMM_APPROX
#include "nn/kernels/tmpl/gemm_tmpl.h"
#include "nn/kernels/tmpl/patches_tmpl.h"

enum {
    SPAN = 32, /* of K per step */
    HEAD = 64,
    UNIT = 192,       /* bytes for 4 of K */
    UNITS = SPAN / 4, /* units per step */
    STEP = UNIT * UNITS,
    TILE = AMX_ROWS * 64, /* bytes of half a step, widened, or of a tile of A */
    WIDE = 2 * TILE,
    DEEP = 16,               /* maximum of steps of a piece: 32 KiB, in L1 */
    MOST = 512,              /* maximum of rows at a time */
    ROOM = 800 << 10,        /* maximum of bytes of these rows, in L2 */
    FEW = 3 * AMX_ROWS,      /* maximum of rows whose sums stay in registers */
    HIGH = 2 * AMX_ROWS,     /* rows that are multiplied together when there are more */
    BINADES = 7,             /* twice as many powers of two are kept */
    FEW_ROWS_DISTANCE = 8192 /* prefetch distance in bytes for weights of few rows */
};

typedef __m512i vi;

/* ---- shapes ---- */

static size_t steps_of(size_t k)
{
    return (k + SPAN - 1) / SPAN;
}

static size_t panel_bytes(size_t k)
{
    return HEAD + steps_of(k) * STEP;
}

static size_t packed_bytes(size_t k, size_t n)
{
    return panels(n) * panel_bytes(k);
}

/* ---- packing ---- */

/* Up to 32 columns of some rows of B: the first NR floats of each row. */
struct source {
    const float *b;
    size_t ld, rows;
    vm left, right;
};

/* Row k in bf16, a word per column; 0 beyond the rows. */
static inline vi source_row(const struct source *s, size_t k)
{
    const float *x = s->b + k * s->ld;
    if (k >= s->rows)
        return _mm512_setzero_si512();
    return (vi)_mm512_cvtne2ps_pbh(v_load_m(x + VL, s->right), v_load_m(x, s->left));
}

/* Rows [k, k + n) of columns [j, j + cols), transposed if trans. */
static struct source source_at(const float *b, size_t ldb, bool trans, size_t j, size_t cols,
                               size_t k, size_t n, float *transposed)
{
    const vm left = v_tail(cols < VL ? cols : VL), right = v_tail(cols < VL ? 0 : cols - VL);
    if (!trans)
        return (struct source){b + k * ldb + j, ldb, n, left, right};
    transpose_blocks(transposed, NR, b + j * ldb + k, ldb, cols, n);
    return (struct source){transposed, NR, n, left, right};
}

/* Words of a row to lower bytes and half bytes, in words too. */
static inline void compress(vi h, vi base, vi *low, vi *half)
{
    const vi bare = _mm512_and_si512(h, _mm512_set1_epi16(0x7fff));
    const vi above = _mm512_sub_epi16(_mm512_srli_epi16(bare, 8), base);
    const vi sign = _mm512_and_si512(_mm512_srli_epi16(h, 12), _mm512_set1_epi16(8));
    const __mmask32 there = _mm512_cmpgt_epi16_mask(above, _mm512_setzero_si512());
    /* the smallest kept power is 2^(2 (base + 1)): numbers of half of it and more become it */
    const __mmask32 nearly = _mm512_cmpeq_epi16_mask(above, _mm512_setzero_si512()) &
                             _mm512_test_epi16_mask(h, _mm512_set1_epi16(0x80)) &
                             _mm512_test_epi16_mask(base, base);
    *low = _mm512_maskz_mov_epi16(there, _mm512_and_si512(h, _mm512_set1_epi16(0xff)));
    *half = _mm512_maskz_mov_epi16(
        there | nearly,
        _mm512_or_si512(sign, _mm512_mask_mov_epi16(above, nearly, _mm512_set1_epi16(1))));
}

/* 4 rows from k on to a unit. */
static void pack_unit(uint8_t *to, const struct source *s, size_t k, vi base, vi order)
{
    vi halves = _mm512_setzero_si512();
    for (size_t i = 0; i < 2; i++) {
        vi low[2], half[2];
        compress(source_row(s, k + 2 * i), base, &low[0], &half[0]);
        compress(source_row(s, k + 2 * i + 1), base, &low[1], &half[1]);
        low[0] = _mm512_or_si512(low[0], _mm512_slli_epi16(low[1], 8));
        half[0] = _mm512_or_si512(half[0], _mm512_slli_epi16(half[1], 8));
        _mm512_storeu_si512(to + 64 + 64 * i, _mm512_permutexvar_epi16(order, low[0]));
        halves = _mm512_or_si512(halves, i ? _mm512_slli_epi16(half[0], 4) : half[0]);
    }
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, halves));
}

static void pack(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    enum { SOME = 8 * SPAN };
    /* 16 bytes q: columns 4 q to 4 q + 3 of the left half, then of the right half, two of K of
     * each */
    static const uint16_t columns[NR] = {0,  1,  2,  3,  16, 17, 18, 19, 4,  5,  6,
                                         7,  20, 21, 22, 23, 8,  9,  10, 11, 24, 25,
                                         26, 27, 12, 13, 14, 15, 28, 29, 30, 31};
    const vi order = _mm512_loadu_si512(columns);
    alignas(64) float transposed[SOME * NR];
    uint8_t *to = dst;
    for (size_t j = 0; j < n; j += NR, to += panel_bytes(k)) {
        const size_t cols = n - j < NR ? n - j : NR;
        vi most = _mm512_setzero_si512(), base;
        for (size_t k0 = 0; k0 < k; k0 += SOME) {
            const struct source s =
                source_at(b, ldb, trans, j, cols, k0, k - k0 < SOME ? k - k0 : SOME, transposed);
            for (size_t i = 0; i < s.rows; i++)
                most = _mm512_max_epu16(
                    most, _mm512_and_si512(source_row(&s, i), _mm512_set1_epi16(0x7fff)));
        }
        base = _mm512_subs_epu16(_mm512_srli_epi16(most, 8), _mm512_set1_epi16(BINADES));
        _mm512_storeu_si512(
            to, _mm512_permutexvar_epi16(order, _mm512_or_si512(base, _mm512_slli_epi16(base, 8))));
        for (size_t k0 = 0; k0 < k; k0 += SOME) {
            const struct source s =
                source_at(b, ldb, trans, j, cols, k0, k - k0 < SOME ? k - k0 : SOME, transposed);
            for (size_t i = 0; i < (s.rows + SPAN - 1) / SPAN * SPAN; i += 4)
                pack_unit(to + HEAD + (k0 + i) / 4 * UNIT, &s, i, base, order);
        }
    }
}

/* ---- widening ---- */

/* Position in the weights that are widened to bf16: panels from j on, steps [step0, step0 + steps)
 * of each. */
struct stream {
    const uint8_t *b; /* panel 0 */
    size_t panel;     /* bytes */
    size_t step0, steps, j, j1, i;
    const uint8_t *at; /* the next unit; NULL: none left */
    vi base;
};

static void stream_at(struct stream *s)
{
    const uint8_t *head = s->b + s->j * s->panel;
    s->at = s->j < s->j1 ? head + HEAD + (s->step0 + s->i) * STEP : NULL;
    if (s->at)
        s->base = _mm512_loadu_si512(head);
}

static inline void stream_next(struct stream *s)
{
    if (++s->i < s->steps)
        return;
    s->i = 0;
    s->j++;
    stream_at(s);
}

/* Load a line and prefetch a later one: from memory into L2 in the order of memory, which is the
 * fastest order; or into L1, if in_l2. */
static inline __attribute__((always_inline)) vi line_of(const uint8_t *p, bool in_l2)
{
    vi v;
    if (in_l2)
        __builtin_prefetch(p + STEP, 0, 3);
    else
        __builtin_prefetch(p + FEW_ROWS_DISTANCE, 0, 2);
    v = amx_line(p);
    __asm__ volatile("" ::: "memory");
    return v;
}

/* 2 of K of all columns, to a tile row of both halves. */
static inline __attribute__((always_inline)) void widen_rows(uint8_t *to, vi halves, vi low,
                                                             vi base)
{
    const vi upper = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -128, -127, -126, -125, -124, -123, -122, -121));
    const __mmask64 there = _mm512_test_epi8_mask(halves, _mm512_set1_epi8(7));
    const vi high = _mm512_maskz_add_epi8(there, _mm512_shuffle_epi8(upper, halves), base);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi8(low, high));
    _mm512_storeu_si512(to + TILE, _mm512_unpackhi_epi8(low, high));
}

/* Units [from, from + n) of the stream's step, to the step at `to`. */
static inline __attribute__((always_inline)) void widen(const struct stream *s, uint8_t *to,
                                                        size_t from, size_t n, bool in_l2)
{
    const uint8_t *at = s->at + from * UNIT;
    const vi mask = _mm512_set1_epi8(15);
    to += from * 2 * 64;
#pragma GCC unroll 8
    for (size_t u = 0; u < n; u++, at += UNIT, to += 2 * 64) {
        if (!in_l2) /* one of three lines, as AMX_PREFETCH_NEXT does */
            __builtin_prefetch(at + FEW_ROWS_DISTANCE + AMX_HW_PREFETCH_DISTANCE, 0, 2);
        const vi halves = line_of(at, in_l2), low = line_of(at + 64, in_l2),
                 low2 = line_of(at + 128, in_l2);
        widen_rows(to, _mm512_and_si512(halves, mask), low, s->base);
        widen_rows(to + 64, _mm512_and_si512(_mm512_srli_epi16(halves, 4), mask), low2, s->base);
    }
}

static void widen_step(struct stream *s, uint8_t *to)
{
    widen(s, to, 0, UNITS, true);
    s->at += STEP;
    stream_next(s);
}

/* ---- rows of A ---- */

/* Rows of A in bf16: [tiles][steps][16][64]. The tiles have nearly the same number of rows, because
 * the time of a product depends on the rows of its tile. */
struct rows {
    const struct product *p;
    uint8_t *bf16;
    size_t i0, rows, tiles, high;
    size_t step0, steps;
    bool first, last; /* of all of K */
};

static void row_to_bf16(uint8_t *to, const float *x, size_t n, size_t steps)
{
    for (size_t step = 0; step < steps; step++, to += TILE) {
        const size_t at = step * SPAN, left = at < n ? n - at : 0;
        vf low, high = v_zero();
        if (left >= SPAN) {
            low = v_load(x + at);
            high = v_load(x + at + VL);
        } else {
            low = v_load_m(left ? x + at : x, v_tail(left < VL ? left : VL));
            if (left > VL)
                high = v_load_m(x + at + VL, v_tail(left - VL));
        }
        _mm512_storeu_si512(to, (vi)_mm512_cvtne2ps_pbh(high, low));
    }
}

static void rows_to_bf16(const struct rows *a)
{
    enum { SOME = 16 };
    float gathered[SOME * SPAN];
    const struct product *p = a->p;
    for (size_t r = 0; r < a->rows; r++) {
        uint8_t *to = a->bf16 + r / a->high * a->steps * TILE + r % a->high * 64;
        for (size_t s = 0, some; s < a->steps; s += some) {
            const size_t k0 = (a->step0 + s) * SPAN;
            some = a->steps - s < SOME ? a->steps - s : SOME;
            const size_t n = p->depth - k0 < some * SPAN ? p->depth - k0 : some * SPAN;
            row_to_bf16(to + s * TILE, row_of(p, gathered, a->i0 + r, k0, n), n, some);
        }
    }
}

/* ---- finished sums to C ---- */

/* Finished sums. Rows [r, rows) are not in C yet; they are stored between later products. */
struct waiting {
    const struct rows *a;
    const float *sums; /* [rows][NR] */
    size_t r0, r, rows, j;
};

static __attribute__((noinline)) void finish(struct waiting *w, size_t n)
{
    const struct product *p = w->a->p;
    const size_t left = p->n - w->j * NR;
    n = w->rows - w->r < n ? w->rows - w->r : n;
    store_tile(p, w->sums + w->r * NR, n, NR, w->a->i0 + w->r0 + w->r, w->j * NR,
               left < NR ? left : NR, true, w->a->last);
    w->r += n;
}

static inline void finish_some(struct waiting *w, size_t n)
{
    if (w->r < w->rows)
        finish(w, n);
}

static size_t share_of(const struct waiting *w, size_t steps)
{
    return steps ? ((w->rows - w->r) / steps + 4) / 4 * 4 : 0;
}

/* Read the sums that C holds so far, of rows from r0 on. */
static void fetch(const struct rows *a, size_t r0, size_t rows, size_t j, float *sums)
{
    const struct product *p = a->p;
    const size_t left = p->n - j * NR, cols = left < NR ? left : NR;
    for (size_t r = 0; r < rows; r++)
        memcpy(sums + r * NR, p->c + (a->i0 + r0 + r) * p->ldc + j * NR, cols * sizeof *sums);
}

/* ---- up to 48 rows: sums stay in registers, left half 0, 2, 4 and right half 1, 3, 5; A is 6 and
 * B 7 ---- */

/* Rows of sums are ld floats apart. Tiles follow each other, with `high` rows each. */
#define EACH_SUM(OP, sums, ld, high, tiles)                                                        \
    do {                                                                                           \
        OP(0, sums, 4 * (ld));                                                                     \
        OP(1, (sums) + VL, 4 * (ld));                                                              \
        if ((tiles) > 1) {                                                                         \
            OP(2, (sums) + (high) * (ld), 4 * (ld));                                               \
            OP(3, (sums) + (high) * (ld) + VL, 4 * (ld));                                          \
        }                                                                                          \
        if ((tiles) > 2) {                                                                         \
            OP(4, (sums) + 2 * (high) * (ld), 4 * (ld));                                           \
            OP(5, (sums) + 2 * (high) * (ld) + VL, 4 * (ld));                                      \
        }                                                                                          \
    } while (0)

static void zero_sums(void)
{
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
    AMX_ZERO(4);
    AMX_ZERO(5);
}

static inline __attribute__((always_inline)) void few_panels(const struct rows *a, struct stream *s,
                                                             size_t tiles)
{
    alignas(64) float sums[2][FEW * NR];
    alignas(64) uint8_t wide[2][WIDE];
    const size_t a_tile = a->steps * TILE, high = a->high;
    struct waiting w = {.a = a};
    size_t parity = 0;
    widen_step(s, wide[0]);
    for (size_t j = s->j - (s->i == 0), j1 = s->j1; j < j1; j++) {
        const size_t some = share_of(&w, a->steps);
        const uint8_t *x = a->bf16;
        float *done = sums[j % 2];
        if (a->first) {
            zero_sums();
        } else {
            fetch(a, 0, a->rows, j, done);
            EACH_SUM(AMX_LOAD, done, NR, high, tiles);
        }
        for (size_t i = 0; i < a->steps; i++, x += TILE, parity ^= 1) {
            const uint8_t *b = wide[parity];
            uint8_t *to = wide[parity ^ 1];
            const bool more = s->at != NULL;
#define MEANWHILE(from, n)                                                                         \
    do {                                                                                           \
        if (more)                                                                                  \
            widen(s, to, from, n, false);                                                          \
    } while (0)
            AMX_LOAD(7, b, 64);
            AMX_LOAD(6, x, 64);
            AMX_DOT_BF16(0, 6, 7);
            if (tiles == 1) {
                MEANWHILE(0, 4);
            } else {
                MEANWHILE(0, 2);
                AMX_LOAD(6, x + a_tile, 64);
                AMX_DOT_BF16(2, 6, 7);
                MEANWHILE(2, 2);
            }
            if (tiles > 2) {
                AMX_LOAD(6, x + 2 * a_tile, 64);
                AMX_DOT_BF16(4, 6, 7);
            }
            AMX_LOAD(7, b + TILE, 64);
            if (tiles > 2) {
                AMX_DOT_BF16(5, 6, 7);
                AMX_LOAD(6, x + a_tile, 64);
            }
            if (tiles > 1) {
                AMX_DOT_BF16(3, 6, 7);
                MEANWHILE(4, 2);
                AMX_LOAD(6, x, 64);
            }
            AMX_DOT_BF16(1, 6, 7);
            if (tiles == 1)
                MEANWHILE(4, 4);
            else
                MEANWHILE(6, 2);
            if (more) {
                s->at += STEP;
                stream_next(s);
            }
            finish_some(&w, some);
        }
        finish_some(&w, FEW);
        EACH_SUM(AMX_STORE, done, NR, high, tiles);
        w = (struct waiting){a, done, 0, 0, a->rows, j};
    }
    finish_some(&w, FEW);
}

/* ---- more rows: 32 at a time, sums 0 to 3, A 4 and 5, B 6 and 7 ---- */

/* Prefetch n cache lines from *prefetch on. */
static inline __attribute__((always_inline)) void
prefetch_lines(const uint8_t **prefetch, const uint8_t **hw_prefetch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        AMX_PREFETCH_NEXT(*prefetch, *hw_prefetch, 6);
}

/* A widened piece of a panel stays in L1 while all rows are multiplied by it. The last rows
 * overwrite it with the next piece. */
static void many_panels(const struct rows *a, struct stream *s)
{
    alignas(64) float sums[MOST * NR];
    alignas(64) uint8_t wide[DEEP * WIDE];
    const size_t deep =
        a->tiles > DEEP / 2
            ? DEEP
            : DEEP / 2; /* with few rows the pieces are smaller, so that they stay in L1 */
    const size_t pieces = (a->steps + deep - 1) / deep, a_tile = a->steps * TILE,
                 pairs = (a->tiles + 1) / 2;
    const struct product *p = a->p;
    struct waiting w = {.a = a};
    for (size_t i = 0; i < a->steps / pieces; i++)
        widen_step(s, wide + i * WIDE);
    for (size_t j = s->j - (s->i == 0); j < s->j1; j++)
        for (size_t q = 0; q < pieces; q++) {
            const size_t s0 = a->steps * q / pieces, steps = a->steps * (q + 1) / pieces - s0;
            const size_t q1 = (q + 1) % pieces,
                         after = a->steps * (q1 + 1) / pieces - a->steps * q1 / pieces;
            const size_t others = (pairs - 1) * steps,
                         lines = (after * (STEP / 64) + others - 1) / others;
            const uint8_t *prefetch = s->at, *hw_prefetch = prefetch;
            for (size_t t = 0; t < a->tiles; t += 2) {
                const size_t r0 = t * a->high,
                             rows = a->rows - r0 < 2 * a->high ? a->rows - r0 : 2 * a->high;
                const size_t some = share_of(&w, steps);
                const bool high = t + 1 < a->tiles, last = t + 2 >= a->tiles;
                const uint8_t *x = a->bf16 + t * a_tile + s0 * TILE;
                uint8_t *b = wide;
                float *at = sums + r0 * NR;
                /* C itself holds sums that wait for the rest of K, or results without an
                 * epilogue */
                const bool whole = rows == (1 + high) * a->high && (j + 1) * NR <= p->n;
                float *c = p->c + (a->i0 + r0) * p->ldc + j * NR;
                if (!q && a->first) {
                    zero_sums();
                } else if (!q && whole) {
                    EACH_SUM(AMX_LOAD, c, p->ldc, a->high, 1 + high);
                } else {
                    if (!q)
                        fetch(a, r0, rows, j, at);
                    EACH_SUM(AMX_LOAD, at, NR, a->high, 1 + high);
                }
                for (size_t i = 0; i < steps; i++, x += TILE, b += WIDE) {
                    if (!last && s->at)
                        prefetch_lines(&prefetch, &hw_prefetch, lines);
                    AMX_PASS(4, x, 64);
                    AMX_LOAD(6, b, 64);
                    AMX_DOT_BF16(0, 4, 6);
                    AMX_LOAD(7, b + TILE, 64);
                    AMX_DOT_BF16(1, 4, 7);
                    if (high) {
                        AMX_PASS(5, x + a_tile, 64);
                        AMX_DOT_BF16(2, 5, 6);
                        AMX_DOT_BF16(3, 5, 7);
                    }
                    if (last && s->at && i < after)
                        widen_step(s, b);
                    finish_some(&w, some);
                }
                finish_some(&w, HIGH);
                if (q + 1 == pieces && whole && !(a->last && p->ep)) {
                    EACH_SUM(AMX_STORE, c, p->ldc, a->high, 1 + high);
                    continue;
                }
                EACH_SUM(AMX_STORE, at, NR, a->high, 1 + high);
                if (q + 1 == pieces)
                    w = (struct waiting){a, at, r0, 0, rows, j};
            }
            for (size_t i = steps; i < after && s->at; i++)
                widen_step(s, wide + i * WIDE);
        }
    finish_some(&w, HIGH);
}

/* ---- the whole product ---- */

/* Rows [i0, i1), panels [j0, j1). */
static void multiply_w12(const struct product *p, size_t i0, size_t i1, size_t j0, size_t j1)
{
    alignas(64) uint8_t bf16[ROOM];
    const size_t all = steps_of(p->depth);
    struct rows a = {.p = p, .bf16 = bf16};
    if (!all) {
        multiply(p, i0, i1, j0, j1);
        return;
    }
    for (size_t i = i0; i < i1 && j0 < j1; i += a.rows) {
        const size_t left = i1 - i, parts = (left + MOST - 1) / MOST,
                     tiles = (left + AMX_ROWS - 1) / AMX_ROWS;
        size_t at_once, blocks;
        a.tiles = (tiles + parts - 1) / parts;
        a.i0 = i;
        a.rows = a.tiles * AMX_ROWS < left ? a.tiles * AMX_ROWS : left;
        a.high = (a.rows + a.tiles - 1) / a.tiles;
        amx_configure((const uint8_t[8]){(uint8_t)a.high, (uint8_t)a.high, (uint8_t)a.high,
                                         (uint8_t)a.high, (uint8_t)a.high, (uint8_t)a.high,
                                         (uint8_t)(a.tiles > 3 ? 16 : a.high), 16});
        at_once = ROOM / (a.tiles * TILE);
        blocks = (all + at_once - 1) / at_once; /* of K, all of nearly the same depth */
        for (size_t s0 = 0, b = 0; b < blocks; s0 += a.steps, b++) {
            struct stream s = {
                .b = (const uint8_t *)p->b, .panel = panel_bytes(p->depth), .j = j0, .j1 = j1};
            a.step0 = s0;
            a.steps = all * (b + 1) / blocks - s0;
            a.first = s0 == 0;
            a.last = s0 + a.steps == all;
            rows_to_bf16(&a);
            s.step0 = s0;
            s.steps = a.steps;
            stream_at(&s);
            if (a.tiles == 1)
                few_panels(&a, &s, 1);
            else if (a.tiles == 2)
                few_panels(&a, &s, 2);
            else if (a.tiles == 3)
                few_panels(&a, &s, 3);
            else
                many_panels(&a, &s);
        }
    }
}

#define MULTIPLY multiply_w12
#define PANELS panels
#include "nn/kernels/x86/amx_weights_tmpl.h"

void steno_kernels_gemm_bf16_w12__amx(steno_kernels *k)
{
    k->gemm_bf16_w12 =
        (struct steno_gemm_weights){packed_bytes, pack, weights_part, weights_conv, NULL};
}
