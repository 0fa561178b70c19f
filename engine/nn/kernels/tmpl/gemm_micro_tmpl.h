/* The register tiles of a product, by height: mr rows times one, two or four panels of B, or half a
 * panel. Included by gemm_tiles_tmpl.h. */

/* How up to GEMM_PACED_ROWS rows read B: load a vector at p, and prefetch the one `prefetch`
 * elements later. The includer may define both. */
#ifndef GEMM_PACED
#define GEMM_PACED_ROWS 0
#define GEMM_PACED(p, prefetch) b_load(p)
#endif

#define ONE_MORE(mr) +1
enum {
    MR = V_HEIGHTS(ONE_MORE), /* the highest tile */
    MC = VL == 8 ? 6 * MR
                 : 126, /* rows of A copied at a time: a multiple of MR; 260 to 290 KiB, in L2 */
    KC = VL == 8 ? 2048 : 512,
    KC_STEP = 1,
    A_LD = KC + 16, /* row stride of the copy */
    A_ROOM = MC * A_LD,
    STEPS = VL == 16 ? 1 : 4, /* values of k per step of the inner loop */
    B_ROW = NR * sizeof(b_t), /* bytes of one k in a panel */
    PREFETCHERS = B_ROW * STEPS < 128
                      ? 1
                      : B_ROW * STEPS / 64, /* tiles that together prefetch the next panel */
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

typedef void micro_fn(size_t kc, const float *a, const b_t *b, size_t b_row, size_t b_next,
                      const b_t *prefetch, float *tile);

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
    const bool few = !reads_shared(reads), paced = few && mr <= GEMM_PACED_ROWS;
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
        bv[j] = paced ? GEMM_PACED(from, L2_DISTANCE * b_row) : b_load(from);
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

/* Define the kernel `name`. */
#define KERNEL(name, reads, lines, mr, w)                                                          \
    static void name(size_t kc, const float *a, const b_t *b, size_t b_row, size_t b_next,         \
                     const b_t *prefetch, float *tile)                                             \
    {                                                                                              \
        micro(reads == ALONE && mr < 3 && !L2_DISTANCE_FEW ? SHARED : reads, lines, mr, w, kc, a,  \
              b, b_row, b_next, prefetch, tile);                                                   \
    }
#define MICRO(name, reads, mr, panels) KERNEL(name##_##mr##x##panels, reads, 1, mr, 2 * panels)
#include "nn/kernels/tmpl/tiles_tmpl.h"

/* Several panels at once. */
MICRO(micro, SHARED, 1, 4)
MICRO(micro, SHARED, 2, 2)
MICRO(two, VL == 8 ? ALONE : SHARED, 3, 2)
#if VL == 8 /* 4 x 4 sums do not fit into its registers */
static micro_fn *const two_panels[] = {NULL, NULL, micro_2x2, two_3x2};
#else
MICRO(two, SHARED, 4, 2)
static micro_fn *const two_panels[] = {NULL, NULL, micro_2x2, two_3x2, two_4x2};
#endif

/* The first half of a panel whose second half is empty. */
#define HALF(mr) KERNEL(half_##mr, SHARED, 1, mr, 1)
V_HEIGHTS(HALF)
#define HALF_ENTRY(mr) [mr] = half_##mr,
static micro_fn *const half_by_rows[MR + 1] = {V_HEIGHTS(HALF_ENTRY)};

/* Two lines per step: for tiles too few to prefetch all of the next panel at one. */
#define TWO_LINES(mr) KERNEL(two_lines_##mr, SHARED, 2, mr, 2)
V_HEIGHTS(TWO_LINES)
#define TWO_LINES_ENTRY(mr) [mr] = two_lines_##mr,
static micro_fn *const two_lines_by_rows[MR + 1] = {V_HEIGHTS(TWO_LINES_ENTRY)};
