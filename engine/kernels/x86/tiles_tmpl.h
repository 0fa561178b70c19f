/* The register tiles of a product for one vector width, by their height. Included by gemm_tmpl.h and
 * gemm_i8_tmpl.h after
 *   micro_fn, MR              a kernel's type; the highest tile
 *   MICRO(name, few, mr, panels)  defines the kernel name_MRxPANELS; few: its tile is the only one to
 *                             read B, which makes a difference from five rows on (of eight lanes from three, of 16
 *                             from one) */
#define BOTH(mr)                                                                                   \
    MICRO(micro, false, mr, 1)                                                                     \
    MICRO(few, true, mr, 1)
#if VL == 16
BOTH(1)
BOTH(2)
BOTH(3)
BOTH(4)
#define FEW_ROWS NULL, few_1x1, few_2x1, few_3x1, few_4x1
#else
MICRO(micro, false, 1, 1)
MICRO(micro, false, 2, 1)
#if VL == 8
BOTH(3)
BOTH(4)
#define FEW_ROWS NULL, micro_1x1, micro_2x1, few_3x1, few_4x1
#else
MICRO(micro, false, 3, 1)
MICRO(micro, false, 4, 1)
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
