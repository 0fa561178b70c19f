/* Products with weights in 24 or 12 bits: packing, and the slots. The weights of a column are
 * relative to a power of two that its largest weight determines, so they need fewer bits. Finished
 * sums are multiplied by that power.
 *
 * Packed B: the exponent of each column's power as a float, for whole panels, then panels of NR
 * columns. An element has 6 bytes of one column and is multiplied by two words of A. A row of a
 * panel has three lines of VL lanes:
 *   line 0    first words, columns 0 to VL - 1
 *   line 1    first words, columns VL to 2 VL - 1
 *   line 2    second words, columns 0 to VL - 1
 * These words use three quarters of the bits of each lane, in the positions of a word. The
 * remaining bits hold the second words of the other VL columns. So lines are loaded as they are,
 * and only a quarter of the words must be assembled. This costs less than shuffling bytes that are
 * stored in order, and its operations use ports that multiply-adds leave free.
 *
 * The file that includes this after gemm_tmpl.h defines
 *   struct columns        what packing must know of VL columns
 *   columns_of            fills it, and returns the exponents, from each column's largest magnitude
 *   pack_row              rows [K_STEP][NR] of B to a row of a panel */
static size_t packed_bytes(size_t k, size_t n)
{
    return panels(n) * NR * (sizeof(float) + depth_of(k) * sizeof(b_t));
}

enum { SOME = 64 }; /* rows of B at a time */

/* Rows [k0, k0 + rows) of `cols` columns; the other columns are zero. */
static void unpacked(float to[SOME][NR], const float *b, size_t ldb, bool trans, size_t k0,
                     size_t rows, size_t cols)
{
    const vm m[2] = {v_tail(cols < VL ? cols : VL), v_tail(cols < VL ? 0 : cols - VL)};
    if (trans && cols < NR)
        memset(to, 0, sizeof to[0] * SOME);
    if (trans)
        transpose_blocks(to[0], NR, b + k0, ldb, cols, rows);
    for (size_t i = 0; !trans && i < rows; i++) {
        const float *from = b + (k0 + i) * ldb;
        __builtin_prefetch(from + 16 * ldb); /* rows are pages apart: no hardware prefetch */
        __builtin_prefetch(from + 16 * ldb + VL);
        v_store(to[i], v_load_m(from, m[0]));
        v_store(to[i] + VL, v_load_m(from + VL, m[1]));
    }
}

static void pack_panel(b_t *to, float *shift, const float *b, size_t ldb, bool trans, size_t k,
                       size_t cols)
{
    alignas(64) float w[SOME][NR];
    vf most[2] = {v_zero(), v_zero()},
       nonfinite[2] = {v_zero(), v_zero()}; /* nonfinite: NaN in columns with NaN or an infinity */
    struct columns c[2];
    for (size_t k0 = 0; k0 < k; k0 += SOME) {
        const size_t rows = k - k0 < SOME ? k - k0 : SOME;
        unpacked(w, b, ldb, trans, k0, rows, cols);
        for (size_t i = 0; i < rows; i++)
            for (size_t x = 0; x < 2; x++) {
                const vf v = v_load(w[i] + x * VL);
                most[x] = v_max(v_abs(v), most[x]);
                nonfinite[x] = v_fma(v, v_zero(), nonfinite[x]);
            }
    }
    for (size_t x = 0; x < 2; x++)
        v_store(shift + x * VL,
                v_select(v_is_nan(nonfinite[x]), v_set1(NAN), columns_of(&c[x], most[x])));
    for (size_t k0 = 0; k0 < k; k0 += SOME) {
        const size_t rows = k - k0 < SOME ? k - k0 : SOME;
        unpacked(w, b, ldb, trans, k0, rows, cols);
        if (rows < SOME)
            memset(w[rows], 0, (SOME - rows) * sizeof w[0]);
        for (size_t i = 0; i < rows; i += K_STEP, to += NR)
            pack_row((float *)(void *)to, w + i, c);
    }
}

static void pack(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    float *shift = dst;
    b_t *to = (b_t *)(void *)(shift + panels(n) * NR);
    for (size_t j = 0; j < n; j += NR, to += depth_of(k) * NR)
        pack_panel(to, shift + j, b + j * (trans ? ldb : 1), ldb, trans, k,
                   n - j < NR ? n - j : NR);
}

#include "nn/kernels/tmpl/gemm_w16_part_tmpl.h"
