#include "nn/kernels/x86/vec_avx512.h"

#include "nn/kernels/tmpl/rows_tmpl.h"
