#include "kernels/arm/vec_i32_neon.h"

#define GEMM_NO_SLOTS
#include "kernels/x86/gemm_nbits_tmpl.h"
