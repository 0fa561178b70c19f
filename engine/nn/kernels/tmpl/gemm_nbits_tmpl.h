/* The f32 product with weights of 4 or 8 bits that have a scale (and zero point) for each block of
 * K (kernels.h, struct steno_nbits). The kernel reads the small weights from memory and widens them
 * in registers. Included after vec_<isa>.h and vec_i32_<isa>.h; uses the tiles of gemm_tmpl.h.
 *
 * Packed: panels of NR columns. A panel has, block by block: [NR] scales, [NR] zero points
 * if they are given, then
 *   8 bits:   [block][NR] bytes
 *   4 bits:   (and 2, widened to 4) [block / 2][NR] bytes, the even k in the low half
 * The last block is as long as the others. Its values beyond K are never used as weights.
 *
 * Up to SMALL_M rows: one pass over the panel. Per block, the products with the plain values are
 * summed, then sum a (q - z) s = s (sum a q - z sum a). This costs three instructions for a vector
 * of values, shared by the rows: about the speed of memory at 4 bits; what comes next is
 * prefetched, as the arithmetic leaves the processor no room to look for it. More rows: KB values
 * of K at a time are widened into a panel of floats in L1, and the tiles of the f32 product run
 * over it.
 *
 * The two ways sum in different orders. M decides which one runs, so here the bits may depend on
 * M. */
#include "nn/kernels/tmpl/gemm_f32_tmpl.h"

enum { SMALL_M = VL == 16 ? 4 : 2, KB = 128 };
enum { AHEAD = 8192 }; /* bytes: the arithmetic of so many takes as long as memory */

static size_t head_bytes(const struct steno_nbits *b)
{
    return (b->has_zero ? 2 : 1) * NR * sizeof(float);
}

static size_t block_bytes(const struct steno_nbits *b)
{
    return head_bytes(b) + b->block * NR / (b->bits == 8 ? 1 : 2);
}

/* Zero points of VL columns of a block from column x on; s: its scales. */
static inline vf zeros_of(const struct steno_nbits *b, const float *s, size_t x)
{
    return b->has_zero ? v_load(s + NR + x) : v_set1((float)(1u << (b->bits - 1)));
}

static size_t blocks_of(const struct steno_nbits *b)
{
    return (b->k + b->block - 1) / b->block;
}

static size_t nbits_packed_bytes(const struct steno_nbits *b)
{
    return panels(b->n) * blocks_of(b) * block_bytes(b);
}

static void nbits_pack(void *dst, const struct steno_nbits *b)
{
    uint8_t *p = dst;
    memset(dst, 0, nbits_packed_bytes(b));
    for (size_t j = 0; j < b->n; j += NR)
        for (size_t l = 0; l < blocks_of(b); l++, p += block_bytes(b)) {
            float *s = (float *)(void *)p;
            uint8_t *q = p + head_bytes(b);
            for (size_t x = 0; x < NR && j + x < b->n; x++) {
                s[x] = b->scale[(j + x) * blocks_of(b) + l];
                if (b->has_zero)
                    s[NR + x] = b->zero[(j + x) * blocks_of(b) + l];
                for (size_t i = 0; i < b->block && l * b->block + i < b->k; i++) {
                    unsigned v = steno_nbits_value(b, l * b->block + i, j + x);
                    if (b->bits == 8)
                        q[i * NR + x] = (uint8_t)v;
                    else
                        q[i / 2 * NR + x] |= (uint8_t)(v << (i % 2 * 4));
                }
            }
        }
}

/* acc [rows][2] of one block: n values of K (even) starting at a. */
static inline __attribute__((always_inline)) void sum_block(int rows, bool nibbles,
                                                            const uint8_t *q, const float *a,
                                                            size_t lda, size_t n, vf *even, vf *odd)
{
#pragma GCC unroll 8
    for (int i = 0; i < 2 * rows; i++)
        even[i] = odd[i] = v_zero();
    for (size_t k = 0; k < n; k += 2) {
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            vf w0, w1;
            if (nibbles) {
                vi b = vi_bytes(q + k / 2 * NR + v * VL);
                w0 = vi_nibbles(b);
                w1 = vi_to_float(vi_shift4(b));
            } else {
                w0 = vi_to_float(vi_bytes(q + k * NR + v * VL));
                w1 = vi_to_float(vi_bytes(q + (k + 1) * NR + v * VL));
            }
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                even[2 * r + v] = v_fma(v_set1(a[(size_t)r * lda + k]), w0, even[2 * r + v]);
                odd[2 * r + v] = v_fma(v_set1(a[(size_t)r * lda + k + 1]), w1, odd[2 * r + v]);
            }
        }
    }
}

/* Panel j for few rows. a: rows copied with stride lda, zero beyond K. sums [blocks][SMALL_M]:
 * their sums. */
