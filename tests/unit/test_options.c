/* Options of model families by name: kinds, ranges, lists, which values complete others,
 * variants of models. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "protocol/options.h"
#include "tests/support/test.h"

#define GET(o, name) steno_options_get(o, name, (char[STENO_OPTION_TEXT]){0})

static void every_option_has_its_range(void **state)
{
    static const struct {
        const char *name, *good, *bad;
    } rows[] = {
        {"ctc_weight", "0.3", "1.01"}, {"lm_weight", "0.6", "-0.1"},   {"penalty", "-2", "101"},
        {"maxlenratio", "-30", "101"}, {"minlenratio", "0.1", "-1e7"}, {"pre_beam", "1.5", "-1"},
    };
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_options s = {0};
        assert_true(steno_options_known_of(rows[i].name, STENO_OPTION_OF_STREAM));
        assert_int_equal(steno_options_set(&s, rows[i].name, rows[i].bad, &err), STENO_ERR_INVAL);
        assert_non_null(strstr(err.msg, rows[i].name));
        assert_string_equal(steno_options_named_in(err.msg), rows[i].name);
        assert_int_equal(steno_options_set(&s, rows[i].name, "nan", &err), STENO_ERR_INVAL);
        assert_int_equal(s.n, 0);
        assert_int_equal(steno_options_set(&s, rows[i].name, rows[i].good, &err), STENO_OK);
        assert_int_equal(s.n, 1);
        assert_string_equal(GET(&s, rows[i].name), rows[i].good);
    }
    assert_false(steno_options_known("ctc_weigh"));
    assert_false(steno_options_known("ctc_weights"));
    assert_null(steno_options_named_in("ctc_weights: no"));
}

static void an_unknown_option_is_an_error_that_lists_those_there_are(void **state)
{
    struct steno_options s = {0};
    steno_err err;
    (void)state;
    assert_int_equal(steno_options_set(&s, "ctc_wait", "1", &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "'ctc_wait'"));
}

static void values_of_json_are_of_the_options_kind(void **state)
{
    static const struct {
        const char *name, *json, *value; /* NULL: refused */
    } rows[] = {{"ctc_weight", "0.3", "0.3"},
                {"maxlenratio", "-30", "-30"},
                {"ctc_weight", "\"0.3\"", NULL},
                {"ctc_weight", "true", NULL},
                {"quantized", "true", "yes"},
                {"quantized", "false", "no"},
                {"quantized", "\"yes\"", NULL},
                {"quantized", "1", NULL},
                {"compat", "\"none\"", "none"},
                {"compat", "true", NULL},
                {"ctc_weight", "0.1234567890123456", "0.1234567890123456"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_options s = {0};
        json_t *v = json_loads(rows[i].json, JSON_DECODE_ANY, NULL);
        steno_err err;
        assert_int_equal(steno_options_set_json(&s, rows[i].name, v, &err),
                         rows[i].value ? STENO_OK : STENO_ERR_INVAL);
        if (rows[i].value)
            assert_string_equal(GET(&s, rows[i].name), rows[i].value);
        else
            assert_string_equal(steno_options_named_in(err.msg), rows[i].name);
        json_decref(v);
    }
}

static void lists_are_read_whole_or_refused(void **state)
{
    struct steno_options s = {0};
    int beam = 7;
    steno_err err;
    (void)state;
    assert_int_equal(steno_options_read_list(&s, &beam, "", &err), STENO_OK);
    assert_int_equal(s.n, 0);
    assert_int_equal(beam, 7);
    assert_int_equal(
        steno_options_read_list(&s, &beam, " beam=10, ctc_weight=0.3,lm_weight=0 ,", &err),
        STENO_OK);
    assert_int_equal(beam, 10);
    assert_int_equal(s.n, 2);
    assert_string_equal(GET(&s, "ctc_weight"), "0.3");
    assert_string_equal(GET(&s, "lm_weight"), "0");
    assert_int_equal(steno_options_read_list(&s, &beam, "beam", &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "'beam' is not NAME=VALUE"));
    assert_int_equal(steno_options_read_list(&s, &beam, "weight=1", &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "unknown option 'weight'"));
    assert_int_equal(steno_option_check("weight", "1", &err), STENO_ERR_INVAL);
    for (size_t k = 0; steno_option_at(k); k++) /* however many there are */
        assert_non_null(strstr(err.msg, steno_option_at(k)->name));
    assert_int_equal(steno_options_read_list(&s, &beam, "quantized=1", &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "unknown option 'quantized'"));
    assert_int_equal(steno_options_read_list(&s, &beam, "beam=65", &err), STENO_ERR_INVAL);
    assert_int_equal(steno_options_read_list(&s, &beam,
                                             "a_name_that_is_much_longer_than_any_option_there_is_"
                                             "and_then_some=1",
                                             &err),
                     STENO_ERR_INVAL);
}

