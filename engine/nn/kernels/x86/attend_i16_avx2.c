/* Attention in integers of 16 bits by vpmaddwd: its sums of two are added in an operation of their
 * own. Zen 3 to 5 do two of the one and four of both in a cycle, Skylake two and three, Haswell one
 * and three, which is no faster than f32. */
#include "nn/kernels/x86/vec_i32_avx2.h"

#include "nn/kernels/attend_i8.h"

#define ATTEND_INTS
#define PAIRS vi_add_pairs
#include "nn/kernels/tmpl/attend_tmpl.h"
