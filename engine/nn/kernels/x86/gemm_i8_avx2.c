#include "nn/kernels/x86/vec_i32_avx2.h"

#define KG 4
#define SUMS_16
#define weights vi_load
#define dot vi_dot_bytes
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
