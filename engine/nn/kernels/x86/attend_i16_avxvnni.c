/* Attention in integers of 16 bits by the vpdpwssd of CPUs without AVX-512. */
#include "nn/kernels/x86/vnni_avx2.h"

#include "nn/kernels/attend_i8.h"

#define ATTEND_INTS
#define PAIRS dot_pairs
#include "nn/kernels/tmpl/attend_tmpl.h"
