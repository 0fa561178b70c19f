/* f32 products by AMX, whose products of bf16 are 15 times as many as the f32 multiply-adds of the same
 * core. A number is the sum of three of bf16, x = h + m + l: h is x with 8 significant bits, m what is left
 * of it with 8, l the rest with 8, which is exact. Of the nine products of two such sums
 *     a b = ah bh + (ah bm + am bh) + (ah bl + am bm + al bh) + ...
 * these six are made, each exact in f32; the others are below 2^-22 |a b| together (|m| <= 2^-8 |x|, |l| <
 * 2^-15 |x|), as much as two roundings to f32 are. Henry, Tang and Heinecke, Leveraging the bfloat16 AI
 * datatype for higher-precision computations (2019), arXiv:1904.06376.
 *
 * Parts that are denormal count as zero: x below 2^-110 lose bits. Infinite numbers, NaN and those that
 * would round to infinity cannot be split; rows of A and panels of B with one of them are multiplied again by
 * the plain kernel, so that only what they touch differs.
 *
 * B stays packed as it is everywhere, [K][NR] f32, and a piece of a panel is split when it is brought to L1,
 * once for all rows of a block. A single row is a third slower than by the plain kernel where weights come from memory,
 * four times where they are in L2: hence slots of their own, and the network chooses (ops/weights.h). */
#include "kernels/x86/amx.h"
#include "kernels/x86/vec_avx512.h"

#define GEMM_NO_SLOTS
#include "kernels/x86/gemm_tmpl.h"
#include "kernels/x86/patches_tmpl.h"

enum {
    PARTS = 3,
    AMX_MOST = 256,        /* rows of a block */
    DEPTH = 64,            /* pairs along K of a piece of a panel, of which there are two: 2 x 3 x 8 KiB */
    AMX_B_ROW = 8 * NR,    /* bytes of packed B for a pair */
    AMX_PIECES = true,
    PIECE = DEPTH * NR + 16, /* lanes of one part of a piece, whose rows fall into other sets */
    ROOM = AMX_MOST * 784,  /* lanes of the copy of A: 256 pairs of all rows */
    MOST_K = 2 * ROOM / (2 * AMX_ROWS) / PARTS, /* of a block of few rows */
    CLOSER = 4096           /* bytes before their use that weights are called closer */
};
struct split;
#define AMX_SPLIT
#define AMX_DEEP(rows) (rows > 2 * AMX_HIGH ? DEPTH : DEPTH / 2)
#define AMX_DOT AMX_DOT_BF16
#undef BEGIN
#undef END
#define BEGIN amx_begin
#define END amx_end
#include "kernels/x86/amx_tmpl.h"

/* ---- splitting ---- */

/* Numbers of which the parts are taken one after the other. */
struct rest {
    vf v0, v1;
};

/* The leading 8 significant bits of both: of h rounded, within 2^-8; then cut off. */
static inline __attribute__((always_inline)) struct rest split_off(struct rest *x, int part)
{
    struct rest f = *x;
    if (part == 0) {
        f.v0 = (vf)_mm512_add_epi32((__m512i)f.v0, _mm512_set1_epi32(0x8000));
        f.v1 = (vf)_mm512_add_epi32((__m512i)f.v1, _mm512_set1_epi32(0x8000));
    }
    if (part < PARTS - 1) {
        f.v0 = (vf)_mm512_and_si512((__m512i)f.v0, _mm512_set1_epi32((int)0xffff0000));
        f.v1 = (vf)_mm512_and_si512((__m512i)f.v1, _mm512_set1_epi32((int)0xffff0000));
        x->v0 = x->v0 - f.v0;
        x->v1 = x->v1 - f.v1;
    }
    return f;
}

/* What cannot be split leaves NaN as its last part, and then in `odd`. */
static inline vf note_odd(vf odd, const struct rest *last)
{
    return v_fma(last->v0, last->v1, odd);
}

static bool is_odd(vf odd)
{
    return _mm512_cmp_ps_mask(odd, odd, _CMP_UNORD_Q) != 0;
}

