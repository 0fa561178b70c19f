/* The 8-bit product (kernels.h, struct steno_gemm_i8) for one vector width and one instruction.
 *
 * Included after vec_<isa>.h, vec_i32_<isa>.h and the definitions that differ:
 *   KG    values of k per 32-bit lane: 4 with vpdpbusd (u8 x s8 summed in i32, no saturation), 2
 *         with products of bytes widened to 16 bits
 *   SUMS_16   dot sums two products of u8 and s8 in 16 bits (vpmaddubsw): see below
 *   A_U8, A_S8   the instruction needs A unsigned (or signed): the other kind is shifted by 128.
 *   weights(p), dot(acc, a, b)
 *
 * SUMS_16: B is stored raised by 128, as u8. Each row of A is lowered by about its mean, so that
 * most numbers are small: to s8, where the numbers above 0 of a pair sum up to no more than 127,
 * and those below to no less than -128. Then no sum of two products exceeds 16 bits. What a number
 * of A gives up for that is its rest. Few numbers have one (0.5 % in Whisper's encoder), so
 * their products are added one by one after the tile. Sums start with -128 times the sum of the
 * row, because B is raised. 36 operations of AVX2 make 384 products; with B widened they are 50.
 *
 * Packed B: header, then [NP] column sums of the values less their zero points, then panels of NR =
 * 2 VL columns, each [K / KG][NR][KG] of i8 (u8 shifted by 128), zero beyond K and N, then [NP]
 * zero points, which are mostly 0 and then not read. NP is the number of columns of whole panels.
 * Modulo 2^32:
 *     sum (a - za)(b - zb) = sum a b - za * sum (b - zb) - zb * sum a
 * So the inner loop knows no zero points, and sums of rows of A are computed only where a zb is not
 * 0.
 *
 * Register tiles, the division of M, several panels at a time for few rows, and rows of A copied to
 * the stack with a fixed stride are as in gemm_tmpl.h, for the same reasons. A lane of KG bytes
 * takes the place of a float there, so a block of KU lanes has the same size. Blocks of K longer
 * than that leave their sums in C, which has 32-bit elements in both cases. */
#ifndef A_U8
#define A_U8 0
#endif
#ifndef A_S8
#define A_S8 0
#endif
#ifndef BEGIN /* before and after the work of a call with that many rows */
#define BEGIN(rows) ((void)0)
#define END() ((void)0)
#endif
#include "nn/kernels/internal.h"

#include "nn/kernels/tmpl/math_tmpl.h"

#include "nn/kernels/tmpl/approx_tmpl.h"
#include "nn/kernels/tmpl/prefetch.h"

#include <stdalign.h>
#include <string.h>

enum {
    NR = 2 * VL,
#ifdef AMX_DOT
    MR = 32,
    ROWS_OF_PART = 96, /* from this number on, parts divide the rows */
    MC = 512, /* maximum of rows; reading a panel from L3 takes as long as its product with 200
               * rows */
    KU_STEP = AMX_LANES, /* panels are padded to a multiple of this many lanes */
    A_ROOM = MC * 528,   /* lanes of the copy of A: 1 MiB of L2, 512 lanes of most rows */
#else
    MR = VL == 16  ? 14
         : VL == 4 ? 8
                   : 6,
    MC = VL == 8 ? 48
                 : 126, /* rows of A copied at a time: a multiple of MR; 200 to 260 KiB, in L2 */
    KU_STEP = 1,
#ifdef SUMS_16
    KU = 512,       /* lanes of K in a block; rests of all its numbers fit on the stack */
#else
    KU = VL == 8 ? 1024
                 : 512, /* lanes of K in a block: 2048 bytes; 4096 of avxvnni or 1024 of NEON */
#endif
    A_LD = KU + 16, /* row stride of the copy, lanes */
    A_ROOM = MC * A_LD,
#endif
    LANE_ROW = NR * KG,       /* bytes of one lane of K in a panel */
    STEPS = VL == 16 ? 1 : 4, /* lanes of K per step of the inner loop */
    PREFETCHERS = LANE_ROW * STEPS < 128
                      ? 1
                      : LANE_ROW * STEPS / 64, /* tiles that together prefetch the next panel */
    L1_DISTANCE = 8, /* prefetch distance in lanes into L1, for weights of several tiles, which are
                      * in L2 by then */
    L2_DISTANCE =
        VL == 8 ? 2048 : 8192,  /* prefetch distance in bytes for weights of a single tile */
    L2_DISTANCE_FEW = 2048,     /* the same for one or two rows */
    STREAM_DISTANCE = 16384,    /* the same into L1, for a tile that reads STREAM */
    STREAM_DISTANCE_ONE = 12288 /* the same for a single row */
};

struct head {         /* 64 bytes */
    int32_t any_zero; /* some zero point is not 0 */
    int32_t unused[15];
};

