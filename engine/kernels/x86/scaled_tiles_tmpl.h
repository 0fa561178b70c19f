/* Tiles of products whose weights are kept in 24 or 12 bits (scaled_tmpl.h); included by gemm_tmpl.h. What the
 * including file says besides:
 *   widen_two     a row of a panel as 4 vectors of words, both of the first half of each element, then both of the second
 *
 * The operations that widen take turns with multiply-adds on some ports (Zen 5: no time of f32, 12 % of that of bf16; a CPU
 * with two ports of 512 bits has to do them after each other). So the first tile of a panel stores what it has
 * widened, 64 KiB at most, and the others read that. */

enum role {
    ALONE, /* reads B from memory, and calls it */
    FIRST, /* B has been called into L2; calls the next panel there */
    REST   /* reads what the first one has widened */
};

enum {
    WIDE_ROW = WORDS * NR, /* words of a row of a panel */
    LINES = NR * sizeof(b_t) / 64,
    FEW_ROWS = 4,          /* have B called into L1 */
    FEW_AHEAD = 32,        /* rows of B before their use: 6 KiB */
    MANY_AHEAD = 48,       /* of more rows, into L2 */
    WIDE_AHEAD = 4         /* of what was widened */
};

typedef void scaled_fn(size_t kc, const float *a, const b_t *b, const char *next, float *wide, float *tile);

/* tile [mr][NR] = A [mr][kc] * B; next: of the next panel; wide: [kc][WIDE_ROW] of role FIRST and REST. Always inlined with
 * constant role and mr. */
static inline __attribute__((always_inline)) void scaled_micro(enum role role, int mr, size_t kc, const float *a,
                                                               const b_t *b, const char *next, float *wide, float *tile)
{
    vf acc[MR * 2];
#pragma GCC unroll 28
    for (int i = 0; i < mr * 2; i++)
        acc[i] = v_zero();
    for (size_t k = 0; k < kc; k++, a += WORDS, b += NR, next += LINES * 64, wide += WIDE_ROW) {
        vf v[WORDS * 2];
        for (size_t i = 0; i < LINES; i++)
            if (role == ALONE && mr <= FEW_ROWS)
                __builtin_prefetch((const char *)(b + FEW_AHEAD * NR) + i * 64, 0, 3);
            else if (role == ALONE)
                __builtin_prefetch((const char *)(b + MANY_AHEAD * NR) + i * 64, 0, 2);
            else if (role == FIRST) {
                __builtin_prefetch((const char *)(b + NEAR * NR) + i * 64, 0, 3);
                __builtin_prefetch(next + i * 64, 0, 2);
            }
        if (role == REST)
#pragma GCC unroll 4
            for (size_t i = 0; i < WORDS * 2; i++) {
                __builtin_prefetch(wide + WIDE_AHEAD * WIDE_ROW + i * VL, 0, 3);
                v[i] = v_load(wide + i * VL);
            }
        else
            widen_two(v, b);
        if (role == FIRST)
#pragma GCC unroll 4
            for (size_t i = 0; i < WORDS * 2; i++)
                v_store(wide + i * VL, v[i]);
#pragma GCC unroll 2
        for (int u = 0; u < WORDS; u++)
#pragma GCC unroll 14
            for (int r = 0; r < mr; r++) {
                const vf av = v_set1(a[(size_t)r * A_LD + (size_t)u]);
                acc[r * 2] = mac(av, v[u * 2], acc[r * 2]);
                acc[r * 2 + 1] = mac(av, v[u * 2 + 1], acc[r * 2 + 1]);
            }
    }
#pragma GCC unroll 28
    for (int i = 0; i < mr * 2; i++)
        v_store(tile + (size_t)i * VL, acc[i]);
}

#define SCALED(role, mr)                                                                                                \
    static void scaled_##role##_##mr(size_t kc, const float *a, const b_t *b, const char *next, float *wide, float *tile) \
    {                                                                                                                  \
        scaled_micro(role, mr, kc, a, b, next, wide, tile);                                                            \
    }
#define SCALED_ALL(mr) SCALED(ALONE, mr) SCALED(FIRST, mr) SCALED(REST, mr)
SCALED_ALL(7) SCALED_ALL(8) SCALED_ALL(9) SCALED_ALL(10) SCALED_ALL(11) SCALED_ALL(12) SCALED_ALL(13) SCALED_ALL(14)
SCALED(ALONE, 1) SCALED(ALONE, 2) SCALED(ALONE, 3) SCALED(ALONE, 4) SCALED(ALONE, 5) SCALED(ALONE, 6)
#define SCALED_HIGH(role)                                                                                              \
    scaled_##role##_7, scaled_##role##_8, scaled_##role##_9, scaled_##role##_10, scaled_##role##_11,                   \
        scaled_##role##_12, scaled_##role##_13, scaled_##role##_14
/* Two tiles and more are of half of MR and more. */
static scaled_fn *const scaled_by_rows[][MR + 1] = {
    [ALONE] = {NULL, scaled_ALONE_1, scaled_ALONE_2, scaled_ALONE_3, scaled_ALONE_4, scaled_ALONE_5, scaled_ALONE_6,
               SCALED_HIGH(ALONE)},
    [FIRST] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, SCALED_HIGH(FIRST)},
    [REST] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, SCALED_HIGH(REST)}};

/* Rows [r0, r0 + h) of the part times panel j. */
static inline void scaled_tile(const struct product *p, const struct part *a, enum role role, size_t r0, size_t h, size_t j,
                               const b_t *next, float *wide)
{
    alignas(64) float tile[MR * NR];
    const size_t left = p->n - j * NR;
    const vf by[2] = {v_load(p->shift + j * NR), v_load(p->shift + j * NR + VL)};
    scaled_by_rows[role][h](a->kc, a->buf + r0 * A_LD, a->b + j * p->b_next, (const char *)next, wide, tile);
    for (size_t i = 0; i < 2 * h; i++)
        v_store(tile + i * VL, v_ldexp(v_load(tile + i * VL), by[i % 2]));
    store_tile(p, tile, h, NR, a->i0 + r0, j * NR, left < NR ? left : NR, a->k0 == 0 && !p->add,
               a->k0 + a->kc == p->k);
}

/* Panels [j0, j1) for rows that are one tile and n parts that follow each other along k: a panel after the other with
 * all of k, so that weights that come from memory are one stream. */
static void one_tile(const struct product *p, const struct part *a, size_t n, size_t rows, size_t j0, size_t j1)
{
    for (size_t j = j0; j < j1; j++)
        for (size_t i = 0; i < n; i++)
            scaled_tile(p, &a[i], ALONE, 0, rows, j, a[i].b, NULL);
}

/* Panels [j0, j1) for `rows` copied rows. */
static void block(const struct product *p, const struct part *a, size_t rows, size_t j0, size_t j1)
{
    alignas(64) float wide[KC * WIDE_ROW];
    const size_t tiles = (rows + MR - 1) / MR;
    if (tiles == 1) {
        one_tile(p, a, 1, rows, j0, j1);
        return;
    }
    for (size_t j = j0; j < j1; j++)
        for (size_t t = 0; t < tiles; t++) {
            const size_t r0 = rows * t / tiles, h = rows * (t + 1) / tiles - r0;
            scaled_tile(p, a, t ? REST : FIRST, r0, h, j, a->b + (j + 1 < j1 ? j + 1 : j) * p->b_next, wide);
        }
}
