/* A file is replaced as a whole or not at all (base/atomic_file.h). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/atomic_file.h"
#include "tests/support/test.h"

static char dir[] = "/tmp/steno-fresh-XXXXXX";
static char path[64], temp[64], other[64];

static int begin(void **state)
{
    (void)state;
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", dir);
    snprintf(temp, sizeof temp, "%s/file.new", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    unlink(temp);
    unlink(other);
    return rmdir(dir);
}

static void put(const char *to, const char *text)
{
    FILE *f = fopen(to, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void holds(const char *file, const char *text)
{
    char *bytes;
    size_t n;
    assert_int_equal(steno_file_read(file, 1000, &bytes, &n, NULL), STENO_OK);
    assert_string_equal(bytes, text);
    free(bytes);
}

static void gone(const char *file)
{
    assert_int_not_equal(access(file, F_OK), 0);
}

static void the_old_file_stays_until_the_new_one_is_whole(void **state)
{
    (void)state;
    struct steno_atomic_file f;
    struct stat sb;
    put(path, "old");
    assert_int_equal(steno_atomic_file_open(&f, path, NULL), STENO_OK);
    assert_true(steno_write_whole(f.fd, "new", 3));
    holds(path, "old");
    assert_int_equal(steno_atomic_file_commit(&f, true, NULL), STENO_OK);
    holds(path, "new");
    gone(temp);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 07777, 0600);
    assert_int_equal(steno_atomic_file_open(&f, path, NULL), STENO_OK);
    assert_true(steno_write_whole(f.fd, "newer", 5));
    steno_atomic_file_discard(&f);
    steno_atomic_file_discard(&f);
    holds(path, "new");
    gone(temp);
}

/* A writer that is killed between any two steps leaves the old file. The next writer overwrites
 * its leftovers. */
static void leftovers_of_a_killed_writer_are_overwritten(void **state)
{
    (void)state;
    struct steno_atomic_file f;
    int status;
    pid_t child;
    put(path, "old");
    child = fork();
    if (!child) {
        if (!steno_atomic_file_open(&f, path, NULL) &&
            steno_write_whole(f.fd, "half of somethi", 15))
            raise(SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    holds(path, "old");
    holds(temp, "half of somethi");
    assert_int_equal(steno_atomic_file_open(&f, path, NULL), STENO_OK);
    assert_true(steno_write_whole(f.fd, "new", 3));
    assert_int_equal(steno_atomic_file_commit(&f, false, NULL), STENO_OK);
    holds(path, "new");
    gone(temp);
}

static void the_second_of_two_writers_gets_an_error(void **state)
{
    (void)state;
    struct steno_atomic_file a, b;
    steno_err err;
    assert_int_equal(steno_atomic_file_open(&a, path, NULL), STENO_OK);
    assert_true(steno_write_whole(a.fd, "first", 5));
    assert_int_equal(steno_atomic_file_open(&b, path, &err), STENO_ERR_BUSY);
    assert_non_null(strstr(err.msg, "/file: another process is writing it"));
    steno_atomic_file_discard(&b);
    assert_int_equal(steno_atomic_file_commit(&a, false, NULL), STENO_OK);
    holds(path, "first");
    assert_int_equal(steno_atomic_file_open(&b, path, NULL), STENO_OK);
    steno_atomic_file_discard(&b);
}

static void an_obstacle_is_named_and_not_touched(void **state)
{
    (void)state;
    struct steno_atomic_file f;
    steno_err err;
    put(other, "not ours");
    assert_int_equal(symlink(other, temp), 0);
    assert_int_equal(steno_atomic_file_open(&f, path, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "/file.new: "));
    unlink(temp);
    assert_int_equal(link(other, temp), 0);
    assert_int_equal(steno_atomic_file_open(&f, path, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "exists and"));
    holds(other, "not ours");
    unlink(temp);
    assert_int_equal(mkfifo(temp, 0600), 0);
    assert_int_equal(steno_atomic_file_open(&f, path, &err), STENO_ERR_IO);
    unlink(temp);
    put(temp, "anybody's");
    assert_int_equal(chmod(temp, 0666), 0);
    assert_int_equal(steno_atomic_file_open(&f, path, &err), STENO_ERR_IO);
    steno_atomic_file_discard(&f);
}

static void a_place_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    struct steno_atomic_file f;
    steno_err err;
    char none[80], deep[PATH_MAX + 10];
    snprintf(none, sizeof none, "%s/none/file", dir);
    assert_int_equal(steno_atomic_file_open(&f, none, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "/none/file.new: "));
    assert_int_equal(mkdir(path, 0700), 0); /* a folder has that name: the rename fails */
    assert_int_equal(steno_atomic_file_open(&f, path, NULL), STENO_OK);
    assert_int_equal(steno_atomic_file_commit(&f, false, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "/file: "));
    gone(temp);
    rmdir(path);
    memset(deep, 'x', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    assert_int_equal(steno_atomic_file_open(&f, deep, &err), STENO_ERR_INVAL);
}

static void a_whole_file_is_written_with_its_mode(void **state)
{
    (void)state;
    struct stat sb;
    steno_err err;
    assert_int_equal(steno_atomic_file_write(path, "all of it", 9, 0644, true, NULL), STENO_OK);
    holds(path, "all of it");
    gone(temp);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 07777, 0644);
    assert_int_equal(steno_atomic_file_write(path, NULL, 0, 0600, false, NULL), STENO_OK);
    holds(path, "");
    assert_int_equal(steno_atomic_file_write("/dev/null/x", "x", 1, 0600, false, &err),
                     STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "/dev/null/x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_old_file_stays_until_the_new_one_is_whole, begin, end),
        cmocka_unit_test_setup_teardown(leftovers_of_a_killed_writer_are_overwritten, begin, end),
        cmocka_unit_test_setup_teardown(the_second_of_two_writers_gets_an_error, begin, end),
        cmocka_unit_test_setup_teardown(an_obstacle_is_named_and_not_touched, begin, end),
        cmocka_unit_test_setup_teardown(a_whole_file_is_written_with_its_mode, begin, end),
        cmocka_unit_test_setup_teardown(a_place_that_cannot_be_written_is_named, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
