/* A block of rows times a block of K by the register tiles of gemm_i8_micro_tmpl.h. Included by
 * gemm_i8_tmpl.h. */
#include "nn/kernels/tmpl/gemm_i8_micro_tmpl.h"
#define row_weights(p) weights(p)
#include "nn/kernels/tmpl/gemm_i8_row_tmpl.h"

/* Row stride of the copy of A in lanes. */
static inline size_t copy_ld(size_t lanes)
{
    (void)lanes;
    return A_LD;
}

/* Bytes of K of a block. */
static size_t depth_of(size_t k, size_t rows)
{
    (void)k;
    (void)rows;
    return KU * KG;
}

/* False: A is copied. */
static bool lies_well(const struct steno_gemm_i8 *g)
{
    (void)g;
    return false;
}

static void one_row(const struct product *p, const struct part *a, size_t j0, size_t j1)
{
    if (VL == 16 && streams_weights())
        one_row_as(STREAM, p, a, j0, j1);
    else
        one_row_as(ALONE, p, a, j0, j1);
}

/* Rows [r0, r0 + h) of the part times panels [j, j + step). */
static inline void tile_at(const struct product *p, const struct part *a, size_t r0, size_t h,
                           size_t j, micro_fn *fn, size_t step, const int8_t *prefetch)
{
    alignas(64) int32_t tile[MR * NR];
    if (VL == 8 || (VL == 16 && p->g->m > MC))
        prefetch_stored(p->g->c, p->g->ldc, p->g->ep, a->i0 + r0, h, j * NR, NR);
    fn(a->ku, a->buf + r0 * A_LD, a->b + j * p->b.panel, p->b.panel, prefetch, tile);
    add_rests(p, a, tile, r0, h, j, step);
    for (size_t q = 0; q < step; q++)
        store_tile(p, a, tile + q * NR, r0, h, step * NR, (j + q) * NR);
}

/* Panels [j0, j1) for `rows` copied rows: panel by panel, so that a panel stays in the caches while
 * it is multiplied by all rows. */
static void block(const struct product *p, const struct part *a, size_t rows, size_t j0, size_t j1)
{
    const size_t tiles = (rows + MR - 1) / MR;
    micro_fn *const *by_rows = shared_by_rows();
    micro_fn *fn;
    size_t step;
    if (rows == 1 && a->first && a->last &&
        VL != 8) { /* eight lanes: four panels at once are a fifth faster */
        one_row(p, a, j0, j1);
        return;
    }
    if (tiles == 1) {
        const size_t distance = prefetch_distance(p);
        prefetch_columns(p, j0, distance);
        for (size_t j = j0; j < j1; j += step) {
            fn = few_of(rows, j1 - j, &step);
            prefetch_columns(p, j + distance, step);
            tile_at(p, a, 0, rows, j, fn, step, a->b + j * p->b.panel);
        }
        return;
    }
    for (size_t j = j0; j < j1; j++) {
        const int8_t *next = a->b + (j + 1) * p->b.panel;
        for (size_t t = 0; t < tiles; t++) {
            size_t r0 = rows * t / tiles, h = rows * (t + 1) / tiles - r0;
            tile_at(p, a, r0, h, j, by_rows[h], 1, next + t % PREFETCHERS * (a->ku / STEPS) * 64);
        }
    }
}

static double V_NAME(peak_i8)(size_t rounds)
{
    const vi b = vi_set1(0x01010101);
    vi a = vi_set1(0x01020304), acc[12];
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
        acc[i] = vi_set1(i);
    for (size_t t = 0; t < rounds; t++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) { /* changes a: no work can be shared */
            acc[i] = dot(acc[i], a, b);
            __asm__ volatile("" : "+" V_REGISTER(acc[i]), "+" V_REGISTER(a));
        }
    }
    return 2.0 * 12 * VL * KG * (double)rounds;
}