static struct steno_options set_of(const char *const *pairs)
{
    struct steno_options s = {0};
    for (; *pairs; pairs += 2)
        assert_int_equal(steno_options_set(&s, pairs[0], pairs[1], NULL), STENO_OK);
    return s;
}
#define SET(...) set_of((const char *const[]){__VA_ARGS__, NULL})

static void what_is_set_stays(void **state)
{
    struct steno_options s = SET("penalty", "1");
    const struct steno_options d = SET("penalty", "2", "lm_weight", "0.5");
    (void)state;
    steno_options_complete(&s, &d);
    assert_int_equal(s.n, 2);
    assert_string_equal(GET(&s, "penalty"), "1");
    assert_string_equal(GET(&s, "lm_weight"), "0.5");
    assert_null(GET(&s, "ctc_weight"));
    steno_options_unset(&s, "penalty");
    assert_null(GET(&s, "penalty"));
    assert_int_equal(s.n, 1);
}

static void only_what_a_family_has_is_kept(void **state)
{
    struct steno_options s = SET("penalty", "1", "quantized", "yes"), t = s, u = s;
    const char *family = steno_option_find("penalty")->family; /* espnet alone has it */
    (void)state;
    steno_options_keep(&s, STENO_OPTION_OF_MODEL, family);
    assert_int_equal(s.n, 1);
    assert_string_equal(GET(&s, "quantized"), "yes");
    steno_options_keep(&t, STENO_OPTION_OF_STREAM, family);
    assert_int_equal(t.n, 1);
    assert_string_equal(GET(&t, "penalty"), "1");
    steno_options_keep(&u, STENO_OPTION_OF_STREAM, "no_family");
    assert_int_equal(u.n, 0);
    steno_options_keep(&t, STENO_OPTION_OF_STREAM, NULL);
    assert_int_equal(t.n, 0);
}

static void a_variant_has_one_form(void **state)
{
    static const struct {
        const char *quantized, *compat, *label, *json;
    } rows[] = {{NULL, NULL, "", ""},
                {"no", "none", "", ""},
                {"1", NULL, "+quantized", ",\"quantized\":true"},
                {"no", "espnet-onnx", "+espnet-onnx", ",\"compat\":\"espnet-onnx\""},
                {"true", "espnet-onnx", "+quantized+espnet-onnx",
                 ",\"quantized\":true,\"compat\":\"espnet-onnx\""}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_options s = SET("penalty", "1"), v;
        struct steno_option_list list;
        char label[STENO_OPTIONS_LABEL];
        struct steno_buf b;
        if (rows[i].compat) /* in another order than the table's */
            assert_int_equal(steno_options_set(&s, "compat", rows[i].compat, NULL), STENO_OK);
        if (rows[i].quantized)
            assert_int_equal(steno_options_set(&s, "quantized", rows[i].quantized, NULL), STENO_OK);
        v = steno_options_variant(&s);
        assert_string_equal(steno_options_label(&s, label), rows[i].label);
        assert_string_equal(steno_options_label(&v, label), rows[i].label);
        steno_options_list(&v, STENO_OPTION_OF_STREAM, &list);
        assert_int_equal(list.n, 0);
        steno_options_list(&v, STENO_OPTION_OF_MODEL, &list);
        assert_int_equal(list.n, v.n);
        steno_options_list(&s, STENO_OPTION_OF_STREAM, &list);
        assert_int_equal(list.n, 1);
        assert_string_equal(list.v[0].name, "penalty");
        assert_string_equal(list.v[0].value, "1");
        steno_buf_init(&b, 256);
        assert_int_equal(steno_buf_puts(&b, ""), STENO_OK);
        assert_int_equal(steno_options_write(&b, &s), STENO_OK);
        assert_string_equal(b.data, rows[i].json);
        steno_buf_free(&b);
        steno_options_set_variant(&s, &v);
        assert_int_equal(s.n, v.n + 1);
        assert_true(steno_options_equal(&v, &v));
        s = SET("pre_beam", "1");
        assert_false(steno_options_equal(&v, &s));
    }
}

