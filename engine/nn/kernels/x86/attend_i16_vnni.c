/* Attention in integers of 16 bits by vpdpwssd. */
#include "nn/kernels/x86/vec_i32_avx512.h"

#include "nn/kernels/attend_i8.h"

#undef ISA
#define ISA vnni
#define ATTEND_INTS
#define PAIRS _mm512_dpwssd_epi32
#include "nn/kernels/tmpl/attend_tmpl.h"
