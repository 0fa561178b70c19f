/* A block of rows times a block of K by AMX, in place of gemm_i8_tiles_tmpl.h. Included by
 * gemm_i8_tmpl.h after AMX_DOT, x86/amx.h and row_weights (gemm_i8_row_tmpl.h). */
enum {
    MR = 32,
    MC = 512, /* maximum of rows; reading a panel from L3 takes as long as its product with 200
               * rows */
    KU_STEP = AMX_LANES, /* panels are padded to a multiple of this many lanes */
    A_ROOM = MC * 528,   /* lanes of the copy of A: 1 MiB of L2, 512 lanes of most rows */
    AMX_MOST = MC,
    AMX_B_ROW = 4 * NR
};
#define AMX_DEEP(rows) 256
#include "nn/kernels/tmpl/amx_tmpl.h"
#include "nn/kernels/tmpl/gemm_i8_row_tmpl.h"

static size_t lanes_of(size_t k);

/* Row stride of the copy of A in lanes. */
static inline size_t copy_ld(size_t lanes)
{
    return amx_copy_ld(lanes);
}

/* Bytes of K of a block: deeper for few rows. */
static size_t depth_of(size_t k, size_t rows)
{
    return amx_depth(lanes_of(k), rows, A_ROOM) * KG;
}

/* True when A already has the layout of its copy: then it is not copied, and K is not divided. */
static bool lies_well(const struct steno_gemm_i8 *g)
{
    return !g->a_signed && g->a_rows >= steno_gemm_i8_rows(g->m) && g->k % (KG * AMX_LANES) == 0 &&
           g->lda % 128 == 64 && (uintptr_t)g->a % 64 == 0;
}

static void amx_done(const struct product *p, const struct part *part, const void *tile, size_t r0,
                     size_t h, size_t j)
{
    struct part all = *part;
    all.first = true;
    store_tile(p, &all, tile, r0, h, NR, j * NR);
}

static void block(const struct product *p, const struct part *a, size_t rows, size_t j0, size_t j1)
{
    const struct amx_block x = {.p = p,
                                .part = a,
                                .a = (const char *)a->buf,
                                .a_row = a->ld * sizeof *a->buf,
                                .rows = rows,
                                .lanes = a->ku,
                                .b = (const char *)a->b,
                                .panel = p->b.panel,
                                .c = (char *)p->g->c + a->i0 * p->g->ldc * sizeof(int32_t),
                                .c_row = p->g->ldc * sizeof(int32_t),
                                .n = p->g->n,
                                .first = a->first,
                                .last = a->last};
    if (rows == 1 && a->first && a->last)
        one_row_as(ALONE, p, a, j0, j1);
    else
        amx_block(&x, j0, j1);
}

static double V_NAME(peak_i8)(size_t rounds)
{
    return amx_peak(rounds, KG);
}
