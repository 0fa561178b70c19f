#include "nn/kernels/x86/vec_i32_avx2.h"

#define KG 4
#define A_U8 0
#define A_S8 0
#define SUMS_16 1
#define weights vi_load
#define dot vi_dot_bytes
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
