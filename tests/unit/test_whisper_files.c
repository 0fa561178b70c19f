/* Directories of Whisper models: which files are found, and the messages about missing ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/families/whisper/model.h"
#include "tests/support/test.h"
#include "tests/support/whisper_toy.h"

static char dir[64];

static void path_of(const char *name, char out[256])
{
    snprintf(out, 256, "%s/%s", dir, name);
}

static void put(const char *name, const void *bytes, size_t n)
{
    char path[256];
    FILE *f;
    path_of(name, path);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static void put_toy(const char *name, enum whisper_toy_format f)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 22);
    whisper_toy_write(f, &b);
    put(name, b.data, b.len);
    steno_buf_free(&b);
}

static void drop(const char *name)
{
    char path[256];
    path_of(name, path);
    unlink(path);
}

static const char *const names[] = {"model.bin",
                                    "model.safetensors",
                                    "vocabulary.txt",
                                    "config.json",
                                    "tokenizer.json",
                                    "one.safetensors",
                                    "model.safetensors.index.json"};

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/steno-whisper-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        drop(names[i]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(dir);
}

static void opens(void)
{
    steno_whisper_weights *w = NULL;
    steno_err err = {0};
    if (steno_whisper_weights_open(&w, dir, &err))
        fail_msg("%s", err.msg);
    steno_whisper_weights_close(w);
}

static void fails(const char *text)
{
    steno_whisper_weights *w = NULL;
    steno_err err = {0};
    assert_int_not_equal(steno_whisper_weights_open(&w, dir, &err), STENO_OK);
    if (!strstr(err.msg, text))
        fail_msg("'%s' does not say '%s'", err.msg, text);
}

static void missing_files_are_named(void **state)
{
    (void)state;
    fails(": none of model.bin, model.safetensors, model.safetensors.index.json");
    assert_false(steno_whisper_weights_probe(dir));
    put_toy("model.bin", WHISPER_TOY_CT2_F16);
    assert_true(steno_whisper_weights_probe(dir));
    fails(": no vocabulary: none of vocabulary.txt, vocabulary.json, tokenizer.json, vocab.json");
    put_text("vocabulary.txt", "a\nb\nc\n");
    opens();
    put_text("model.bin", "something else");
    assert_false(steno_whisper_weights_probe(dir));
    fails("/model.bin: neither CTranslate2's, ggml's, GGUF's nor OpenAI's Whisper format, nor "
          "safetensors");
    put_text("model.bin", "");
    fails("/model.bin: neither CTranslate2's");
}

/* Files of other models that begin alike are told apart. */
static void ggml_files_of_other_models_are_named(void **state)
{
    static const uint32_t parakeet[] = {0x67676d6c, 121, 5000, 32, 4, 2, 128, 2007, 512, 8, 8, 9};
    static const uint32_t other[] = {0x67676d6c, 1073331077, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static const char silero[] = "lmgg\x0A\0\0\0silero-16k\5\0\0\0\1\0\0\0\2\0\0\0and more"
                                 "and more and more";
    static const char gguf[] = "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0"
                               "general.architecture\x8\0\0\0\6\0\0\0\0\0\0\0walrus";
    (void)state;
    put("ggml-model.bin", parakeet, sizeof parakeet);
    fails("/ggml-model.bin: a ggml file of a Parakeet, which is opened by its own name");
    put("ggml-model.bin", other, sizeof other);
    fails("/ggml-model.bin: a ggml file of another model than Whisper: its header has 1073331077");
    put("ggml-model.bin", silero, sizeof silero);
    fails("/ggml-model.bin: a ggml file of silero's VAD");
    put("ggml-model.bin", gguf, sizeof gguf);
    fails("/ggml-model.bin: a GGUF file of architecture 'walrus'");
    put("ggml-model.bin", gguf, 20);
    fails("/ggml-model.bin: the file ends in the header");
    drop("ggml-model.bin");
}

static void safetensors_need_a_configuration_that_says_whisper(void **state)
{
    (void)state;
    put_toy("model.safetensors", WHISPER_TOY_HF_F16);
    put_text("tokenizer.json", "{\"model\": {\"vocab\": {\"a\": 0}}}");
    assert_false(steno_whisper_weights_probe(dir));
    put_text("config.json", "{\"model_type\": \"bert\"}");
    assert_false(steno_whisper_weights_probe(dir));
    put_text("config.json", "{\"model_type\": \"whisper\", \"encoder_attention_heads\": 4}");
    assert_true(steno_whisper_weights_probe(dir));
    opens();
    put_text("config.json", "{\"encoder_attention_heads\": 5}");
    fails(": 5 and 1 heads for 32 and 32 columns of encoder and decoder");
    put_text("config.json", "{\"encoder_attention_heads\": \"two\"}");
    fails("/config.json: line 1: encoder_attention_heads is no number from 1 to 1024");
    put_text("config.json", "{\"activation_function\": \"relu\"}");
    fails("/config.json: line 1: activation_function 'relu', 'gelu' expected");
}

/* A clone without Git LFS has such files in the place of the weights. */
static void pointers_in_the_place_of_weights_are_named(void **state)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:1a\n";
    (void)state;
    put_text("model.safetensors", pointer);
    put_text("config.json", "{\"model_type\": \"whisper\"}");
    assert_true(steno_whisper_weights_probe(dir));
    fails("/model.safetensors: a pointer of Git LFS instead of the weights");
    drop("model.safetensors");
    put_text("model.bin", pointer);
    put_text("config.json", "{\"suppress_ids_begin\": [220], \"alignment_heads\": [[0, 0]]}");
    assert_true(steno_whisper_weights_probe(dir));
    fails("/model.bin: a pointer of Git LFS instead of the weights");
    put_text("model.bin", "");
    assert_true(steno_whisper_weights_probe(dir));
    fails("/model.bin: neither CTranslate2's");
    put_text("config.json", "{\"suppress_ids_begin\": [220]}");
    assert_false(steno_whisper_weights_probe(dir));
}

