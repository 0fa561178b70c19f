/* Recordings through the public header. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steno.h"
#include "tests/support/test.h"

#define DIGITS "tests/data/digits.wav" /* 8 kHz, mono, 44 bytes of header */

static unsigned char file[1 << 18];
static size_t file_bytes;

static int load(void **state)
{
    FILE *f = fopen(DIGITS, "rb");
    (void)state;
    if (!f)
        return -1;
    file_bytes = fread(file, 1, sizeof file, f);
    fclose(f);
    return file_bytes > 44 && file_bytes < sizeof file ? 0 : -1;
}

/* Read everything, in pieces of an odd size. Returns the number of samples. */
static size_t read_all(steno_recording *r, float *pcm, size_t max)
{
    size_t n = 0, k = 1;
    steno_err err = {STENO_OK, ""};
    while (k && n < max) {
        size_t room = max - n < 997 ? max - n : 997;
        assert_int_equal(steno_recording_read(r, pcm + n, room, &k, &err), STENO_OK);
        n += k;
    }
    return n;
}

static void path_and_memory_give_the_samples_of_the_file(void **state)
{
    static float a[1 << 17], b[1 << 17];
    steno_recording *r = NULL;
    struct steno_recording_info info;
    size_t n = (file_bytes - 44) / 2;
    (void)state;
    assert_int_equal(steno_recording_open(&r, DIGITS, 0, NULL), STENO_OK);
    steno_recording_get_info(r, &info);
    assert_int_equal(info.sample_rate, 8000);
    assert_int_equal(info.channels, 1);
    assert_int_equal(info.frames, n);
    assert_string_equal(info.format, "wav");
    assert_string_equal(info.codec, "s16le");
    assert_int_equal(read_all(r, a, sizeof a / sizeof *a), n);
    steno_recording_get_info(r, &info);
    assert_false(info.truncated);
    steno_recording_close(r);
    r = NULL;
    assert_int_equal(steno_recording_open_memory(&r, file, file_bytes, 1, NULL), STENO_OK);
    assert_int_equal(read_all(r, b, sizeof b / sizeof *b), n);
    steno_recording_close(r);
    assert_memory_equal(a, b, n * sizeof *a);
    for (size_t i = 0; i < n; i++) {
        int16_t s = (int16_t)(file[44 + 2 * i] | file[45 + 2 * i] << 8);
        assert_true(a[i] * 32768.0f == (float)s);
    }
}

static void a_file_that_ends_early_is_truncated(void **state)
{
    static float pcm[1 << 17];
    steno_recording *r = NULL;
    struct steno_recording_info info;
    (void)state;
    assert_int_equal(steno_recording_open_memory(&r, file, 10044, 0, NULL), STENO_OK);
    assert_int_equal(read_all(r, pcm, sizeof pcm / sizeof *pcm), 5000);
    steno_recording_get_info(r, &info);
    assert_true(info.truncated);
    steno_recording_close(r);
}

static void errors_name_what_is_wrong_and_leave_the_output(void **state)
{
    steno_recording *const before = (steno_recording *)(void *)file, *r = before;
    steno_err err = {STENO_OK, ""};
    (void)state;
    assert_int_equal(steno_recording_open(&r, "/nowhere/a.wav", 0, &err), STENO_ERR_IO);
    assert_string_equal(err.msg, "/nowhere/a.wav: No such file or directory");
    assert_int_equal(steno_recording_open(&r, "tests/data/digits.txt", 0, &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "tests/data/digits.txt: "));
    assert_int_equal(steno_recording_open(&r, DIGITS, 2, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_recording_open(&r, DIGITS, -1, &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "channel: -1 is less than 0");
    assert_int_equal(steno_recording_open_memory(&r, file, 0, 0, &err), STENO_ERR_FORMAT);
    assert_int_equal(steno_recording_open_memory(&r, file, file_bytes, 9, NULL), STENO_ERR_INVAL);
    assert_ptr_equal(r, before);
    steno_recording_close(NULL);
}

static void statuses_have_names(void **state)
{
    (void)state;
    assert_string_equal(steno_status_name(STENO_OK), "ok");
    assert_string_equal(steno_status_name(STENO_ERR_FORMAT), "invalid_data");
    assert_string_equal(steno_status_name((steno_status)99), "internal_error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_and_memory_give_the_samples_of_the_file),
        cmocka_unit_test(a_file_that_ends_early_is_truncated),
        cmocka_unit_test(errors_name_what_is_wrong_and_leave_the_output),
        cmocka_unit_test(statuses_have_names),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
