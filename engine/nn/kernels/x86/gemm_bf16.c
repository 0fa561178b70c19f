#include "nn/kernels/x86/vec_avx512.h"

#undef ISA
#define ISA bf16
#include "nn/kernels/x86/bf16_tmpl.h"
