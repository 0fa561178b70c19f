#include "nn/kernels/arm/vec_i32_neon.h"

#define KG 2
#define weights vi_widen
#define dot vi_madd
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
