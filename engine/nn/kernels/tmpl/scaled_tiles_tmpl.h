/* Tiles of products with weights in 24 or 12 bits (scaled_tmpl.h). Included by gemm_tmpl.h. The
 * includer also defines
 *   widen_two     a row of a panel as 4 vectors of words, two of the first half of each element,
 *                 then two of the second. busy: with three rows and more the ports of multiply-adds
 *                 are busy
 *
 * Widening operations compete with multiply-adds for ports. On Zen 5 they cost 2 % of the time of
 * f32 and 6 to 12 % of that of bf16. Where 512-bit operations have only two ports they cost about a
 * fifth, and with 8 lanes nearly a third. So the first tile stores what it widens, SPAN rows of a
 * panel (16 KiB) at a time, and the other tiles read that, while the sums of all wait in memory.
 * The order of k does not change. The stores cost 5 to 9 % themselves, so up to three tiles of 16
 * lanes each widen by themselves. */

enum {
    WIDE_ROW = WORDS * NR,                /* words of a widened row of a panel */
    LINES = (NR * sizeof(b_t) + 63) / 64, /* cache lines per row */
    FEW_ROWS = VL == 8       ? 4
               : K_STEP == 2 ? 3
                             : 2, /* up to this many rows wait for B. With 8 lanes it is prefetched
                                   * into L1; with 16 the CPU does so by itself */
    DISTANCE_FEW = 40,            /* prefetch distance in rows of B: 7.5 KiB */
    DISTANCE_MANY = 48,           /* the same for more rows, into L2 */
    STREAM_DISTANCE_MANY = 64,    /* the same for a tile that reads STREAM, into L1: 12 KiB */
    STREAM_DISTANCE_TWO =
        K_STEP == 2 ? DISTANCE_FEW : STREAM_DISTANCE_MANY, /* the same for one or two rows */
    SPAN = 64 /* rows of B that are widened before the next tile reads them */
};

typedef void scaled_fn(size_t kc, const float *a, const b_t *b, const char *next, float *wide,
                       float *tile, bool more);

/* acc += a column of A times two vectors of B, step by step: summing several steps in another order
 * needs more registers than there are. */
static inline __attribute__((always_inline)) void scaled_step(int mr, const float *a, const vf *v,
                                                              vf *acc)
{
#pragma GCC unroll 14
    for (int r = 0; r < mr; r++) {
        const vf av = v_set1(a[(size_t)r * A_LD]);
        acc[r * 2] = mac(av, v[0], acc[r * 2]);
        acc[r * 2 + 1] = mac(av, v[1], acc[r * 2 + 1]);
        __asm__("" : "+" V_REGISTER(acc[r * 2]), "+" V_REGISTER(acc[r * 2 + 1]));
    }
}

/* tile [mr][NR] = A [mr][kc] * B, or += with more. next: the next panel; NULL for ALONE and STREAM.
 * wide: [kc][WIDE_ROW], for FIRST and REST. Always inlined with constant role and mr. */
static inline __attribute__((always_inline)) void scaled_micro(enum reads role, int mr, size_t kc,
                                                               const float *a, const b_t *b,
                                                               const char *next, float *wide,
                                                               float *tile, bool more)
{
    vf acc[MR * 2];
#pragma GCC unroll 28
    for (int i = 0; i < mr * 2; i++)
        acc[i] = role != ALONE && role != STREAM && more ? v_load(tile + (size_t)i * VL) : v_zero();
    for (size_t k = 0; role == REST && k < WORDS * kc; k++, a++, wide += NR) {
        const vf v[2] = {v_load(wide), v_load(wide + VL)};
        scaled_step(mr, a, v, acc);
    }
    for (size_t k = 0; role != REST && k < kc; k++, a += WORDS, b += NR) {
        vf v[WORDS * 2];
        for (size_t i = 0; i < LINES; i++)
            if (role == STREAM)
                __builtin_prefetch(
                    (const char *)(b + (mr < 3 ? STREAM_DISTANCE_TWO : STREAM_DISTANCE_MANY) * NR) +
                        i * 64,
                    0, 3);
            else if (role == ALONE && mr <= FEW_ROWS) {
                if (VL == 8)
                    __builtin_prefetch((const char *)(b + DISTANCE_FEW * NR) + i * 64, 0, 3);
            } else if (role == ALONE)
                __builtin_prefetch((const char *)(b + DISTANCE_MANY * NR) + i * 64, 0, 2);
            else {
                __builtin_prefetch((const char *)(b + L1_DISTANCE * NR) + i * 64, 0, 3);
                __builtin_prefetch(next + k * NR * sizeof(b_t) + i * 64, 0, 2);
            }
        widen_two(v, b, mr > 2 && role != STREAM);
        if (role == FIRST)
#pragma GCC unroll 4
            for (size_t i = 0; i < WORDS * 2; i++)
                v_store(wide + k * WIDE_ROW + i * VL, v[i]);
        scaled_step(mr, a, v, acc);
        scaled_step(mr, a + 1, v + 2, acc);
    }
#pragma GCC unroll 28
    for (int i = 0; i < mr * 2; i++)
        v_store(tile + (size_t)i * VL, acc[i]);
}

