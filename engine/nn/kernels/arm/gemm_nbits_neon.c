#include "nn/kernels/arm/vec_i32_neon.h"

#include "nn/kernels/tmpl/gemm_nbits_tmpl.h"
