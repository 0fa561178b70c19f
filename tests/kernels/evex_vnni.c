/* The kernels of the avxvnni level with the encoding of vpdpbusd that CPUs of the vnni level have
 * (EVEX, AVX-512 VL): the same source and sums, for CPUs that lack the other encoding. */
#if defined(__x86_64__)
#include "tests/kernels/kcheck.h"

#define EVEX 1
#include "nn/kernels/x86/gemm_i8_avxvnni.c"
#else
typedef int nothing_here; /* C does not allow empty files */
#endif
