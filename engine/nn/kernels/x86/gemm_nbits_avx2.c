#include "nn/kernels/x86/vec_i32_avx2.h"

#include "nn/kernels/tmpl/gemm_nbits_tmpl.h"
