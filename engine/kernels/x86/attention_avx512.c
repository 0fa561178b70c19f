#include "kernels/x86/vec_avx512.h"

#include "kernels/x86/attention_tmpl.h"
