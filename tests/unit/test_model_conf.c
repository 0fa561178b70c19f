#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "speech/families/ctc/conf.h"
#include "speech/families/registry.h"
#include "steno.h"
#include "tests/support/test.h"

#define GOOD                                                                                       \
    "[model]\nname = m\nfamily = ctc_streaming\n[features]\nsample_rate = 8000\nmel_bins = 40\n"   \
    "[network]\nfile = e.onnx\nwindow_frames = 27\nshift_frames = 24\nsubsampling = 4\n"

static void missing_values_get_defaults(void **state)
{
    (void)state;
    struct steno_model_conf c;
    assert_int_equal(steno_model_conf_parse(&c, GOOD "[decoder]\ndrop = <unk> <sos>\n", "m", NULL),
                     STENO_OK);
    assert_string_equal(c.name, "m");
    assert_string_equal(c.tokens, "tokens.txt");
    assert_string_equal(c.blank, "<blk>");
    assert_string_equal(c.drop, "<unk> <sos>");
    assert_string_equal(c.feature_type, "kaldi-fbank");
    assert_int_equal(c.window_frames, 27);
    assert_int_equal(c.tail_frames, 0);
    assert_true(c.snip_edges && c.rule2_silence > 0.79 && c.rule2_silence < 0.81);
}

static void mistakes_are_named_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *msg;
    } cases[] = {
        {"[model]\nname = m\nfamly = x\n", "m:3: unknown key 'famly' in section [model]"},
        {"[modle]\nname = m\n", "m:2: unknown key 'name' in section [modle]"},
        {GOOD "subsampling = 2\n", "m:12: subsampling is given twice"},
        {GOOD "tail_frames = 1.5\n", "m:12: tail_frames = '1.5': expected a whole number"},
        {GOOD "tail_frames = -1\n", "m:12: tail_frames = '-1': expected a whole number"},
        {GOOD "tail_frames = nan\n", "m:12: tail_frames = 'nan'"},
        {GOOD "tail_frames =\n", "m:12: tail_frames = ''"},
        {GOOD "[features]\nsnip_edges = maybe\n", "m:13: snip_edges = 'maybe': expected true"},
        {GOOD "[decoder]\ntokens = ../t.txt\n", "m:13: tokens = '../t.txt' is not a file of"},
        {GOOD "[decoder]\ntokens = /etc/passwd\n", "m:13: tokens = '/etc/passwd' is not a file"},
        {GOOD "[decoder]\ntokens = a/../../b\n", "m:13: tokens = 'a/../../b' is not a file"},
        {GOOD "nonsense\n", "m:12: expected [section] or key = value"},
        {GOOD "[model]\nversion = 123456789012345678901234567890123\n", "m:13: version has 33"},
        {"[model]\nname = m\nfamily = f\n", "m: [features] sample_rate is missing"},
        {"", "m: [model] name is missing"},
        {GOOD "[features]\nlow_freq = 4000\n",
         "m: low_freq 4000, high_freq 0: half the sample rate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_model_conf c;
        steno_err err = {0};
        assert_int_equal(steno_model_conf_parse(&c, cases[i].text, "m", &err), STENO_ERR_FORMAT);
        if (strncmp(err.msg, cases[i].msg, strlen(cases[i].msg)) != 0)
            fail_msg("case %zu: \"%s\"", i, err.msg);
    }
}