#ifdef SUMS_16
enum {
    START = A_LD - 1, /* the lane of a copied row that its sums start with */
    LIFT = 128,       /* what B is raised by */
    PAIR_RESTS = 3,   /* most of a pair: a number may lack 64, the other one 64 and 127 */
};
/* Byte shift / 8 of a lane of a copied row lacks d. */
struct rest {
    uint16_t lane;
    uint8_t shift;
    int8_t d;
};
#else
enum { LIFT = 0 };
#endif

typedef void micro_fn(size_t ku, const int32_t *a, const int8_t *b, size_t b_next,
                      const int8_t *prefetch, int32_t *tile);

#ifndef AMX_DOT
/* acc += a lane of A of each row times a lane of B, w vectors wide. A tile that alone reads B
 * prefetches all of it, L2_DISTANCE bytes before its use. With two rows and more, computing takes
 * as long as reading memory, and without prefetching the CPU would do one after the other. A single
 * row computes for less time (as do two rows with eight lanes). With eight lanes the CPU has time
 * to fetch B from L2 into L1 by itself. */
static inline __attribute__((always_inline)) void micro_step(enum reads reads, int mr, int w,
                                                             const int32_t *a, const int8_t *b,
                                                             size_t b_next, vi *acc)
{
    vi bv[8];
    for (int i = 0; i < LANE_ROW; i += 64)
        if (reads == STREAM)
            __builtin_prefetch(b + STREAM_DISTANCE + i, 0, 3);
        else if (reads == ALONE)
            __builtin_prefetch(b + (mr < 3 ? L2_DISTANCE_FEW : L2_DISTANCE) + i, 0, 2);
        else if (VL != 8)
            __builtin_prefetch(b + L1_DISTANCE * LANE_ROW + i, 0, 3);
#pragma GCC unroll 8
    for (int j = 0; j < w; j++)
        bv[j] = weights(b + (size_t)(j / 2) * b_next + (size_t)(j % 2) * VL * KG);
#pragma GCC unroll 14
    for (int r = 0; r < mr; r++) {
        vi av = vi_set1(a[(size_t)r * A_LD]);
#pragma GCC unroll 8
        for (int j = 0; j < w; j++) {
            acc[r * w + j] = dot(acc[r * w + j], av, bv[j]);
            if (STEPS > 1) /* another order of sums needs more registers */
                __asm__("" : "+" V_REGISTER(acc[r * w + j]));
        }
    }
}

/* tile [mr][panels * NR] = A [mr][ku] * B, panels b_next bytes apart. Meanwhile it prefetches ku /
 * STEPS cache lines from `prefetch` on into L2. */
static inline __attribute__((always_inline)) void micro(enum reads reads, int mr, int panels,
                                                        size_t ku, const int32_t *a,
                                                        const int8_t *b, size_t b_next,
                                                        const int8_t *prefetch, int32_t *tile)
{
    vi acc[MR * 2];
    const int w = 2 * panels;
    size_t u = 0;
#pragma GCC unroll 28
    for (int i = 0; i < mr * w; i++)
#ifdef SUMS_16
        acc[i] = vi_set1(a[(size_t)(i / w) * A_LD + START]);
#else
        acc[i] = vi_zero();
#endif
    for (; u + STEPS <= ku; u += STEPS, a += STEPS, b += STEPS * LANE_ROW, prefetch += 64) {
        prefetch_next(reads, prefetch);
#pragma GCC unroll 4
        for (size_t x = 0; x < STEPS; x++)
            micro_step(reads, mr, w, a + x, b + x * LANE_ROW, b_next, acc);
    }
    for (; STEPS > 1 && u < ku; u++, a++, b += LANE_ROW)
        micro_step(reads, mr, w, a, b, b_next, acc);
#pragma GCC unroll 28
    for (int i = 0; i < mr * w; i++)
        vi_store(tile + (size_t)i * VL, acc[i]);
}

#define MICRO(name, reads, mr, panels)                                                             \
    static void name##_##mr##x##panels(size_t ku, const int32_t *a, const int8_t *b,               \
                                       size_t b_next, const int8_t *prefetch, int32_t *tile)       \
    {                                                                                              \
        micro(reads, mr, panels, ku, a, b, b_next, prefetch, tile);                                \
    }
MICRO(micro, SHARED, 1, 4)
#if VL < 16
MICRO(micro, SHARED, 2, 2)
#endif
#include "nn/kernels/tmpl/tiles_tmpl.h"

/* The kernel for a tile of `rows` rows that alone reads B, with `left` panels left. *panels: how
 * many panels it takes at once. It takes several where one alone has too few sums to hide the
 * latency of a product. Two rows of wide vectors have enough sums, and one panel at a time reads
 * weights from memory as one stream. */
static micro_fn *few_of(size_t rows, size_t left, bool streams, size_t *panels)
{
    *panels = rows == 1 ? 4 : rows == 2 && VL < 16 ? 2 : 1;
    if (left < *panels)
        *panels = 1;
#if VL < 16
    if (*panels == 2)
        return micro_2x2;
#endif
    return *panels == 4 ? micro_1x4 : streams ? stream_by_rows[rows] : few_by_rows[rows];
}
#endif

