/* The register tiles of a product by AMX, in place of tiles_tmpl.h. Included by gemm_tmpl.h and
 * gemm_i8_tmpl.h after
 *   micro_fn, MR = 32, NR = 32, A_LD
 *   AMX_DOT(t, a, b)   AMX_DOT_U8 or AMX_DOT_BF16
 * A panel has a row of NR lanes of 32 bits for each lane of K, so 16 rows of its left or right half are a
 * register as they lie there. Lanes of K are a multiple of 16: packed B and the copy of A are filled up
 * with zeros. */

enum {
    A_ROW = A_LD * 4, /* bytes */
    B_ROW = NR * 4,
    C_ROW = NR * 4,
    B_STEP = AMX_LANES * B_ROW, /* bytes of a panel that a step takes */
    FAR = 8192                  /* bytes before their use that weights for a single tile are called closer */
};

/* What a step calls closer: of weights for one tile all, else half of the next panel. */
static inline __attribute__((always_inline)) void amx_call(bool few, const char *b, const char *ahead)
{
#pragma GCC unroll 32
    for (int i = 0; i < B_STEP; i += few ? 64 : 128)
        __builtin_prefetch(few ? b + FAR + i : ahead + i / 2, 0, 2);
}

/* Up to 16 rows. Sums of even and odd steps of integers apart would be no faster: weights come from
 * memory or L2 then. */
static inline __attribute__((always_inline)) void amx_low(bool few, size_t lanes, const char *a, const char *b,
                                                          const char *ahead, char *tile)
{
    AMX_ZERO(0);
    AMX_ZERO(1);
    for (size_t u = 0; u < lanes; u += AMX_LANES, a += 4 * AMX_LANES, b += B_STEP, ahead += B_STEP / 2) {
        amx_call(few, b, ahead);
        AMX_LOAD(4, a, A_ROW);
        AMX_LOAD(6, b, B_ROW);
        AMX_DOT(0, 4, 6);
        AMX_LOAD(7, b + 64, B_ROW);
        AMX_DOT(1, 4, 7);
    }
    AMX_STORE(0, tile, C_ROW);
    AMX_STORE(1, tile + 64, C_ROW);
}

/* Up to 32 rows. */
static inline __attribute__((always_inline)) void amx_high(bool few, size_t lanes, const char *a, const char *b,
                                                           const char *ahead, char *tile)
{
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
    for (size_t u = 0; u < lanes; u += AMX_LANES, a += 4 * AMX_LANES, b += B_STEP, ahead += B_STEP / 2) {
        amx_call(few, b, ahead);
        AMX_LOAD(4, a, A_ROW);
        AMX_LOAD(6, b, B_ROW);
        AMX_DOT(0, 4, 6);
        AMX_LOAD(7, b + 64, B_ROW);
        AMX_DOT(1, 4, 7);
        AMX_LOAD(5, a + AMX_ROWS * A_ROW, A_ROW);
        AMX_DOT(2, 5, 6);
        AMX_DOT(3, 5, 7);
    }
    AMX_STORE(0, tile, C_ROW);
    AMX_STORE(1, tile + 64, C_ROW);
    AMX_STORE(2, tile + AMX_ROWS * C_ROW, C_ROW);
    AMX_STORE(3, tile + AMX_ROWS * C_ROW + 64, C_ROW);
}

#define AMX_MICRO(name, tiles, few)                                                                \
    static void name(MICRO_ARGS)                                                                   \
    {                                                                                              \
        tiles(few, lanes, (const char *)a, (const char *)b, (const char *)ahead, (char *)tile);    \
    }
AMX_MICRO(micro_low, amx_low, false)
AMX_MICRO(micro_high, amx_high, false)
AMX_MICRO(few_low, amx_low, true)
AMX_MICRO(few_high, amx_high, true)
#define SIXTEEN(f) f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f
static micro_fn *const micro_by_rows[MR + 1] = {NULL, SIXTEEN(micro_low), SIXTEEN(micro_high)};
static micro_fn *const few_by_rows[MR + 1] = {NULL, SIXTEEN(few_low), SIXTEEN(few_high)};

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
