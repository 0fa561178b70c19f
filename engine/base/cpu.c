#include "base/cpu.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define FLUSH 0x8040u /* FTZ, DAZ: Intel SDM vol. 1, 11.6.3 and 10.2.3 */

/* XCR0 bits: the register files that the operating system saves. */
enum {
    XCR0_YMM = 1u << 1 | 1u << 2,
    XCR0_ZMM = XCR0_YMM | 1u << 5 | 1u << 6 | 1u << 7,
    XCR0_TILE = 1u << 17 | 1u << 18
};

static unsigned xcr0(void)
{
    unsigned lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

/* Linux permits tile registers only to a process that asks for them (arch_prctl
 * ARCH_REQ_XCOMP_PERM, Documentation/arch/x86/xstate.rst); otherwise the first tile instruction is
 * SIGILL. */
static bool amx_permission(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

/* Bit numbers: Intel SDM vol. 2A, CPUID, leaves 1, 7.0 and 7.1. */
static unsigned detect_x86(void)
{
    unsigned a, b, c, d, b7 = 0, c7 = 0, d7 = 0, a71 = 0, os, mask = 0;
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F DQ BW VL */
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) /* OSXSAVE: xgetbv is allowed */
        return 0;
    os = xcr0();
    if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) && a >= 1)
        __get_cpuid_count(7, 1, &a71, &b, &d, &d);
    if ((os & XCR0_YMM) != XCR0_YMM || !(b7 & 1u << 5) || !(c & 1u << 12) || !(c & 1u << 29))
        return 0;
    mask = STENO_CPU_AVX2;
    if (a71 & 1u << 4)
        mask |= STENO_CPU_AVXVNNI;
    if ((os & XCR0_ZMM) != XCR0_ZMM || (b7 & avx512) != avx512)
        return mask;
    mask |= STENO_CPU_AVX512;
    if (c7 & 1u << 11)
        mask |= STENO_CPU_VNNI;
    if (a71 & 1u << 5)
        mask |= STENO_CPU_BF16;
    if ((os & XCR0_TILE) == XCR0_TILE && (d7 & 1u << 22) && (d7 & 1u << 24) && (d7 & 1u << 25) &&
        amx_permission())
        mask |= STENO_CPU_AMX;
    return mask;
}

/* OpenBLAS's kernels for AMD's K8 (family 15) use 3DNow!, which it does not check. Virtual CPUs
 * such as qemu64 say that they are a K8 and do not have it. Bits: AMD64 Architecture Programmer's
 * Manual vol. 3, appendix E. */
static bool blas_runs(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx)
        return true;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (a >> 8 & 15) + (a >> 20 & 255) != 15)
        return true;
    return __get_cpuid(0x80000001u, &a, &b, &c, &d) && d & 1u << 31;
}
#endif

unsigned steno_cpu_detect(void)
{
#if defined(__x86_64__)
    unsigned mask = detect_x86();
    return mask || !blas_runs() ? mask : STENO_CPU_BLAS;
#elif defined(__aarch64__)
    return STENO_CPU_NEON | (getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? STENO_CPU_DOTPROD : 0);
#else
    return STENO_CPU_BLAS;
#endif
}

static const struct {
    const char *name;
    unsigned mask;
} levels[] = {
    {"scalar", 0},
    {"avx2", STENO_CPU_AVX2},
    {"avxvnni", STENO_CPU_AVX2 | STENO_CPU_AVXVNNI},
    {"avx512", STENO_CPU_AVX2 | STENO_CPU_AVX512},
    {"vnni", STENO_CPU_AVX2 | STENO_CPU_AVX512 | STENO_CPU_VNNI},
    {"bf16", STENO_CPU_AVX2 | STENO_CPU_AVX512 | STENO_CPU_VNNI | STENO_CPU_BF16},
    {"amx", STENO_CPU_AVX2 | STENO_CPU_AVX512 | STENO_CPU_VNNI | STENO_CPU_BF16 | STENO_CPU_AMX},
    {"neon", STENO_CPU_NEON},
    {"dotprod", STENO_CPU_NEON | STENO_CPU_DOTPROD},
};

enum { N_LEVELS = sizeof levels / sizeof levels[0] };

steno_status steno_cpu_level(const char *name, unsigned have, unsigned *mask, steno_err *err)
{
    size_t i;
    if (strcmp(name, "native") == 0) {
        *mask = have;
        return STENO_OK;
    }
    if (strcmp(name, "blas") == 0) {
        *mask = STENO_CPU_BLAS;
        return STENO_OK;
    }
    if (strcmp(name, "random") == 0) {
        uint64_t seed = (uint64_t)steno_now_ns() * UINT64_C(0x9E3779B97F4A7C15);
        *mask = levels[(seed >> 40) % N_LEVELS].mask & have;
        return STENO_OK;
    }
    for (i = 0; i < N_LEVELS; i++)
        if (strcmp(name, levels[i].name) == 0) {
            *mask = levels[i].mask & have;
            return STENO_OK;
        }
    return steno_fail(
        err, STENO_ERR_INVAL,
        "unknown CPU level '%s' (scalar, blas, avx2, avxvnni, avx512, vnni, bf16, amx, neon, "
        "dotprod, native)",
        name);
}

steno_status steno_cpu_choose(const char *name, unsigned *mask, steno_err *err)
{
    unsigned have = steno_cpu_detect();
    if (!name || !*name)
        name = getenv("STENO_CPU");
    return steno_cpu_level(name && *name ? name : "native", have, mask, err);
}

const char *steno_cpu_str(unsigned mask, char *out, size_t size)
{
    static const char *const names[] = {"avx2", "avx512", "vnni",    "bf16", "avxvnni",
                                        "amx",  "neon",   "dotprod", "blas"};
    size_t at = 0;
    if (!size)
        return out;
    snprintf(out, size, "%s", mask ? "" : "scalar");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int n;
        if (!(mask & 1u << i) || at >= size)
            continue;
        n = snprintf(out + at, size - at, "%s%s", at ? "+" : "", names[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return out;
}

const char *steno_cpu_name(char *out, size_t size)
{
    const char *from = "unknown";
#if defined(__x86_64__)
    unsigned r[12];
    char brand[sizeof r + 1];
    if (__get_cpuid(0x80000000u, &r[0], &r[1], &r[2], &r[3]) && r[0] >= 0x80000004u) {
        for (unsigned i = 0; i < 3; i++)
            __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
        memcpy(brand, r, sizeof r);
        brand[sizeof r] = '\0';
        from = brand + strspn(brand, " ");
    }
#endif
    snprintf(out, size, "%s", from);
    return out;
}

unsigned steno_cpu_flush_denormals(void)
{
#if defined(__x86_64__)
    unsigned mode = _mm_getcsr();
    if ((mode & FLUSH) != FLUSH)
        _mm_setcsr(mode | FLUSH);
    return mode;
#elif defined(__aarch64__)
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | 1u << 24)); /* FZ: operands and results */
    return (unsigned)mode;
#else
    return 0;
#endif
}

void steno_cpu_restore_denormals(unsigned mode)
{
#if defined(__x86_64__)
    if ((mode & FLUSH) != FLUSH)
        _mm_setcsr(mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
#else
    (void)mode;
#endif
}