/* ---- packed weights ---- */

static size_t panels_of(size_t n)
{
    return (n + NR - 1) / NR;
}

static size_t lanes_of(size_t k)
{
    return (k + KU_STEP * KG - 1) / (KU_STEP * KG) * KU_STEP;
}

static size_t V_NAME(gemm_i8_packed_bytes)(size_t k, size_t n)
{
    return sizeof(struct head) + panels_of(n) * (2 * NR * sizeof(int32_t) + lanes_of(k) * LANE_ROW);
}

/* The parts of a packed B. */
struct packed {
    const struct head *head;
    const int32_t *sum, *zero; /* [NP] */
    const int8_t *panels;
    size_t panel; /* bytes of a panel */
};

static struct packed open_packed(const void *data, size_t k, size_t n)
{
    struct packed p;
    p.head = data;
    p.sum = (const int32_t *)(p.head + 1);
    p.panels = (const int8_t *)(p.sum + panels_of(n) * NR);
    p.panel = lanes_of(k) * LANE_ROW;
    p.zero = (const int32_t *)(const void *)(p.panels + panels_of(n) * p.panel);
    return p;
}

/* Pack columns [j, j + cols) into the panel at dst and add their sums to sum. */
static void pack_panel(int8_t *dst, int32_t *sum, const struct steno_weights_i8 *w, size_t j,
                       size_t cols)
{
    const uint8_t flip = w->is_signed ? 0 : 0x80;
    const uint8_t *b = (const uint8_t *)w->b + j * (w->trans ? w->ldb : 1);
    const size_t down = w->trans ? 1 : w->ldb, along = w->trans ? w->ldb : 1;
    memset(dst, 0, lanes_of(w->k) * LANE_ROW);
    for (size_t k = 0; k < w->k; k++) {
        int8_t *to = dst + k / KG * LANE_ROW + k % KG;
        for (size_t x = 0; x < cols; x++) {
            int8_t v = (int8_t)(b[k * down + x * along] ^ flip);
            to[x * KG] = (int8_t)((uint8_t)v ^ LIFT);
            sum[x] = (int32_t)((uint32_t)sum[x] + (uint32_t)v);
        }
    }
}

static void V_NAME(gemm_i8_pack)(void *dst, const struct steno_weights_i8 *w)
{
    const size_t np = panels_of(w->n);
    struct head *h = dst;
    int32_t *sum = (int32_t *)(h + 1);
    int8_t *p = (int8_t *)(sum + np * NR);
    int32_t *zero = (int32_t *)(void *)(p + np * lanes_of(w->k) * LANE_ROW);
    memset(dst, 0, sizeof *h + np * NR * sizeof *sum);
    memset(zero, 0, np * NR * sizeof *zero);
    for (size_t j = 0; j < w->n; j++) {
        zero[j] = (w->zero ? w->zero[j * w->zero_step] : 0) - (w->is_signed ? 0 : 128);
        h->any_zero |= zero[j];
        sum[j] = (int32_t)(0 - (uint32_t)w->k * (uint32_t)zero[j]);
    }
    for (size_t j = 0; j < w->n; j += NR, p += lanes_of(w->k) * LANE_ROW)
        pack_panel(p, sum + j, w, j, w->n - j < NR ? w->n - j : NR);
}

/* ---- A ---- */

struct product {
    const struct steno_gemm_i8 *g;
    struct packed b;
    int32_t a_shift; /* A's elements are raised by this */
    int32_t a_zero;  /* zero point of A, raised, where all rows share one */
};

/* Row stride of the copy of A in lanes. */
static inline size_t copy_ld(size_t lanes)
{
#ifdef AMX_DOT
    return amx_copy_ld(lanes);
#else
    (void)lanes;
    return A_LD;
#endif
}

#ifdef SUMS_16
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
static void add_rests(int32_t *sums, const struct rest *r, const struct rest *end, const int8_t *b,
                      size_t panel, size_t panels)
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
#else
/* n bytes to lanes; the rest of the last lane is zero. */
static void copy_row(int32_t *to, const uint8_t *a, size_t n, bool is_signed)
{
    for (size_t u = n / KG; u < lanes_of(n); u++)
        to[u] = 0;
#if A_U8 || A_S8
    {
        uint8_t *q = (uint8_t *)to;
        const uint8_t flip = is_signed == (bool)A_U8 ? 0x80 : 0;
        for (size_t i = 0; i < n; i++)
            q[i] = a[i] ^ flip;
    }
#else
    {
        int16_t *q = (int16_t *)to;
        if (is_signed)
            for (size_t i = 0; i < n; i++)
                q[i] = (int8_t)a[i];
        else
            for (size_t i = 0; i < n; i++)
                q[i] = a[i];
    }
#endif
}
#endif

/* Sum of row i of A, raised by shift. */
static int32_t row_sum(const struct product *p, size_t i, int32_t shift)
{
    const uint8_t *a = (const uint8_t *)p->g->a + i * p->g->lda;
    uint32_t sum = (uint32_t)shift * (uint32_t)p->g->k;
    for (size_t k = 0; k < p->g->k; k++)
        sum += p->g->a_signed ? (uint32_t)(int8_t)a[k] : a[k];
    return (int32_t)sum;
}

