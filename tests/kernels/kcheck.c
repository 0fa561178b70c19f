/* kcheck [--level L[,L]...] [--only SLOT]     check, TAP output, exit 1 if anything failed
 * kcheck --bench [NAME]                measure */
#include "tests/kernels/kcheck.h"

#include "base/cpu.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *only_slot;
static struct {
    char name[96];
    int number, failed_tests, failures, shared;
} now;
static steno_kernels seen[16]; /* levels checked before this one */
static size_t n_seen;

/* True if both levels have the same functions in all slots that the check of `slot` calls. */
static bool same_functions(const steno_kernels *a, const steno_kernels *b, const char *slot)
{
#define AT(member) offsetof(steno_kernels, member)
    static const size_t bf16[] = {AT(gemm_bf16), AT(gemm_f16)};
    static const size_t i8[] = {AT(gemm_i8_packed_bytes), AT(conv_f32_packed_bytes)};
    static const size_t others[] = {
        AT(exp_f32), AT(gemm_bf16), AT(gemm_f16), AT(peak_i8), AT(conv_f32_packed_bytes),
        sizeof *a};
#undef AT
    const bool is_bf16 = strstr(slot, "bf16"),
               is_i8 = strstr(slot, "i8") || strstr(slot, "quantize");
    const size_t *range = is_bf16 ? bf16 : is_i8 ? i8 : others;
    for (size_t i = 0; i < (is_bf16 || is_i8 ? 2 : 6); i += 2)
        if (memcmp((const char *)a + range[i], (const char *)b + range[i], range[i + 1] - range[i]))
            return false;
    return true;
}

bool test_begin(const steno_kernels *k, const char *slot)
{
    if (only_slot && strcmp(only_slot, slot))
        return false;
    for (size_t i = 0; i < n_seen; i++)
        if (same_functions(&seen[i], k, slot)) {
            now.shared++;
            return false;
        }
    snprintf(now.name, sizeof now.name, "%s %s", k->level, slot);
    now.failures = 0;
    return true;
}

void test_fail(const char *fmt, ...)
{
    va_list ap;
    if (++now.failures > 5)
        return;
    printf("# ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

void test_end(void)
{
    now.number++;
    now.failed_tests += now.failures > 0;
    if (now.failures > 5)
        printf("# ... %d failures in all\n", now.failures);
    printf("%s %d - %s\n", now.failures ? "not ok" : "ok", now.number, now.name);
    fflush(stdout);
}

/* The avxvnni level on a CPU that has its instruction only in the other encoding. */
static void init_evex(steno_kernels *k, unsigned mask)
{
#if defined(__x86_64__)
    if (!(mask & STENO_CPU_AVXVNNI) && (steno_cpu_detect() & STENO_CPU_VNNI)) {
        printf("# avxvnni: by the EVEX form of its instruction\n");
        steno_kernels_gemm_i8__evex(k);
        steno_kernels_attend_i8__evex(k);
        steno_kernels_attend_i16__evex(k);
        k->level = "avxvnni";
    }
#else
    (void)k;
    (void)mask;
#endif
}

static void check_level(const char *level)
{
    steno_kernels k;
    unsigned mask;
    steno_err err;
    memset(&k, 0xa5, sizeof k); /* steno_kernels_init must fill all of it */
    if (steno_cpu_level(level, steno_cpu_detect(), &mask, &err)) {
        fprintf(stderr, "kcheck: %s\n", err.msg);
        exit(64);
    }
    steno_kernels_init(&k, mask);
    if (!strcmp(level, "avxvnni"))
        init_evex(&k, mask);
    if (strcmp(level, k.level) && strcmp(level, "native")) {
        printf("# no %s on this CPU: level skipped\n", level);
        return;
    }
    now.shared = 0;
    check_gemm(&k);
    if (strcmp(k.level, "blas")) { /* the other slots of level blas are those of scalar */
        check_elementwise(&k);
        check_rows(&k);
        check_gemm_i8(&k);
        check_conv(&k);
        check_winograd(&k);
        check_attention(&k);
        check_attend(&k);
        check_attend_i8(&k);
        check_fbank(&k);
    }
    if (now.shared)
        printf("# %s: %d slots have the functions of a level checked before\n", level, now.shared);
    seen[n_seen++] = k;
}

/* True if name is in the list, which is separated by commas; without a list, every name is. */
static bool is_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (; list; list = *list ? list + 1 : NULL) {
        if (!strncmp(list, name, n) && (!list[n] || list[n] == ','))
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"scalar", "blas", "avx2", "avxvnni", "avx512",
                                      "vnni",   "bf16", "amx",  "neon",    "dotprod"};
    const char *levels = NULL;
    char text[128];
    for (int i = 1; i < argc; i++) {
#ifndef KCHECK_NO_BENCH /* it links OpenBLAS, which a cross compiler does not have */
        if (strcmp(argv[i], "--bench") == 0)
            return run_benchmarks(i + 1 < argc ? argv[i + 1] : NULL);
#endif
        if (strcmp(argv[i], "--level") == 0 && i + 1 < argc)
            levels = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only_slot = argv[++i];
        else {
            fprintf(stderr, "usage: kcheck [--level L[,L]...] [--only SLOT] | --bench [NAME]\n");
            return 64;
        }
    }
    printf("# %s\n", steno_cpu_name(text, sizeof text));
    printf("# %s\n", steno_cpu_str(steno_cpu_detect(), text, sizeof text));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!levels || is_listed(levels, all[i]))
            check_level(all[i]);
    printf("1..%d\n", now.number);
    return now.failed_tests ? 1 : 0;
}
