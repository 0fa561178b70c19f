/* A block of rows times a block of K by AMX, in place of the register tiles of tiles_tmpl.h.
 * Included by gemm_amx_tmpl.h and gemm_i8_amx_tmpl.h after NR = 32, struct product, struct part and
 *   AMX_DOT(t, a, b)   AMX_DOT_U8 or AMX_DOT_BF16
 *   AMX_MOST           maximum of rows of a block
 *   AMX_DEEP(rows)     lanes of K of a panel that stay in L1, for that many rows
 *   AMX_B_ROW          bytes of a panel's row
 * The includer defines later
 *   amx_done(p, part, tile, r0, h, j)
 *                      finished sums [h][NR], rows from r0 on and panel j, to C
 *
 * For each 32-bit lane of K a panel has a row of NR lanes. So 16 rows of its left or right half can
 * be loaded as one register without rearrangement. The lanes of K are a multiple of 16: packed B
 * and the copy of A are padded with zeros.
 *
 * Up to 32 rows times a panel are summed in four registers; two registers of A and two of B go with
 * them. So 4 KiB are read for 64 cycles of products. Reads from L2 take twice as long (Granite
 * Rapids, 37 bytes a cycle), so one side must stay in L1. With many rows that side is the panel,
 * AMX_DEEP lanes of it; A is read by TILELOADDT1, which does not displace the panel. With few rows
 * it is A, and the panels are read that way. The copy of A is in L2 with as much of K as fits
 * there, so that sums of a panel seldom wait in C for the rest of K: they wait in an array in L2.
 * Later blocks continue from the stored sums, so the bits do not depend on the blocks. */

enum {
    AMX_HIGH = 2 * AMX_ROWS, /* rows of a tile */
    AMX_L2_DISTANCE = 8192   /* bytes of prefetch distance for weights of a single tile */
};

/* Around the work of a call with that many rows. */
static inline void begin(size_t rows)
{
    amx_begin(rows);
}

static inline void end(void)
{
    amx_end();
}

struct amx_tile {
    size_t rows;  /* up to 32 */
    size_t lanes; /* of K */
    bool few;     /* this tile alone reads the panel */
    const void *a;
    size_t a_row; /* bytes */
    const void *b;
    const void *prefetch; /* each step prefetches prefetch_lines cache lines from here on; unused
                           * with few */
    size_t prefetch_lines;
    const void *from; /* sums so far, or NULL: zeros; has whole registers */
    size_t from_row;
    void *to;
    size_t to_row;
};

/* Finished sums. Rows [r, rows) are not in C yet; they are stored between the products of the next
 * tile. The products leave the vector units idle, and the stores leave the memory idle. */
struct amx_waiting {
    const struct product *p;
    const struct part *part;
    const int32_t *tile;
    size_t r0, r, rows, j;
};

static void amx_done(const struct product *p, const struct part *part, const void *tile, size_t r0,
                     size_t h, size_t j);

/* Rows to store in each of `steps` steps. */
static inline size_t amx_share(const struct amx_waiting *w, size_t steps)
{
    return steps ? ((w->rows - w->r) / steps + 4) / 4 * 4 : 0;
}

/* Store n more rows. */
static inline void amx_finish(struct amx_waiting *w, size_t n)
{
    n = w->rows - w->r < n ? w->rows - w->r : n;
    if (n)
        amx_done(w->p, w->part, w->tile + w->r * NR, w->r0 + w->r, n, w->j);
    w->r += n;
}

/* Registers 0 to 3: sums of 16 rows or, with high, of 32. */
static inline void amx_zero_sums(void)
{
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
}

static inline void amx_load_sums(const void *from, size_t row, bool high)
{
    const char *f = from;
    AMX_LOAD(0, f, row);
    AMX_LOAD(1, f + 64, row);
    if (high) {
        AMX_LOAD(2, f + AMX_ROWS * row, row);
        AMX_LOAD(3, f + AMX_ROWS * row + 64, row);
    }
}

static inline void amx_store_sums(void *to, size_t row, bool high)
{
    char *t = to;
    AMX_STORE(0, t, row);
    AMX_STORE(1, t + 64, row);
    if (high) {
        AMX_STORE(2, t + AMX_ROWS * row, row);
        AMX_STORE(3, t + AMX_ROWS * row + 64, row);
    }
}