/* ---- finished sums to C ---- */

/* v, rounded: keeps the compiler from fusing operations across it. */
static inline vf rounded(vf v)
{
    __asm__("" : "+" V_REGISTER(v));
    return v;
}

/* Values that are the same for all rows of one vector of columns. */
struct column {
    size_t j;
    vm m;
    vi sum, zero, shared; /* shared: zero point of A times sum, where all rows have the same one */
    vf scale, bias;
};

static inline struct column column_at(const struct product *p, size_t j, size_t left)
{
    const struct steno_gemm_i8 *g = p->g;
    const struct steno_gemm_epilogue *ep = g->ep;
    struct column c;
    c.j = j;
    c.m = v_tail(left < VL ? left : VL);
    c.sum = vi_load(p->b.sum + j);
    c.zero = p->b.head->any_zero ? vi_load(p->b.zero + j) : vi_zero();
    c.shared = vi_mul(c.sum, vi_set1(p->a_zero));
    c.scale = g->scale ? v_load_m(g->scale + j, c.m) : v_zero();
    c.bias = g->scale && ep && ep->bias ? v_load_m(ep->bias + j, c.m) : v_zero();
    return c;
}

static inline void finish_floats(const struct product *p, const struct column *c, vi sum, size_t i)
{
    const struct steno_gemm_i8 *g = p->g;
    const struct steno_gemm_epilogue *ep = g->ep;
    vf v = rounded(vi_to_float(sum) * c->scale);
    if (g->row_scale)
        v = rounded(v * v_set1(g->row_scale[i]));
    if (ep) {
        if (ep->bias)
            v = rounded(v + c->bias);
        if (ep->act)
            v = rounded(activate_approx(v, ep));
        if (ep->residual)
            v = v + v_load_m(ep->residual + i * ep->ldr + c->j, c->m);
    }
    v_store_m((float *)g->c + i * g->ldc + c->j, c->m, v);
}

/* Finish a sum of row i, whose numbers were raised by shift; zero points are not subtracted yet. */
static inline void finish(const struct product *p, const struct column *c, vi sum, size_t i,
                          int32_t shift, int32_t a_sum)
{
    const struct steno_gemm_i8 *g = p->g;
    if (g->a_zero && g->a_zero_step)
        sum = vi_sub(sum, vi_mul(c->sum, vi_set1(g->a_zero[i] + shift)));
    else if (LIFT)
        sum = vi_sub(sum, vi_mul(c->sum, vi_set1(p->a_zero + shift)));
    else
        sum = vi_sub(sum, c->shared);
    if (p->b.head->any_zero)
        sum = vi_sub(sum, vi_mul(c->zero, vi_set1(a_sum)));
    if (g->scale)
        finish_floats(p, c, sum, i);
    else
        vi_store_m((int32_t *)g->c + i * g->ldc + c->j, c->m, sum);
}

/* The input of a block: rows from i0 on copied to buf, lanes from u0 on. */
struct part {
    const int32_t *buf;
    size_t ld;            /* of buf */
    const int32_t *a_sum; /* of the copied rows, if the last block needs them */
    const int8_t *b;      /* lane u0 of panel 0 */
    size_t i0, ku;
    bool first, last;
#ifdef SUMS_16
    struct rest *const *rest; /* [rows + 1]: where the rests of each row start */
    const int32_t *shift;     /* [rows]: what the numbers of each row are raised by */
#endif
};

/* What row r of the copied ones is raised by. */
static inline int32_t shift_at(const struct product *p, const struct part *a, size_t r)
{
#ifdef SUMS_16
    (void)p;
    return a->shift[r];
#else
    (void)a;
    (void)r;
    return p->a_shift;
#endif
}

/* Values that are the same for all rows of a tile: a panel's columns, and the places in C and a
 * residual. */
struct rounded_tile {
    vi sum[2], digits[2]; /* of the columns */
    vf scale[2], bias[2];
    const int32_t *zero; /* of each row of A, less shift */
#ifdef SUMS_16
    const int32_t *shift; /* of each row */
#else
    int32_t shift;
#endif
    const float *row_scale, *residual; /* row_scale [M]; residual or NULL */
    float *c;
    size_t ldr, ldc, width; /* of residual, C and the tile */
    bool first, small;      /* small: sums are below 2^22 */
};

#ifdef SUMS_16
#define ZERO_OF(t, r) ((t)->zero[r] + (t)->shift[r])
#else
#define ZERO_OF(t, r) ((t)->zero[r] + (t)->shift)
#endif