#define SCALED(role, mr)                                                                           \
    static void scaled_##role##_##mr(size_t kc, const float *a, const b_t *b, const char *next,    \
                                     float *wide, float *tile, bool more)                          \
    {                                                                                              \
        scaled_micro(role, mr, kc, a, b, next, wide, tile, more);                                  \
    }
#if VL == 16
#define SCALED_ALONE(mr) SCALED(ALONE, mr) SCALED(STREAM, mr)
#else
#define SCALED_ALONE(mr) SCALED(ALONE, mr)
#endif
#define SCALED_ALL(mr) SCALED_ALONE(mr) SCALED(SHARED, mr) SCALED(FIRST, mr) SCALED(REST, mr)
SCALED_ALONE(1)
SCALED_ALONE(2)
SCALED_ALL(3)
SCALED_ALL(4)
SCALED_ALL(5)
#define SCALED_LOW(role) scaled_##role##_3, scaled_##role##_4, scaled_##role##_5
#if VL == 16
SCALED_ALL(6)
SCALED_ALL(7)
SCALED_ALL(8)
SCALED_ALL(9)
SCALED_ALL(10)
SCALED_ALL(11)
SCALED_ALL(12)
SCALED_ALL(13)
SCALED_ALL(14)
#define SCALED_HIGH(role)                                                                          \
    , scaled_##role##_6, scaled_##role##_7, scaled_##role##_8, scaled_##role##_9,                  \
        scaled_##role##_10, scaled_##role##_11, scaled_##role##_12, scaled_##role##_13,            \
        scaled_##role##_14
#else
#define SCALED_HIGH(role)
#endif
/* With two tiles and more, each has at least half of MR rows. */
static scaled_fn *const scaled_by_rows[][MR + 1] = {
    [ALONE] = {NULL, scaled_ALONE_1, scaled_ALONE_2, SCALED_LOW(ALONE) SCALED_HIGH(ALONE)},
#if VL == 16
    [STREAM] = {NULL, scaled_STREAM_1, scaled_STREAM_2, SCALED_LOW(STREAM) SCALED_HIGH(STREAM)},
#endif
    [SHARED] = {NULL, NULL, NULL, SCALED_LOW(SHARED) SCALED_HIGH(SHARED)},
    [FIRST] = {NULL, NULL, NULL, SCALED_LOW(FIRST) SCALED_HIGH(FIRST)},
    [REST] = {NULL, NULL, NULL, SCALED_LOW(REST) SCALED_HIGH(REST)}};

/* One or two rows times small weights, which are probably in L2. It takes several panels at a time,
 * b_next elements apart. The two sums of a single panel would form dependency chains that limit it
 * to one row per two multiply-add latencies. tile: [panels][mr][NR]. */
static inline __attribute__((always_inline)) void scaled_beside(int mr, int panels, size_t kc,
                                                                const float *a, const b_t *b,
                                                                size_t b_next, float *tile)
{
    vf acc[8];
#pragma GCC unroll 8
    for (int i = 0; i < mr * panels * 2; i++)
        acc[i] = v_zero();
    for (size_t k = 0; k < kc; k++, a += WORDS, b += NR)
#pragma GCC unroll 4
        for (int q = 0; q < panels; q++) {
            vf v[WORDS * 2];
            for (size_t i = 0; i < LINES; i++)
                __builtin_prefetch(
                    (const char *)(b + (size_t)q * b_next + L1_DISTANCE * NR) + i * 64, 0, 3);
            widen_two(v, b + (size_t)q * b_next, false);
            scaled_step(mr, a, v, acc + q * mr * 2);
            scaled_step(mr, a + 1, v + 2, acc + q * mr * 2);
        }
#pragma GCC unroll 8
    for (int i = 0; i < mr * panels * 2; i++)
        v_store(tile + (size_t)i * VL, acc[i]);
}

