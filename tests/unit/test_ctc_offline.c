/* CTC models of whole pieces of audio in ../shared/zoo/tiny against sherpa-onnx's results. The
 * networks have random weights, so every difference in their input or search shows. */
#include <stdlib.h>

#include "tests/support/nemo_zoo.h"
#include "tests/support/test.h"
#include "tests/support/zoo.h"

static const struct steno_option sherpa[] = {{"frontend", "sherpa"}};

/* ties: rows in which two scores are nearer than the features of two programs. Whole and in pieces;
 * marks such as <zh> are tokens of the result, and not in its text. */
static void check_kind(const char *dir, size_t ties)
{
    static const size_t pieces[] = {0, 1234, 16000};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const struct zoo_count c = zoo_check(&(struct zoo_run){.dir = dir,
                                                               .set = "fp32 greedy_search",
                                                               .options = sherpa,
                                                               .n_options = 1,
                                                               .piece = pieces[i],
                                                               .marks = true,
                                                               .times = true});
        assert_int_equal(c.equal + ties, c.rows);
        assert_true(c.edits <= ties);
    }
}

/* The network in 8 bits as its file says (precision f32). The last bit of a sum decides tokens of
 * these networks: two versions of one runtime differ too. */
static void check_int8(const char *dir)
{
    const struct set files = {.dir = dir, .part = "", .int8 = true};
    const char *link = nemo_link(&files);
    const struct zoo_count c = zoo_check(&(struct zoo_run){.dir = link,
                                                           .of = dir,
                                                           .set = "int8 greedy_search",
                                                           .options = sherpa,
                                                           .n_options = 1,
                                                           .marks = true});
    nemo_unlink(link);
    assert_true(c.edits * 20 <= c.tokens);
}

static void fire_red_gives_every_row(void **state)
{
    (void)state;
    check_kind("fire-red-asr-ctc", 0);
    check_int8("fire-red-asr-ctc");
}

static void dolphin_gives_every_row(void **state)
{
    (void)state;
    check_kind("dolphin-ctc", 0);
    check_int8("dolphin-ctc");
}

static void medasr_gives_every_row(void **state)
{
    (void)state;
    check_kind("medasr-ctc", 0);
    check_int8("medasr-ctc");
}

static void telespeech_gives_every_row(void **state)
{
    (void)state;
    check_kind("telespeech-ctc", 1); /* jfk: log-probabilities 3.5e-5 apart in a frame of 275 */
    check_int8("telespeech-ctc");
}

/* Each piece begins with the separator of words, which the recorded rows lack. */
static void omnilingual_gives_every_row(void **state)
{
    const struct set files = {.dir = "omnilingual-ctc", .part = "", .int8 = true};
    struct zoo_run r = {.dir = "omnilingual-ctc",
                        .set = "fp32 greedy_search",
                        .left_out = "</s>",
                        .marks = true,
                        .times = true,
                        .dropped = 1};
    struct zoo_count c = zoo_check(&r);
    (void)state;
    assert_int_equal(c.equal, c.rows);
    r.piece = 4000;
    c = zoo_check(&r);
    assert_int_equal(c.equal, c.rows);
    r = (struct zoo_run){.dir = nemo_link(&files),
                         .of = "omnilingual-ctc",
                         .set = "int8 greedy_search",
                         .left_out = "</s>",
                         .marks = true,
                         .dropped = 1};
    c = zoo_check(&r);
    nemo_unlink(r.dir);
    assert_true(c.edits * 20 <= c.tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fire_red_gives_every_row),    cmocka_unit_test(dolphin_gives_every_row),
        cmocka_unit_test(medasr_gives_every_row),      cmocka_unit_test(telespeech_gives_every_row),
        cmocka_unit_test(omnilingual_gives_every_row),
    };
    return cmocka_run_group_tests_name("ctc_offline", tests, NULL, NULL);
}
