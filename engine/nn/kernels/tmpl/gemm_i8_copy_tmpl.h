/* Rows of A as the instruction reads them: bytes, shifted by 128 where it needs the other sign, or
 * widened to 16 bits where KG is 2. Included by gemm_i8_tmpl.h. */

/* The copy of a block. */
struct copy {
    alignas(64) int32_t lanes[A_ROOM];
};

/* What is known of copied rows besides their lanes: the numbers of all are raised by shift. */
struct copied {
    int32_t shift;
};

static inline int32_t shift_at(struct copied c, size_t r)
{
    (void)r;
    return c.shift;
}

/* Of rows from r0 on. */
static inline struct copied copied_from(struct copied c, size_t r0)
{
    (void)r0;
    return c;
}

static inline vi first_sums(const int32_t *row)
{
    (void)row;
    return vi_zero();
}

static inline void add_rests(const struct product *p, const struct part *a, int32_t *tile,
                             size_t r0, size_t h, size_t j, size_t panels)
{
    (void)p, (void)a, (void)tile, (void)r0, (void)h, (void)j, (void)panels;
}

/* n bytes to lanes; the rest of the last lane is zero. */
static void copy_row(int32_t *to, const uint8_t *a, size_t n, bool is_signed)
{
    const uint8_t flip = is_signed == (bool)A_U8 ? 0x80 : 0;
    uint8_t *bytes = (uint8_t *)to;
    int16_t *words = (int16_t *)to;
    for (size_t u = n / KG; u < lanes_of(n); u++)
        to[u] = 0;
    if (A_U8 || A_S8)
        for (size_t i = 0; i < n; i++)
            bytes[i] = a[i] ^ flip;
    else if (is_signed)
        for (size_t i = 0; i < n; i++)
            words[i] = (int8_t)a[i];
    else
        for (size_t i = 0; i < n; i++)
            words[i] = a[i];
}

/* Copy rows [i0, i0 + rows), numbers [k0, k0 + kc), to lanes [rows][ld]. */
static struct copied copy_rows(const struct product *p, struct copy *c, size_t ld, size_t i0,
                               size_t rows, size_t k0, size_t kc)
{
    const uint8_t *from = (const uint8_t *)p->g->a + i0 * p->g->lda + k0;
    for (size_t r = 0; r < rows && kc; r++)
        copy_row(c->lanes + r * ld, from + r * p->g->lda, kc, p->g->a_signed);
    return (struct copied){p->a_shift};
}
