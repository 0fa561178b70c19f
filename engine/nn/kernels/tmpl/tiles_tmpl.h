/* The register tiles of a product for one vector width, by their height. Included by gemm_tmpl.h
 * and gemm_i8_tmpl.h after
 *   micro_fn, MR                     a kernel's type; the highest tile
 *   MICRO(name, reads, mr, panels)   defines the kernel name_MRxPANELS; reads: see prefetch.h
 * A tile that alone reads B needs its own kernel from five rows on (with eight lanes from three,
 * with 16 from one). */
#if VL == 16
#define BOTH(mr)                                                                                   \
    MICRO(micro, SHARED, mr, 1)                                                                    \
    MICRO(next, SHARED1, mr, 1)                                                                    \
    MICRO(few, ALONE, mr, 1)                                                                       \
    MICRO(stream, STREAM, mr, 1)
#else
#define BOTH(mr)                                                                                   \
    MICRO(micro, SHARED, mr, 1)                                                                    \
    MICRO(few, ALONE, mr, 1)
#endif
#if VL == 16
BOTH(1)
BOTH(2)
BOTH(3)
BOTH(4)
#define FEW_ROWS NULL, few_1x1, few_2x1, few_3x1, few_4x1
#else
MICRO(micro, SHARED, 1, 1)
MICRO(micro, SHARED, 2, 1)
#if VL == 8
BOTH(3)
BOTH(4)
#define FEW_ROWS NULL, micro_1x1, micro_2x1, few_3x1, few_4x1
#else
MICRO(micro, SHARED, 3, 1)
MICRO(micro, SHARED, 4, 1)
#define FEW_ROWS FOUR_ROWS
#endif
#endif
BOTH(5)
BOTH(6)
#if VL != 8
BOTH(7)
BOTH(8)
#endif
#if VL == 16
BOTH(9)
BOTH(10)
BOTH(11)
BOTH(12)
BOTH(13)
BOTH(14)
#endif

#define FOUR_ROWS NULL, micro_1x1, micro_2x1, micro_3x1, micro_4x1
#if VL == 16
#define MORE_ROWS(f)                                                                               \
    f##_5x1, f##_6x1, f##_7x1, f##_8x1, f##_9x1, f##_10x1, f##_11x1, f##_12x1, f##_13x1, f##_14x1
#elif VL == 8
#define MORE_ROWS(f) f##_5x1, f##_6x1
#else
#define MORE_ROWS(f) f##_5x1, f##_6x1, f##_7x1, f##_8x1
#endif
static micro_fn *const micro_by_rows[MR + 1] = {FOUR_ROWS, MORE_ROWS(micro)};
static micro_fn *const few_by_rows[MR + 1] = {FEW_ROWS, MORE_ROWS(few)};
#if VL == 16
static micro_fn *const stream_by_rows[MR + 1] = {NULL,       stream_1x1, stream_2x1,
                                                 stream_3x1, stream_4x1, MORE_ROWS(stream)};
static micro_fn *const next_by_rows[MR + 1] = {NULL,     next_1x1, next_2x1,
                                               next_3x1, next_4x1, MORE_ROWS(next)};
#else
#define stream_by_rows few_by_rows
#define next_by_rows micro_by_rows
#endif

/* Kernels for several tiles. */
static inline micro_fn *const *shared_by_rows(void)
{
    return streams_weights() ? next_by_rows : micro_by_rows;
}