static void heads_that_the_decoder_lacks_are_refused(void **state)
{
    (void)state;
    put_toy("model.bin", WHISPER_TOY_CT2_F32);
    put_text("vocabulary.txt", "a\n");
    put_text("config.json", "{\"alignment_heads\": [[0, 1], [0, 0]]}");
    opens();
    put_text("config.json", "{\"alignment_heads\": [[0, 2]]}");
    fails(": alignment head [0, 2], the decoder has 1 layers of 2 heads");
    put_text("config.json", "{\"alignment_heads\":\n [[0]]}");
    fails("/config.json: line 2: entry 0 of alignment_heads is no [layer, head]");
}

static void shards_are_found_by_their_index(void **state)
{
    (void)state;
    put_toy("one.safetensors", WHISPER_TOY_HF_F32);
    put_text("tokenizer.json", "{\"a\": 0}");
    put_text("model.safetensors.index.json",
             "{\"weight_map\": {\"x\": \"one.safetensors\", \"y\": \"one.safetensors\"}}");
    opens();
    put_text("model.safetensors.index.json", "{\"weight_map\": {\"x\": \"two.safetensors\"}}");
    fails("/model.safetensors.index.json: two.safetensors is missing");
    put_text("model.safetensors.index.json", "{\"weight_map\": {\"x\": \"../one.safetensors\"}}");
    fails(": line 1: 'x' has no file of this directory");
    put_text("model.safetensors.index.json", "{\"x\": 1}");
    fails(": no weight_map");
}

static void a_vocabulary_of_another_size_is_refused(void **state)
{
    const struct steno_whisper_options o = {.precision = STENO_FP32};
    struct steno_whisper *m = NULL;
    steno_err err = {0};
    (void)state;
    put_toy("model.bin", WHISPER_TOY_CT2_F32);
    put_text("vocabulary.txt", "a\n");
    assert_int_equal(steno_whisper_open(&m, dir, &o, &err), STENO_ERR_FORMAT);
    assert_non_null(
        strstr(err.msg, "scores for 9 pieces of text, Whisper's vocabularies have 51864"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(missing_files_are_named, clear),
        cmocka_unit_test_teardown(ggml_files_of_other_models_are_named, clear),
        cmocka_unit_test_teardown(safetensors_need_a_configuration_that_says_whisper, clear),
        cmocka_unit_test_teardown(pointers_in_the_place_of_weights_are_named, clear),
        cmocka_unit_test_teardown(heads_that_the_decoder_lacks_are_refused, clear),
        cmocka_unit_test_teardown(shards_are_found_by_their_index, clear),
        cmocka_unit_test_teardown(a_vocabulary_of_another_size_is_refused, clear),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
