#include "nn/kernels/x86/vec_i32_avx2.h"

#define KG 2
#define A_U8 0
#define weights vi_widen
#define dot vi_madd
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
