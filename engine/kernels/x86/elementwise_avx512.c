#include "kernels/x86/vec_avx512.h"

#include "kernels/x86/elementwise_tmpl.h"
