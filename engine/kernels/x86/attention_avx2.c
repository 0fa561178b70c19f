#include "kernels/x86/vec_avx2.h"

#include "kernels/x86/attention_tmpl.h"
