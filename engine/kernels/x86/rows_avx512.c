#include "kernels/x86/vec_avx512.h"

#include "kernels/x86/rows_tmpl.h"
