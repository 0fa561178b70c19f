/* Mapped files that others change (base/map.h). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/map.h"
#include "tests/support/test.h"

enum { SIZE = 100000 };

static char path[] = "/tmp/steno-map-XXXXXX", other[64];
static int fd;

static int begin(void **state)
{
    static char bytes[SIZE];
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    (void)state;
    memset(bytes, 'a', sizeof bytes);
    strcpy(path + strlen(path) - 6, "XXXXXX");
    fd = mkstemp(path);
    snprintf(other, sizeof other, "%s.new", path);
    return fd < 0 || write(fd, bytes, sizeof bytes) != SIZE || futimens(fd, long_ago);
}

static int end(void **state)
{
    (void)state;
    close(fd);
    unlink(path);
    unlink(other);
    return 0;
}

static void a_file_that_shrinks_is_zeros_and_changed(void **state)
{
    struct steno_map m;
    steno_err err = {0};
    const char *p;
    (void)state;
    steno_map_guard();
    assert_int_equal(steno_map_open(&m, path, NULL), STENO_OK);
    p = m.p;
    assert_false(steno_map_changed(&m));
    assert_int_equal(ftruncate(fd, 10), 0);
    assert_int_equal(p[SIZE - 1], 0);
    assert_int_equal(p[50000], 0);
    assert_int_equal(p[5], 'a');
    assert_true(steno_map_changed(&m));
    assert_int_equal(steno_map_check(&m, path, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "overwritten while in use"));
    assert_null(strstr(err.msg, "/tmp"));
    steno_map_close(&m);
}

static void other_bytes_are_a_change(void **state)
{
    struct steno_map m;
    (void)state;
    assert_int_equal(steno_map_take(&m, dup(fd), true, path, NULL), STENO_OK);
    assert_int_equal(m.n, SIZE);
    assert_int_equal(pwrite(fd, "b", 1, 7), 1);
    assert_true(steno_map_changed(&m));
    steno_map_close(&m);
    assert_false(steno_map_changed(&m));
}

static void another_file_of_the_name_is_none(void **state)
{
    struct steno_map m;
    int new;
    (void)state;
    assert_int_equal(steno_map_open(&m, path, NULL), STENO_OK);
    new = open(other, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(new, "c", 1), 1);
    close(new);
    assert_int_equal(rename(other, path), 0);
    assert_false(steno_map_changed(&m));
    assert_int_equal(((const char *)m.p)[SIZE - 1], 'a');
    assert_int_equal(unlink(path), 0);
    assert_false(steno_map_changed(&m));
    steno_map_close(&m);
}

/* Memory that is shared by writing (a database's) is not replaced: the process ends. */
static void other_mappings_end_the_process(void **state)
{
    int status;
    pid_t child;
    (void)state;
    steno_map_guard();
    child = fork();
    if (!child) {
        volatile char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p != MAP_FAILED && !ftruncate(fd, 10))
            p[50000] = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void an_empty_file_maps_nothing(void **state)
{
    struct steno_map m;
    (void)state;
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(steno_map_open(&m, path, NULL), STENO_OK);
    assert_int_equal(m.n, 0);
    assert_false(steno_map_changed(&m));
    steno_map_close(&m);
    assert_int_equal(steno_map_open(&m, "/tmp", NULL), STENO_ERR_FORMAT);
    assert_int_equal(steno_map_open(&m, other, NULL), STENO_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_shrinks_is_zeros_and_changed, begin, end),
        cmocka_unit_test_setup_teardown(other_bytes_are_a_change, begin, end),
        cmocka_unit_test_setup_teardown(another_file_of_the_name_is_none, begin, end),
        cmocka_unit_test_setup_teardown(other_mappings_end_the_process, begin, end),
        cmocka_unit_test_setup_teardown(an_empty_file_maps_nothing, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
