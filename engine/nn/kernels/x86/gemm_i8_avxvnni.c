/* vpdpbusd of CPUs without AVX-512 (Alder Lake on, Zen 5): the sums of the vnni level, eight lanes
 * wide. */
#include "nn/kernels/x86/vec_i32_avx2.h"

#undef ISA
#ifdef EVEX /* tests/kernels/evex_vnni.c */
#define ISA evex
#define dot(acc, a, b) _mm256_dpbusd_epi32(acc, a, b)
#else
#define ISA avxvnni
#define dot(acc, a, b) _mm256_dpbusd_avx_epi32(acc, a, b)
#endif
#define KG 4
#define A_U8 1
#define weights vi_load
#include "nn/kernels/tmpl/gemm_i8_tmpl.h"