static void windows_must_fit_shift_and_subsampling(void **state)
{
    (void)state;
    struct steno_model_conf c;
    steno_err err = {0};
    static const char head[] = "[model]\nname = m\nfamily = f\n[features]\nsample_rate = 8000\n"
                               "mel_bins = 40\n[network]\nfile = e.onnx\n";
    char text[512];
    snprintf(text, sizeof text, "%swindow_frames = 10\nshift_frames = 12\nsubsampling = 4\n", head);
    assert_int_equal(steno_model_conf_parse(&c, text, "m", &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "m: shift_frames 12 is more than window_frames 10");
    snprintf(text, sizeof text, "%swindow_frames = 12\nshift_frames = 10\nsubsampling = 4\n", head);
    assert_int_equal(steno_model_conf_parse(&c, text, "m", &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "m: shift_frames 10 is not a multiple of subsampling 4");
}

struct dir {
    char path[64], file[128];
};

static void make(struct dir *d, const char *name, const char *text)
{
    FILE *f;
    snprintf(d->file, sizeof d->file, "%s/%s", d->path, name);
    f = fopen(d->file, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void drop(struct dir *d, const char *name)
{
    snprintf(d->file, sizeof d->file, "%s/%s", d->path, name);
    unlink(d->file);
}

static void fails_with(struct dir *d, steno_status want, const char *rest)
{
    steno_model *m = NULL;
    steno_err err = {0};
    char msg[256];
    assert_int_equal(steno_model_open(&m, d->path, NULL, &err), want);
    assert_null(m);
    snprintf(msg, sizeof msg, "%s%s", d->path, rest);
    if (strncmp(err.msg, msg, strlen(msg)) != 0)
        fail_msg("\"%s\", expected \"%s...\"", err.msg, msg);
}

static void missing_files_of_a_directory_are_named(void **state)
{
    (void)state;
    struct dir d = {.path = "/tmp/steno-test-XXXXXX"};
    assert_non_null(mkdtemp(d.path));
    fails_with(
        &d, STENO_ERR_FORMAT,
        ": not a model's directory: it has the files of none of the families ctc_streaming, ");
    steno_err err;
    assert_int_equal(steno_model_open(&(steno_model *){NULL}, d.path, NULL, &err),
                     STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, " (docs/models.md says which those are)"));
    for (size_t i = 0; steno_families[i]; i++) /* however many families there are */
        assert_non_null(strstr(err.msg, steno_families[i]->name));
    make(&d, "HCLG.fst", "");
    fails_with(&d, STENO_ERR_UNSUPPORTED, ": HCLG.fst is of a Kaldi model, as vosk has them");
    drop(&d, "HCLG.fst");
    make(&d, "tiny.bin", "");
    assert_int_equal(steno_model_open(&(steno_model *){NULL}, d.file, NULL, &err),
                     STENO_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "/tiny.bin: not a model; one file may be Whisper's"));
    drop(&d, "tiny.bin");
    make(&d, "model.safetensors", "");
    fails_with(&d, STENO_ERR_IO, ": model.safetensors needs config.json beside it");
    make(&d, "config.json", "{\"model_type\": \"bert\"}"); /* not espnet_onnx's */
    fails_with(&d, STENO_ERR_UNSUPPORTED,
               ": model.safetensors is served where config.json has the model_type whisper");
    drop(&d, "config.json");
    drop(&d, "model.safetensors");
    make(&d, "model.conf", "[model]\nname = m\nfamily = tarot\n");
    fails_with(&d, STENO_ERR_FORMAT, "/model.conf: [features] sample_rate is missing");
    make(&d, "model.conf", GOOD);
    fails_with(&d, STENO_ERR_IO, "/tokens.txt: No such file");
    make(&d, "tokens.txt", "a 0\nb 1\n");
    fails_with(&d, STENO_ERR_FORMAT, "/tokens.txt: blank '<blk>' is not in the vocabulary");
    make(&d, "tokens.txt", "<blk> 0\nb 1\n");
    fails_with(&d, STENO_ERR_IO, "/e.onnx: ");
    make(&d, "e.onnx", "this is not protobuf");
    fails_with(&d, STENO_ERR_FORMAT, "/e.onnx");
    drop(&d, "model.conf");
    drop(&d, "tokens.txt");
    drop(&d, "e.onnx");
    rmdir(d.path);
}

static void unknown_families_and_features_are_refused(void **state)
{
    (void)state;
    struct dir d = {.path = "/tmp/steno-test-XXXXXX"};
    assert_non_null(mkdtemp(d.path));
    make(&d, "model.conf",
         "[model]\nname = m\nfamily = tarot\n[features]\nsample_rate = 8000\nmel_bins = 40\n"
         "[network]\nfile = e.onnx\nwindow_frames = 27\nshift_frames = 24\nsubsampling = 4\n");
    fails_with(&d, STENO_ERR_UNSUPPORTED, ": family 'tarot' is unknown");
    make(&d, "model.conf", GOOD "[features]\ntype = mfcc\n");
    fails_with(&d, STENO_ERR_UNSUPPORTED, ": feature type 'mfcc' is unknown");
    drop(&d, "model.conf");
    rmdir(d.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_values_get_defaults),
        cmocka_unit_test(mistakes_are_named_with_their_line),
        cmocka_unit_test(windows_must_fit_shift_and_subsampling),
        cmocka_unit_test(missing_files_of_a_directory_are_named),
        cmocka_unit_test(unknown_families_and_features_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
