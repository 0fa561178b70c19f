/* What a directory with a model of NeMo, WeNet or the family ctc_offline says about it: config.json
 * of onnx-asr, and the metadata of networks (heads of the files of ../shared/zoo/tiny, in
 * tests/fuzz/export_meta). */
#include <stdio.h>
#include <string.h>

#include "speech/families/common/metadata.h"
#include "speech/families/ctc_offline/kinds.h"
#include "speech/families/nemo/conf.h"
#include "speech/families/nemo/prompts.h"
#include "speech/families/wenet/model.h"
#include "tests/support/test.h"

static void config_json_says_the_kind(void **state)
{
    static const struct {
        const char *text;
        enum steno_nemo_kind kind;
        int64_t bins, subsampling, tokens;
    } cases[] = {
        {"{\"model_type\": \"nemo-conformer-tdt\", \"features_size\": 128, "
         "\"subsampling_factor\": 8, \"max_tokens_per_step\": 10}",
         STENO_NEMO_TRANSDUCER, 128, 8, 10},
        {"{\"model_type\": \"nemo-conformer-rnnt\"}", STENO_NEMO_TRANSDUCER, 0, 8, 0},
        {"{\"model_type\": \"nemo-conformer-ctc\", \"subsampling_factor\": 4}", STENO_NEMO_CTC, 0,
         4, 0},
        {"{\"model_type\": \"nemo-conformer-aed\"}", STENO_NEMO_CANARY, 0, 8, 0},
        {"{\"model_type\": \"gigaam-v3-rnnt\", \"features_size\": 64, \"subsampling_factor\": 4}",
         STENO_NEMO_TRANSDUCER, 64, 4, 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_nemo_conf c = {.subsampling = 8};
        assert_int_equal(
            steno_nemo_conf_parse(&c, cases[i].text, strlen(cases[i].text), "config.json", NULL),
            STENO_OK);
        assert_int_equal(c.kind, cases[i].kind);
        assert_int_equal(c.bins, cases[i].bins);
        assert_int_equal(c.subsampling, cases[i].subsampling);
        assert_int_equal(c.max_tokens, cases[i].tokens);
    }
}

static void files_of_gigaam_are_named_by_their_kind(void **state)
{
    static const struct {
        const char *text, *stem;
        bool version_3;
    } cases[] = {{"{\"model_type\": \"gigaam-v2-ctc\"}", "v2_ctc", false},
                 {"{\"model_type\": \"gigaam-v3-e2e-rnnt\"}", "v3_e2e_rnnt", true},
                 {"{\"model_type\": \"gigaam-multilingual-ctc\", \"version\": \"v3\"}",
                  "multilingual_ctc", true},
                 {"{\"model_type\": \"gigaam-multilingual-ctc\"}", "multilingual_ctc", false},
                 {"{\"model_type\": \"gigaam-v3-../../x-ctc\"}", NULL, false},
                 {"{\"model_type\": \"gigaam-v3\"}", NULL, false},
                 {"{\"model_type\": \"gigaam-ctc\"}", NULL, false},
                 {"{\"model_type\": \"gigaam-v3-a-name-that-is-too-long-ctc\"}", NULL, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_nemo_conf c = {.subsampling = 8};
        assert_int_equal(
            steno_nemo_conf_parse(&c, cases[i].text, strlen(cases[i].text), "config.json", NULL),
            cases[i].stem ? STENO_OK : STENO_ERR_UNSUPPORTED);
        assert_string_equal(c.stem, cases[i].stem ? cases[i].stem : "");
        assert_int_equal(c.gigaam, cases[i].stem != NULL);
        assert_int_equal(c.version_3, cases[i].version_3);
    }
}

static void config_json_is_refused_with_the_key(void **state)
{
    static const struct {
        const char *text;
        steno_status st;
        const char *message;
    } cases[] = {
        {"{}", STENO_ERR_FORMAT, "config.json: model_type is missing"},
        {"{\"model_type\": \"whisper\"}", STENO_ERR_UNSUPPORTED,
         "config.json:1: model_type is 'whisper', expected nemo-conformer-ctc, "
         "nemo-conformer-rnnt, nemo-conformer-tdt, nemo-conformer-aed, gigaam-v3-ctc or "
         "gigaam-v3-rnnt"},
        {"{\"model_type\": \"nemo-conformer-ctc\",\n \"features_size\": 0}", STENO_ERR_FORMAT,
         "config.json:2: features_size is '0', expected 1 to 512"},
        {"{\"model_type\": \"nemo-conformer-ctc\", \"subsampling_factor\": \"8\"}",
         STENO_ERR_FORMAT, "config.json:1: subsampling_factor is '8', expected 1 to 64"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct steno_nemo_conf c = {.subsampling = 8};
        steno_err err;
        assert_int_equal(
            steno_nemo_conf_parse(&c, cases[i].text, strlen(cases[i].text), "config.json", &err),
            cases[i].st);
        assert_string_equal(err.msg, cases[i].message);
    }
}

static steno_onnx_head *open_head(const char *name)
{
    steno_onnx_head *h;
    char path[128];
    steno_err err;
    snprintf(path, sizeof path, "tests/fuzz/export_meta/%s", name);
    if (steno_onnx_head_open(&h, path, &err))
        fail_msg("%s", err.msg);
    return h;
}

static void metadata_of_a_streaming_encoder_is_read(void **state)
{
    steno_onnx_head *h = open_head("nemo_streaming");
    struct steno_nemo_conf c = {.kind = STENO_NEMO_TRANSDUCER, .streaming = true, .subsampling = 8};
    (void)state;
    assert_int_equal(steno_nemo_conf_metadata(&c, h, "encoder.onnx", NULL), STENO_OK);
    assert_int_equal(c.vocab, 115);
    assert_int_equal(c.bins, 128);
    assert_int_equal(c.window, 25);
    assert_int_equal(c.shift, 16);
    assert_int_equal(c.channel[1], 14);
    assert_int_equal(c.time[2], 8);
    assert_false(c.per_feature);
    steno_onnx_head_close(h);
}

/* GigaAM's CTC counts its blank. */
static void metadata_of_gigaam_is_read(void **state)
{
    steno_onnx_head *h = open_head("gigaam_ctc");
    struct steno_nemo_conf c = {.kind = STENO_NEMO_CTC, .subsampling = 8};
    (void)state;
    assert_int_equal(steno_nemo_conf_metadata(&c, h, "model.onnx", NULL), STENO_OK);
    assert_true(c.gigaam && !c.version_3);
    assert_int_equal(c.vocab, 33);
    assert_int_equal(c.subsampling, 4);
    assert_false(c.per_feature);
    steno_onnx_head_close(h);
}

static void languages_of_prompts_are_found(void **state)
{
    static const struct {
        const char *language;
        int64_t number;
    } cases[] = {{NULL, 101},
                 {"", 101},
                 {"auto", 101},
                 {"de", 9},
                 {"DE_de", 9},
                 {"en-GB", 1},
                 {"zh", 4},
                 {"nb", 103},
                 {"th", 32},
                 {"ja", 10},
                 {"xx", 101},
                 {"e", 101},
                 {"a-very-long-name", 101}};
    steno_onnx_head *h = open_head("nemotron"), *other = open_head("nemo_streaming");
    struct steno_nemo_prompts p;
    (void)state;
    assert_int_equal(steno_nemo_prompts_read(&p, h, "encoder.onnx", NULL), STENO_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(steno_nemo_prompts_find(&p, cases[i].language), cases[i].number);
    assert_int_equal(p.highest, 104);
    assert_non_null(strstr(p.languages, "de el en es"));
    steno_nemo_prompts_free(&p);
    assert_int_equal(steno_nemo_prompts_read(&p, other, "encoder.onnx", NULL), STENO_OK);
    assert_int_equal(steno_nemo_prompts_find(&p, "de"), 101);
    steno_nemo_prompts_free(&p);
    steno_onnx_head_close(h);
    steno_onnx_head_close(other);
    assert_true(steno_nemo_prompts_is_mark("<de-DE>") && steno_nemo_prompts_is_mark("<yue>"));
    assert_false(steno_nemo_prompts_is_mark("<d>") || steno_nemo_prompts_is_mark("<de-de>") ||
                 steno_nemo_prompts_is_mark("<DE>") || steno_nemo_prompts_is_mark("de") ||
                 steno_nemo_prompts_is_mark("<de-DE") || steno_nemo_prompts_is_mark("<"));
}

static void kinds_of_offline_ctc_are_told_by_their_metadata(void **state)
{
    static const struct {
        const char *file, *title;
        bool normalised;
        size_t bins;
    } cases[] = {{"fire_red", "FireRedASR", true, 80}, {"telespeech", "TeleSpeech", false, 40}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steno_onnx_head *h = open_head(cases[i].file);
        struct steno_ctc_offline_meta m;
        assert_int_equal(steno_ctc_offline_meta_read(&m, h, "model.onnx", NULL), STENO_OK);
        assert_string_equal(m.kind->title, cases[i].title);
        assert_int_equal(m.subsampling, 4);
        assert_int_equal(m.cmvn != NULL, cases[i].normalised);
        assert_int_equal(m.kind->front(false).bins, cases[i].bins);
        steno_cmvn_close(m.cmvn);
        steno_onnx_head_close(h);
    }
}

static void lists_of_metadata_are_checked(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {{NULL, "x.onnx: metadata: mean is missing, expected 2 numbers"},
                 {"1,2,3", "x.onnx: metadata: mean has more than 2 numbers, expected 2"},
                 {"1", "x.onnx: metadata: mean has 1 numbers, expected 2"},
                 {"1,a", "x.onnx: metadata: mean: entry 1 is 'a', expected a number"},
                 {"nan,1", "x.onnx: metadata: mean: entry 0 is 'nan,1', expected a number"}};
    float out[2];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steno_err err;
        assert_int_equal(steno_metadata_list(cases[i].text, "mean", "x.onnx", out, 2, &err),
                         STENO_ERR_FORMAT);
        assert_string_equal(err.msg, cases[i].message);
    }
    assert_int_equal(steno_metadata_list("1.5,-2", "mean", "x.onnx", out, 2, NULL), STENO_OK);
    assert_true(out[0] == 1.5F && out[1] == -2);
}

static void a_missing_key_is_named(void **state)
{
    steno_onnx_head *canary = open_head("nemo_canary"), *wenet = open_head("wenet");
    struct steno_nemo_conf c = {.streaming = true, .subsampling = 8};
    struct steno_wenet_meta w;
    steno_err err;
    (void)state;
    assert_int_equal(steno_nemo_conf_metadata(&c, canary, "encoder.onnx", &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "encoder.onnx: metadata window_size is missing");
    assert_int_equal(steno_wenet_meta_read(&w, canary, true, "model.onnx", &err), STENO_ERR_FORMAT);
    assert_string_equal(err.msg, "model.onnx: metadata head is missing");
    assert_int_equal(steno_wenet_meta_read(&w, wenet, true, "model.onnx", &err), STENO_OK);
    assert_int_equal(w.chunk, 16);
    assert_int_equal(w.left, 4);
    assert_int_equal(w.right_context, 6);
    steno_onnx_head_close(canary);
    steno_onnx_head_close(wenet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_json_says_the_kind),
        cmocka_unit_test(files_of_gigaam_are_named_by_their_kind),
        cmocka_unit_test(config_json_is_refused_with_the_key),
        cmocka_unit_test(metadata_of_a_streaming_encoder_is_read),
        cmocka_unit_test(metadata_of_gigaam_is_read),
        cmocka_unit_test(languages_of_prompts_are_found),
        cmocka_unit_test(kinds_of_offline_ctc_are_told_by_their_metadata),
        cmocka_unit_test(lists_of_metadata_are_checked),
        cmocka_unit_test(a_missing_key_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
