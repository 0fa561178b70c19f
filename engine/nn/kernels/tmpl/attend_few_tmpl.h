/* Attention of a few rows to a few keys, one head, for one vector width. K is transposed into L1,
 * one vector of keys per column. Then both products have the same shape: each step of the inner
 * size reads two vectors and broadcasts one number per row. Sums stay in registers (8 rows x 2
 * vectors; with 16 registers 8 x 1). A step of a chunk has so few multiplications (6 rows, 30 keys,
 * 32 columns: 11,520) that packing and dispatch of the general product cost more than the
 * multiplications. */

#if VL == 8
#define ATTEND_VECTORS 1 /* 16 registers */
#else
#define ATTEND_VECTORS 2
#endif

/* y [m, n] (ldy) = x [m, k] (ldx) * b [k, n] (ldb), times one factor per row. rows is m, a constant
 * at compile time. n: at most ATTEND_VECTORS vectors. */
static inline __attribute__((always_inline)) void
attend_block(const size_t rows, const float *x, size_t ldx, const float *b, size_t ldb, size_t k,
             float *y, size_t ldy, size_t n, const float *factor)
{
    vf s[STENO_ATTEND_FEW_ROWS][ATTEND_VECTORS];
    vm m[ATTEND_VECTORS];
    for (size_t v = 0; v < ATTEND_VECTORS; v++)
        m[v] = tail_at(n, v * VL);
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (size_t v = 0; v < ATTEND_VECTORS; v++)
            s[i][v] = v_zero();
    for (size_t d = 0; d < k; d++) {
        vf w[ATTEND_VECTORS];
#pragma GCC unroll 2
        for (size_t v = 0; v < ATTEND_VECTORS; v++)
            w[v] = v_load_m(b + d * ldb + v * VL, m[v]);
#pragma GCC unroll 8
        for (size_t i = 0; i < rows; i++) {
            vf a = v_set1(x[i * ldx + d]);
#pragma GCC unroll 2
            for (size_t v = 0; v < ATTEND_VECTORS; v++)
                s[i][v] = v_fma(a, w[v], s[i][v]);
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (size_t v = 0; v < ATTEND_VECTORS; v++)
            v_store_m(y + i * ldy + v * VL, m[v], s[i][v] * v_set1(factor[i]));
}

static inline void attend_product(size_t rows, const float *x, size_t ldx, const float *b,
                                  size_t ldb, size_t k, float *y, size_t ldy, size_t n,
                                  const float *factor)
{
    const size_t width = ATTEND_VECTORS * VL;
    for (size_t c = 0; c < n; c += width) {
        size_t here = n - c < width ? n - c : width;
        switch (rows) {
#define ATTEND_CASE(R)                                                                             \
    case R:                                                                                        \
        attend_block(R, x, ldx, b + c, ldb, k, y + c, ldy, here, factor);                          \
        break;
            ATTEND_CASE(1)
            ATTEND_CASE(2)
            ATTEND_CASE(3)
            ATTEND_CASE(4)
            ATTEND_CASE(5)
            ATTEND_CASE(6)
            ATTEND_CASE(7)
            ATTEND_CASE(8)
#undef ATTEND_CASE
        }
    }
}

/* Scores of a row to weights before their division by the sum; *factor is the reciprocal of the
 * sum. No branches, so that the CPU overlaps several rows. A row that is all -inf becomes NaN. */
static inline void attend_weigh(float *p, size_t n, vf scale, const float *mask, float *factor)
{
    vf top = v_set1(-INFINITY), sum = v_zero();
    for (size_t j = 0; j < n; j += VL) {
        vm m = tail_at(n, j);
        vf t = score(p + j, NULL, mask ? mask + j : NULL, scale, m);
        v_store(p + j, t);
        top = v_max(top, t);
    }
    top = v_set1(v_hmax(top));
    for (size_t j = 0; j < n; j += VL) {
        vm m = tail_at(n, j);
        vf e = v_select(m, v_exp(v_load(p + j) - top), v_zero());
        v_store(p + j, e);
        sum = sum + e;
    }
    *factor = 1 / v_hsum(sum);
}

static void V_NAME(attend_few_f32)(size_t m, size_t n, const struct steno_attend_few *a)
{
    float kt[STENO_ATTEND_FEW_SIZE * STENO_ATTEND_FEW_KEYS],
        p[STENO_ATTEND_FEW_ROWS * STENO_ATTEND_FEW_KEYS];
    float factor[STENO_ATTEND_FEW_ROWS];
    for (size_t i = 0; i < m; i++)
        factor[i] = 1;
    transpose_blocks(kt, STENO_ATTEND_FEW_KEYS, a->k, a->ldk, (n + 7) & ~(size_t)7, a->size);
    attend_product(m, a->q, a->ldq, kt, STENO_ATTEND_FEW_KEYS, a->size, p, STENO_ATTEND_FEW_KEYS, n,
                   factor);
    for (size_t i = 0; i < m; i++)
        attend_weigh(p + i * STENO_ATTEND_FEW_KEYS, n, v_set1(a->scale),
                     a->mask ? a->mask + i * a->ldm : NULL, &factor[i]);
    attend_product(m, p, STENO_ATTEND_FEW_KEYS, a->v, a->ldv, n, a->y, a->ldy, a->v_size, factor);
}
