/* f32 products with weights in 24 bits: integers q, |q| <= 2^23, times a power of two per column.
 * Products of few rows are bound by reading weights, and these have a quarter fewer bytes. Sums are
 * f32 sums in the order of k, as without compression. Rounding loses at most 2^-24 of a column's
 * largest weight, the order of the error of an f32 sum. An element is q of k and q of k + 1; a word
 * of a line is 2^8 q (scaled_tmpl.h). Widening a row of a panel takes 10 operations, which fit
 * beside the 56 multiply-adds of the highest tile of AVX-512. A is multiplied by 2^-36 when it is
 * copied, so that no sum exceeds the range of f32; numbers of A below 2^-90 lose bits.
 *
 * Included after vec_i32_<isa>.h and
 *   widen_two     see scaled_tiles_tmpl.h */
#include <stdint.h>

#define GEMM_SCALED
enum { K_STEP = 2 };

static inline vf mac(vf a, vf b, vf sum)
{
    return v_fma(a, b, sum);
}

static inline void round_pairs(float *to, const float *from, size_t n)
{
    const vf by = v_set1(0x1p-36f);
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(to + i, v_load(from + i) * by);
    if (i < n)
        v_store_m(to + i, v_tail((n - i + 1) / 2 * 2), v_load_m(from + i, v_tail(n - i)) * by);
}

#include "nn/kernels/tmpl/gemm_tmpl.h"

typedef uint32_t words __attribute__((vector_size(4 * VL)));

struct columns {
    vf by; /* weights are q 2^-by */
};

static vf columns_of(struct columns *c, vf most)
{
    vf e;
    (void)v_frexp(most, &e);
    e = v_select(v_lt(v_zero(), most), e, v_zero());
    c->by = v_set1(23) - e;
    return e + v_set1(5); /* 2^8 q 2^-36 is b 2^(31 - e - 36) */
}

static inline words whole(const float *w, const struct columns *c)
{
    return (words)vi_round(v_min(v_set1(0x7fffff), v_ldexp(v_load(w), c->by)));
}

static void pack_row(float *to, float w[][NR], const struct columns *c)
{
    const words last = whole(w[1] + VL, &c[1]);
    const words q[3] = {whole(w[0], &c[0]), whole(w[0] + VL, &c[1]), whole(w[1], &c[0])};
    for (int i = 0; i < 3; i++)
        v_store(to + i * VL, (vf)(q[i] << 8 | (last >> (16 - 8 * i) & 0xff)));
}

#include "nn/kernels/tmpl/scaled_tmpl.h"

void V_NAME(steno_kernels_gemm_f32_w24)(steno_kernels *k)
{
    k->gemm_f32_w24 =
        (struct steno_gemm_weights){packed_bytes, pack, product_part, conv_part, conv_winograd};
    k->compressed_max_rows = 27; /* nearly two tiles of AVX-512; a chunk of a stream has as many */
}
