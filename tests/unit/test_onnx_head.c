/* Names and metadata of ONNX files: bytes made by hand, and the files of the corpus. */
#include <stdlib.h>
#include <string.h>

#include "formats/onnx_head.h"
#include "tests/support/test.h"

/* graph { node { op_type "MatMulInteger" } input { name "x" } output { name "y" } }
 * metadata_props { key "T" value "45" }, behind a field of each other wire type. */
static const char model[] = "\x08\x07"                      /* ir_version 7 */
                            "\x11zzzzzzzz"                  /* 64 bits */
                            "\x1dzzzz"                      /* 32 bits */
                            "\x3a\x1b"                      /* graph */
                            "\x0a\x0f\x22\x0dMatMulInteger" /* node */
                            "\x5a\x03\x0a\x01x"             /* input */
                            "\x62\x03\x0a\x01y"             /* output */
                            "\x72\x07\x0a\x01T\x12\x02"
                            "45"; /* metadata */

static void names_and_metadata_are_read(void **state)
{
    steno_onnx_head *h = NULL;
    (void)state;
    assert_int_equal(steno_onnx_head_parse(&h, model, sizeof model - 1, "m", NULL), STENO_OK);
    assert_int_equal(steno_onnx_head_n_inputs(h), 1);
    assert_int_equal(steno_onnx_head_n_outputs(h), 1);
    assert_true(steno_onnx_head_has_input(h, "x"));
    assert_false(steno_onnx_head_has_input(h, "y"));
    assert_true(steno_onnx_head_has_output(h, "y"));
    assert_string_equal(steno_onnx_head_meta(h, "T"), "45");
    assert_null(steno_onnx_head_meta(h, "model_type"));
    assert_true(steno_onnx_head_quantized(h));
    steno_onnx_head_close(h);
}

static void a_file_that_is_cut_short_is_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof model - 1; n++) {
        steno_onnx_head *h = NULL;
        steno_err err = {0};
        steno_status st = steno_onnx_head_parse(&h, model, n, "m.onnx", &err);
        if (!st) { /* cut between fields, behind the graph */
            assert_int_equal(n, sizeof model - 1 - 9);
            steno_onnx_head_close(h);
            continue;
        }
        assert_int_equal(st, STENO_ERR_FORMAT);
        assert_string_equal(err.msg, "m.onnx: not an ONNX model, or cut short");
    }
}

static void files_of_the_corpus_say_what_they_are(void **state)
{
    steno_onnx_head *h = NULL;
    (void)state;
    assert_int_equal(steno_onnx_head_open(&h, "tests/fuzz/onnx_head/decoder", NULL), STENO_OK);
    assert_string_equal(steno_onnx_head_meta(h, "context_size"), "2");
    assert_true(steno_onnx_head_has_input(h, "y"));
    assert_true(steno_onnx_head_has_output(h, "decoder_out"));
    assert_true(steno_onnx_head_quantized(h));
    steno_onnx_head_close(h);
    assert_int_equal(steno_onnx_head_open(&h, "tests/fuzz/onnx_head/none", NULL), STENO_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_metadata_are_read),
        cmocka_unit_test(a_file_that_is_cut_short_is_refused),
        cmocka_unit_test(files_of_the_corpus_say_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