/* Rows [r, r + n) through the epilogue, with the operations of finish_floats. */
V_MANY_OF finish_rows(const struct rounded_tile *t, const struct steno_gemm_epilogue *ep,
                      const int32_t *tile, size_t r, int n, bool biased, enum steno_activation act)
{
    vi s[V_MANY];
    vf v[V_MANY];
    V_EACH(i, 2 * n) s[i] = vi_load(tile + (r + i / 2) * t->width + i % 2 * VL);
    if (!t->first)
        V_EACH(i, 2 * n) s[i] = vi_add(s[i], vi_load(t->c + (r + i / 2) * t->ldc + i % 2 * VL));
    if (t->small)
        V_EACH(i, 2 * n) s[i] = vi_less(s[i], t->digits[i % 2], ZERO_OF(t, r + i / 2));
    else
        V_EACH(i, 2 * n)
    s[i] = vi_sub(s[i], vi_mul(t->sum[i % 2], vi_set1(ZERO_OF(t, r + i / 2))));
    V_EACH(i, 2 * n) v[i] = rounded(vi_to_float(s[i]) * t->scale[i % 2]);
    V_EACH(i, 2 * n) v[i] = rounded(v[i] * v_set1(t->row_scale[r + i / 2]));
    if (biased)
        V_EACH(i, 2 * n) v[i] = rounded(v[i] + t->bias[i % 2]);
    if (act == STENO_ACT_SILU)
        approx_silu(v, 2 * n);
    else if (act == STENO_ACT_RELU)
        V_EACH(i, 2 * n) v[i] = v_max(v_zero(), v[i]);
    else if (act == STENO_ACT_GELU)
        approx_gelu(v, 2 * n);
    else if (act)
        activate_each(v, 2 * n, ep);
    V_EACH(i, 2 * n) v[i] = rounded(v[i]);
    if (t->residual)
        V_EACH(i, 2 * n) v[i] = v[i] + v_load(t->residual + (r + i / 2) * t->ldr + i % 2 * VL);
    V_EACH(i, 2 * n) v_store(t->c + (r + i / 2) * t->ldc + i % 2 * VL, v[i]);
}

/* The most frequent case: a row_scale and zero point per row, weights without zero points, a whole
 * panel. The operations are those of store_tile, without decisions per vector. */
static inline __attribute__((always_inline)) void
store_rounded(const struct product *p, const struct part *a, const int32_t *tile, size_t r0,
              size_t rows, size_t width, size_t j, bool biased, enum steno_activation act)
{
    const struct steno_gemm_i8 *g = p->g;
    const struct steno_gemm_epilogue *ep = g->ep;
    const size_t i = a->i0 + r0, ldr = ep ? ep->ldr : 0;
    const struct rounded_tile t = {
        .sum = {vi_load(p->b.sum + j), vi_load(p->b.sum + j + VL)},
        .digits = {vi_digits(vi_load(p->b.sum + j)), vi_digits(vi_load(p->b.sum + j + VL))},
        .scale = {v_load(g->scale + j), v_load(g->scale + j + VL)},
        .bias = {biased ? v_load(ep->bias + j) : v_zero(),
                 biased ? v_load(ep->bias + j + VL) : v_zero()},
        .zero = g->a_zero + i,
#ifdef SUMS_16
        .shift = a->shift + r0,
#else
        .shift = p->a_shift,
#endif
        .row_scale = g->row_scale + i,
        .residual = ep && ep->residual ? ep->residual + i * ldr + j : NULL,
        .c = (float *)g->c + i * g->ldc + j,
        .ldr = ldr,
        .ldc = g->ldc,
        .width = width,
        .first = a->first,
        .small = g->k < 32768};
    size_t r = 0;
    for (; r + V_MANY / 2 <= rows; r += V_MANY / 2)
        finish_rows(&t, ep, tile, r, V_MANY / 2, biased, act);
    if (r < rows)
        finish_rows(&t, ep, tile, r, 1, biased, act);
}

/* Store the sums of a block of K that is not the last, for a whole panel. */
static void store_sums(const struct product *p, const struct part *a, const int32_t *tile,
                       size_t r0, size_t rows, size_t width, size_t j)
{
    int32_t *to = (int32_t *)p->g->c + (a->i0 + r0) * p->g->ldc + j;
    for (size_t r = 0; r < rows; r++, tile += width, to += p->g->ldc) {
        vi v0 = vi_load(tile), v1 = vi_load(tile + VL);
        if (!a->first) {
            v0 = vi_add(v0, vi_load(to));
            v1 = vi_add(v1, vi_load(to + VL));
        }
        vi_store(to, v0);
        vi_store(to + VL, v1);
    }
}

