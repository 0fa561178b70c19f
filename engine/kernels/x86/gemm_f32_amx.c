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
 * once for all rows of a block, and of up to 48 rows a step at a time, between the products of the step before. A
 * single row is a third slower than by the plain kernel where weights come from memory, four times where they
 * are in L2: hence slots of their own, and the network chooses (ops/weights.h). */
#include "kernels/x86/amx.h"
#include "kernels/x86/vec_avx512.h"

/* A line, and another one later from memory. */
#define GEMM_PACED(p, ahead) paced_line(p, (p) + (ahead))
static inline __attribute__((always_inline)) vf paced_line(const float *p, const float *later)
{
    vf v;
    __builtin_prefetch(later, 0, 2);
    __asm__ volatile("vmovups %1, %0" : "=v"(v) : "m"(*(const vf *)p));
    AMX_PACE(4);
    return v;
}

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
    FEW = 3 * AMX_ROWS,    /* rows whose sums stay in registers */
    STEP = 2 * AMX_LANES,  /* rows of B that they take at a time */
    STEP_PART = AMX_LANES * NR + 16, /* lanes of one part of a step of few rows */
    PAGE = 4096,
    CLOSER = 768 /* bytes before their use that weights are called into L1 */
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

/* Two times VL numbers of a row of A to pairs of each part, `lanes` apart. */
static inline __attribute__((always_inline)) vf split_some_a(uint32_t *to, size_t lanes, struct rest v, vf odd)
{
    static const uint16_t high[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                      33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i order = _mm512_loadu_si512(high);
#pragma GCC unroll 3
    for (int part = 0; part < PARTS; part++) {
        const struct rest f = split_off(&v, part);
        _mm512_storeu_si512(to + (size_t)part * lanes,
                            _mm512_permutex2var_epi16((__m512i)f.v0, order, (__m512i)f.v1));
    }
    return note_odd(odd, &v);
}

/* n numbers of a row of A to `lanes` pairs of each part, filled up with zeros; notes odd ones. Calls as many from
 * `later` on closer. */
static vf split_row(uint32_t *to, const float *x, size_t n, size_t lanes, vf odd, const float *later)
{
    size_t u = 0;
    for (; 2 * u + 2 * VL <= n; u += VL, later += 2 * VL) {
        __builtin_prefetch(later, 0, 3);
        __builtin_prefetch(later + VL, 0, 3);
        odd = split_some_a(to + u, lanes, (struct rest){v_load(x + 2 * u), v_load(x + 2 * u + VL)}, odd);
    }
    for (; u < lanes; u += VL) {
        const size_t at = 2 * u, left = at < n ? n - at : 0;
        struct rest v = {v_load_m(x + (left ? at : 0), v_tail(left < VL ? left : VL)), v_zero()};
        if (left > VL)
            v.v1 = v_load_m(x + at + VL, v_tail(left - VL));
        odd = split_some_a(to + u, lanes, v, odd);
    }
    return odd;
}

/* VL columns of a part of rows k and k + 1, a pair each. */
static inline __attribute__((always_inline)) void put_pairs(uint32_t *to, struct rest f)
{
    const __m512i low = _mm512_srli_epi32((__m512i)f.v0, 16);
    _mm512_storeu_si512(to, _mm512_mask_mov_epi16(low, 0xaaaaaaaa, (__m512i)f.v1));
}

/* Rows k and k + 1 of a panel, in the order of memory. */
struct lines {
    vf v[4];
};

/* Line i of the pair at b, and calls a later one closer. Memory gives 20 GB/s (Granite Rapids, one core) where its
 * lines are asked for in their order and evenly, with some work between two of them, and 13 to 15 in bursts of four
 * or with the second and third exchanged: hence asm, which the compiler leaves in its place. */
static inline __attribute__((always_inline)) vf line_of(const float *b, int i)
{
    vf v;
    __builtin_prefetch(b + i * VL + CLOSER / sizeof *b, 0, 3);
    __asm__ volatile("vmovups %1, %0" : "=v"(v) : "m"(*(const vf *)(b + i * VL)) : "memory");
    return v;
}

static inline __attribute__((always_inline)) struct lines lines_of(const float *b)
{
    return (struct lines){{line_of(b, 0), line_of(b, 1), line_of(b, 2), line_of(b, 3)}};
}

/* The pair x to its parts, `part` lanes apart; then x is the pair at next. The CPU by itself fetches ahead within a
 * page of 4 KiB, so half of the lines of the page after the next are called into L2, two for each pair. */
static inline __attribute__((always_inline)) vf split_pair(uint32_t *to, size_t part, struct lines *x,
                                                           const float *next, vf odd)
{
    const size_t at = (size_t)(const void *)next % PAGE, far = 2 * PAGE - at + at / 256 * 128;
    struct lines y = *x;
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        struct rest v = {x->v[half], x->v[half + 2]};
        put_pairs(to + half * VL, split_off(&v, 0));
        y.v[2 * half] = line_of(next, 2 * half);
        put_pairs(to + half * VL + part, split_off(&v, 1));
        put_pairs(to + half * VL + 2 * part, split_off(&v, 2));
        odd = note_odd(odd, &v);
        y.v[2 * half + 1] = line_of(next, 2 * half + 1);
    }
    __builtin_prefetch((const char *)next + far, 0, 2);
    __builtin_prefetch((const char *)next + far + 64, 0, 2);
    *x = y;
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
    size_t part;       /* lanes from a part of it to the next */
    size_t pairs;      /* left of it */
    int turn;
    vf odd;
    struct lines x; /* the pair at b, where there is one */
    alignas(64) uint32_t piece[2][PARTS * PIECE];
};

