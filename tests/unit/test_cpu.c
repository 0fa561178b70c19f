#include "base/cpu.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

static void a_level_never_raises_the_detected_one(void **state)
{
    static const char *const names[] = {"scalar", "avx2", "avx512", "vnni",
                                        "bf16",   "amx",  "native", "random"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsigned mask = ~0u;
        assert_int_equal(steno_cpu_level(names[i], STENO_CPU_AVX2, &mask, NULL), STENO_OK);
        assert_int_equal(mask & ~(unsigned)STENO_CPU_AVX2, 0);
    }
}

static void unknown_level_is_named_in_the_error(void **state)
{
    steno_err err;
    unsigned mask = 7;
    (void)state;
    assert_int_equal(steno_cpu_level("avx1024", ~0u, &mask, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "avx1024"));
    assert_int_equal(mask, 7);
}

static void environment_lowers_the_level_and_a_name_wins(void **state)
{
    unsigned mask = 7;
    (void)state;
    setenv("STENO_CPU", "scalar", 1);
    assert_int_equal(steno_cpu_choose(NULL, &mask, NULL), STENO_OK);
    assert_int_equal(mask, 0);
    assert_int_equal(steno_cpu_choose("native", &mask, NULL), STENO_OK);
    assert_int_equal(mask, steno_cpu_detect());
    unsetenv("STENO_CPU");
    assert_int_equal(steno_cpu_choose(NULL, &mask, NULL), STENO_OK);
    assert_int_equal(mask, steno_cpu_detect());
}

static void detection_agrees_with_the_compiler_runtime(void **state)
{
    unsigned mask = steno_cpu_detect();
    (void)state;
#if defined(__x86_64__) /* libgcc reads CPUID and XCR0 by itself */
    assert_int_equal(!!(mask & STENO_CPU_AVX2),
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal(!!(mask & STENO_CPU_AVX512),
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
    assert_int_equal(!!(mask & STENO_CPU_VNNI), !!__builtin_cpu_supports("avx512vnni"));
#elif defined(                                                                                     \
    __aarch64__) /* Linux shows ID registers: Documentation/arm64/cpu-feature-registers.rst */
    uint64_t isar0;
    __asm__("mrs %0, id_aa64isar0_el1" : "=r"(isar0));
    assert_true(mask & STENO_CPU_NEON);
    assert_int_equal(!!(mask & STENO_CPU_DOTPROD), (isar0 >> 44 & 15) >= 1);
#else
    assert_int_equal(mask, STENO_CPU_BLAS);
#endif
}

static void mask_prints_as_names_cut_to_size(void **state)
{
    char s[64], tiny[6];
    (void)state;
    assert_string_equal(steno_cpu_str(0, s, sizeof s), "scalar");
    assert_string_equal(steno_cpu_str(STENO_CPU_AVX2 | STENO_CPU_VNNI, s, sizeof s), "avx2+vnni");
    assert_string_equal(steno_cpu_str(STENO_CPU_AVX2 | STENO_CPU_VNNI, tiny, sizeof tiny), "avx2+");
    assert_true(strlen(steno_cpu_name(s, sizeof s)) > 0);
}

static void denormals_flush_and_come_back(void **state)
{
    volatile float tiny = 1e-38f, scale = 0.01f, before = tiny * scale, inside;
    unsigned mode = steno_cpu_flush_denormals();
    (void)state;
    inside = tiny * scale;
    steno_cpu_restore_denormals(mode);
    assert_true(before > 0.0f);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_true(inside == 0.0f);
#endif
    assert_true(tiny * scale == before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_never_raises_the_detected_one),
        cmocka_unit_test(unknown_level_is_named_in_the_error),
        cmocka_unit_test(environment_lowers_the_level_and_a_name_wins),
        cmocka_unit_test(detection_agrees_with_the_compiler_runtime),
        cmocka_unit_test(mask_prints_as_names_cut_to_size),
        cmocka_unit_test(denormals_flush_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
