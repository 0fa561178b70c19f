#include "speech/families/common/precision.h"

#include "base/cpu.h"

/* True if 8-bit products take less time than those of f32: from AVX2 on (1.3 to 1.9 times on Zen 3,
 * docs/log/2026-11-28.md), and on AArch64 with dot products, which do four multiply-adds for one.
 * With neither they are not known to be faster; plain C is several times slower in bytes. */
static bool multiplies_bytes(unsigned has)
{
    return has & (STENO_CPU_AVX2 | STENO_CPU_DOTPROD);
}

steno_status steno_choose_precision(enum steno_precision asked, const char *cpu, bool allows_int8,
                                    bool allows_bf16, enum steno_precision *out, steno_err *err)
{
    unsigned has;
    steno_status st;
    *out = asked;
    if (asked != STENO_AUTO_WEIGHTS || !(allows_int8 || allows_bf16))
        return STENO_OK;
    st = steno_cpu_choose(cpu, &has, err);
    if (!st)
        *out = allows_int8 && multiplies_bytes(has)  ? STENO_INT8_WEIGHTS
               : allows_bf16 && has & STENO_CPU_BF16 ? STENO_BF16_WEIGHTS
                                                     : STENO_FP32;
    return st;
}

steno_status steno_prefers_int8_files(enum steno_precision asked, const char *cpu, bool *out,
                                      steno_err *err)
{
    unsigned has = 0;
    steno_status st = steno_cpu_choose(cpu, &has, err);
    *out = asked == STENO_INT8_WEIGHTS || (asked == STENO_AUTO_WEIGHTS && multiplies_bytes(has));
    return st;
}
