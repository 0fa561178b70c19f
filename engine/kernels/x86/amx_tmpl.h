/* The register tiles of a product by AMX, in place of tiles_tmpl.h. Included by gemm_tmpl.h and
 * gemm_i8_tmpl.h after NR = 32 and
 *   AMX_DOT(t, a, b)   AMX_DOT_U8 or AMX_DOT_BF16
 * A panel has a row of NR lanes of 32 bits for each lane of K, so 16 rows of its left or right half are a
 * register as they lie there. Lanes of K are a multiple of 16: packed B and the copy of A are filled up
 * with zeros.
 *
 * Up to 32 rows times a panel are summed in four registers, two of A and two of B go with them: 4 KiB are
 * read for 64 cycles of products. From L2 that takes twice as long (Granite Rapids, 37 bytes a cycle), so
 * one side has to stay in L1: of many rows the panel, KC lanes of it, while A passes by TILELOADDT1, which
 * does not displace it; of few rows A, and the panels pass. Sums go on from where the last block of K
 * left them, so their bits do not depend on the blocks. */

/* Bytes before their use that weights for a single tile are called closer. */
enum { AMX_AHEAD = 8192 };

struct amx_tile {
    size_t rows;  /* up to 32 */
    size_t lanes; /* of K */
    bool few;     /* no other tile reads this panel */
    const void *a;
    size_t a_row; /* bytes */
    const void *b;
    const void *ahead; /* calls ahead_lines cache lines from here on closer at each step, but for few */
    size_t ahead_lines;
    const void *from; /* sums so far, or NULL: zeros; whole registers */
    size_t from_row;
    void *to;
    size_t to_row;
};

static inline __attribute__((always_inline)) void amx_steps(const struct amx_tile *t, bool high, bool few)
{
    const char *a = t->a, *b = t->b;
    const size_t a_row = t->a_row, ahead_step = 64 * t->ahead_lines;
    const char *ahead = t->ahead;
    for (size_t u = 0; u < t->lanes; u += AMX_LANES, a += 4 * AMX_LANES, b += 4 * AMX_LANES * NR) {
        if (few) {
#pragma GCC unroll 32
            for (int i = 0; i < 4 * AMX_LANES * NR; i += 64)
                __builtin_prefetch(b + AMX_AHEAD + i, 0, 2);
            AMX_LOAD(4, a, a_row);
            AMX_PASS(6, b, 4 * NR);
            AMX_DOT(0, 4, 6);
            AMX_PASS(7, b + 64, 4 * NR);
        } else {
            for (const char *end = ahead + ahead_step; ahead < end; ahead += 64)
                __builtin_prefetch(ahead, 0, 2);
            AMX_PASS(4, a, a_row);
            AMX_LOAD(6, b, 4 * NR);
            AMX_DOT(0, 4, 6);
            AMX_LOAD(7, b + 64, 4 * NR);
        }
        AMX_DOT(1, 4, 7);
        if (!high)
            continue;
        if (few)
            AMX_LOAD(5, a + AMX_ROWS * a_row, a_row);
        else
            AMX_PASS(5, a + AMX_ROWS * a_row, a_row);
        AMX_DOT(2, 5, 6);
        AMX_DOT(3, 5, 7);
    }
}

/* to = from + A B */
static void amx_product(const struct amx_tile *t)
{
    const bool high = t->rows > AMX_ROWS;
    if (t->from) {
        const char *from = t->from;
        AMX_LOAD(0, from, t->from_row);
        AMX_LOAD(1, from + 64, t->from_row);
        if (high) {
            AMX_LOAD(2, from + AMX_ROWS * t->from_row, t->from_row);
            AMX_LOAD(3, from + AMX_ROWS * t->from_row + 64, t->from_row);
        }
    } else {
        AMX_ZERO(0);
        AMX_ZERO(1);
        AMX_ZERO(2);
        AMX_ZERO(3);
    }
    if (t->few && high)
        amx_steps(t, true, true);
    else if (t->few)
        amx_steps(t, false, true);
    else if (high)
        amx_steps(t, true, false);
    else
        amx_steps(t, false, false);
    AMX_STORE(0, t->to, t->to_row);
    AMX_STORE(1, (char *)t->to + 64, t->to_row);
    if (high) {
        AMX_STORE(2, (char *)t->to + AMX_ROWS * t->to_row, t->to_row);
        AMX_STORE(3, (char *)t->to + AMX_ROWS * t->to_row + 64, t->to_row);
    }
}

/* C itself can be from and to. */
static inline bool amx_whole(size_t rows, size_t cols)
{
    return rows % AMX_ROWS == 0 && cols >= NR;
}

/* Stride of the copy of A, lanes: an odd number of cache lines, so that rows fall into different sets. */
static inline size_t amx_copy_ld(size_t lanes)
{
    return (lanes + 31) / 32 * 32 + 16;
}

/* Products in registers alone, `turns` of them; k: of a lane. Returns how many operations. */
static double amx_peak(size_t turns, size_t k)
{
    BEGIN();
    for (size_t t = 0; t < turns / 4; t++) {
        AMX_DOT(0, 4, 6);
        AMX_DOT(1, 4, 7);
        AMX_DOT(2, 5, 6);
        AMX_DOT(3, 5, 7);
    }
    END();
    return 2.0 * AMX_ROWS * AMX_LANES * AMX_LANES * (double)(k * (turns / 4 * 4));
}
