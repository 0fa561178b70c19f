/* Prompts of Granite Speech and Voxtral: the numbers that transformers' tokenizers give, of
 * tests/data/hearing (families/transformers_js/kind.h). */
#include <stdio.h>
#include <string.h>

#include "speech/families/transformers_js/kind.h"
#include "tests/support/test.h"

static const char *text_of(const struct steno_json_node *row, const char *key)
{
    const struct steno_json_node *n = steno_json_get(row, key);
    return n && n->kind == STENO_JSON_STRING ? n->text : NULL;
}

/* The numbers of a list are ids [from, ...). Returns how many. */
static size_t check_list(const struct steno_json_node *list, const struct steno_llm_prompt *p,
                         size_t from)
{
    size_t i = from;
    assert_non_null(list);
    for (const struct steno_json_node *n = list->first; n; n = n->next, i++) {
        int64_t id;
        assert_true(steno_json_int(n, 0, INT32_MAX, &id));
        assert_true(i < p->n);
        assert_int_equal(p->ids[i], id);
    }
    return i - from;
}

static void check_model(const char *dir, const char *type, size_t rows)
{
    char path[256];
    steno_json *expected = NULL;
    struct steno_tjs_config c = {0};
    struct steno_llm_vocabulary v = {0};
    size_t n = 0;
    assert_int_equal(steno_tjs_read(&c, dir, NULL), STENO_OK);
    assert_string_equal(c.kind->type, type);
    assert_int_equal(steno_llm_vocabulary_open_one(&v, dir, NULL), STENO_OK);
    snprintf(path, sizeof path, "%s/expected.json", dir);
    assert_int_equal(steno_json_open(&expected, path, NULL), STENO_OK);
    for (const struct steno_json_node *r = steno_json_root(expected)->first; r; r = r->next, n++) {
        const struct steno_family_stream o = {
            .hints = {.language = c.kind->speaks ? NULL : text_of(r, "asked"),
                      .prompt = c.kind->speaks ? text_of(r, "asked") : NULL,
                      .hotwords = text_of(r, "hotwords")}};
        struct steno_llm_prompt p = {0};
        assert_int_equal(steno_tjs_prompt_make(&p, c.kind, &v, &o, 1000, dir, NULL), STENO_OK);
        assert_int_equal(check_list(steno_json_get(r, "before"), &p, 0), p.n_before);
        assert_int_equal(check_list(steno_json_get(r, "after"), &p, p.n_before), p.n - p.n_before);
        steno_llm_prompt_close(&p);
    }
    assert_int_equal(n, rows);
    steno_json_close(expected);
    steno_llm_vocabulary_close(&v);
}

static void granites_prompts_are_those_of_transformers(void **state)
{
    (void)state;
    check_model("tests/data/hearing/granite-speech-tiny", "granite_speech", 9);
}

static void voxtrals_prompts_are_those_of_transformers(void **state)
{
    (void)state;
    check_model("tests/data/hearing/voxtral-tiny", "voxtral", 8);
}

/* Of an instruction that is cut the end of the turn stays. */
static void an_instruction_is_cut_before_the_turn_ends(void **state)
{
    static const char dir[] = "tests/data/hearing/granite-speech-tiny";
    struct steno_family_stream o = {.hints = {.prompt = "the the the the the the"}};
    struct steno_llm_prompt cut = {0}, none = {0};
    struct steno_tjs_config c = {0};
    struct steno_llm_vocabulary v = {0};
    (void)state;
    assert_int_equal(steno_tjs_read(&c, dir, NULL), STENO_OK);
    assert_int_equal(steno_llm_vocabulary_open_one(&v, dir, NULL), STENO_OK);
    assert_int_equal(steno_tjs_prompt_make(&cut, c.kind, &v, &o, 3, dir, NULL), STENO_OK);
    o.hints.prompt = "x";
    assert_int_equal(steno_tjs_prompt_make(&none, c.kind, &v, &o, 0, dir, NULL), STENO_OK);
    assert_int_equal(cut.n, none.n + 3);
    assert_memory_equal(cut.ids + cut.n_before + 3, none.ids + none.n_before,
                        (none.n - none.n_before) * sizeof(int64_t));
    steno_llm_prompt_close(&cut);
    steno_llm_prompt_close(&none);
    steno_llm_vocabulary_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(granites_prompts_are_those_of_transformers),
        cmocka_unit_test(voxtrals_prompts_are_those_of_transformers),
        cmocka_unit_test(an_instruction_is_cut_before_the_turn_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
