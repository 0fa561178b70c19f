/* Checks of every kernel slot at every CPU level, and their benchmarks. */
#ifndef TESTS_KERNELS_KCHECK_H
#define TESTS_KERNELS_KCHECK_H

#include "nn/kernels/kernels.h"

#include <math.h>

/* Under an emulator, and under sanitizers that check memory, fewer numbers of the same shapes are
 * compared with the exact ones. */
#if defined(KCHECK_NO_BENCH) || defined(STENO_SANITIZE)
enum { KCHECK_FEW = 1 };
#else
enum { KCHECK_FEW = 0 };
#endif

#define EPS 5.9604645e-8 /* 2^-24: half an ulp of 1 */

/* evex_vnni.c: the avxvnni level's slots, after avx2, for CPUs of the vnni level. */
void steno_kernels_gemm_i8__evex(steno_kernels *k);
void steno_kernels_attend_i8__evex(steno_kernels *k);
void steno_kernels_attend_i16__evex(steno_kernels *k);

/* ---- kcheck.c: one TAP line per slot and level ---- */
/* Start a test. False if the command line excludes it. */
bool test_begin(const steno_kernels *k, const char *slot);
/* Report a failed comparison with its context; only the first few of a test are printed. */
void test_fail(const char *fmt, ...) STENO_PRINTF(1, 2);
void test_end(void);

/* ---- memory.c ---- */
/* n floats whose end touches an inaccessible page: reading or writing past them is a fault.
 * guard_free checks the canary before them and fails the test if it changed. */
float *guard_new(size_t n);
void guard_free(float *p);
/* Deterministic numbers: uniform in [-1,1], or of any magnitude, with infinities and NaN. */
uint64_t random_bits(void);
size_t random_below(size_t n);
void fill_uniform(float *x, size_t n);
void fill_wild(float *x, size_t n);

/* |got - want| in units of the last place of want; 0 when both are NaN or the same infinity. */
double ulp_error(float got, double want);
/* True if got is within bound of want; NaN and infinities must be equal. */
bool close_to(float got, double want, double bound);
/* Of n numbers, each `step` behind the one before. */
double largest_magnitude(const float *x, size_t step, size_t n);

/* activations.c: the activation of ep in double. */
#define N_ACTIVATIONS (STENO_ACT_MISH + 1)
double activation_of(double v, const struct steno_gemm_epilogue *ep);

/* ---- the families ---- */
void check_elementwise(const steno_kernels *k);
void check_rows(const steno_kernels *k);
void check_gemm(const steno_kernels *k);
void check_gemm_i8(const steno_kernels *k);
void check_conv(const steno_kernels *k);
void check_winograd(const steno_kernels *k);
void check_attention(const steno_kernels *k);
void check_attend(const steno_kernels *k);
void check_attend_i8(const steno_kernels *k);
void check_fbank(const steno_kernels *k);
int run_benchmarks(const char *only);
/* Nanoseconds of one call, as described in bench.c. */
double bench_time(void (*call)(const void *arg), const void *arg);
int bench_i8(void);
int bench_bf16(void);
int bench_winograd(void);
int bench_attend(void);
int bench_fbank(void);

#endif
