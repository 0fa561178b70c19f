#include "kernels/x86/vec_avx512.h"

#include "kernels/x86/gemm_tmpl.h"
#include "kernels/x86/conv_tmpl.h"
#include "kernels/x86/nhwc_tmpl.h"