static void beside_1x4(size_t kc, const float *a, const b_t *b, size_t b_next, float *tile)
{
    scaled_beside(1, 4, kc, a, b, b_next, tile);
}

static void beside_2x2(size_t kc, const float *a, const b_t *b, size_t b_next, float *tile)
{
    scaled_beside(2, 2, kc, a, b, b_next, tile);
}

/* v 2^by; NaN where by is NaN. */
static inline vf shifted(vf v, vf by)
{
#if VL == 16
    return v_ldexp(v, by);
#else
    return v_select(v_is_nan(by), by, v_ldexp(v, by));
#endif
}

/* Store a tile of sums, rows [r0, r0 + h) of the part times panel j, to C. */
static inline void scaled_store(const struct product *p, const struct part *a, float *tile,
                                size_t r0, size_t h, size_t j)
{
    const size_t left = p->n - j * NR;
    const vf by[2] = {v_load(p->shift + j * NR), v_load(p->shift + j * NR + VL)};
    for (size_t i = 0; i < 2 * h; i++)
        v_store(tile + i * VL, shifted(v_load(tile + i * VL), by[i % 2]));
    store_tile(p, tile, h, NR, a->i0 + r0, j * NR, left < NR ? left : NR, a->k0 == 0 && !p->add,
               a->k0 + a->kc == p->k);
}

/* Panels [j0, j1) for rows that are one tile and n consecutive parts along k. All of k of one panel
 * comes before the next panel, so that weights from memory are one stream. */
static void one_tile(const struct product *p, const struct part *a, size_t n, size_t rows,
                     size_t j0, size_t j1)
{
    alignas(64) float tile[MR * NR];
    const enum reads role = VL == 16 && streams_weights() ? STREAM : ALONE;
    const size_t beside = rows <= 2 && p->n * p->k * sizeof(b_t) <= L2_BYTES ? 4 / rows : 1;
    for (size_t j = j0, step; j < j1; j += step) {
        step = beside <= j1 - j ? beside : 1;
        for (size_t i = 0; i < n; i++) {
            const b_t *b = a[i].b + j * p->b_next;
            if (step == 1)
                scaled_by_rows[role][rows](a[i].kc, a[i].buf, b, NULL, NULL, tile, false);
            else
                (rows == 1 ? beside_1x4 : beside_2x2)(a[i].kc, a[i].buf, b, p->b_next, tile);
            for (size_t q = 0; q < step; q++)
                scaled_store(p, &a[i], tile + q * rows * NR, 0, rows, j + q);
        }
    }
}

/* Panel j for several tiles. next: the panel that follows. */
static void scaled_panel(const struct product *p, const struct part *a, size_t rows, size_t j,
                         const b_t *next)
{
    alignas(64) float wide[SPAN * WIDE_ROW], sums[MC * NR];
    const size_t tiles = (rows + MR - 1) / MR;
    const bool each = VL == 16 && tiles <= 3;
    const size_t span = each ? KC : SPAN;
    const b_t *b = a->b + j * p->b_next;
    for (size_t k = 0; k < a->kc; k += span)
        for (size_t t = 0; t < tiles; t++) {
            const size_t r0 = rows * t / tiles, h = rows * (t + 1) / tiles - r0;
            const enum reads role = each ? SHARED : t ? REST : FIRST;
            scaled_by_rows[role][h](a->kc - k < span ? a->kc - k : span,
                                    a->buf + r0 * A_LD + k * WORDS, b + k * NR,
                                    (const char *)(next + k * NR), wide, sums + r0 * NR, k > 0);
        }
    for (size_t t = 0; t < tiles; t++) {
        const size_t r0 = rows * t / tiles, h = rows * (t + 1) / tiles - r0;
        scaled_store(p, a, sums + r0 * NR, r0, h, j);
    }
}

/* Panels [j0, j1) for `rows` copied rows. */
static void block(const struct product *p, const struct part *a, size_t rows, size_t j0, size_t j1)
{
    if (rows <= MR)
        one_tile(p, a, 1, rows, j0, j1);
    else
        for (size_t j = j0; j < j1; j++)
            scaled_panel(p, a, rows, j, a->b + (j + 1) * p->b_next);
}