/* Prefetch a quarter of the lines of a step. */
static inline __attribute__((always_inline)) void amx_prefetch(const char *b, int quarter)
{
    enum { LINES = AMX_LANES * NR / 64 };
    amx_prefetch_lines(b + AMX_L2_DISTANCE + quarter * LINES * 64, quarter * LINES, LINES);
}

static inline __attribute__((always_inline)) void
amx_steps(const struct amx_tile *t, struct amx_waiting *w, bool high, bool few)
{
    const size_t some = amx_share(w, t->lanes / AMX_LANES);
    const char *a = t->a, *b = t->b;
    const size_t a_row = t->a_row, prefetch_step = 64 * t->prefetch_lines;
    const char *prefetch = t->prefetch, *hw_prefetch = prefetch;
    for (size_t u = 0; u < t->lanes; u += AMX_LANES, a += 4 * AMX_LANES, b += 4 * AMX_LANES * NR) {
        if (few) {
            amx_prefetch(b, 0);
            AMX_LOAD(4, a, a_row);
            AMX_PASS(6, b, 4 * NR);
            AMX_DOT(0, 4, 6);
            amx_prefetch(b, 1);
            AMX_PASS(7, b + 64, 4 * NR);
        } else {
            for (const char *end = prefetch + prefetch_step; prefetch < end;)
                AMX_PREFETCH_NEXT(prefetch, hw_prefetch);
            AMX_PASS(4, a, a_row);
            AMX_LOAD(6, b, 4 * NR);
            AMX_DOT(0, 4, 6);
            AMX_LOAD(7, b + 64, 4 * NR);
        }
        AMX_DOT(1, 4, 7);
        if (few)
            amx_prefetch(b, 2);
        if (high) {
            if (few)
                AMX_LOAD(5, a + AMX_ROWS * a_row, a_row);
            else
                AMX_PASS(5, a + AMX_ROWS * a_row, a_row);
            AMX_DOT(2, 5, 6);
            AMX_DOT(3, 5, 7);
        }
        if (few)
            amx_prefetch(b, 3);
        if (w->r < w->rows)
            amx_finish(w, some);
    }
}

/* to = from + A B */
static void amx_product(const struct amx_tile *t, struct amx_waiting *w)
{
    const bool high = t->rows > AMX_ROWS;
    if (t->from)
        amx_load_sums(t->from, t->from_row, high);
    else
        amx_zero_sums();
    if (t->few && high)
        amx_steps(t, w, true, true);
    else if (t->few)
        amx_steps(t, w, false, true);
    else if (high)
        amx_steps(t, w, true, false);
    else
        amx_steps(t, w, false, false);
    amx_finish(w, AMX_HIGH);
    amx_store_sums(t->to, t->to_row, high);
}

/* A block: copied rows of A times panels of B. */
struct amx_block {
    const struct product *p;
    const struct part *part;
    const char *a;
    size_t a_row; /* bytes */
    size_t rows, lanes;
    const char *b;    /* panel 0 */
    size_t panel;     /* bytes */
    char *c;          /* the first row */
    size_t c_row;     /* bytes */
    size_t n;         /* columns */
    bool first, last; /* of all of K */
    bool plain;       /* C takes the sums as they are */
};

/* Read the sums of h rows that C holds so far. */
static void amx_fetch(const struct amx_block *x, size_t r0, size_t h, size_t j, int32_t *tile)
{
    const size_t left = x->n - j * NR, cols = left < NR ? left : NR;
    for (size_t r = 0; r < h; r++)
        memcpy(tile + r * NR, x->c + (r0 + r) * x->c_row + j * NR * sizeof *tile,
               cols * sizeof *tile);
}

/* Lanes [u0, u1) of panel j. */
struct amx_slice {
    size_t j, u0, u1;
    const char *b;
    const char
        *prefetch; /* the next one; each step of a tile prefetches `lines` cache lines of it */
    size_t lines;
};

/* Part i of the n parts of panel j along K. */
static struct amx_slice amx_slice_at(const struct amx_block *x, size_t j, size_t i, size_t n,
                                     size_t lines)
{
    const size_t steps = x->lanes / AMX_LANES, u0 = steps * i / n * AMX_LANES;
    const char *b = x->b + j * x->panel + u0 * AMX_B_ROW;
    return (struct amx_slice){j, u0, steps * (i + 1) / n * AMX_LANES, b, b, lines};
}

