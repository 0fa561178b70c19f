#include "nn/kernels/x86/vec_i32_avx512.h"

#undef ISA
#define ISA vnni
#define KG 4
#define A_U8 1
#define A_S8 0
#define SUMS_16 0
#define weights vi_load
#define dot(acc, a, b) _mm512_dpbusd_epi32(acc, a, b)
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
