/* Options of the joint search by name: ranges, lists, what completes what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/search.h"

static void every_option_has_its_place_and_range(void **state)
{
    static const struct {
        const char *name, *good, *bad;
        unsigned bit;
        size_t offset;
    } rows[] = {
#define AT(member) offsetof(struct steno_search_options, member)
        {"ctc_weight", "0.3", "1.01", STENO_SEARCH_CTC_WEIGHT, AT(ctc_weight)},
        {"lm_weight", "0.6", "-0.1", STENO_SEARCH_LM_WEIGHT, AT(lm_weight)},
        {"penalty", "-2", "101", STENO_SEARCH_PENALTY, AT(penalty)},
        {"maxlenratio", "-30", "101", STENO_SEARCH_MAX_LEN, AT(max_len_ratio)},
        {"minlenratio", "0.1", "-1e7", STENO_SEARCH_MIN_LEN, AT(min_len_ratio)},
        {"pre_beam", "1.5", "-1", STENO_SEARCH_PRE_BEAM, AT(pre_beam_ratio)},
#undef AT
    };
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_search_options s = {0};
        double v;
        assert_true(steno_search_is_option(rows[i].name));
        assert_int_equal(steno_search_set_text(&s, rows[i].name, rows[i].bad, &err),
                         STENO_ERR_INVAL);
        assert_non_null(strstr(err.msg, rows[i].name));
        assert_int_equal(steno_search_set_text(&s, rows[i].name, "nan", &err), STENO_ERR_INVAL);
        assert_int_equal(s.set, 0);
        assert_int_equal(steno_search_set_text(&s, rows[i].name, rows[i].good, &err), STENO_OK);
        assert_int_equal(s.set, rows[i].bit);
        memcpy(&v, (char *)&s + rows[i].offset, sizeof v);
        assert_true(v != 0);
    }
    assert_false(steno_search_is_option("ctc_weigh"));
    assert_false(steno_search_is_option("ctc_weights"));
}

static void lists_are_read_whole_or_refused(void **state)
{
    struct steno_search_options s = {0};
    int beam = 7;
    steno_err err;
    (void)state;
    assert_int_equal(steno_search_read_list(&s, &beam, "", &err), STENO_OK);
    assert_int_equal(s.set, 0);
    assert_int_equal(beam, 7);
    assert_int_equal(
        steno_search_read_list(&s, &beam, " beam=10, ctc_weight=0.3,lm_weight=0 ,", &err),
        STENO_OK);
    assert_int_equal(beam, 10);
    assert_int_equal(s.set, STENO_SEARCH_CTC_WEIGHT | STENO_SEARCH_LM_WEIGHT);
    assert_int_equal(steno_search_read_list(&s, &beam, "beam", &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "'beam' is not NAME=VALUE"));
    assert_int_equal(steno_search_read_list(&s, &beam, "weight=1", &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "unknown option 'weight'"));
    assert_int_equal(steno_search_read_list(&s, &beam, "beam=65", &err), STENO_ERR_INVAL);
    assert_int_equal(steno_search_read_list(&s, &beam,
                                            "a_name_that_is_much_longer_than_any_option_there_is_"
                                            "and_then_some=1",
                                            &err),
                     STENO_ERR_INVAL);
}

static void what_is_set_stays(void **state)
{
    struct steno_search_options s = {.set = STENO_SEARCH_PENALTY, .penalty = 1};
    const struct steno_search_options d = {.set = STENO_SEARCH_PENALTY | STENO_SEARCH_LM_WEIGHT,
                                           .penalty = 2,
                                           .lm_weight = 0.5,
                                           .ctc_weight = 9};
    (void)state;
    steno_search_complete(&s, &d);
    assert_int_equal(s.set, STENO_SEARCH_PENALTY | STENO_SEARCH_LM_WEIGHT);
    assert_true(s.penalty == 1 && s.lm_weight == 0.5 && s.ctc_weight == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_its_place_and_range),
        cmocka_unit_test(lists_are_read_whole_or_refused),
        cmocka_unit_test(what_is_set_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