/* Two options of one kind would share the room; there is one. */
#define LIST "suppress_tokens"

static void lists_of_numbers_are_checked_and_kept(void **state)
{
    static const struct {
        const char *json, *value; /* value NULL: refused */
    } rows[] = {{"\"-1,50\"", "-1,50"},
                {"[-1, 50, 400]", "-1,50,400"},
                {"[]", ""},
                {"7", "7"},
                {"[1.5]", NULL},
                {"[\"1\"]", NULL},
                {"true", NULL},
                {"\"1,x\"", NULL},
                {"\"-2\"", NULL},
                {"[100000]", NULL},
                {"\"1.5\"", NULL},
                {"\"99999999999999999999\"", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_options s = {0};
        json_t *v = json_loads(rows[i].json, JSON_DECODE_ANY, NULL);
        steno_err err = {0};
        assert_int_equal(steno_options_set_json(&s, LIST, v, &err),
                         rows[i].value ? STENO_OK : STENO_ERR_INVAL);
        if (rows[i].value)
            assert_string_equal(GET(&s, LIST), rows[i].value);
        else
            assert_string_equal(steno_options_named_in(err.msg), LIST);
        json_decref(v);
    }
}

static void lists_move_with_their_sets(void **state)
{
    struct steno_options s = SET("penalty", "1", LIST, "-1,50", "temperature", "0.5"), t = {0};
    struct steno_option_list list;
    char longest[STENO_OPTIONS_LISTS + 1];
    steno_err err;
    (void)state;
    steno_options_complete(&t, &s);
    assert_true(steno_options_equal(&s, &t));
    assert_int_equal(steno_options_set(&t, LIST, "50", NULL), STENO_OK);
    assert_false(steno_options_equal(&s, &t));
    steno_options_complete(&t, &s); /* what is set stays */
    assert_string_equal(GET(&t, LIST), "50");
    steno_options_keep(&t, STENO_OPTION_OF_STREAM, "whisper");
    steno_options_list(&t, STENO_OPTION_OF_STREAM, &list);
    memset(&t, 'x', sizeof t); /* the list has texts of its own */
    assert_int_equal(list.n, 2);
    for (size_t i = 0; i < list.n; i++)
        assert_string_equal(list.v[i].value, strcmp(list.v[i].name, LIST) ? "0.5" : "50");
    for (size_t i = 0; i < sizeof longest; i++)
        longest[i] = i % 2 ? ',' : '7';
    longest[STENO_OPTIONS_LISTS] = '\0';
    assert_int_equal(steno_options_set(&s, LIST, longest, &err), STENO_ERR_LIMIT);
    assert_string_equal(steno_options_named_in(err.msg), LIST);
    assert_string_equal(GET(&s, LIST), "-1,50"); /* as it was */
    longest[STENO_OPTIONS_LISTS - 1] = '\0';
    for (int i = 0; i < 3; i++) /* the room of the one before is free again */
        assert_int_equal(steno_options_set(&s, LIST, longest, NULL), STENO_OK);
    assert_string_equal(GET(&s, LIST), longest);
    steno_options_unset(&s, LIST);
    assert_null(GET(&s, LIST));
    assert_string_equal(GET(&s, "temperature"), "0.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_its_range),
        cmocka_unit_test(an_unknown_option_is_an_error_that_lists_those_there_are),
        cmocka_unit_test(values_of_json_are_of_the_options_kind),
        cmocka_unit_test(lists_are_read_whole_or_refused),
        cmocka_unit_test(what_is_set_stays),
        cmocka_unit_test(only_what_a_family_has_is_kept),
        cmocka_unit_test(a_variant_has_one_form),
        cmocka_unit_test(lists_of_numbers_are_checked_and_kept),
        cmocka_unit_test(lists_move_with_their_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
