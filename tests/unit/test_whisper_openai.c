/* OpenAI's Whisper checkpoints: tests/data/torch/whisper.pt, written by torch 2.13.0. */

#include "base/file.h"
#include "speech/families/whisper/weights_internal.h"
#include "tests/support/test.h"
#include "tests/support/whisper_toy.h"

#include <stdlib.h>
#include <string.h>

#define FILE_NAME "tests/data/torch/whisper.pt"

static char *read_all(size_t *n)
{
    char *bytes = NULL;
    assert_int_equal(steno_file_read(FILE_NAME, 1 << 20, &bytes, n, NULL), STENO_OK);
    return bytes;
}

static void check_tensor(const steno_whisper_weights *w, const char *name)
{
    const struct steno_whisper_tensor *t = steno_whisper_weights_find(w, name);
    float row[128];
    size_t n, i = 0;
    assert_non_null(t);
    n = steno_whisper_row_length(t);
    assert_true(n <= 128);
    for (size_t r = 0; r < steno_whisper_row_count(t); r++) {
        steno_whisper_rows(t, r, 1, row);
        for (size_t k = 0; k < n; k++, i++)
            assert_true(row[k] == (float)((int)(i % 17) - 8) / 16);
    }
}

static void the_checkpoint_is_read_as_it_is(void **state)
{
    static const char *const names[] = {
        "encoder.conv1.weight", "encoder.ln_post.bias", "decoder.token_embedding.weight",
        "decoder.blocks.0.cross_attn.key.weight", "decoder.blocks.0.mlp.2.weight"};
    steno_whisper_weights *w = NULL;
    steno_err err = {0};
    size_t n;
    char *bytes = read_all(&n);
    (void)state;
    if (steno_whisper_weights_parse(&w, bytes, n, "x.pt", &err))
        fail_msg("%s", err.msg);
    assert_string_equal(steno_whisper_weights_format(w), "openai");
    whisper_toy_check_dims(w);
    assert_null(steno_whisper_weights_find(w, "decoder.blocks.0.attn.key.bias"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_tensor(w, names[i]);
    steno_whisper_weights_close(w);
    free(bytes);
}

static void cut_files_and_other_checkpoints_are_refused(void **state)
{
    steno_whisper_weights *w = NULL;
    steno_err err = {0};
    size_t n;
    char *bytes = read_all(&n), *at;
    (void)state;
    for (size_t cut = 0; cut < n; cut += 61)
        assert_int_equal(steno_whisper_weights_parse(&w, bytes, cut, "x.pt", &err),
                         STENO_ERR_FORMAT);
    free(bytes);
    assert_int_equal(steno_file_read("tests/data/torch/zip.pt", 1 << 20, &bytes, &n, NULL), 0);
    assert_int_equal(steno_whisper_weights_parse(&w, bytes, n, "x.pt", &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "without 'dims'"));
    free(bytes);
    assert_false(steno_whisper_weights_probe("tests/data/torch/zip.pt"));
    assert_true(steno_whisper_weights_probe(FILE_NAME));
    bytes = read_all(&n); /* a tensor of another name is a missing one */
    at = NULL;
    for (size_t i = 0; i + 20 < n && !at; i++)
        if (!memcmp(bytes + i, "encoder.ln_post.bias", 20))
            at = bytes + i;
    assert_non_null(at);
    memcpy(at + 8, "lx", 2);
    assert_int_equal(steno_whisper_weights_parse(&w, bytes, n, "x.pt", &err), STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "encoder.ln_post.bias"));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checkpoint_is_read_as_it_is),
        cmocka_unit_test(cut_files_and_other_checkpoints_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
