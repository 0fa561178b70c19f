#include "nn/kernels/arm/vec_neon.h"

#include "nn/kernels/tmpl/elementwise_tmpl.h"
