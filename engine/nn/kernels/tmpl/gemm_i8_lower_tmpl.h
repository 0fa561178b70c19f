/* Rows of A lowered for SUMS_16, in place of gemm_i8_copy_tmpl.h.
 *
 * B is stored raised by 128, as u8. Each row of A is lowered by about its mean, so that most
 * numbers are small: to s8, where the numbers above 0 of a pair sum up to no more than 127, and
 * those below to no less than -128. Then no sum of two products exceeds 16 bits. What a number of A
 * gives up for that is its rest. Few numbers have one (0.5 % in Whisper's encoder), so their
 * products are added one by one after the tile. Sums start with -128 times the sum of the row,
 * because B is raised. 36 operations of AVX2 make 384 products; with B widened they are 50. */

enum {
    START = A_LD - 1, /* the lane of a copied row that its sums start with */
    PAIR_RESTS = 3,   /* most of a pair: a number may lack 64, the other one 64 and 127 */
};

/* Byte shift / 8 of a lane of a copied row lacks d. */
struct rest {
    uint16_t lane;
    uint8_t shift;
    int8_t d;
};

/* The copy of a block. */
struct copy {
    alignas(64) int32_t lanes[A_ROOM];
    int32_t shift[MC];
    struct rest *starts[MC + 1], rests[MC * KU * KG / 2 * PAIR_RESTS];
};

/* What is known of copied rows besides their lanes. */
struct copied {
    const int32_t *shift;      /* [rows]: what the numbers of each row are raised by */
    struct rest *const *rests; /* [rows + 1]: where the rests of each row start */
};

static inline int32_t shift_at(struct copied c, size_t r)
{
    return c.shift[r];
}

/* Of rows from r0 on. */
static inline __attribute__((always_inline)) struct copied copied_from(struct copied c, size_t r0)
{
    return (struct copied){c.shift + r0, c.rests + r0};
}

static inline vi first_sums(const int32_t *row)
{
    return vi_set1(row[START]);
}

/* Move what a pair of numbers exceeds the limits of SUMS_16 by to r: first what does not fit into
 * s8, then the excess of the sum, which the number farther from 0 gives up. Returns the new end of
 * r. */
static struct rest *split_pair(int8_t *q, struct rest *r, size_t k, int x0, int x1)
{
    const int x[2] = {x0, x1};
    int y[2], over;
    for (int i = 0; i < 2; i++)
        y[i] = x[i] > 127 ? 127 : x[i] < -128 ? -128 : x[i];
    over = (y[0] > 0 ? y[0] : 0) + (y[1] > 0 ? y[1] : 0) - 127;
    if (over > 0)
        y[y[1] > y[0]] -= over;
    over = (y[0] < 0 ? y[0] : 0) + (y[1] < 0 ? y[1] : 0) + 128;
    if (over < 0)
        y[y[1] < y[0]] -= over;
    for (size_t i = 0; i < 2; i++) {
        q[k + i] = (int8_t)y[i];
        for (int d = x[i] - y[i], part; d; d -= part) {
            part = d > 127 ? 127 : d < -128 ? -128 : d;
            *r++ =
                (struct rest){(uint16_t)((k + i) / KG), (uint8_t)((k + i) % KG * 8), (int8_t)part};
        }
    }
    return r;
}

/* n bytes, lowered by `by`, to lanes; the rest of the last lane is zero. Appends rests to r and
 * returns their new end. */
static struct rest *lower_row(int32_t *to, const uint8_t *a, size_t n, bool is_signed, int by,
                              struct rest *r)
{
    const uint8_t flip = is_signed ? 0x80 : 0;
    int8_t *q = (int8_t *)to;
    vi sums = vi_zero();
    int32_t sum = 0;
    size_t k = 0;
    for (size_t u = n / KG; u < lanes_of(n); u++)
        to[u] = 0;
    for (; k + 32 <= n; k += 32)
        for (uint32_t bad = vi_lower_bytes(q + k, a + k, flip, by, &sums); bad; bad &= bad - 1) {
            const size_t x = k + (size_t)__builtin_ctz(bad);
            bad &= bad - 1;
            r = split_pair(q, r, x, (a[x] ^ flip) - by, (a[x + 1] ^ flip) - by);
        }
    for (; k < n; k += 2) {
        const int x0 = (a[k] ^ flip) - by, x1 = k + 1 < n ? (a[k + 1] ^ flip) - by : 0;
        r = split_pair(q, r, k, x0, x1);
        sum += x0 + x1;
    }
    to[START] = -128 * (sum + vi_hsum(sums));
    return r;
}

/* Row i of A is lowered, as if it had no sign, by the mean of its first block, but by no more than
 * leaves 64 on either side: then pairs at an end of the range need no rest. */
static int32_t shift_of_row(const struct steno_gemm_i8 *g, size_t i)
{
    const uint8_t *a = (const uint8_t *)g->a + i * g->lda, flip = g->a_signed ? 0x80 : 0;
    const size_t n = g->k < KU * KG ? g->k : KU * KG;
    vi sums = vi_zero();
    uint32_t sum = 0, mean;
    size_t k = 0;
    for (; k + 32 <= n; k += 32)
        sums = vi_add_bytes(sums, a + k, flip);
    for (; k < n; k++)
        sum += a[k] ^ flip;
    mean = n ? (sum + (uint32_t)vi_hsum(sums)) / (uint32_t)n : 128;
    return (g->a_signed ? 128 : 0) - (int32_t)(mean < 64 ? 64 : mean > 191 ? 191 : mean);
}

/* sums [panels][NR] += the products of the rests [r, end) of a row with panels from b on. */
static void add_rests_of_row(int32_t *sums, const struct rest *r, const struct rest *end,
                             const int8_t *b, size_t panel, size_t panels)
{
    for (size_t j = 0; j < panels && r < end; j++, sums += NR, b += panel) {
        vi s0 = vi_load(sums), s1 = vi_load(sums + VL);
        for (const struct rest *x = r; x < end; x++) {
            const int8_t *at = b + (size_t)x->lane * LANE_ROW;
            const vi d = vi_set1((int32_t)((uint32_t)(uint8_t)x->d << x->shift));
            s0 = dot(s0, d, weights(at));
            s1 = dot(s1, d, weights(at + VL * KG));
        }
        vi_store(sums, s0);
        vi_store(sums + VL, s1);
    }
}

static inline void add_rests(const struct product *p, const struct part *a, int32_t *tile,
                             size_t r0, size_t h, size_t j, size_t panels)
{
    struct rest *const *rests = a->copied->rests + r0;
    for (size_t r = 0; r < h; r++)
        add_rests_of_row(tile + r * panels * NR, rests[r], rests[r + 1], a->b + j * p->b.panel,
                         p->b.panel, panels);
}

/* Copy rows [i0, i0 + rows), numbers [k0, k0 + kc), to lanes [rows][ld]. */
static struct copied copy_rows(const struct product *p, struct copy *c, size_t ld, size_t i0,
                               size_t rows, size_t k0, size_t kc)
{
    const uint8_t *from = (const uint8_t *)p->g->a + i0 * p->g->lda + k0;
    c->starts[0] = c->rests;
    for (size_t r = 0; r < rows; r++) {
        c->shift[r] = shift_of_row(p->g, i0 + r);
        c->starts[r + 1] = lower_row(c->lanes + r * ld, from + r * p->g->lda, kc, p->g->a_signed,
                                     (p->g->a_signed ? 128 : 0) - c->shift[r], c->starts[r]);
    }
    return (struct copied){c->shift, c->starts};
}
