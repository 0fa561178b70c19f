#include "nn/kernels/x86/vec_avx2.h"

#include "nn/kernels/tmpl/elementwise_tmpl.h"