/* Rows from r0 on times a slice. tile: where their sums wait. */
static void amx_tile_at(const struct amx_block *x, size_t r0, const struct amx_slice *y,
                        int32_t *tile, struct amx_waiting *w)
{
    const size_t h = x->rows - r0 < AMX_HIGH ? x->rows - r0 : AMX_HIGH;
    const bool whole =
        h % AMX_ROWS == 0 && (y->j + 1) * NR <= x->n; /* C itself can be `from` and `to` */
    char *c = x->c + r0 * x->c_row + y->j * NR * sizeof *tile;
    struct amx_tile t = {.rows = h,
                         .lanes = y->u1 - y->u0,
                         .few = x->rows <= AMX_HIGH,
                         .a = x->a + r0 * x->a_row + y->u0 * 4,
                         .a_row = x->a_row,
                         .b = y->b,
                         .prefetch = y->prefetch +
                                     r0 / AMX_HIGH * y->lines * ((y->u1 - y->u0) / AMX_LANES) * 64,
                         .prefetch_lines = y->lines,
                         .from = y->u0 ? tile : NULL,
                         .from_row = NR * sizeof *tile,
                         .to = tile,
                         .to_row = NR * sizeof *tile};
    if (!y->u0 && !x->first) {
        t.from = whole ? c : (char *)tile;
        t.from_row = whole ? x->c_row : t.from_row;
        if (!whole)
            amx_fetch(x, r0, h, y->j, tile);
    }
    if (y->u1 == x->lanes && whole && (x->plain || !x->last)) {
        t.to = c;
        t.to_row = x->c_row;
    }
    amx_product(&t, w);
    if (y->u1 == x->lanes && t.to == tile)
        *w = (struct amx_waiting){x->p, x->part, tile, r0, 0, h, y->j};
}

enum { AMX_THREE = 3 * AMX_ROWS };

/* 33 to 48 rows times panel j: six registers of sums, one of A and one of B. B is read once, as it
 * comes from memory, and A twice. */
static void amx_three(const struct amx_block *x, size_t j, int32_t *tile, struct amx_waiting *w)
{
    const size_t steps = x->lanes / AMX_LANES, some = amx_share(w, steps);
    const size_t a_row = x->a_row;
    const char *a0 = x->a, *a1 = a0 + AMX_ROWS * a_row, *a2 = a1 + AMX_ROWS * a_row;
    const char *b = x->b + j * x->panel;
    if (!x->first) {
        amx_fetch(x, 0, x->rows, j, tile);
        amx_load_sums(tile, 4 * NR, true);
        AMX_LOAD(4, tile + AMX_HIGH * NR, 4 * NR);
        AMX_LOAD(5, tile + AMX_HIGH * NR + NR / 2, 4 * NR);
    } else {
        amx_zero_sums();
        AMX_ZERO(4);
        AMX_ZERO(5);
    }
    for (size_t i = 0; i < steps; i++, b += 4 * AMX_LANES * NR) {
        const size_t at = i * 4 * AMX_LANES;
        amx_prefetch(b, 0);
        AMX_PASS(7, b, 4 * NR);
        AMX_LOAD(6, a0 + at, a_row);
        AMX_DOT(0, 6, 7);
        AMX_LOAD(6, a1 + at, a_row);
        AMX_DOT(2, 6, 7);
        amx_prefetch(b, 1);
        AMX_LOAD(6, a2 + at, a_row);
        AMX_DOT(4, 6, 7);
        AMX_PASS(7, b + 64, 4 * NR);
        amx_prefetch(b, 2);
        AMX_DOT(5, 6, 7);
        AMX_LOAD(6, a0 + at, a_row);
        AMX_DOT(1, 6, 7);
        AMX_LOAD(6, a1 + at, a_row);
        AMX_DOT(3, 6, 7);
        amx_prefetch(b, 3);
        if (w->r < w->rows)
            amx_finish(w, some);
    }
    amx_finish(w, AMX_THREE);
    amx_store_sums(tile, 4 * NR, true);
    AMX_STORE(4, tile + AMX_HIGH * NR, 4 * NR);
    AMX_STORE(5, tile + AMX_HIGH * NR + NR / 2, 4 * NR);
    *w = (struct amx_waiting){x->p, x->part, tile, 0, 0, x->rows, j};
}

