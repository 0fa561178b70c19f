/* Which file of a model directory plays which part (families/common/network_file.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/families/common/network_file.h"
#include "tests/support/test.h"

static char dir[] = "/tmp/steno-network-file-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void touch(const char *name)
{
    FILE *f = fopen(path_of(name), "w");
    assert_non_null(f);
    fclose(f);
}

static void expect_file(const char *stem, bool int8, const char *want)
{
    char *got = NULL;
    assert_int_equal(steno_network_file_find(&got, dir, stem, int8, NULL), STENO_OK);
    if (!want)
        assert_null(got);
    else
        assert_string_equal(got, want);
    free(got);
}

static void the_file_of_a_part_is_found_under_decorated_names(void **state)
{
    static const char *const names[] = {
        "encoder-epoch-99-avg-1.int8.onnx", "encoder-epoch-99-avg-1.onnx",
        "encoder-epoch-99-avg-1.fp16.onnx", "decoder_joint-model.onnx", "encoders.onnx"};
    (void)state;
    assert_non_null(mkdtemp(dir));
    expect_file("encoder", false, NULL);
    touch(names[0]);
    expect_file("encoder", false, names[0]);
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        touch(names[i]);
    expect_file("encoder", false, names[1]);
    expect_file("encoder", true, names[0]);
    expect_file("decoder", false, NULL);
    expect_file("decoder_joint", true, names[3]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(unlink(path_of(names[i])), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void endings_of_transformers_js_are_known(void **state)
{
    static const char *const best[] = {"decoder_model_merged_fp16.onnx",
                                       "decoder_model_merged_q4f16.onnx",
                                       "decoder_model_merged.onnx"};
    (void)state;
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(dir));
    touch("decoder_model_merged_bnb4.onnx");
    touch("decoder_model_merged_with_past.onnx");
    expect_file("decoder_model_merged", true, NULL);
    for (size_t i = 0; i < sizeof best / sizeof *best; i++) {
        touch(best[i]);
        expect_file("decoder_model_merged", true, best[i]);
        expect_file("decoder_model_merged", false, best[i]);
    }
    touch("decoder_model_merged_quantized.onnx");
    expect_file("decoder_model_merged", true, "decoder_model_merged_quantized.onnx");
    expect_file("decoder_model_merged", false, best[2]);
    assert_int_equal(unlink(path_of("decoder_model_merged_bnb4.onnx")), 0);
    assert_int_equal(unlink(path_of("decoder_model_merged_with_past.onnx")), 0);
    assert_int_equal(unlink(path_of("decoder_model_merged_quantized.onnx")), 0);
    for (size_t i = 0; i < sizeof best / sizeof *best; i++)
        assert_int_equal(unlink(path_of(best[i])), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void a_missing_directory_is_named(void **state)
{
    steno_err err;
    char *got;
    (void)state;
    assert_int_equal(steno_network_file_find(&got, "/nonexistent", "x", false, &err), STENO_ERR_IO);
    assert_string_equal(err.msg, "/nonexistent: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_of_a_part_is_found_under_decorated_names),
        cmocka_unit_test(endings_of_transformers_js_are_known),
        cmocka_unit_test(a_missing_directory_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
