/* The 8-bit product (kernels.h, struct steno_gemm_i8) for one vector width and one instruction.
 *
 * Included after vec_<isa>.h, vec_i32_<isa>.h and the definitions that differ:
 *   KG    values of k per 32-bit lane: 4 with vpdpbusd (u8 x s8 summed in i32, no saturation), 2
 *         with products of bytes widened to 16 bits
 *   SUMS_16   1: dot sums two products of u8 and s8 in 16 bits (vpmaddubsw); else 0
 *   A_U8, A_S8   1: the instruction needs A unsigned (or signed): the other kind is shifted by 128.
 *   weights(p), dot(acc, a, b)
 *
 * Packed B: header, then [NP] column sums of the values less their zero points, then panels of NR =
 * 2 VL columns, each [K / KG][NR][KG] of i8 (u8 shifted by 128), zero beyond K and N, then [NP]
 * zero points, which are mostly 0 and then not read. NP is the number of columns of whole panels.
 * Modulo 2^32:
 *     sum (a - za)(b - zb) = sum a b - za * sum (b - zb) - zb * sum a
 * So the inner loop knows no zero points, and sums of rows of A are computed only where a zb is not
 * 0.
 *
 * Register tiles, the division of M, several panels at a time for few rows, and rows of A copied to
 * the stack with a fixed stride are as in gemm_tmpl.h, for the same reasons. A lane of KG bytes
 * takes the place of a float there, so a block of KU lanes has the same size. Blocks of K longer
 * than that leave their sums in C, which has 32-bit elements in both cases.
 *
 * Files: gemm_i8_product_tmpl.h what they share, gemm_i8_pack_tmpl.h packed B,
 * gemm_i8_copy_tmpl.h or, with SUMS_16, gemm_i8_lower_tmpl.h the copy of A,
 * gemm_i8_store_tmpl.h sums to C, gemm_i8_tiles_tmpl.h over gemm_i8_micro_tmpl.h, or
 * gemm_i8_amx_tmpl.h where AMX_DOT is defined, a block of A times B. */
#include "nn/kernels/tmpl/gemm_i8_product_tmpl.h"
#ifdef AMX_DOT
#include "nn/kernels/tmpl/gemm_i8_amx_tmpl.h"
#else
#include "nn/kernels/tmpl/gemm_i8_tiles_tmpl.h"
#endif
#include "nn/kernels/tmpl/gemm_i8_pack_tmpl.h"
#if SUMS_16
#include "nn/kernels/tmpl/gemm_i8_lower_tmpl.h"
#else
#include "nn/kernels/tmpl/gemm_i8_copy_tmpl.h"
#endif
#include "nn/kernels/tmpl/gemm_i8_store_tmpl.h"
#include "nn/kernels/tmpl/quantize_tmpl.h"

/* Sum of row i of A, raised by shift. */
static int32_t row_sum(const struct product *p, size_t i, int32_t shift)
{
    const uint8_t *a = (const uint8_t *)p->g->a + i * p->g->lda;
    uint32_t sum = (uint32_t)shift * (uint32_t)p->g->k;
    for (size_t k = 0; k < p->g->k; k++)
        sum += p->g->a_signed ? (uint32_t)(int8_t)a[k] : a[k];
    return (int32_t)sum;
}

/* Rows [i0, i1), panels [j0, j1), K from k0 on. */
static void multiply_block(const struct product *p, size_t i0, size_t i1, size_t j0, size_t j1,
                           size_t k0, size_t kc)
{
    struct copy copy;
    int32_t a_sum[MC];
    const bool here = lies_well(p->g);
    for (size_t i = i0, rows; i < i1; i += rows) {
        const uint8_t *from = (const uint8_t *)p->g->a + i * p->g->lda + k0;
        const size_t ld = here ? p->g->lda / KG : copy_ld(lanes_of(kc));
        rows = rows_of(i1 - i);
        const struct copied copied = copy_rows(p, &copy, ld, i, here ? 0 : rows, k0, kc);
        const struct part a = {.buf = here ? (const int32_t *)(const void *)from : copy.lanes,
                               .ld = ld,
                               .a_sum = a_sum,
                               .copied = &copied,
                               .b = p->b.panels + k0 / KG * LANE_ROW,
                               .i0 = i,
                               .ku = lanes_of(kc),
                               .first = k0 == 0,
                               .last = k0 + kc == p->g->k};
        for (size_t r = 0; a.last && p->b.head->any_zero && r < rows; r++)
            a_sum[r] = row_sum(p, i + r, shift_at(copied, r));
        block(p, &a, rows, j0, j1);
    }
}

static void multiply(const struct product *p, size_t i0, size_t i1, size_t j0, size_t j1)
{
    const size_t most = lies_well(p->g) ? p->g->k : depth_of(p->g->k, i1 - i0);
    size_t k0 = 0;
    if (j0 >= j1)
        return;
    do { /* runs once even for k = 0 */
        size_t kc = p->g->k - k0 < most ? p->g->k - k0 : most;
        multiply_block(p, i0, i1, j0, j1, k0, kc);
        k0 += kc;
    } while (k0 < p->g->k);
}

static void V_NAME(gemm_i8_part)(const struct steno_gemm_i8 *g, size_t part, size_t n_parts)
{
    const int32_t shift = A_U8 && g->a_signed ? 128 : A_S8 && !g->a_signed ? -128 : 0;
    struct product p = {g, open_packed(g->packed, g->k, g->n), shift,
                        (g->a_zero ? g->a_zero[0] : 0) + shift};
    size_t np = panels_of(g->n);
    if (!g->m)
        return;
    begin(g->m);
    if (rows_are_divided(g->m, np, n_parts))
        multiply(&p, first_row(g->m, part, n_parts), first_row(g->m, part + 1, n_parts), 0, np);
    else
        multiply(&p, 0, g->m, np * part / n_parts, np * (part + 1) / n_parts);
    end();
}

void V_NAME(steno_kernels_gemm_i8)(steno_kernels *k)
{
    k->peak_i8 = V_NAME(peak_i8);
    k->gemm_i8_packed_bytes = V_NAME(gemm_i8_packed_bytes);
    k->gemm_i8_pack = V_NAME(gemm_i8_pack);
    k->gemm_i8_part = V_NAME(gemm_i8_part);
    k->gemm_i8_rows = ROWS_OF_PART;
    k->quantize_f32 = V_NAME(quantize_f32);
    k->dequantize_f32 = V_NAME(dequantize_f32);
    k->range_f32 = V_NAME(range_f32);
    k->quantize_in_f32 = V_NAME(quantize_in_f32);
    k->quantize_row_f32 = V_NAME(quantize_row_f32);
    k->sum_rows_f32 = V_NAME(sum_rows_f32);
    k->spread_row_f32 = V_NAME(spread_row_f32);
}
