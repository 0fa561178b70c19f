/* Products whose A stays f32: B of f32 (gemm_f32_tmpl.h), or widened when it is loaded
 * (gemm_w16_tmpl.h). Included after b_t and b_load. */
#include "nn/kernels/tmpl/math_tmpl.h"

#include "nn/kernels/tmpl/activate_tmpl.h"
#define ACTIVATE_EACH activate_each
#define ACTIVATE activate

enum { K_STEP = 1 };
static inline vf mac(vf a, vf b, vf sum)
{
    return v_fma(a, b, sum);
}

#include "nn/kernels/tmpl/gemm_tmpl.h"

enum { SHORT = 128 }; /* up to this many columns of A are copied without a call of memcpy */

static void copy_a(const struct product *p, float *buf, size_t i0, size_t rows, size_t k0,
                   size_t kc)
{
    const float *a = p->a + i0 * p->a_row + k0 * p->a_col;
    if (p->gather) {
        p->gather(p, buf, i0, rows, k0, kc);
    } else if (p->a_panels) {
        for (size_t r = 0, h; r < rows; r += h) {
            size_t in = (i0 + r) % NR;
            h = rows - r < NR - in ? rows - r : NR - in;
            transpose_blocks(buf + r * A_LD, A_LD, p->a + ((i0 + r) / NR * p->k + k0) * NR + in, NR,
                             kc, h);
        }
    } else if (p->a_col == 1) {
        for (size_t r = 0; r < rows; r++, buf += A_LD, a += p->a_row)
            if (kc > SHORT)
                memcpy(buf, a, kc * sizeof *buf);
            else /* a call for each row would take as long as its sums */
                for (size_t x = 0; x < kc; x += VL)
                    v_store(buf + x, v_load_m(a + x, v_tail(kc - x < VL ? kc - x : VL)));
    } else {
        transpose_blocks(buf, A_LD, a, p->a_col, kc, rows);
    }
}