/* n numbers of a row of A to `lanes` pairs of each part, filled up with zeros; notes odd ones. */
static vf split_row(uint32_t *to, const float *x, size_t n, size_t lanes, vf odd)
{
    static const uint16_t high[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i order = _mm512_loadu_si512(high);
    for (size_t u = 0; u < lanes; u += VL) {
        const size_t at = 2 * u, left = at < n ? n - at : 0;
        struct rest v = {v_load_m(x + (left ? at : 0), v_tail(left < VL ? left : VL)), v_zero()};
        if (left > VL)
            v.v1 = v_load_m(x + at + VL, v_tail(left - VL < VL ? left - VL : VL));
        for (int part = 0; part < PARTS; part++) {
            const struct rest f = split_off(&v, part);
            _mm512_storeu_si512(to + (size_t)part * lanes + u,
                                _mm512_permutex2var_epi16((__m512i)f.v0, order, (__m512i)f.v1));
        }
        odd = note_odd(odd, &v);
    }
    return odd;
}

/* A product under way. */
struct split {
    const struct product *p;
    bool odd_a, odd_b; /* something was met that cannot be split */
    size_t k;          /* of the block */
    size_t left;       /* of it from the next row of B on */
    const float *b;    /* of the piece under way */
    uint32_t *to;
    size_t pairs;      /* left of it */
    int turn;
    vf odd;
    alignas(64) uint32_t piece[2][PARTS * PIECE];
};

/* VL columns of rows k and k + 1 to pairs of each part. */
static inline __attribute__((always_inline)) vf split_pair(uint32_t *to, struct rest v, vf odd)
{
#pragma GCC unroll 3
    for (int part = 0; part < PARTS; part++) {
        const struct rest f = split_off(&v, part);
        const __m512i low = _mm512_srli_epi32((__m512i)f.v0, 16);
        _mm512_storeu_si512(to + part * PIECE, _mm512_mask_mov_epi16(low, 0xaaaaaaaa, (__m512i)f.v1));
    }
    return note_odd(odd, &v);
}

/* n more pairs of the piece under way. A function of its own, whose constants stay in registers. */
static __attribute__((noinline)) void split_pairs(struct split *s, size_t n)
{
    const float *b = s->b;
    uint32_t *to = s->to;
    size_t left = s->left;
    vf odd = s->odd;
    s->pairs -= n;
    for (; n && left >= 2; n--, left -= 2, b += 2 * NR, to += NR) {
        for (size_t i = 0; i < 2 * NR; i += 16)
            __builtin_prefetch(b + CLOSER / sizeof *b + i, 0, 2);
        for (size_t i = 0; i < NR; i += VL)
            odd = split_pair(to + i, (struct rest){v_load(b + i), v_load(b + NR + i)}, odd);
    }
    for (; n; n--, left = 0, b += 2 * NR, to += NR) /* the last k of an odd number, then nothing */
        for (size_t i = 0; i < NR; i += VL)
            odd = split_pair(to + i, (struct rest){left ? v_load(b + i) : v_zero(), v_zero()}, odd);
    s->b = b;
    s->to = to;
    s->left = left;
    s->odd = odd;
}

static inline void split_some(struct split *s, size_t n)
{
    n = n < s->pairs ? n : s->pairs;
    if (n)
        split_pairs(s, n);
}

static void amx_split_begin(const struct amx_block *x, const struct amx_piece *y)
{
    struct split *s = x->split;
    s->b = (const float *)(const void *)y->b;
    s->left = 2 * y->u0 < s->k ? s->k - 2 * y->u0 : 0;
    s->pairs = y->u1 - y->u0;
    s->turn ^= 1;
    s->to = s->piece[s->turn];
}

static const char *amx_split_end(const struct amx_block *x)
{
    struct split *s = x->split;
    split_some(s, s->pairs);
    return (const char *)s->piece[s->turn];
}

/* ---- products ---- */

#define BOTH_COLUMNS(a, c0, c1)                                                                    \
    AMX_DOT(c0, a, 6);                                                                             \
    AMX_DOT(c1, a, 7)

/* The six products of 16 pairs, the smallest first. */
static inline __attribute__((always_inline)) void split_step(const char *a, const char *b, size_t a_row,
                                                             size_t a_part, bool high, struct split *s,
                                                             size_t some)
{
    const char *a1 = a + AMX_ROWS * a_row;
    AMX_LOAD(6, b, 4 * NR);
    AMX_LOAD(7, b + 64, 4 * NR);
    for (int part = PARTS - 1; part >= 0; part--) { /* with bh: al, am, ah */
        AMX_PASS(4, a + (size_t)part * a_part, a_row);
        BOTH_COLUMNS(4, 0, 1);
        if (high) {
            AMX_PASS(5, a1 + (size_t)part * a_part, a_row);
            BOTH_COLUMNS(5, 2, 3);
        }
        split_some(s, some);
    }
    for (int part = 2; part >= 1; part--) { /* ah with bl, then bm */
        AMX_LOAD(6, b + (size_t)part * PIECE * 4, 4 * NR);
        AMX_LOAD(7, b + (size_t)part * PIECE * 4 + 64, 4 * NR);
        BOTH_COLUMNS(4, 0, 1);
        if (high) {
            BOTH_COLUMNS(5, 2, 3);
        }
        split_some(s, some);
    }
    AMX_PASS(4, a + a_part, a_row); /* am with bm */
    BOTH_COLUMNS(4, 0, 1);
    if (high) {
        AMX_PASS(5, a1 + a_part, a_row);
        BOTH_COLUMNS(5, 2, 3);
    }
}

static inline __attribute__((always_inline)) void amx_steps(const struct amx_tile *t, struct amx_waiting *w,
                                                            bool high, __attribute__((unused)) bool few)
{
    const size_t steps = t->lanes / AMX_LANES, some = steps ? ((w->rows - w->r) / steps + 4) / 4 * 4 : 0;
    const size_t tiles = (AMX_LANES * AMX_B_ROW / 64 + t->ahead_lines - 1) / t->ahead_lines;
    const size_t pairs = (AMX_LANES + 5 * tiles - 1) / (5 * tiles);
    const char *a = t->a, *b = t->b;
    for (size_t i = 0; i < steps; i++, a += 4 * AMX_LANES, b += 4 * AMX_LANES * NR) {
        split_step(a, b, t->a_row, t->a_part, high, t->split, pairs);
        if (w->r < w->rows)
            amx_finish(w, some);
    }
}

static void amx_done(const struct product *p, const struct part *part, const void *tile, size_t r0, size_t h,
                     size_t j)
{
    const size_t left = p->n - j * NR;
    store_tile(p, tile, h, NR, part->i0 + r0, j * NR, left < NR ? left : NR, true, part->k0 + part->kc == p->k);
}

/* Rows [i0, i0 + rows), k in [k0, k0 + kc), panels [j0, j1). */
static void split_block(struct split *s, uint32_t *buf, size_t i0, size_t rows, size_t k0, size_t kc, size_t j0,
                        size_t j1)
{
    const struct product *p = s->p;
    const size_t lanes = (kc + 2 * AMX_LANES - 1) / (2 * AMX_LANES) * AMX_LANES;
    const size_t row = amx_copy_ld(PARTS * lanes);
    const struct part part = {.i0 = i0, .k0 = k0, .kc = kc};
    const struct amx_block x = {.p = p,
                                .part = &part,
                                .a = (const char *)buf,
                                .a_row = row * sizeof *buf,
                                .rows = rows,
                                .lanes = lanes,
                                .b = (const char *)(p->b + k0 * NR),
                                .panel = p->b_next * sizeof *p->b,
                                .c = (char *)(p->c + i0 * p->ldc),
                                .c_row = p->ldc * sizeof *p->c,
                                .n = p->n,
                                .first = k0 == 0,
                                .last = k0 + kc == p->k,
                                .plain = !p->ep,
                                .split = s};
    float gathered[MOST_K];
    vf odd = v_zero();
    for (size_t r = 0; r < rows; r++) {
        const float *a = p->gather ? gathered : p->a + (i0 + r) * p->a_row + k0;
        if (p->gather)
            p->gather(p, gathered, i0 + r, 1, k0, kc);
        odd = split_row(buf + r * row, a, kc, lanes, odd);
    }
    s->odd_a |= is_odd(odd);
    s->k = kc;
    s->odd = v_zero();
    amx_block(&x, j0, j1);
    s->odd_b |= is_odd(s->odd);
}

static bool any_odd(const float *x, size_t n)
{
    vf odd = v_zero();
    for (size_t i = 0; i < n; i += VL) {
        struct rest v = {v_load_m(x + i, v_tail(n - i < VL ? n - i : VL)), v_zero()};
        for (int part = 0; part < PARTS; part++)
            split_off(&v, part);
        odd = note_odd(odd, &v);
    }
    return is_odd(odd);
}

static bool odd_row(const struct product *p, size_t i)
{
    float gathered[KC];
    bool odd = false;
    for (size_t k0 = 0, n; k0 < p->k; k0 += n) {
        n = p->k - k0 < KC ? p->k - k0 : KC;
        if (p->gather)
            p->gather(p, gathered, i, 1, k0, n);
        odd |= any_odd(p->gather ? gathered : p->a + i * p->a_row + k0, n);
    }
    return odd;
}

/* Rows [i0, i1), panels [j0, j1). */
static void split_multiply(const struct product *p, size_t i0, size_t i1, size_t j0, size_t j1)
{
    alignas(64) uint32_t buf[ROOM];
    struct split s;
    const size_t lanes = (p->k + 2 * AMX_LANES - 1) / (2 * AMX_LANES) * AMX_LANES;
    const size_t deep = 2 * amx_depth(lanes, i1 - i0, ROOM, PARTS);
    if (i0 >= i1 || j0 >= j1)
        return;
    if (!p->k) {
        multiply(p, i0, i1, j0, j1);
        return;
    }
    s.p = p;
    s.odd_a = s.odd_b = false;
    s.turn = 0;
    for (size_t k0 = 0; k0 < p->k; k0 += deep)
        for (size_t i = i0; i < i1; i += AMX_MOST)
            split_block(&s, buf, i, i1 - i < AMX_MOST ? i1 - i : AMX_MOST, k0, p->k - k0 < deep ? p->k - k0 : deep,
                        j0, j1);
    for (size_t j = j0; s.odd_b && j < j1; j++)
        if (any_odd(p->b + j * p->b_next, p->k * NR))
            multiply(p, i0, i1, j, j + 1);
    for (size_t i = i0; s.odd_a && i < i1; i++)
        if (odd_row(p, i))
            multiply(p, i, i + 1, j0, j1);
}

static void split_part(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *packed, float *c,
                       size_t ldc, const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    const size_t np = panels(n);
    const bool by_rows = n_parts > 1 && m >= 3 * AMX_HIGH * n_parts; /* they stay where they are made */
    BEGIN(m);
    if (by_rows)
        split_multiply(&p, amx_first_row(m, part, n_parts), amx_first_row(m, part + 1, n_parts), 0, np);
    else
        split_multiply(&p, 0, m, np * part / n_parts, np * (part + 1) / n_parts);
    END();
}

static void split_conv(const struct steno_conv *s, const float *x, const void *packed, float *y,
                       const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const size_t pixels = s->out[0] * s->out[1], np = panels(s->c_out);
    const bool by_rows = pixels >= 4 * AMX_HIGH * n_parts;
    struct product p = product_of(s->c_out, s->kernel[0] * s->kernel[1] * s->c_in, x, 0, packed, y, s->c_out, ep);
    p.gather = gather_patches;
    p.image = s;
    BEGIN(pixels);
    if (by_rows)
        split_multiply(&p, pixels * part / n_parts, pixels * (part + 1) / n_parts, 0, np);
    else
        split_multiply(&p, 0, pixels, np * part / n_parts, np * (part + 1) / n_parts);
    END();
}

void steno_kernels_gemm_f32__amx(steno_kernels *k)
{
    k->gemm_f32_many_part = split_part;
    k->conv_nhwc_f32_many = split_conv;
}
