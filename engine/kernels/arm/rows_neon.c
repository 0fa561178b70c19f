#include "kernels/arm/vec_neon.h"

#include "kernels/x86/rows_tmpl.h"
