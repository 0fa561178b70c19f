#include "kernels/arm/vec_neon.h"

#include "kernels/x86/gemm_tmpl.h"
#include "kernels/x86/conv_tmpl.h"
#include "kernels/x86/nhwc_tmpl.h"
