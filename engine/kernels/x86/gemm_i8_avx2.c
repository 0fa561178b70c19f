#include "kernels/x86/vec_i32_avx2.h"

#define KG 2
#define A_U8 0
#define weights vi_widen
#define dot vi_madd
#include "kernels/x86/gemm_i8_tmpl.h"
