/* A block of rows times a block of K by the register tiles of gemm_micro_tmpl.h. Included by
 * gemm_tmpl.h, after which copy_a follows. */
#include "nn/kernels/tmpl/gemm_micro_tmpl.h"

enum { L2_BYTES = VL == 16 && !GEMM_PACED_ROWS ? 256 << 10 : 0 }; /* B up to here is in L2 */

/* Row stride of the copy of A of a block kc deep. */
static inline size_t copy_ld(size_t kc)
{
    (void)kc;
    return A_LD;
}

/* Elements of K of a block. */
static size_t depth_of_block(size_t k, size_t rows)
{
    (void)k;
    (void)rows;
    return KC;
}

/* Panels that a tile of this height takes at a time, where one panel has too few sums to hide the
 * FMA latency. Wide vectors take one panel, so that weights from memory are read as one stream; if
 * B is small they take several. */
static size_t panels_at_once(size_t rows, bool small)
{
    const size_t most = VL == 16 ? 4 : VL == 8 && sizeof(b_t) == 4 ? 3 : 2;
    return (VL == 16 && !small) || rows > most ? 1 : rows == 1 ? 4 : 2;
}

/* Rows [r0, r0 + h) of the part times `step` panels from j on, by a kernel of one panel from
 * `by_rows`; prefetches from `prefetch` on. */
static inline void tile_at(const struct product *p, const struct part *a, size_t r0, size_t h,
                           size_t j, size_t step, micro_fn *const *by_rows, const b_t *prefetch)
{
    alignas(64) float tile[MR * NR];
    const bool first = a->k0 == 0 && !p->add, last = a->k0 + a->kc == p->k;
    const bool alone = by_rows == few_by_rows || (VL == 16 && by_rows == stream_by_rows);
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
    micro_fn *const *by_rows = small ? micro_by_rows : alone_by_rows();
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
    micro_fn *const *by_rows = lines == 2 ? two_lines_by_rows : shared_by_rows();
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

/* Rows that are one tile take all of k at once, where that is more than a block. False: they are
 * not. */
static bool multiply_at_once(const struct product *p, size_t i0, size_t rows, size_t j0, size_t j1)
{
    if (p->k <= KC || !rows || rows > MR || (p->k + KC - 1) / KC * rows > MC)
        return false;
    multiply_tile(p, i0, rows, j0, j1);
    return true;
}
