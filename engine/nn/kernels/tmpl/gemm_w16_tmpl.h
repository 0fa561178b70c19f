/* The product of gemm_tmpl.h with 16-bit packed weights that are widened when they are loaded.
 * It reads half the bytes, which helps where reading weights takes the time. Included after
 * vec_<isa>.h and
 *   to_half(x)    rounding of one weight
 * The includer then defines b_load: VL weights as f32. */
typedef uint16_t b_t;
static inline vf b_load(const b_t *p);

#include "nn/kernels/tmpl/gemm_floats_tmpl.h"

static size_t packed_bytes(size_t k, size_t n)
{
    return panels(n) * k * NR * sizeof(b_t);
}

static void pack(void *dst, const float *b, size_t ldb, bool trans, size_t k, size_t n)
{
    b_t *p = dst;
    const size_t down = trans ? 1 : ldb, along = trans ? ldb : 1;
    for (size_t j = 0; j < n; j += NR)
        for (size_t i = 0; i < k; i++, p += NR)
            for (size_t x = 0; x < NR; x++)
                p[x] = j + x < n ? to_half(b[i * down + (j + x) * along]) : 0;
}

#include "nn/kernels/tmpl/gemm_w16_part_tmpl.h"
#include "nn/kernels/tmpl/winograd_tmpl.h"
