#include "nn/kernels/arm/vec_neon.h"

#include "nn/kernels/tmpl/attention_tmpl.h"
