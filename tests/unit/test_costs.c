/* Measured costs of models, kept in files: round trip, what the file's name depends on, damaged
 * files. */
/* link: server/core/costs.c */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/core/costs.h"
#include "tests/support/test.h"

static const struct steno_pool_costs costs = {
    {0.001, 0.0015, 0.0021, 0.004, (double)INFINITY, (double)INFINITY}, 0.0003};

struct place {
    char dir[64], model[128], sub[160], cache[128];
};

static void put(const char *dir, const char *name, const char *text)
{
    char path[512];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
    static struct place p;
    snprintf(p.dir, sizeof p.dir, "/tmp/steno-costs-XXXXXX");
    assert_non_null(mkdtemp(p.dir));
    snprintf(p.model, sizeof p.model, "%s/model", p.dir);
    snprintf(p.sub, sizeof p.sub, "%s/model/sub", p.dir);
    snprintf(p.cache, sizeof p.cache, "%s/a/b", p.dir);
    assert_int_equal(mkdir(p.model, 0700), 0);
    assert_int_equal(mkdir(p.sub, 0700), 0);
    put(p.model, "model.conf", "one");
    put(p.sub, "net.onnx", "two");
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    char cmd[128];
    const struct place *p = *state;
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", p->dir);
    FILE *f = popen(cmd, "r");
    return f ? pclose(f) : 1;
}

static void identify(const struct place *p, struct steno_costs_id *id, int batch)
{
    steno_costs_identify(id, p->cache, p->model, "fp32", batch);
    assert_true(*id->file);
}

static void stored_costs_are_read_back(void **state)
{
    const struct place *p = *state;
    struct steno_costs_id id;
    struct steno_pool_costs got;
    struct stat sb;
    steno_err err;
    identify(p, &id, 0);
    assert_false(steno_costs_load(&id, &got));
    /* makes the folders a and b */
    assert_int_equal(steno_costs_store(&id, &costs, true, &err), STENO_OK);
    assert_int_equal(stat(id.file, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    assert_true(steno_costs_load(&id, &got));
    for (int i = 0; i < STENO_POOL_BATCH_SIZES; i++)
        assert_true(got.step[i] == costs.step[i] ||
                    fabs(got.step[i] - costs.step[i]) < 1e-8 * costs.step[i]);
    assert_true(fabs(got.host - costs.host) < 1e-8 * costs.host);
}

static void costs_from_a_busy_machine_are_measured_again(void **state)
{
    const struct place *p = *state;
    struct steno_costs_id id;
    struct steno_pool_costs got;
    identify(p, &id, 0);
    assert_int_equal(steno_costs_store(&id, &costs, false, NULL), STENO_OK);
    assert_int_equal(access(id.file, F_OK), 0);
    assert_false(steno_costs_load(&id, &got));
    assert_int_equal(steno_costs_store(&id, &costs, true, NULL), STENO_OK);
    assert_true(steno_costs_load(&id, &got));
}

static void the_name_follows_content_and_settings_alone(void **state)
{
    const struct place *p = *state;
    struct steno_costs_id a, b;
    identify(p, &a, 0);
    put(p->model, "model.conf", "one"); /* a new time, the same content */
    identify(p, &b, 0);
    assert_string_equal(a.file, b.file);
    identify(p, &b, 8);
    assert_string_not_equal(a.file, b.file);
    steno_costs_identify(&b, p->cache, p->model, "int8", 0);
    assert_string_not_equal(a.file, b.file);
    put(p->sub, "net.onnx", "twO");
    identify(p, &b, 0);
    assert_string_not_equal(a.file, b.file);
    put(p->sub, "net.onnx", "two");
    put(p->model, "more", "");
    identify(p, &b, 0);
    assert_string_not_equal(a.file, b.file);
    setenv("STENO_CPU", "scalar", 1);
    snprintf(b.file, sizeof b.file, "%s/more", p->model);
    assert_int_equal(unlink(b.file), 0);
    identify(p, &b, 0);
    unsetenv("STENO_CPU");
    assert_string_not_equal(a.file, b.file);
}

static void damage_is_as_good_as_nothing(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{\"host\": 1, \"quiet\": true}",
        "{\"step\": [1,1,1,1,1,1], \"host\": 1}",
        "{\"step\": [1,1,1,1,1], \"host\": 1, \"quiet\": true}",
        "{\"step\": [1,1,1,1,1,1,1], \"host\": 1, \"quiet\": true}",
        "{\"step\": [null,1,1,1,1,1], \"host\": 1, \"quiet\": true}",
        "{\"step\": [1,-1,1,1,1,1], \"host\": 1, \"quiet\": true}",
        "{\"step\": [1,\"1\",1,1,1,1], \"host\": 1, \"quiet\": true}",
        "{\"step\": [1,1e300,1,1,1,1], \"host\": 1, \"quiet\": true}",
        "{\"step\": [1,1,1,1,1,1], \"host\": -1, \"quiet\": true}",
        "{\"step\": [1,1,1,1,1,1], \"host\": \"1\", \"quiet\": true}",
    };
    const struct place *p = *state;
    struct steno_costs_id id;
    struct steno_pool_costs got;
    steno_err err;
    identify(p, &id, 0);
    assert_int_equal(steno_costs_store(&id, &costs, true, &err), STENO_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put("", id.file + 1, bad[i]);
        if (steno_costs_load(&id, &got))
            fail_msg("was taken: %s", bad[i]);
    }
    put("", id.file + 1, "{\"step\": [1,1,1,1,1,null], \"host\": 1, \"quiet\": true}");
    assert_true(steno_costs_load(&id, &got));
}

static void without_a_folder_nothing_fails(void **state)
{
    const struct place *p = *state;
    struct steno_costs_id id;
    struct steno_pool_costs got;
    steno_err err;
    steno_costs_identify(&id, "none", p->model, "fp32", 0);
    assert_string_equal(id.file, "");
    assert_int_equal(steno_costs_store(&id, &costs, true, &err), STENO_OK);
    assert_false(steno_costs_load(&id, &got));
    steno_costs_identify(&id, p->cache, "/nonexistent", "fp32", 0);
    assert_string_equal(id.file, "");
    put(p->dir, "file", "");
    char in_file[160];
    snprintf(in_file, sizeof in_file, "%s/file", p->dir);
    steno_costs_identify(&id, in_file, p->model, "fp32", 0);
    assert_int_equal(steno_costs_store(&id, &costs, true, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "calibration-"));
}

static void the_environment_names_the_place(void **state)
{
    const struct place *p = *state;
    struct steno_costs_id id;
    setenv("HOME", "/mine/u", 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("CACHE_DIRECTORY");
    steno_costs_identify(&id, "", p->model, "fp32", 0);
    assert_memory_equal(id.file, "/mine/u/.cache/steno/calibration-", 33);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    steno_costs_identify(&id, "", p->model, "fp32", 0);
    assert_memory_equal(id.file, "/xdg/steno/calibration-", 23);
    setenv("CACHE_DIRECTORY", "/var/cache/steno", 1);
    steno_costs_identify(&id, "", p->model, "fp32", 0);
    assert_memory_equal(id.file, "/var/cache/steno/calibration-", 29);
}

int main(void)
{
#define CASE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(stored_costs_are_read_back),      CASE(costs_from_a_busy_machine_are_measured_again),
        CASE(the_name_follows_content_and_settings_alone),
        CASE(damage_is_as_good_as_nothing),    CASE(without_a_folder_nothing_fails),
        CASE(the_environment_names_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
