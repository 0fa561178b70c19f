#include "nn/kernels/arm/vec_i32_neon.h"

#define GEMM_NO_SLOTS
#include "nn/kernels/tmpl/gemm_nbits_tmpl.h"
