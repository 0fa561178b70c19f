/* What the files of an 8-bit product share. */
#include "nn/kernels/internal.h"

#include "nn/kernels/tmpl/math_tmpl.h"

#include "nn/kernels/tmpl/approx_tmpl.h"
#include "nn/kernels/tmpl/prefetch.h"

#include <stdalign.h>
#include <string.h>

enum {
    NR = 2 * VL,
    LANE_ROW = NR * KG,         /* bytes of one lane of K in a panel */
    STREAM_DISTANCE_ONE = 12288 /* prefetch distance in bytes into L1, for a single row */
};

struct head {         /* 64 bytes */
    int32_t any_zero; /* some zero point is not 0 */
    int32_t unused[15];
};

/* The parts of a packed B. */
struct packed {
    const struct head *head;
    const int32_t *sum, *zero; /* [NP] */
    const int8_t *panels;
    size_t panel; /* bytes of a panel */
};

struct product {
    const struct steno_gemm_i8 *g;
    struct packed b;
    int32_t a_shift; /* A's elements are raised by this, or lowered by row (gemm_i8_lower_tmpl.h) */
    int32_t a_zero;  /* zero point of A, raised, where all rows share one */
};

/* The input of a block: rows from i0 on copied to buf, lanes from u0 on. */
struct part {
    const int32_t *buf;
    size_t ld;                   /* of buf */
    const int32_t *a_sum;        /* of the copied rows, if the last block needs them */
    const struct copied *copied; /* see gemm_i8_copy_tmpl.h */
    const int8_t *b;             /* lane u0 of panel 0 */
    size_t i0, ku;
    bool first, last;
};

/* gemm_i8_copy_tmpl.h and gemm_i8_lower_tmpl.h: what the sums of a copied row start with, and the
 * rest to add to the sums [h][panels * NR] of rows from r0 on with panels from j on. */
static inline vi first_sums(const int32_t *row);
static inline void add_rests(const struct product *p, const struct part *a, int32_t *tile,
                             size_t r0, size_t h, size_t j, size_t panels);

/* gemm_i8_store_tmpl.h: the sums of rows from r0 on of panel j, `width` numbers apart, to C. */
static void store_tile(const struct product *p, const struct part *a, const int32_t *tile,
                       size_t r0, size_t rows, size_t width, size_t j);
