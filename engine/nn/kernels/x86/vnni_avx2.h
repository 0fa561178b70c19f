/* vpdpbusd and vpdpwssd on eight lanes as dot() and dot_pairs(): the encoding of CPUs without
 * AVX-512 (Alder Lake on, Zen 5) or, with EVEX, that of AVX-512 VL, for kcheck on CPUs that lack
 * the other (tests/kernels/evex_vnni.c). */
#ifndef STENO_NN_KERNELS_X86_VNNI_AVX2_H
#define STENO_NN_KERNELS_X86_VNNI_AVX2_H

#include "nn/kernels/x86/vec_i32_avx2.h"

#undef ISA
#ifdef EVEX
#define ISA evex
#define dot(acc, a, b) _mm256_dpbusd_epi32(acc, a, b)
#define dot_pairs(acc, a, b) _mm256_dpwssd_epi32(acc, a, b)
#else
#define ISA avxvnni
#define dot(acc, a, b) _mm256_dpbusd_avx_epi32(acc, a, b)
#define dot_pairs(acc, a, b) _mm256_dpwssd_avx_epi32(acc, a, b)
#endif

#endif
