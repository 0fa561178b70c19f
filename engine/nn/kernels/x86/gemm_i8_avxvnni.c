/* vpdpbusd of CPUs without AVX-512: the sums of the vnni level, eight lanes wide. */
#include "nn/kernels/x86/vnni_avx2.h"

#define KG 4
#define A_U8 1
#define A_S8 0
#define SUMS_16 0
#define weights vi_load
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