/* Panels [j0, j1). */
static void amx_block(const struct amx_block *x, size_t j0, size_t j1)
{
    enum { STEP_LINES = AMX_LANES * AMX_B_ROW / 64 };
    alignas(64) int32_t sums[AMX_MOST * NR];
    const size_t steps = x->lanes / AMX_LANES, deep = AMX_DEEP(x->rows) / AMX_LANES;
    const size_t n = x->rows <= AMX_HIGH || steps <= deep ? 1 : (steps + deep - 1) / deep;
    const size_t tiles = (x->rows + AMX_HIGH - 1) / AMX_HIGH;
    struct amx_waiting w = {0};
    const size_t lines = (STEP_LINES + tiles - 1) / tiles;
    struct amx_slice next = amx_slice_at(x, j0, 0, n, lines);
    size_t parity = 0;
    if (x->rows > AMX_HIGH && x->rows <= AMX_THREE) {
        for (size_t j = j0; j < j1; j++)
            amx_three(x, j, sums + j % 2 * AMX_THREE * NR, &w);
        amx_finish(&w, AMX_THREE);
        return;
    }
    for (size_t j = j0; j < j1; j++)
        for (size_t i = 0; i < n; i++) {
            struct amx_slice y = next;
            if (i + 1 < n || j + 1 < j1)
                next = i + 1 < n ? amx_slice_at(x, j, i + 1, n, lines)
                                 : amx_slice_at(x, j + 1, 0, n, lines);
            y.prefetch = next.b;
            for (size_t r = 0; r < x->rows; r += AMX_HIGH, parity ^= 1)
                amx_tile_at(x, r, &y,
                            sums + (tiles == 1 ? j % 2 * AMX_HIGH
                                    : n > 1    ? r
                                               : parity * AMX_HIGH) *
                                       NR,
                            &w);
        }
    amx_finish(&w, AMX_HIGH);
}

/* Rows of the next block when `left` rows are left. The blocks have the same number of tiles, or
 * one less. */
static size_t rows_of(size_t left)
{
    const size_t blocks = (left + AMX_MOST - 1) / AMX_MOST,
                 tiles = (left + AMX_HIGH - 1) / AMX_HIGH;
    const size_t rows = blocks ? (tiles + blocks - 1) / blocks * AMX_HIGH : 0;
    return rows < left ? rows : left;
}

/* Depth in lanes of a block of K for that many rows, so that the copy of A fits into `room` lanes.
 * All blocks have nearly the same depth. */
static size_t amx_depth(size_t lanes, size_t rows, size_t room)
{
    const size_t tiles = (rows_of(rows) + AMX_HIGH - 1) / AMX_HIGH, steps = lanes / AMX_LANES;
    const size_t row = room / ((tiles ? tiles : 1) * AMX_HIGH);
    size_t most = (row - AMX_LANES) / AMX_LANES, n;
    while (amx_copy_ld(most * AMX_LANES) > row)
        most--;
    n = (steps + most - 1) / most;
    return n ? (steps + n - 1) / n * AMX_LANES : 0;
}

enum { ROWS_OF_PART = 3 * AMX_HIGH }; /* from this number on, parts divide the rows */

/* From three tiles per part on, rows are divided and not columns, whatever the size of the weights.
 * Rows are in the cache of the core that computed them; to fetch half of them from another core's
 * cache takes longer than to read the weights twice. */
static inline bool rows_are_divided(size_t m, size_t np, size_t n_parts)
{
    (void)np;
    return n_parts > 1 && m >= ROWS_OF_PART * n_parts;
}

/* First row of part `part` of n_parts of m rows, in whole tiles. */
static size_t first_row(size_t m, size_t part, size_t n_parts)
{
    const size_t tiles = (m + AMX_HIGH - 1) / AMX_HIGH, at = tiles * part / n_parts * AMX_HIGH;
    return at < m ? at : m;
}

/* `rounds` products in registers alone; k: multiply-adds of a lane. Returns the number of
 * operations. */
__attribute__((unused)) static double amx_peak(size_t rounds, size_t k)
{
    begin(AMX_ROWS);
    for (size_t t = 0; t < rounds / 4; t++) {
        AMX_DOT(0, 4, 6);
        AMX_DOT(1, 4, 7);
        AMX_DOT(2, 5, 6);
        AMX_DOT(3, 5, 7);
    }
    end();
    return 2.0 * AMX_ROWS * AMX_LANES * AMX_LANES * (double)(k * (rounds / 4 * 4));
}
