/* FunASR's models of ../shared/zoo/tiny against sherpa-onnx's results. The networks have random
 * weights, so every difference in their input or search shows. */
#include <stdlib.h>

#include "tests/support/test.h"
#include "tests/support/zoo.h"

static const struct steno_option itn[] = {{"itn", "yes"}}, int8[] = {{"quantized", "yes"}};

/* The runtimes' int8 products round activations to 8 bits, so the last bit of a sum decides tokens
 * of these networks: two versions of one runtime differ, too. */
static void check_near(const struct zoo_run *r)
{
    const struct zoo_count c = zoo_check(r);
    assert_true(c.edits * 20 <= c.tokens);
}

/* sherpa-onnx drops the first four tokens instead of the first four frames: in jfk some of the
 * frames are blank or repeat a token, and it loses as many tokens of the text. */
static void sense_voice_f32_gives_every_row(void **state)
{
    static const struct zoo_run r[] = {
        {.set = "fp32 language=auto use_itn=0"},
        {.set = "fp32 language=auto use_itn=1", .options = itn, .n_options = 1},
        {.set = "fp32 language=zh use_itn=0", .language = "zh"},
        {.set = "fp32 language=zh use_itn=1", .language = "zh", .options = itn, .n_options = 1},
        {.set = "fp32 language=en use_itn=0", .language = "en", .piece = 1234},
        {.set = "fp32 language=en use_itn=1", .language = "en", .options = itn, .n_options = 1},
        {.set = "fp32 batch of all files language=auto use_itn=0", .piece = 4000}};
    (void)state;
    for (size_t i = 0; i < sizeof r / sizeof *r; i++) {
        struct zoo_run one = r[i];
        struct zoo_count c;
        one.dir = "sense-voice";
        one.times = true;
        one.dropped = 4;
        c = zoo_check(&one);
        assert_int_equal(c.equal, c.rows);
    }
}

static void sense_voice_int8_is_near(void **state)
{
    (void)state;
    check_near(&(struct zoo_run){.dir = "sense-voice",
                                 .set = "int8 language=auto use_itn=0",
                                 .options = int8,
                                 .n_options = 1});
}

/* sherpa-onnx reads tokens up to </s>, whatever the network says of their number, and has no
 * times. */
static void paraformer_f32_gives_every_row(void **state)
{
    struct zoo_run r = {.dir = "paraformer-offline", .set = "fp32 greedy_search"};
    struct zoo_count c = zoo_check(&r);
    (void)state;
    assert_int_equal(c.equal, c.rows);
    r.piece = 1000;
    c = zoo_check(&r);
    assert_int_equal(c.equal, c.rows);
}

/* Padding leaks through the predictor's convolution into sherpa-onnx's batches. Ours has none: one
 * recording of four differs. */
static void paraformer_does_not_depend_on_a_batch(void **state)
{
    const struct zoo_count c = zoo_check(
        &(struct zoo_run){.dir = "paraformer-offline",
                          .set = "fp32 greedy_search, batch of all files (padded with zeros)"});
    (void)state;
    assert_int_equal(c.equal, c.rows - 1);
}

static void paraformer_int8_is_near(void **state)
{
    (void)state;
    check_near(&(struct zoo_run){
        .dir = "paraformer-offline", .set = "int8 greedy_search", .options = int8, .n_options = 1});
}

/* sherpa-onnx does not flush its networks at the end of a stream; ours says the same before it. */
static void streaming_paraformer_f32_gives_every_row(void **state)
{
    static const size_t pieces[] = {0, 1600, 333};
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const struct zoo_count c = zoo_check(&(struct zoo_run){.dir = "paraformer-streaming",
                                                               .set = "fp32 greedy_search",
                                                               .silence = 1.66,
                                                               .piece = pieces[i],
                                                               .unended = true});
        assert_int_equal(c.equal, c.rows);
    }
}

static void streaming_paraformer_int8_is_near(void **state)
{
    (void)state;
    check_near(&(struct zoo_run){.dir = "paraformer-streaming",
                                 .set = "int8 greedy_search",
                                 .silence = 1.66,
                                 .unended = true,
                                 .options = int8,
                                 .n_options = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sense_voice_f32_gives_every_row),
        cmocka_unit_test(sense_voice_int8_is_near),
        cmocka_unit_test(paraformer_f32_gives_every_row),
        cmocka_unit_test(paraformer_does_not_depend_on_a_batch),
        cmocka_unit_test(paraformer_int8_is_near),
        cmocka_unit_test(streaming_paraformer_f32_gives_every_row),
        cmocka_unit_test(streaming_paraformer_int8_is_near),
    };
    return cmocka_run_group_tests_name("funasr", tests, NULL, NULL);
}
