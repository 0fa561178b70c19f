#include "nn/kernels/arm/vec_neon.h"

#include "nn/kernels/tmpl/gemm_f32_tmpl.h"
#include "nn/kernels/tmpl/gemm_f32_slots_tmpl.h"
#include "nn/kernels/tmpl/conv_tmpl.h"
#include "nn/kernels/tmpl/nhwc_tmpl.h"
