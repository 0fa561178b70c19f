/* As evex_vnni.c, for attention in 16-bit integers. */
#if defined(__x86_64__)
#include "tests/kernels/kcheck.h"

#define EVEX 1
#include "nn/kernels/x86/attend_i16_avxvnni.c"
#else
typedef int nothing_here; /* C does not allow empty files */
#endif
