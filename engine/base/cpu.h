/* CPU features, read from CPUID and XCR0 (Intel SDM vol. 1, 13.3: a feature counts only when the
 * operating system saves its registers), on AArch64 from the kernel (HWCAP). */
#ifndef STENO_BASE_CPU_H
#define STENO_BASE_CPU_H

#include "base/status.h"

enum {
    STENO_CPU_AVX2 = 1u << 0,   /* AVX2 + FMA + F16C */
    STENO_CPU_AVX512 = 1u << 1, /* F + BW + DQ + VL */
    STENO_CPU_VNNI = 1u << 2,   /* AVX-512 VNNI */
    STENO_CPU_BF16 = 1u << 3,   /* AVX-512 BF16 */
    STENO_CPU_AVXVNNI = 1u << 4,
    STENO_CPU_AMX = 1u << 5,  /* AMX-TILE + AMX-BF16 + AMX-INT8, permission granted by the kernel */
    STENO_CPU_NEON = 1u << 6, /* every AArch64 */
    STENO_CPU_DOTPROD = 1u << 7, /* AArch64 sdot */
    STENO_CPU_BLAS = 1u << 8 /* large f32 GEMMs go to OpenBLAS: set where we have no SIMD kernel */
};

unsigned steno_cpu_detect(void);
/* Mask of a level name within `have`: "scalar", "blas" (scalar with OpenBLAS for large GEMMs),
 * "avx2", "avxvnni", "avx512", "vnni", "bf16", "amx", "neon", "dotprod", "native", or "random" (one
 * of the levels present, by the clock: for fuzzing). STENO_ERR_INVAL for an unknown name. A level
 * never raises what the CPU has: "avx512" on a CPU with AVX2 alone gives the AVX2 mask. */
STENO_MUST steno_status steno_cpu_level(const char *name, unsigned have, unsigned *mask,
                                        steno_err *err);
/* Level in force: the name if given, else environment STENO_CPU, else everything detected. */
STENO_MUST steno_status steno_cpu_choose(const char *name, unsigned *mask, steno_err *err);
/* "avx2+avx512+vnni", "scalar" for an empty mask; cut to size. Returns out. */
const char *steno_cpu_str(unsigned mask, char *out, size_t size);
/* Brand string of the processor, "unknown" where there is none. Returns out. */
const char *steno_cpu_name(char *out, size_t size);

/* Flush denormal results and inputs to zero on this thread; returns the mode to give back to
 * steno_cpu_restore_denormals. Decaying recurrent states would otherwise run at a hundredth of the
 * speed. Sessions do this around a run, team threads for life. No-op where unsupported. */
unsigned steno_cpu_flush_denormals(void);
void steno_cpu_restore_denormals(unsigned mode);

#endif
