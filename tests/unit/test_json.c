#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "tests/support/test.h"

static steno_json *parse(const char *text)
{
    steno_json *j = NULL;
    steno_err err = {0};
    if (steno_json_parse(&j, text, strlen(text), "x.json", &err))
        fail_msg("%s", err.msg);
    return j;
}

static void a_document_becomes_a_tree(void **state)
{
    steno_json *j = parse(" {\"a\": [1, -2.5e3, true],\n \"b\": {}, \"c\": null, \"d\": "
                          "\"x\\\"\\n\\u00e9\\ud83d\\ude00\"} ");
    const struct steno_json_node *root = steno_json_root(j), *a = steno_json_get(root, "a");
    int64_t v = 0;
    bool yes = false;
    (void)state;
    assert_int_equal(root->n, 4);
    assert_int_equal(a->n, 3);
    assert_true(steno_json_int(a->first, 0, 9, &v) && v == 1);
    assert_false(steno_json_int(a->first, 2, 9, &v));
    assert_false(steno_json_int(a->first->next, -9999, 9, &v));
    assert_string_equal(a->first->next->text, "-2.5e3");
    assert_null(steno_json_text(a->first));
    assert_null(steno_json_text(NULL));
    assert_true(steno_json_bool(a->first->next->next, &yes) && yes);
    assert_int_equal(steno_json_get(root, "b")->kind, STENO_JSON_OBJECT);
    assert_int_equal(steno_json_get(root, "b")->line, 2);
    assert_int_equal(steno_json_get(root, "c")->kind, STENO_JSON_NULL);
    assert_string_equal(steno_json_get(root, "d")->text, "x\"\n\xC3\xA9\xF0\x9F\x98\x80");
    assert_null(steno_json_get(root, "e"));
    assert_null(steno_json_get(NULL, "e"));
    steno_json_close(j);
}

static void text_that_is_not_json_is_refused(void **state)
{
    static const char *const cases[][2] = {{"", "line 1: a value expected"},
                                           {"{", "line 1: a key expected"},
                                           {"[1 2]", "line 1: ',' or ']' expected"},
                                           {"[1,\n]", "line 2: a value expected"},
                                           {"{\"a\" 1}", "line 1: ':' expected"},
                                           {"\"abc", "line 1: a string does not end"},
                                           {"\"\\x\"", "line 1: unknown escape in a string"},
                                           {"\"\\u12\"", "line 1: no \\u escape"},
                                           {"\"\\u0000\"", "line 1: a string contains NUL"},
                                           {"\"\\ud800x\"", "line 1: half of a surrogate pair"},
                                           {"\"\\udc00\"", "line 1: no \\u escape"},
                                           {"\"\xE6\x9D\"", "line 1: a string is not UTF-8"},
                                           {"\"\n\"", "line 1: a control character in a string"},
                                           {"01", "line 1: a value expected"},
                                           {"1 x", "line 1: something follows the document"},
                                           {"nul", "line 1: a value expected"},
                                           {"-", "line 1: a value expected"},
                                           {"1.", "line 1: a value expected"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        steno_json *j = NULL;
        steno_err err = {0};
        assert_int_equal(steno_json_parse(&j, cases[i][0], strlen(cases[i][0]), "x.json", &err),
                         STENO_ERR_FORMAT);
        assert_null(j);
        if (strncmp(err.msg, "x.json: ", 8) || strcmp(err.msg + 8, cases[i][1]))
            fail_msg("%s: '%s', expected '%s'", cases[i][0], err.msg, cases[i][1]);
    }
}

static void depth_is_bounded(void **state)
{
    char text[200];
    steno_json *j = NULL;
    (void)state;
    memset(text, '[', 100);
    memset(text + 100, ']', 100);
    assert_int_equal(steno_json_parse(&j, text, 200, "x", NULL), STENO_ERR_LIMIT);
    assert_int_equal(steno_json_parse(&j, text + 100 - STENO_JSON_MAX_DEPTH,
                                      2 * STENO_JSON_MAX_DEPTH, "x", NULL),
                     STENO_OK);
    steno_json_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_becomes_a_tree),
        cmocka_unit_test(text_that_is_not_json_is_refused),
        cmocka_unit_test(depth_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
