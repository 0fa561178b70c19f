/* Directories of family icefall: which is one, what is missing, how phrases become tokens. The
 * networks are links to ../shared/zoo/tiny. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "speech/families/icefall/internal.h"
#include "speech/families/registry.h"
#include "steno.h"
#include "tests/support/test.h"

#define MODEL "zipformer2-transducer-streaming"

static const char *shared(void)
{
    const char *root = getenv("STENO_SHARED");
    return root ? root : "../shared";
}

static void begin(char dir[32])
{
    if (access(shared(), R_OK)) {
        fprintf(stderr, "# skipped: %s is not there\n", shared());
        skip();
    }
    snprintf(dir, 32, "/tmp/steno-icefall-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static void put(const char *dir, const char *model, const char *file, const char *as)
{
    char from[512], to[128], *full;
    snprintf(from, sizeof from, "%s/zoo/tiny/%s/%s", shared(), model, file);
    snprintf(to, sizeof to, "%s/%s", dir, as);
    full = realpath(from, NULL);
    assert_non_null(full);
    assert_int_equal(symlink(full, to), 0);
    free(full);
}

static void end(const char *dir)
{
    char path[1024];
    DIR *d = opendir(dir);
    struct dirent *e;
    assert_non_null(d);
    while ((e = readdir(d))) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.')
            assert_int_equal(unlink(path), 0);
    }
    closedir(d);
    assert_int_equal(rmdir(dir), 0);
}

static void open_fails(const char *dir, const char *why)
{
    steno_model *m = NULL;
    steno_err err = {0};
    assert_int_not_equal(steno_model_open(&m, dir, NULL, &err), STENO_OK);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
}

static void names_of_files_do_not_matter(void **state)
{
    char dir[32];
    steno_model *m = NULL;
    struct steno_model_info info;
    (void)state;
    begin(dir);
    put(dir, MODEL, "tokens.txt", "en-tokens.txt");
    put(dir, MODEL, "encoder.onnx", "encoder-epoch-99-avg-1-chunk-16-left-128.onnx");
    put(dir, MODEL, "encoder.int8.onnx", "encoder-epoch-99-avg-1-chunk-16-left-128.int8.onnx");
    put(dir, MODEL, "decoder.onnx", "a.onnx");
    put(dir, MODEL, "joiner.onnx", "b.onnx");
    assert_string_equal(steno_model_family(dir), "icefall");
    for (int int8 = 0; int8 < 2; int8++) {
        const struct steno_model_options o = {.precision = int8 ? STENO_INT8_WEIGHTS : STENO_FP32};
        assert_int_equal(steno_model_open(&m, dir, &o, NULL), STENO_OK);
        steno_model_get_info(m, &info);
        assert_int_equal(strstr(info.network, "int8") != NULL, int8);
        assert_true(info.takes_hotwords);
        assert_true(info.frame_seconds == 0.04);
        steno_model_close(m);
    }
    end(dir);
}

static void what_is_missing_is_named(void **state)
{
    char dir[32];
    (void)state;
    begin(dir);
    put(dir, MODEL, "tokens.txt", "tokens.txt");
    open_fails(dir, "not a model's directory");
    put(dir, MODEL, "joiner.onnx", "joiner.onnx");
    open_fails(dir, "no encoder (an .onnx file with an input x");
    put(dir, MODEL, "encoder.onnx", "encoder.onnx");
    open_fails(dir, "there is no decoder (prediction network)");
    put(dir, "zipformer2-transducer-offline", "encoder.onnx", "second.onnx");
    open_fails(dir, "networks of two models");
    end(dir);
}

static void tokens_of_another_model_are_refused(void **state)
{
    char dir[32];
    (void)state;
    begin(dir);
    put(dir, MODEL, "tokens.txt", "tokens.txt");
    put(dir, MODEL, "encoder.onnx", "encoder.onnx");
    put(dir, "zipformer2-transducer-offline", "decoder.onnx", "decoder.onnx");
    put(dir, "zipformer2-transducer-offline", "joiner.onnx", "joiner.onnx");
    open_fails(dir, "59 tokens, expected the 120 of the network");
    end(dir);
}

/* ---- phrases --------------------------------------------------------------------------------- */

#define M "\xE2\x96\x81"
static const char tokens_txt[] =
    "<blk> 0\n<unk> 1\n" M "HE 2\nL 3\nLO 4\n" M "WORD 5\n\xE4\xBD\xA0 6\n\xE5\xA5\xBD 7\n";
static const char vocab[] = M "HE\t-1\nL\t-2\nLO\t-2\n";

/* A state and those behind it; a complete phrase leads back to the start. */
static size_t count_states(const steno_hotwords *h, int32_t state)
{
    size_t n = 1;
    for (size_t i = 0; i < steno_hotwords_n_next(h, state); i++) {
        float score;
        int32_t to = steno_hotwords_step(h, state, steno_hotwords_next(h, state, i), &score);
        n += to == STENO_HOTWORDS_START ? 1 : count_states(h, to);
    }
    return n;
}

/* States of the automaton: one for each token of different phrases, and the start; 0: none. */
static size_t states_of(const char *text, bool bpe)
{
    struct steno_phrases m = {.upper = true};
    steno_tokens *tokens = NULL;
    steno_hotwords *h = NULL;
    size_t n;
    assert_int_equal(steno_tokens_parse(&tokens, tokens_txt, sizeof tokens_txt - 1, "t", NULL),
                     STENO_OK);
    m.tokens = tokens;
    if (bpe)
        assert_int_equal(steno_bpe_vocab_parse(&m.bpe, vocab, sizeof vocab - 1, "v", tokens, NULL),
                         STENO_OK);
    assert_int_equal(steno_phrases_build(&h, &m, (const char *[]){text}, 1, 1.5f, NULL), STENO_OK);
    n = h ? count_states(h, STENO_HOTWORDS_START) : 0;
    steno_hotwords_close(h);
    steno_phrases_close(&m);
    steno_tokens_close(tokens);
    return n;
}

static void phrases_become_tokens(void **state)
{
    (void)state;
    assert_int_equal(states_of("HELLO", true), 4);  /* HE, L, LO */
    assert_int_equal(states_of("hello", true), 4);  /* the vocabulary has capitals */
    assert_int_equal(states_of("HELLO", false), 0); /* no bpe.vocab */
    assert_int_equal(states_of("word", false), 2);  /* a token */
    assert_int_equal(states_of("\xE4\xBD\xA0\xE5\xA5\xBD", false), 3);
    assert_int_equal(states_of("\xE4\xBD\xA0hello\xE5\xA5\xBD :2.5", true), 6);
    assert_int_equal(states_of("hello, zebra / \xE4\xBD\xA0\n\xE5\xA5\xBD", true), 6);
    assert_int_equal(states_of("hello :x", true), 0); /* no score, and no token */
    assert_int_equal(states_of(" ,,/\n", true), 0);
    assert_int_equal(states_of(":2.0", true), 0);
    assert_int_equal(states_of("\xFF", true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_files_do_not_matter),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(tokens_of_another_model_are_refused),
        cmocka_unit_test(phrases_become_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
