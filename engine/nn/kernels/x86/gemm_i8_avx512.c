#include "nn/kernels/x86/vec_i32_avx512.h"

#define KG 2
#define A_U8 0
#define A_S8 0
#define SUMS_16 0
#define weights vi_widen
#define dot vi_madd
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
