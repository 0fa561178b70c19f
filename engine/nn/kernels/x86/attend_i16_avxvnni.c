/* Attention in integers of 16 bits by the vpdpwssd of CPUs without AVX-512. */
#include "nn/kernels/x86/vec_i32_avx2.h"

#include "nn/kernels/attend_i8.h"

#undef ISA
#ifdef EVEX /* tests/kernels/evex_attend_i16_vnni.c */
#define ISA evex
#define PAIRS _mm256_dpwssd_epi32
#else
#define ISA avxvnni
#define PAIRS _mm256_dpwssd_avx_epi32
#endif
#define ATTEND_INTS
#include "nn/kernels/tmpl/attend_tmpl.h"
