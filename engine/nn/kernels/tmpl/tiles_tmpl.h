/* Tables of the register tiles of a product for one vector width, by height, and how rows are
 * divided among them. Included by gemm_micro_tmpl.h and gemm_i8_micro_tmpl.h after
 *   micro_fn, MR, MC                 a kernel's type; the highest tile; rows of A copied at a time
 *   MICRO(name, reads, mr, panels)   defines the kernel name_MRxPANELS; reads: see prefetch.h
 * V_HEIGHTS (vec_<isa>.h) has the heights that the registers hold. */

/* How a tile reads B alone: it needs a kernel of its own from five rows on (with eight lanes from
 * three, with 16 from one). */
#define READS_ALONE(mr) (VL == 16 || mr > 4 || (VL == 8 && mr > 2) ? ALONE : SHARED)
#define TILES(mr)                                                                                  \
    MICRO(micro, SHARED, mr, 1)                                                                    \
    MICRO(next, SHARED1, mr, 1)                                                                    \
    MICRO(few, READS_ALONE(mr), mr, 1)                                                             \
    MICRO(stream, STREAM, mr, 1)
V_HEIGHTS(TILES)
#define MICRO_ENTRY(mr) [mr] = micro_##mr##x1,
#define NEXT_ENTRY(mr) [mr] = next_##mr##x1,
#define FEW_ENTRY(mr) [mr] = few_##mr##x1,
#define STREAM_ENTRY(mr) [mr] = stream_##mr##x1,
static micro_fn *const micro_by_rows[MR + 1] = {V_HEIGHTS(MICRO_ENTRY)};
static micro_fn *const next_by_rows[MR + 1] = {V_HEIGHTS(NEXT_ENTRY)};
static micro_fn *const few_by_rows[MR + 1] = {V_HEIGHTS(FEW_ENTRY)};
static micro_fn *const stream_by_rows[MR + 1] = {V_HEIGHTS(STREAM_ENTRY)};

/* Kernels for several tiles, and for a tile that alone reads B, which is not small. */
static inline micro_fn *const *shared_by_rows(void)
{
    return VL == 16 && streams_weights() ? next_by_rows : micro_by_rows;
}

static inline micro_fn *const *alone_by_rows(void)
{
    return VL == 16 && streams_weights() ? stream_by_rows : few_by_rows;
}

/* Rows to copy at a time: nearly the same number each time, because a low block reads all of B
 * too. */
static size_t rows_of(size_t left)
{
    const size_t blocks = (left + MC - 1) / MC;
    return (left + blocks - 1) / blocks;
}

enum { ROWS_OF_PART = 0 }; /* the number of rows alone does not decide (gemm_i8_rows) */

/* Parts divide the rows when every part gets some full tiles. Weights larger than the caches are
 * better read by one part each: then parts divide the np panels. */
static inline bool rows_are_divided(size_t m, size_t np, size_t n_parts)
{
    return m >= 4 * MR * n_parts && np < 4 * n_parts;
}

/* First row of part `part` of n_parts of m rows. */
static inline size_t first_row(size_t m, size_t part, size_t n_parts)
{
    return m * part / n_parts;
}

/* Around the work of a call with that many rows. */
static inline void begin(size_t rows)
{
    (void)rows;
}

static inline void end(void)
{
}
