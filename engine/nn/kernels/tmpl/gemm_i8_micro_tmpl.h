/* The register tiles of an 8-bit product, by height: mr rows times one, two or four panels of B.
 * Included by gemm_i8_tiles_tmpl.h. */
#define ONE_MORE(mr) +1
enum {
    MR = V_HEIGHTS(ONE_MORE), /* the highest tile */
    MC = VL == 8 ? 48
                 : 126, /* rows of A copied at a time: a multiple of MR; 200 to 260 KiB, in L2 */
    KU_STEP = 1,
    KU = VL == 8 && !SUMS_16
             ? 1024
             : 512, /* lanes of K in a block: 2048 bytes; 4096 of avxvnni or 1024 of NEON. With
                     * SUMS_16 rests of all its numbers fit on the stack. */
    A_LD = KU + 16, /* row stride of the copy, lanes */
    A_ROOM = MC * A_LD,
    STEPS = VL == 16 ? 1 : 4, /* lanes of K per step of the inner loop */
    PREFETCHERS = LANE_ROW * STEPS < 128
                      ? 1
                      : LANE_ROW * STEPS / 64, /* tiles that together prefetch the next panel */
    L1_DISTANCE = 8, /* prefetch distance in lanes into L1, for weights of several tiles, which are
                      * in L2 by then */
    L2_DISTANCE =
        VL == 8 ? 2048 : 8192, /* prefetch distance in bytes for weights of a single tile */
    L2_DISTANCE_FEW = 2048,    /* the same for one or two rows */
    STREAM_DISTANCE = 16384    /* the same into L1, for a tile that reads STREAM */
};

typedef void micro_fn(size_t ku, const int32_t *a, const int8_t *b, size_t b_next,
                      const int8_t *prefetch, int32_t *tile);

/* acc += a lane of A of each row times a lane of B, w vectors wide. A tile that alone reads B
 * prefetches all of it, L2_DISTANCE bytes before its use. With two rows and more, computing takes
 * as long as reading memory, and without prefetching the CPU would do one after the other. A single
 * row computes for less time (as do two rows with eight lanes). With eight lanes the CPU has time
 * to fetch B from L2 into L1 by itself. */
static inline __attribute__((always_inline)) void micro_step(enum reads reads, int mr, int w,
                                                             const int32_t *a, const int8_t *b,
                                                             size_t b_next, vi *acc)
{
    vi bv[8];
    for (int i = 0; i < LANE_ROW; i += 64)
        if (reads == STREAM)
            __builtin_prefetch(b + STREAM_DISTANCE + i, 0, 3);
        else if (reads == ALONE)
            __builtin_prefetch(b + (mr < 3 ? L2_DISTANCE_FEW : L2_DISTANCE) + i, 0, 2);
        else if (VL != 8)
            __builtin_prefetch(b + L1_DISTANCE * LANE_ROW + i, 0, 3);
#pragma GCC unroll 8
    for (int j = 0; j < w; j++)
        bv[j] = weights(b + (size_t)(j / 2) * b_next + (size_t)(j % 2) * VL * KG);
#pragma GCC unroll 14
    for (int r = 0; r < mr; r++) {
        vi av = vi_set1(a[(size_t)r * A_LD]);
#pragma GCC unroll 8
        for (int j = 0; j < w; j++) {
            acc[r * w + j] = dot(acc[r * w + j], av, bv[j]);
            if (STEPS > 1) /* another order of sums needs more registers */
                __asm__("" : "+" V_REGISTER(acc[r * w + j]));
        }
    }
}

/* tile [mr][panels * NR] = A [mr][ku] * B, panels b_next bytes apart. Meanwhile it prefetches ku /
 * STEPS cache lines from `prefetch` on into L2. */
static inline __attribute__((always_inline)) void micro(enum reads reads, int mr, int panels,
                                                        size_t ku, const int32_t *a,
                                                        const int8_t *b, size_t b_next,
                                                        const int8_t *prefetch, int32_t *tile)
{
    vi acc[MR * 2];
    const int w = 2 * panels;
    size_t u = 0;
#pragma GCC unroll 28
    for (int i = 0; i < mr * w; i++)
        acc[i] = first_sums(a + (size_t)(i / w) * A_LD);
    for (; u + STEPS <= ku; u += STEPS, a += STEPS, b += STEPS * LANE_ROW, prefetch += 64) {
        prefetch_next(reads, prefetch);
#pragma GCC unroll 4
        for (size_t x = 0; x < STEPS; x++)
            micro_step(reads, mr, w, a + x, b + x * LANE_ROW, b_next, acc);
    }
    for (; STEPS > 1 && u < ku; u++, a++, b += LANE_ROW)
        micro_step(reads, mr, w, a, b, b_next, acc);
#pragma GCC unroll 28
    for (int i = 0; i < mr * w; i++)
        vi_store(tile + (size_t)i * VL, acc[i]);
}

#define MICRO(name, reads, mr, panels)                                                             \
    static void name##_##mr##x##panels(size_t ku, const int32_t *a, const int8_t *b,               \
                                       size_t b_next, const int8_t *prefetch, int32_t *tile)       \
    {                                                                                              \
        micro(reads, mr, panels, ku, a, b, b_next, prefetch, tile);                                \
    }
#include "nn/kernels/tmpl/tiles_tmpl.h"

/* Several panels at once. */
MICRO(micro, SHARED, 1, 4)
MICRO(micro, SHARED, 2, 2)

/* The kernel for a tile of `rows` rows that alone reads B, with `left` panels left. *panels: how
 * many panels it takes at once. It takes several where one alone has too few sums to hide the
 * latency of a product. Two rows of wide vectors have enough sums, and one panel at a time reads
 * weights from memory as one stream. */
static micro_fn *few_of(size_t rows, size_t left, size_t *panels)
{
    *panels = rows == 1 ? 4 : rows == 2 && VL < 16 ? 2 : 1;
    if (left < *panels)
        *panels = 1;
    return *panels == 4 ? micro_1x4 : VL < 16 && *panels == 2 ? micro_2x2 : alone_by_rows()[rows];
}
