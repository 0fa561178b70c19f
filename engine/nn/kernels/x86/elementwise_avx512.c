#include "nn/kernels/x86/vec_avx512.h"

#include "nn/kernels/tmpl/elementwise_tmpl.h"