static void store_tile(const struct product *p, const struct part *a, const int32_t *tile,
                       size_t r0, size_t rows, size_t width, size_t j)
{
    const struct steno_gemm_i8 *g = p->g;
    if (a->last && g->scale && g->row_scale && g->a_zero && g->a_zero_step && j + NR <= g->n &&
        !p->b.head->any_zero) {
        const bool biased = g->ep && g->ep->bias;
        const enum steno_activation act = g->ep ? g->ep->act : STENO_ACT_NONE;
        if (biased && !act)
            store_rounded(p, a, tile, r0, rows, width, j, true, STENO_ACT_NONE);
        else if (biased && act == STENO_ACT_SILU)
            store_rounded(p, a, tile, r0, rows, width, j, true, STENO_ACT_SILU);
        else if (biased && act == STENO_ACT_RELU)
            store_rounded(p, a, tile, r0, rows, width, j, true, STENO_ACT_RELU);
        else if (biased && act == STENO_ACT_GELU)
            store_rounded(p, a, tile, r0, rows, width, j, true, STENO_ACT_GELU);
        else
            store_rounded(p, a, tile, r0, rows, width, j, biased, act);
        return;
    }
    if (!a->last && j + NR <= g->n) {
        store_sums(p, a, tile, r0, rows, width, j);
        return;
    }
    for (size_t x = 0; x < NR && j + x < g->n; x += VL) {
        struct column c = column_at(p, j + x, g->n - j - x);
        for (size_t r = 0; r < rows; r++) {
            size_t i = a->i0 + r0 + r;
            int32_t *to = (int32_t *)g->c + i * g->ldc + j + x;
            vi v = vi_load(tile + r * width + x);
            if (!a->first)
                v = vi_add(v, vi_load_m(to, c.m));
            if (a->last)
                finish(p, &c, v, i, shift_at(p, a, r0 + r),
                       p->b.head->any_zero ? a->a_sum[r0 + r] : 0);
            else
                vi_store_m(to, c.m, v);
        }
    }
}

/* ---- loops ---- */

/* Prefetch what finishing panels [j, j + panels) reads besides the sums, while the sums are
 * computed. With few rows the weights come from memory, and so does this. */
static inline void prefetch_columns(const struct product *p, size_t j, size_t panels)
{
    const size_t end = (j + panels) * NR < p->g->n ? (j + panels) * NR : p->g->n;
    for (size_t x = j * NR; x < end; x += 16) {
        __builtin_prefetch(p->b.sum + x);
        if (p->g->scale)
            __builtin_prefetch(p->g->scale + x);
        if (p->g->ep && p->g->ep->bias)
            __builtin_prefetch(p->g->ep->bias + x);
    }
}

/* How many panels before its use a panel's columns are prefetched: the distance of the weights, and
 * at least one panel. */
static inline size_t prefetch_distance(const struct product *p)
{
    return 1 + STREAM_DISTANCE_ONE / (p->b.panel + 1);
}

#ifndef ONE_ROW
#define ONE_ROW(p) weights(p) /* how a single row reads weights */
#endif

/* One row, all of K. It takes panel by panel and stores results from the registers to C, so that
 * the weights are read as one stream for every K. Even and odd lanes have separate sums: enough
 * sums to hide the latency of a product. */
static inline __attribute__((always_inline)) void
one_row_as(enum reads reads, const struct product *p, const struct part *a, size_t j0, size_t j1)
{
    alignas(64) int32_t tile[NR];
    const size_t prefetch = prefetch_distance(p);
    prefetch_columns(p, j0, prefetch);
    for (size_t j = j0; j < j1; j++) {
        const int8_t *b = a->b + j * p->b.panel;
        vi even[2] = {vi_zero(), vi_zero()}, odd[2] = {vi_zero(), vi_zero()};
        size_t u = 0;
        prefetch_columns(p, j + prefetch, 1);
        for (; u + 2 <= a->ku; u += 2, b += 2 * LANE_ROW) {
            const vi x = vi_set1(a->buf[u]), y = vi_set1(a->buf[u + 1]);
            for (int i = 0; i < 2 * LANE_ROW && reads == STREAM; i += 64)
                __builtin_prefetch(b + STREAM_DISTANCE_ONE + i, 0, 3);
            even[0] = dot(even[0], x, ONE_ROW(b));
            even[1] = dot(even[1], x, ONE_ROW(b + VL * KG));
            odd[0] = dot(odd[0], y, ONE_ROW(b + LANE_ROW));
            odd[1] = dot(odd[1], y, ONE_ROW(b + LANE_ROW + VL * KG));
        }
        if (u < a->ku) {
            const vi x = vi_set1(a->buf[u]);
            even[0] = dot(even[0], x, ONE_ROW(b));
            even[1] = dot(even[1], x, ONE_ROW(b + VL * KG));
        }
        for (size_t i = 0; i < 2; i++)
            vi_store(tile + i * VL, vi_add(even[i], odd[i]));
        store_tile(p, a, tile, 0, 1, NR, j * NR);
    }
}

static void one_row(const struct product *p, const struct part *a, size_t j0, size_t j1)
{
#ifndef AMX_DOT
    if (VL == 16 && streams_weights()) {
        one_row_as(STREAM, p, a, j0, j1);
        return;
    }
#endif
    one_row_as(ALONE, p, a, j0, j1);
}

#ifdef AMX_DOT
enum { AMX_MOST = MC, AMX_B_ROW = 4 * NR };
#define AMX_DEEP(rows) 256
#include "nn/kernels/tmpl/amx_tmpl.h"

