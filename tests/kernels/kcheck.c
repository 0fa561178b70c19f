/* kcheck [--level L] [--only SLOT]     check, TAP output, exit 1 if anything failed
 * kcheck --bench [NAME]                measure */
#include "tests/kernels/kcheck.h"

#include "base/cpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *only_slot;
static struct {
    char name[96];
    int number, failed_tests, failures;
} now;

bool test_begin(const steno_kernels *k, const char *slot)
{
    if (only_slot && strcmp(only_slot, slot))
        return false;
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

static void check_level(const char *level)
{
    steno_kernels k;
    unsigned mask;
    steno_err err;
    memset(&k, 0, sizeof k);
    if (steno_cpu_level(level, steno_cpu_detect(), &mask, &err)) {
        fprintf(stderr, "kcheck: %s\n", err.msg);
        exit(64);
    }
    steno_kernels_init(&k, mask);
    if (strcmp(level, k.level) && strcmp(level, "native")) {
        printf("# no %s on this CPU: level skipped\n", level);
        return;
    }
    check_gemm(&k);
    if (strcmp(k.level, "blas") == 0) /* the rest of it is the scalar level's */
        return;
    check_elementwise(&k);
    check_rows(&k);
    check_gemm_i8(&k);
    check_conv(&k);
    check_winograd(&k);
    check_attention(&k);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"scalar", "blas", "avx2", "avxvnni", "avx512",
                                      "vnni",   "bf16", "neon", "dotprod"};
    const char *level = NULL;
    char text[128];
    for (int i = 1; i < argc; i++) {
#ifndef KCHECK_NO_BENCH /* it links OpenBLAS, which a cross compiler has not */
        if (strcmp(argv[i], "--bench") == 0)
            return run_benchmarks(i + 1 < argc ? argv[i + 1] : NULL);
#endif
        if (strcmp(argv[i], "--level") == 0 && i + 1 < argc)
            level = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only_slot = argv[++i];
        else {
            fprintf(stderr, "usage: kcheck [--level L] [--only SLOT] | --bench [NAME]\n");
            return 64;
        }
    }
    printf("# %s\n", steno_cpu_name(text, sizeof text));
    printf("# %s\n", steno_cpu_str(steno_cpu_detect(), text, sizeof text));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!level || strcmp(level, all[i]) == 0)
            check_level(all[i]);
    printf("1..%d\n", now.number);
    return now.failed_tests ? 1 : 0;
}
