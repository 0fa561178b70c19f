#include "kernels/arm/vec_neon.h"

#include "kernels/x86/attention_tmpl.h"
