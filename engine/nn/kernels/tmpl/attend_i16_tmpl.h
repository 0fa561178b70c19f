/* Products of attend_tmpl.h in integers of 16 bits, with sums in 32: an instruction multiplies and
 * adds pairs, twice as many numbers as one multiply-add of f32.
 *
 * Ranges keep every sum within 32 bits. Keys have 12 bits and queries 13, for up to 256 products;
 * weights have 14 bits above 0, since most are far below the largest, and values 11 with a sign,
 * for the KEYS products of a block. Keys and values are in units of their own for each column,
 * which also multiply the query's numbers and the finished sums. A query is in a unit of its own.
 *
 * Packed: the units of the columns, f32 [STENO_ATTEND_SIZE]; then panels of pairs. */
_Static_assert((int64_t)STENO_ATTEND_SIZE *KEY_STEPS *QUERY_STEPS <= INT32_MAX &&
                   (int64_t)KEYS * WEIGHT_STEPS * VALUE_STEPS <= INT32_MAX,
               "sums fit");

/* Two vectors of integers as pairs. */
ALWAYS void put(float *to, vf low, vf high)
{
    vi_store(to, vi_narrow(vi_round(low), vi_round(high)));
}

static const float *panels_of(const void *packed)
{
    return (const float *)packed + STENO_ATTEND_SIZE;
}

static size_t whole(size_t columns)
{
    return (columns + NR - 1) / NR * NR;
}

/* Row i of q plus a bias, in the units of the keys' columns and one of its own. */
static void fill_row(const struct steno_attend *a, const float *bias, struct work *w, size_t i)
{
    const float *q = a->q + i * a->ldq, *k_unit = a->k;
    alignas(64) float x[STENO_ATTEND_SIZE] = {0};
    vf top = v_zero(), by;
    for (size_t c = 0; c < whole(a->size); c += VL) {
        const vm m = tail_at(a->size, c);
        vf y = v_load_m(q + c, m);
        if (bias)
            y = y + v_load_m(bias + c, m);
        y = y * v_load(k_unit + c);
        top = v_max_nan(top, v_abs(y));
        v_store(x + c, y);
    }
    by =
        v_set1(attend_i8_steps(v_any(v_is_nan(top)) ? NAN : v_hmax(top), QUERY_STEPS, &w->unit[i]));
    for (size_t c = 0; c < a->size; c += NR)
        put(w->q + i * Q_ROW + c / STEP, v_load(x + c) * by, v_load(x + c + VL) * by);
}

static void fill(const struct steno_attend *a, struct work *w)
{
    for (size_t i = 0; i < a->m; i++)
        fill_row(a, a->q_bias, w, i);
}

/* h rows, a_row floats apart: see the form in f32. Products with keys are multiplied by x->keep,
 * the units of the rows; products with values by x->unit, those of the columns. */
ALWAYS void tile_of(const struct tile *x, int h, size_t a_row, bool on)
{
    vi s[TILE][2];
    const float *a = x->a, *b = x->b;
    EACH_ROW s[i][0] = s[i][1] = vi_zero();
    for (size_t u = x->steps; u; u--, a++, b += NR) {
        const vi b0 = vi_load(b), b1 = vi_load(b + VL);
        EACH_ROW
        {
            int32_t pair;
            vi w;
            memcpy(&pair, a + (size_t)i * a_row, sizeof pair);
            w = vi_set1(pair);
            s[i][0] = PAIRS(s[i][0], w, b0);
            s[i][1] = PAIRS(s[i][1], w, b1);
            __asm__("" : "+" V_REGISTER(s[i][0]), "+" V_REGISTER(s[i][1])); /* no copies */
        }
    }
    EACH_ROW for (int j = 0; j < 2; j++)
    {
        const size_t at = (size_t)j * VL;
        vf y = vi_to_float(s[i][j]) * (a_row == S_ROW ? v_load(x->unit + at) : v_set1(x->keep[i]));
        if (on)
            y = v_fma(v_load(x->from + (size_t)i * x->from_row + at), v_set1(x->keep[i]), y);
        v_store(x->to + (size_t)i * x->to_row + at, y);
        if (x->top)
            v_store(x->top + i * VL, v_max(y, v_load(x->top + i * VL)));
    }
}

/* ---- packing ---- */

/* The units of columns, and the steps of each per 1: `range` steps for its largest magnitude. */
static void units(float *of, float *by, const float *from, size_t ld, size_t n, size_t columns,
                  int range)
{
    for (size_t c = 0; c < whole(columns); c += VL) {
        const vm m = tail_at(columns, c);
        alignas(64) float most[VL];
        vf top = v_zero();
        for (size_t j = 0; j < n; j++)
            top = v_max_nan(top, v_abs(v_load_m(from + j * ld + c, m)));
        v_store(most, top);
        for (size_t x = 0; x < VL; x++)
            by[c + x] = attend_i8_steps(most[x], range, &of[c + x]);
    }
}

/* Keys b [n, k]: panels of NR keys, whose pairs are transposed. */
static void pack_keys(float *to, const float *b, size_t ldb, size_t k, size_t n)
{
    enum { ROW = STENO_ATTEND_SIZE / STEP };
    alignas(64) float by[STENO_ATTEND_SIZE], rows[NR * ROW];
    units(to, by, b, ldb, n, k, KEY_STEPS);
    to += STENO_ATTEND_SIZE;
    for (size_t j = 0; j < n; j += NR, to += depth_of(k) * NR) {
        for (size_t r = 0; r < NR; r++)
            for (size_t c = 0; c < k; c += NR) {
                const size_t there = j + r < n ? k : 0;
                const vm m0 = tail_at(there, c), m1 = tail_at(there, c + VL);
                const float *x = b + (j + r) * ldb + c;
                put(rows + r * ROW + c / STEP, v_load_m(x, m0) * v_load(by + c),
                    v_load_m(x + VL, m1) * v_load(by + c + VL));
            }
        transpose_blocks(to, NR, rows, ROW, NR, depth_of(k));
    }
}

/* Values b [k, n]: pairs of rows. */
static void pack_values(float *to, const float *b, size_t ldb, size_t k, size_t n)
{
    alignas(64) float by[STENO_ATTEND_SIZE];
    units(to, by, b, ldb, k, n, VALUE_STEPS);
    for (size_t c = 0; c < whole(n); c += VL)
        v_store(to + c, v_load(to + c) * v_set1(1.0f / WEIGHT_STEPS));
    to += STENO_ATTEND_SIZE;
    for (size_t u = 0; u < k; u += 2, b += 2 * ldb)
        for (size_t c = 0; c < whole(n); c += VL) {
            const vm m = tail_at(n, c);
            const vf steps = v_load(by + c), low = v_load_m(b + c, m) * steps,
                     high = v_load_m(b + ldb + c, u + 1 < k ? m : v_tail(0)) * steps;
            vi_store(to + c / NR * depth_of(k) * NR + u / 2 * NR + c % NR,
                     vi_pairs(vi_round(low), vi_round(high)));
        }
}

static size_t packed_bytes(size_t k, size_t n)
{
    return (STENO_ATTEND_SIZE + whole(n) * depth_of(k)) * sizeof(float);
}

static void pack(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    if (trans)
        pack_keys(dst, b, ldb, k, n);
    else
        pack_values(dst, b, ldb, k, n);
}