static void amx_done(const struct product *p, const struct part *part, const void *tile, size_t r0,
                     size_t h, size_t j)
{
    struct part all = *part;
    all.first = true;
    store_tile(p, &all, tile, r0, h, NR, j * NR);
}

static void block(const struct product *p, const struct part *a, size_t rows, size_t j0, size_t j1)
{
    const struct amx_block x = {.p = p,
                                .part = a,
                                .a = (const char *)a->buf,
                                .a_row = a->ld * sizeof *a->buf,
                                .rows = rows,
                                .lanes = a->ku,
                                .b = (const char *)a->b,
                                .panel = p->b.panel,
                                .c = (char *)p->g->c + a->i0 * p->g->ldc * sizeof(int32_t),
                                .c_row = p->g->ldc * sizeof(int32_t),
                                .n = p->g->n,
                                .first = a->first,
                                .last = a->last};
    if (rows == 1 && a->first && a->last)
        one_row(p, a, j0, j1);
    else
        amx_block(&x, j0, j1);
}
#else
/* Rows [r0, r0 + h) of the part times panels [j, j + step). */
static inline void tile_at(const struct product *p, const struct part *a, size_t r0, size_t h,
                           size_t j, micro_fn *fn, size_t step, const int8_t *prefetch)
{
    alignas(64) int32_t tile[MR * NR];
    if (VL == 8 || (VL == 16 && p->g->m > MC))
        prefetch_stored(p->g->c, p->g->ldc, p->g->ep, a->i0 + r0, h, j * NR, NR);
    fn(a->ku, a->buf + r0 * A_LD, a->b + j * p->b.panel, p->b.panel, prefetch, tile);
#ifdef SUMS_16
    for (size_t r = 0; r < h; r++)
        add_rests(tile + r * step * NR, a->rest[r0 + r], a->rest[r0 + r + 1], a->b + j * p->b.panel,
                  p->b.panel, step);
#endif
    for (size_t q = 0; q < step; q++)
        store_tile(p, a, tile + q * NR, r0, h, step * NR, (j + q) * NR);
}

/* Panels [j0, j1) for `rows` copied rows: panel by panel, so that a panel stays in the caches while
 * it is multiplied by all rows. */
static void block(const struct product *p, const struct part *a, size_t rows, size_t j0, size_t j1)
{
    const size_t tiles = (rows + MR - 1) / MR;
    micro_fn *const *by_rows = shared_by_rows();
    micro_fn *fn;
    size_t step;
    if (rows == 1 && a->first && a->last &&
        VL != 8) { /* eight lanes: four panels at once are a fifth faster */
        one_row(p, a, j0, j1);
        return;
    }
    if (tiles == 1) {
        const bool streams = streams_weights();
        const size_t distance = prefetch_distance(p);
        prefetch_columns(p, j0, distance);
        for (size_t j = j0; j < j1; j += step) {
            fn = few_of(rows, j1 - j, streams, &step);
            prefetch_columns(p, j + distance, step);
            tile_at(p, a, 0, rows, j, fn, step, a->b + j * p->b.panel);
        }
        return;
    }
    for (size_t j = j0; j < j1; j++) {
        const int8_t *next = a->b + (j + 1) * p->b.panel;
        for (size_t t = 0; t < tiles; t++) {
            size_t r0 = rows * t / tiles, h = rows * (t + 1) / tiles - r0;
            tile_at(p, a, r0, h, j, by_rows[h], 1, next + t % PREFETCHERS * (a->ku / STEPS) * 64);
        }
    }
}
#endif

/* Rows to copy at a time: nearly the same number each time, or whole tiles. */
static size_t rows_of(size_t left)
{
#ifdef AMX_DOT
    return amx_rows_of(left);
#else
    const size_t blocks = (left + MC - 1) / MC;
    return (left + blocks - 1) / blocks;
#endif
}

/* True when A already has the layout of its copy: then it is not copied, and K is not divided. */
static bool lies_well(const struct steno_gemm_i8 *g)
{
#ifdef AMX_DOT
    return !g->a_signed && g->a_rows >= steno_gemm_i8_rows(g->m) && g->k % (KG * AMX_LANES) == 0 &&
           g->lda % 128 == 64 && (uintptr_t)g->a % 64 == 0;
#else
    (void)g;
    return false;
#endif
}

