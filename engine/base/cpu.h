/* CPU features, read from CPUID and XCR0 (Intel SDM vol. 1, 13.3: a feature counts only if the
 * operating system saves its registers); on AArch64 from the kernel (HWCAP). */
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
    STENO_CPU_BLAS =
        1u << 8 /* large f32 GEMMs go to OpenBLAS: for CPUs without a SIMD kernel of ours */
};

unsigned steno_cpu_detect(void);
/* Find the mask of a level within `have`. Names: "scalar", "blas" (scalar with OpenBLAS for large
 * GEMMs), "avx2", "avxvnni", "avx512", "vnni", "bf16", "amx", "neon", "dotprod", "native", "random"
 * (one of the available levels, chosen by the clock: for fuzzing). STENO_ERR_INVAL: unknown name. A
 * level never adds features that the CPU does not have: "avx512" on a CPU with AVX2 alone gives the
 * AVX2 mask. */
STENO_MUST steno_status steno_cpu_level(const char *name, unsigned have, unsigned *mask,
                                        steno_err *err);
/* The level in force: the name if given, else the environment variable STENO_CPU, else everything
 * detected. */
STENO_MUST steno_status steno_cpu_choose(const char *name, unsigned *mask, steno_err *err);
/* Text of a mask: "avx2+avx512+vnni", "scalar" for an empty one; truncated to size. Returns out. */
const char *steno_cpu_str(unsigned mask, char *out, size_t size);
/* Brand string of the processor, "unknown" if there is none. Returns out. */
const char *steno_cpu_name(char *out, size_t size);

/* Flush denormal results and inputs to zero on this thread. Returns the old mode for
 * steno_cpu_restore_denormals. Otherwise decaying recurrent states would run at a hundredth of the
 * speed. Sessions do this around a run, team threads permanently. No-op where unsupported. */
unsigned steno_cpu_flush_denormals(void);
void steno_cpu_restore_denormals(unsigned mode);

#endif