static inline __attribute__((always_inline)) void
few_rows(const struct product *p, int rows, const struct steno_nbits *b, const uint8_t *panel,
         size_t i0, size_t j, const float *a, size_t lda, const float *sums)
{
    vf total[2 * SMALL_M], even[2 * SMALL_M], odd[2 * SMALL_M];
    alignas(64) float tile[SMALL_M * NR];
#pragma GCC unroll 8
    for (int i = 0; i < 2 * rows; i++)
        total[i] = v_zero();
    for (size_t l = 0; l < blocks_of(b); l++, panel += block_bytes(b)) {
        const float *s = (const float *)(const void *)panel;
        const uint8_t *q = panel + head_bytes(b);
        for (size_t i = 0; i < block_bytes(b); i += 64)
            __builtin_prefetch(panel + AHEAD + i);
        if (b->bits == 8)
            sum_block(rows, false, q, a + l * b->block, lda, b->block, even, odd);
        else
            sum_block(rows, true, q, a + l * b->block, lda, b->block, even, odd);
#pragma GCC unroll 8
        for (int i = 0; i < 2 * rows; i++) {
            vf zero = zeros_of(b, s, (size_t)(i % 2) * VL);
            vf v = v_fnma(zero, v_set1(sums[l * SMALL_M + (size_t)(i / 2)]), even[i] + odd[i]);
            total[i] = v_fma(v, v_load(s + (size_t)(i % 2) * VL), total[i]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 2 * rows; i++)
        v_store(tile + (size_t)i * VL, total[i]);
    store_tile(p, tile, (size_t)rows, NR, i0, j * NR, p->n - j * NR < NR ? p->n - j * NR : NR, true,
               true);
}

/* At most KC values of K at a time, so that the copied rows fit on the stack. */
static void multiply_few(const struct product *p, const struct steno_nbits *b,
                         const uint8_t *packed, float *work, size_t i0, size_t rows, size_t j0,
                         size_t j1)
{
    const size_t lda = blocks_of(b) * b->block;
    float *sums = work + SMALL_M * lda;
    for (size_t r = 0; r < rows; r++) {
        const float *from = p->a + (i0 + r) * p->a_row;
        memcpy(work + r * lda, from, p->k * sizeof *work);
        memset(work + r * lda + p->k, 0, (lda - p->k) * sizeof *work);
        for (size_t l = 0; l < blocks_of(b); l++) {
            float sum = 0;
            for (size_t i = 0; i < b->block; i++)
                sum += work[r * lda + l * b->block + i];
            sums[l * SMALL_M + r] = sum;
        }
    }
    for (size_t j = j0; j < j1; j++) {
        const uint8_t *panel = packed + j * blocks_of(b) * block_bytes(b);
        if (rows == 1)
            few_rows(p, 1, b, panel, i0, j, work, lda, sums);
        else if (rows == 2)
            few_rows(p, 2, b, panel, i0, j, work, lda, sums);
#if VL == 16
        else if (rows == 3)
            few_rows(p, 3, b, panel, i0, j, work, lda, sums);
        else
            few_rows(p, 4, b, panel, i0, j, work, lda, sums);
#endif
    }
}

/* Values [k0, k0 + n) of a panel as f32 [n][NR]. */
static void widen(const struct steno_nbits *b, const uint8_t *panel, size_t k0, size_t n, float *to)
{
    for (size_t k = k0; k < k0 + n; k++, to += NR) {
        const float *s = (const float *)(const void *)(panel + k / b->block * block_bytes(b));
        const uint8_t *q = (const uint8_t *)s + head_bytes(b);
        size_t i = k % b->block;
#pragma GCC unroll 2
        for (size_t x = 0; x < NR; x += VL) {
            vi v = vi_bytes(q + (b->bits == 8 ? i : i / 2) * NR + x);
            const vf w = b->bits == 8 ? vi_to_float(v)
                         : i % 2      ? vi_to_float(vi_shift4(v))
                                      : vi_nibbles(v);
            v_store(to + x, (w - zeros_of(b, s, x)) * v_load(s + x));
        }
    }
}

static void multiply_many(const struct product *p, const struct steno_nbits *b,
                          const uint8_t *packed, size_t i0, size_t i1, size_t j0, size_t j1)
{
    alignas(64) float buf[MC * A_LD], wide[KB * NR];
    for (size_t i = i0; i < i1;) {
        size_t rows = i1 - i < MC ? i1 - i : MC;
        for (size_t c0 = 0; c0 < p->k; c0 += KC) {
            size_t kc = p->k - c0 < KC ? p->k - c0 : KC;
            copy_a(p, buf, i, rows, c0, kc);
            for (size_t j = j0; j < j1; j++)
                for (size_t k = 0; k < kc; k += KB) {
                    size_t n = kc - k < KB ? kc - k : KB;
                    struct part a = {buf + k, wide, i, c0 + k, n};
                    widen(b, packed + j * blocks_of(b) * block_bytes(b), c0 + k, n, wide);
                    block(p, &a, rows, j, j + 1);
                }
        }
        i += rows;
    }
}

static void nbits_part(const struct steno_nbits *b, size_t m, const float *a, size_t lda,
                       const void *packed, float *c, size_t ldc,
                       const struct steno_gemm_epilogue *ep, void *work, size_t part,
                       size_t n_parts)
{
    struct product p = product_of(b->n, b->k, a, lda, NULL, c, ldc, ep);
    size_t np = panels(b->n), j0 = np * part / n_parts, j1 = np * (part + 1) / n_parts;
    float *rows = (float *)work + part * (blocks_of(b) * (b->block + 1) * SMALL_M);
    p.b_next = 0; /* one widened panel at a time */
    if (j0 >= j1)
        return;
    if (m <= 2 * SMALL_M)
        for (size_t i = 0; i < m; i += SMALL_M)
            multiply_few(&p, b, packed, rows, i, m - i < SMALL_M ? m - i : SMALL_M, j0, j1);
    else
        multiply_many(&p, b, packed, 0, m, j0, j1);
}

static size_t nbits_work(const struct steno_nbits *b, size_t n_parts)
{
    return n_parts * blocks_of(b) * (b->block + 1) * SMALL_M * sizeof(float);
}

void V_NAME(steno_kernels_gemm_nbits)(steno_kernels *k)
{
    k->gemm_nbits =
        (struct steno_gemm_nbits){nbits_packed_bytes, nbits_pack, nbits_work, nbits_part};
}
