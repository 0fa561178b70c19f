#include "kernels/x86/vec_i32_avx512.h"

#define GEMM_NO_SLOTS
#include "kernels/x86/gemm_nbits_tmpl.h"
