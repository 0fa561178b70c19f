/* The f32 product. Included after vec_<isa>.h. */
typedef float b_t;
static inline vf b_load(const b_t *p)
{
    return v_load(p);
}

#include "nn/kernels/tmpl/gemm_floats_tmpl.h"
