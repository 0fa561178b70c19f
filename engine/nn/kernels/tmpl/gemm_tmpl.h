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
 * the tile, or on the division of the work.
 *
 * Files, each included once for a vector width and an element of B:
 *   gemm_f32_tmpl.h, gemm_w16_tmpl.h, x86/bf16_tmpl.h   the element; they include the others
 *   gemm_product_tmpl.h   what a product is
 *   gemm_store_tmpl.h     a tile's sums to C
 *   gemm_micro_tmpl.h, gemm_tiles_tmpl.h   the register tiles, and a block of A times B by them
 *   gemm_amx_tmpl.h       a block of A times B by AMX; where AMX_DOT is defined
 * This file divides a product into blocks. */
#include "nn/kernels/tmpl/gemm_product_tmpl.h"
#include "nn/kernels/tmpl/gemm_store_tmpl.h"
#ifdef AMX_DOT
#include "nn/kernels/tmpl/gemm_amx_tmpl.h"
#else
#include "nn/kernels/tmpl/gemm_tiles_tmpl.h"
#endif

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

static size_t panels(size_t n)
{
    return (n + NR - 1) / NR;
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

/* Rows [i0, i1), panels [j0, j1). */
__attribute__((unused)) static void multiply(const struct product *p, size_t i0, size_t i1,
                                             size_t j0, size_t j1)
{
    const size_t most = depth_of_block(p->k, i1 - i0);
    size_t k0 = 0;
    if (j0 >= j1 || multiply_at_once(p, i0, i1 - i0, j0, j1))
        return;
    do { /* runs once even for k = 0, where the result is the epilogue of zeros */
        size_t kc = p->k - k0 < most ? p->k - k0 : most;
        multiply_block(p, p->b + k0 * p->b_row, i0, i1, j0, j1, k0, kc);
        k0 += kc;
    } while (k0 < p->k);
}

/* Part `part` of n_parts of a product of m rows. */
__attribute__((unused)) static void multiply_part(const struct product *p, size_t m, size_t part,
                                                  size_t n_parts)
{
    const size_t np = panels(p->n);
    if (rows_are_divided(m, np, n_parts))
        multiply(p, first_row(m, part, n_parts), first_row(m, part + 1, n_parts), 0, np);
    else
        multiply(p, 0, m, np * part / n_parts, np * (part + 1) / n_parts);
}
