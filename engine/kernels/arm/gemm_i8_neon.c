#include "kernels/arm/vec_i32_neon.h"

#define KG 2
#define weights vi_widen
#define dot vi_madd
#include "kernels/x86/gemm_i8_tmpl.h"
