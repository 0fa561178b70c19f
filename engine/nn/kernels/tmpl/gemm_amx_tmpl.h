/* A block of rows times a block of K by AMX, in place of gemm_tiles_tmpl.h. Included by gemm_tmpl.h
 * after AMX_DOT and x86/amx.h. */
enum {
    MR = 32,
    MC = 512, /* maximum of rows; reading a panel from L3 takes as long as its product with 200
               * rows */
    KC = 256, /* columns of A that are gathered and rounded at a time */
    KC_STEP = AMX_LANES, /* panels are padded to a multiple of this many pairs */
    A_LD = 0,            /* these are single rows */
    A_ROOM = MC * 400, /* of the copy of A: 800 KiB of L2; with 1 MiB, weights and C displace it */
    AMX_MOST = MC,
    AMX_B_ROW = 4 * NR
};
#define AMX_DEEP(rows) 256
#include "nn/kernels/tmpl/amx_tmpl.h"

/* Row stride of the copy of A of a block kc deep. */
static inline size_t copy_ld(size_t kc)
{
    return amx_copy_ld(kc);
}

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

/* Elements of K of a block: all have nearly the same depth, and with few rows they are deeper. */
static size_t depth_of_block(size_t k, size_t rows)
{
    return amx_depth(k, rows, A_ROOM);
}

/* A block has all of k where that fits: no rows take another way. */
static bool multiply_at_once(const struct product *p, size_t i0, size_t rows, size_t j0, size_t j1)
{
    (void)p, (void)i0, (void)rows, (void)j0, (void)j1;
    return false;
}
