#include "nn/kernels/arm/vec_neon.h"

#include "nn/kernels/tmpl/rows_tmpl.h"
