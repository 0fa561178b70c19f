#include "kernels/arm/vec_neon.h"

#include "kernels/x86/elementwise_tmpl.h"