/* Rows [i0, i1), panels [j0, j1), K from k0 on. */
static void multiply_block(const struct product *p, size_t i0, size_t i1, size_t j0, size_t j1,
                           size_t k0, size_t kc)
{
    alignas(64) int32_t buf[A_ROOM];
    int32_t a_sum[MC];
#ifdef SUMS_16
    struct rest rests[MC * KU * KG / 2 * PAIR_RESTS], *starts[MC + 1] = {rests};
    int32_t shifts[MC];
#endif
    const bool here = lies_well(p->g);
    for (size_t i = i0, rows; i < i1; i += rows) {
        const uint8_t *from = (const uint8_t *)p->g->a + i * p->g->lda + k0;
        struct part a = {.buf = buf,
                         .ld = copy_ld(lanes_of(kc)),
                         .a_sum = a_sum,
                         .b = p->b.panels + k0 / KG * LANE_ROW,
                         .i0 = i,
                         .ku = lanes_of(kc),
                         .first = k0 == 0,
                         .last = k0 + kc == p->g->k};
        rows = rows_of(i1 - i);
        if (here) {
            a.buf = (const int32_t *)(const void *)from;
            a.ld = p->g->lda / KG;
        }
#ifdef SUMS_16
        a.rest = starts;
        a.shift = shifts;
        for (size_t r = 0; r < rows; r++) {
            shifts[r] = shift_of_row(p->g, i + r);
            starts[r + 1] = lower_row(buf + r * a.ld, from + r * p->g->lda, kc, p->g->a_signed,
                                      (p->g->a_signed ? 128 : 0) - shifts[r], starts[r]);
        }
#else
        for (size_t r = 0; !here && r < rows && kc; r++)
            copy_row(buf + r * a.ld, from + r * p->g->lda, kc, p->g->a_signed);
#endif
        for (size_t r = 0; a.last && p->b.head->any_zero && r < rows; r++)
            a_sum[r] = row_sum(p, i + r, shift_at(p, &a, r));
        block(p, &a, rows, j0, j1);
    }
}

/* K of a block: deeper for few rows. */
static size_t depth_of(size_t k, size_t rows)
{
#ifdef AMX_DOT
    return amx_depth(lanes_of(k), rows, A_ROOM) * KG;
#else
    (void)k;
    (void)rows;
    return KU * KG;
#endif
}

static void multiply(const struct product *p, size_t i0, size_t i1, size_t j0, size_t j1)
{
    const size_t most = lies_well(p->g) ? p->g->k : depth_of(p->g->k, i1 - i0);
    size_t k0 = 0;
    if (j0 >= j1)
        return;
    do { /* runs once even for k = 0 */
        size_t kc = p->g->k - k0 < most ? p->g->k - k0 : most;
        multiply_block(p, i0, i1, j0, j1, k0, kc);
        k0 += kc;
    } while (k0 < p->g->k);
}

/* Parts divide rows or columns as in gemm_tmpl.h. */
static void V_NAME(gemm_i8_part)(const struct steno_gemm_i8 *g, size_t part, size_t n_parts)
{
    const int32_t shift = A_U8 && g->a_signed ? 128 : A_S8 && !g->a_signed ? -128 : 0;
    struct product p = {g, open_packed(g->packed, g->k, g->n), shift,
                        (g->a_zero ? g->a_zero[0] : 0) + shift};
    size_t np = panels_of(g->n);
    if (!g->m)
        return;
    BEGIN(g->m);
#ifdef AMX_DOT
    if (n_parts > 1 && g->m >= ROWS_OF_PART * n_parts)
        multiply(&p, amx_first_row(g->m, part, n_parts), amx_first_row(g->m, part + 1, n_parts), 0,
                 np);
#else
    if (g->m >= 4 * MR * n_parts && np < 4 * n_parts)
        multiply(&p, g->m * part / n_parts, g->m * (part + 1) / n_parts, 0, np);
#endif
    else
        multiply(&p, 0, g->m, np * part / n_parts, np * (part + 1) / n_parts);
    END();
}

#include "nn/kernels/tmpl/quantize_tmpl.h"

#ifdef AMX_DOT
static double V_NAME(peak_i8)(size_t rounds)
{
    return amx_peak(rounds, KG);
}
#else
static double V_NAME(peak_i8)(size_t rounds)
{
    const vi b = vi_set1(0x01010101);
    vi a = vi_set1(0x01020304), acc[12];
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
        acc[i] = vi_set1(i);
    for (size_t t = 0; t < rounds; t++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) { /* changes a: no work can be shared */
            acc[i] = dot(acc[i], a, b);
            __asm__ volatile("" : "+" V_REGISTER(acc[i]), "+" V_REGISTER(a));
        }
    }
    return 2.0 * 12 * VL * KG * (double)rounds;
}
#endif

void V_NAME(steno_kernels_gemm_i8)(steno_kernels *k)
{
    k->peak_i8 = V_NAME(peak_i8);
    k->gemm_i8_packed_bytes = V_NAME(gemm_i8_packed_bytes);
    k->gemm_i8_pack = V_NAME(gemm_i8_pack);
    k->gemm_i8_part = V_NAME(gemm_i8_part);
#ifdef AMX_DOT
    k->gemm_i8_rows = ROWS_OF_PART;
#endif
    k->quantize_f32 = V_NAME(quantize_f32);
    k->dequantize_f32 = V_NAME(dequantize_f32);
    k->range_f32 = V_NAME(range_f32);
    k->quantize_in_f32 = V_NAME(quantize_in_f32);
    k->quantize_row_f32 = V_NAME(quantize_row_f32);
    k->sum_rows_f32 = V_NAME(sum_rows_f32);
    k->spread_row_f32 = V_NAME(spread_row_f32);
}
