/* The avxvnni level's kernels with vpdpbusd as CPUs of the vnni level have it (EVEX, AVX-512 VL):
 * the same source and sums, for CPUs that lack the other encoding. */
#if defined(__x86_64__)
#include "tests/kernels/kcheck.h"

#define EVEX 1
#include "nn/kernels/x86/gemm_i8_avxvnni.c"
#else
typedef int nothing_here; /* C has no empty files */
#endif