/* n more pairs of the piece under way. A function of its own, whose constants stay in registers. */
static __attribute__((noinline)) void split_pairs(struct split *s, size_t n)
{
    const float *b = s->b;
    uint32_t *to = s->to;
    size_t left = s->left;
    vf odd = s->odd;
    s->pairs -= n;
    struct lines x = s->x;
    for (; n && left >= 2; n--, left -= 2, b += 2 * NR, to += NR)
        odd = split_pair(to, s->part, &x, left >= 4 ? b + 2 * NR : b, odd);
    s->x = x;
    for (; n; n--, left = 0, b += 2 * NR, to += NR) /* the last k of an odd number, then nothing */
        for (size_t i = 0; i < NR; i += VL) {
            struct rest v = {left ? v_load(b + i) : v_zero(), v_zero()};
            for (int part = 0; part < PARTS; part++)
                put_pairs(to + i + (size_t)part * s->part, split_off(&v, part));
            odd = note_odd(odd, &v);
        }
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

/* `pairs` of B from b on, of whose rows `left` are there, to parts at `to`, `part` lanes apart. */
static void split_begin(struct split *s, const float *b, size_t left, size_t pairs, uint32_t *to, size_t part)
{
    s->b = b;
    s->left = left;
    s->pairs = pairs;
    s->to = to;
    s->part = part;
    if (left >= 2)
        s->x = lines_of(b);
}

static void amx_split_begin(const struct amx_block *x, const struct amx_piece *y)
{
    struct split *s = x->split;
    s->turn ^= 1;
    split_begin(s, (const float *)(const void *)y->b, 2 * y->u0 < s->k ? s->k - 2 * y->u0 : 0, y->u1 - y->u0,
                s->piece[s->turn], PIECE);
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

/* Parts of A to registers 4 and 5, of B to 6 and 7, and their products. */
#define PART_OF_A(load, a, a_row, high)                                                            \
    do {                                                                                           \
        load(4, a, a_row);                                                                         \
        if (high)                                                                                  \
            load(5, (a) + AMX_ROWS * (a_row), a_row);                                              \
    } while (0)
#define PART_OF_B(b)                                                                               \
    do {                                                                                           \
        AMX_LOAD(6, b, 4 * NR);                                                                    \
        AMX_LOAD(7, (b) + VL, 4 * NR);                                                             \
    } while (0)
#define PRODUCTS(high)                                                                             \
    do {                                                                                           \
        BOTH_COLUMNS(4, 0, 1);                                                                     \
        if (high) {                                                                                \
            BOTH_COLUMNS(5, 2, 3);                                                                 \
        }                                                                                          \
    } while (0)

/* The six products of 16 pairs, with meanwhile(i) after number i; a_part in bytes, b_part in lanes. Each part of A is
 * loaded once, as it may come from L2, where that of B is in L1. */
#define SIX_PRODUCTS(load, a, a_row, a_part, b, b_part, high, meanwhile)                           \
    do {                                                                                           \
        PART_OF_B(b); /* bh: al, am */                                                             \
        PART_OF_A(load, (a) + 2 * (a_part), a_row, high);                                          \
        PRODUCTS(high);                                                                            \
        meanwhile(0);                                                                              \
        PART_OF_A(load, (a) + (a_part), a_row, high);                                              \
        PRODUCTS(high);                                                                            \
        meanwhile(1);                                                                              \
        PART_OF_B((b) + (b_part)); /* bm: am, ah */                                                \
        PRODUCTS(high);                                                                            \
        meanwhile(2);                                                                              \
        PART_OF_A(load, a, a_row, high);                                                           \
        PRODUCTS(high);                                                                            \
        meanwhile(3);                                                                              \
        PART_OF_B((b) + 2 * (b_part)); /* ah: bl, bh */                                            \
        PRODUCTS(high);                                                                            \
        meanwhile(4);                                                                              \
        PART_OF_B(b);                                                                              \
        PRODUCTS(high);                                                                            \
        meanwhile(5);                                                                              \
    } while (0)

/* The same of 33 to 48 rows and half of the columns, in the same order. Sums take six registers, these three of them,
 * and one is left for A and one for B. */
#define THREE_OF(part, a_row, c0, c1, c2)                                                          \
    do {                                                                                           \
        AMX_LOAD(6, part, a_row);                                                                  \
        AMX_DOT(c0, 6, 7);                                                                         \
        AMX_LOAD(6, (part) + AMX_ROWS * (a_row), a_row);                                           \
        AMX_DOT(c1, 6, 7);                                                                         \
        AMX_LOAD(6, (part) + 2 * AMX_ROWS * (a_row), a_row);                                       \
        AMX_DOT(c2, 6, 7);                                                                         \
    } while (0)
#define SIX_PRODUCTS_OF_THREE(a, a_row, a_part, b, b_part, c0, c1, c2, meanwhile, i)               \
    do {                                                                                           \
        AMX_LOAD(7, b, 4 * NR); /* bh: al, am */                                                   \
        THREE_OF((a) + 2 * (a_part), a_row, c0, c1, c2);                                           \
        meanwhile(i);                                                                              \
        THREE_OF((a) + (a_part), a_row, c0, c1, c2);                                               \
        meanwhile((i) + 1);                                                                        \
        AMX_LOAD(7, (b) + (b_part), 4 * NR); /* bm: am, ah */                                      \
        THREE_OF((a) + (a_part), a_row, c0, c1, c2);                                               \
        meanwhile((i) + 2);                                                                        \
        THREE_OF(a, a_row, c0, c1, c2);                                                            \
        meanwhile((i) + 3);                                                                        \
        AMX_LOAD(7, (b) + 2 * (b_part), 4 * NR); /* ah: bl, bh */                                  \
        THREE_OF(a, a_row, c0, c1, c2);                                                            \
        meanwhile((i) + 4);                                                                        \
        AMX_LOAD(7, b, 4 * NR);                                                                    \
        THREE_OF(a, a_row, c0, c1, c2);                                                            \
        meanwhile((i) + 5);                                                                        \
    } while (0)

static inline __attribute__((always_inline)) void amx_steps(const struct amx_tile *t, struct amx_waiting *w,
                                                            bool high, __attribute__((unused)) bool few)
{
    const size_t steps = t->lanes / AMX_LANES, some = amx_share(w, steps);
    const size_t tiles = (AMX_LANES * AMX_B_ROW / 64 + t->ahead_lines - 1) / t->ahead_lines;
    /* of many tiles all take a share: split at once it would wait for L2 beside the first of them */
    const size_t every = tiles > 3 ? 3 : 1, turns = 6 / every * tiles, pairs = (AMX_LANES + turns - 1) / turns;
    const char *a = t->a;
    const uint32_t *b = t->b;
#define SPLIT_SOME(i)                                                                              \
    do {                                                                                           \
        if ((i) % every == 0)                                                                      \
            split_some(t->split, pairs);                                                           \
    } while (0)
    for (size_t i = 0; i < steps; i++, a += 4 * AMX_LANES, b += AMX_LANES * NR) {
        SIX_PRODUCTS(AMX_PASS, a, t->a_row, t->a_part, b, PIECE, high, SPLIT_SOME);
        if (w->r < w->rows)
            amx_finish(w, some);
    }
}

/* ---- up to 48 rows ---- whose sums stay in registers for all of K, while the next step is split between the products
 * of this one: either takes half of the time that memory takes for a step. */

/* What is split meanwhile: 16 pairs from b on, x the first of them and then that at `after`. */
struct next_step {
    uint32_t *to;
    const float *b, *after;
    struct lines x;
    vf odd;
};

/* Pairs [at, at + n) of the 16. */
static inline __attribute__((always_inline)) void split_next(struct next_step *s, int at, int n)
{
#pragma GCC unroll 4
    for (int i = at; i < at + n; i++)
        s->odd = split_pair(s->to + i * NR, STEP_PART, &s->x, i + 1 < AMX_LANES ? s->b + (i + 1) * 2 * NR : s->after,
                            s->odd);
}

/* The six products of a step, and all of the next one's splitting if there is more. */
static inline __attribute__((always_inline)) void few_step(const char *a, const uint32_t *b, size_t a_row,
                                                           size_t a_part, int tiles, bool more,
                                                           struct next_step *next)
{
#define SPLIT_NEXT(i)                                                                              \
    if (more)                                                                                      \
    split_next(next, (i) < 4 ? 3 * (i) : 2 * (i) + 4, (i) < 4 ? 3 : 2)
#define SPLIT_NEXT_OF_TWELVE(i)                                                                    \
    if (more)                                                                                      \
    split_next(next, AMX_LANES * (i) / 12, AMX_LANES * ((i) + 1) / 12 - AMX_LANES * (i) / 12)
    if (tiles == 3) {
        SIX_PRODUCTS_OF_THREE(a, a_row, a_part, b, STEP_PART, 0, 2, 4, SPLIT_NEXT_OF_TWELVE, 0);
        SIX_PRODUCTS_OF_THREE(a, a_row, a_part, b + VL, STEP_PART, 1, 3, 5, SPLIT_NEXT_OF_TWELVE, 6);
    } else
        SIX_PRODUCTS(AMX_LOAD, a, a_row, a_part, b, STEP_PART, tiles == 2, SPLIT_NEXT);
}

static void amx_done(const struct product *p, const struct part *part, const void *tile, size_t r0, size_t h,
                     size_t j)
{
    const size_t left = p->n - j * NR;
    store_tile(p, tile, h, NR, part->i0 + r0, j * NR, left < NR ? left : NR, true, part->k0 + part->kc == p->k);
}

/* Step i of panel j. */
struct few_at {
    size_t j, i;
    const float *b;
    size_t rows; /* of B; 0: there is none */
};

static struct few_at few_at(const struct amx_block *x, size_t j, size_t i, size_t j1)
{
    const float *b = (const float *)(const void *)(x->b + j * x->panel) + i * STEP * NR;
    const size_t left = x->split->k - i * STEP;
    return (struct few_at){j, i, b, j == j1 ? 0 : left < STEP ? left : STEP};
}

static struct few_at few_after(const struct amx_block *x, const struct few_at *at, size_t j1)
{
    if ((at->i + 1) * AMX_LANES < x->lanes)
        return few_at(x, at->j, at->i + 1, j1);
    return few_at(x, at->j + (at->j < j1), 0, j1);
}

static void few_split(struct split *s, const struct few_at *at, uint32_t *to)
{
    split_begin(s, at->b, at->rows, AMX_LANES, to, STEP_PART);
    split_pairs(s, AMX_LANES);
}

static void few_begin(const struct amx_block *x, size_t j, int32_t *sums, int tiles)
{
    if (x->first) {
        amx_zero_sums();
        if (tiles == 3) {
            AMX_ZERO(4);
            AMX_ZERO(5);
        }
        return;
    }
    amx_fetch(x, 0, x->rows, j, sums);
    amx_load_sums(sums, 4 * NR, tiles > 1);
    if (tiles == 3) {
        AMX_LOAD(4, sums + AMX_HIGH * NR, 4 * NR);
        AMX_LOAD(5, sums + AMX_HIGH * NR + VL, 4 * NR);
    }
}

static void few_end(const struct amx_block *x, size_t j, int32_t *sums, int tiles)
{
    amx_store_sums(sums, 4 * NR, tiles > 1);
    if (tiles == 3) {
        AMX_STORE(4, sums + AMX_HIGH * NR, 4 * NR);
        AMX_STORE(5, sums + AMX_HIGH * NR + VL, 4 * NR);
    }
    amx_done(x->p, x->part, sums, 0, x->rows, j);
}

/* amx_block for up to `tiles` times 16 rows. */
static inline __attribute__((always_inline)) void few_block(const struct amx_block *x, size_t j0, size_t j1, int tiles)
{
    alignas(64) int32_t sums[FEW * NR] = {0};
    alignas(64) uint32_t parts[2][PARTS * STEP_PART];
    const size_t a_part = x->lanes * 4;
    struct few_at at = few_at(x, j0, 0, j1), next = few_after(x, &at, j1);
    struct next_step n = {.odd = v_zero()};
    bool begun = false; /* x of n is there */
    few_split(x->split, &at, parts[0]);
    for (int turn = 0; at.rows; turn ^= 1) {
        const struct few_at after = few_after(x, &next, j1);
        const char *a = x->a + at.i * 4 * AMX_LANES;
        if (!at.i)
            few_begin(x, at.j, sums, tiles);
        n.to = parts[turn ^ 1];
        n.b = next.b;
        if (next.rows == STEP) {
            if (!begun)
                n.x = lines_of(next.b);
            begun = after.rows == STEP;
            n.after = begun ? after.b : next.b;
            few_step(a, parts[turn], x->a_row, a_part, tiles, true, &n);
        } else {
            begun = false;
            few_step(a, parts[turn], x->a_row, a_part, tiles, false, &n);
            if (next.rows)
                few_split(x->split, &next, n.to);
        }
        if (next.j != at.j)
            few_end(x, at.j, sums, tiles);
        at = next;
        next = after;
    }
    x->split->odd = v_fma(n.odd, v_set1(1), x->split->odd);
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
        const float *later = row_in_place(p, i0 + (r + 2 < rows ? r + 2 : r), k0, kc);
        odd = split_row(buf + r * row, row_of(p, gathered, i0 + r, k0, kc), kc, lanes, odd, later ? later : gathered);
    }
    s->odd_a |= is_odd(odd);
    s->k = kc;
    s->odd = v_zero();
    if (rows <= AMX_ROWS)
        few_block(&x, j0, j1, 1);
    else if (rows <= AMX_HIGH)
        few_block(&x, j0, j1, 2);
    else if (rows <= FEW)
        few_block(&x, j0, j1, 3);
    else
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
        odd |= any_odd(row_of(p, gathered, i, k0, n), n);
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
    s.x = (struct lines){{v_zero(), v_zero(), v_zero(), v_zero()}};
    for (size_t k0 = 0; k0 < p->k; k0 += deep)
        for (size_t i = i0, rows; i < i1; i += rows) {
            rows = amx_rows_of(i1 - i);
            split_block(&s, buf, i, rows, k0, p->k - k0 < deep ? p->k - k0 : deep, j0, j1);
        }
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

/* The plain product, which asks for weights as memory likes it here. */
static void plain(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *packed, float *c, size_t ldc,
                  const struct steno_gemm_epilogue *ep)
{
    const struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    multiply(&p, 0, m, 0, panels(n));
}

static void plain_part(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *packed, float *c,
                       size_t ldc, const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const struct product p = product_of(n, k, a, lda, packed, c, ldc, ep);
    multiply_part(&p, m, part, n_parts);
}

static void split_conv(const struct steno_conv *s, const float *x, const void *packed, float *y,
                       const struct steno_gemm_epilogue *ep, size_t part, size_t n_parts)
{
    const size_t pixels = s->out[0] * s->out[1], np = panels(s->c_out);
    const bool by_rows = pixels >= 4 * AMX_HIGH * n_parts;
    struct product p = product_of(s->c_out, s->kernel[0] * s->kernel[1] * s->c_in, x, 0, packed, y, s->c_out, ep);
    p.gather = gather_patches;
    p.in_place = patch_in_place;
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
    k->gemm_f32_packed = plain;
    k->gemm_f32_packed_part = plain_part;
    k->gemm_f32_many_part = split_part;
    k->conv_nhwc_f32_many = split_conv;
}
