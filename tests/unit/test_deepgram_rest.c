/* Deepgram's REST answer: what a request wants of it. Its members are those of Deepgram's OpenAPI
 * (2026-07). */
#include <string.h>

#include <jansson.h>

#include "protocol/deepgram.h"
#include "tests/support/test.h"

static const struct steno_word words[] = {{"Ich,", 0, 0.5, 1},
                                          {"Über.", 0.5, 1, 1},
                                          {"\"Nein!\"", 1.2, 2, 1},
                                          {"...", 3.5, 3.6, 1},
                                          {"ja", 3.6, 4, 1}};

static steno_transcript *transcript(void)
{
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .text = "Ich, Über. \"Nein!\" ... ja",
                                   .n_words = 5,
                                   .words = words,
                                   .end = 4,
                                   .confidence = 1,
                                   .language = "de",
                                   .language_probability = 0.5f};
    steno_transcript *t = steno_transcript_new(0);
    assert_non_null(t);
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    return t;
}

static json_t *answer_of(steno_transcript *said, const struct steno_deepgram_wants *wants)
{
    const struct steno_deepgram_about about = {.request_id = "id",
                                               .model = "m",
                                               .version = "1",
                                               .family = "f",
                                               .channels = 1,
                                               .wants = *wants};
    struct steno_openai_result r = {
        .transcript = said, .language = "de", .language_probability = 0.5f, .duration = 4};
    struct steno_buf b;
    json_error_t why;
    json_t *j;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_deepgram_write(&b, &r, &about), STENO_OK);
    j = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, &why);
    if (!j)
        fail_msg("%s: %s", why.text, b.data);
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
    return j;
}

static json_t *answer(const struct steno_deepgram_wants *wants)
{
    return answer_of(transcript(), wants);
}

static const json_t *channel(const json_t *j)
{
    return json_array_get(json_object_get(json_object_get(j, "results"), "channels"), 0);
}

static const json_t *best(const json_t *j)
{
    return json_array_get(json_object_get(channel(j), "alternatives"), 0);
}

static const char *string(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static void nothing_more_is_sent_than_is_wanted(void **state)
{
    json_t *j = answer(&(struct steno_deepgram_wants){0});
    const json_t *word = json_array_get(json_object_get(best(j), "words"), 0);
    (void)state;
    assert_null(json_object_get(channel(j), "detected_language"));
    assert_null(json_object_get(best(j), "paragraphs"));
    assert_null(json_object_get(json_object_get(j, "results"), "utterances"));
    assert_string_equal(string(word, "word"), "Ich,");
    assert_null(json_object_get(word, "punctuated_word"));
    json_decref(j);
}

static void words_without_marks_have_their_punctuated_form_beside(void **state)
{
    static const char *const bare[] = {"ich", "über", "nein", "...", "ja"};
    json_t *j = answer(&(struct steno_deepgram_wants){.punctuate = true});
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        const json_t *word = json_array_get(json_object_get(best(j), "words"), i);
        assert_string_equal(string(word, "word"), bare[i]);
        assert_string_equal(string(word, "punctuated_word"), words[i].text);
    }
    json_decref(j);
}

/* Case, marks and blanks do not matter; hits do not overlap. */
static void terms_are_searched_in_the_words(void **state)
{
    static const char *const terms[] = {"\xC3\x9C"
                                        "BER nein",
                                        "ja", "j", "ichn",
                                        "Ich, \xC3\xBC"
                                        "ber"};
    struct steno_buf search;
    const json_t *found, *hit;
    json_t *j;
    steno_err err;
    (void)state;
    steno_buf_init(&search, 200);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(steno_deepgram_add_search(&search, terms[i], &err), STENO_OK);
    j = answer(&(struct steno_deepgram_wants){.search = &search});
    found = json_object_get(channel(j), "search");
    assert_int_equal(json_array_size(found), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *hits = json_object_get(json_array_get(found, i), "hits");
        assert_string_equal(string(json_array_get(found, i), "query"), terms[i]);
        assert_int_equal(json_array_size(hits), i == 2 || i == 3 ? 0 : 1);
    }
    hit = json_array_get(json_object_get(json_array_get(found, 0), "hits"), 0);
    assert_string_equal(string(hit, "snippet"), "\xC3\x9C"
                                                "ber. \"Nein!\"");
    assert_true(json_real_value(json_object_get(hit, "start")) == 0.5);
    assert_true(json_real_value(json_object_get(hit, "end")) == 2);
    assert_true(json_real_value(json_object_get(hit, "confidence")) == 1);
    json_decref(j);
    j = answer(&(struct steno_deepgram_wants){0});
    assert_null(json_object_get(channel(j), "search"));
    json_decref(j);
    assert_int_equal(steno_deepgram_add_search(&search, " ", &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "search: it is empty");
    assert_int_equal(steno_deepgram_add_search(&search, "\xff", &err), STENO_ERR_INVAL);
    for (size_t i = 5; i < 50; i++)
        assert_int_equal(steno_deepgram_add_search(&search, "a", &err), STENO_OK);
    assert_int_equal(steno_deepgram_add_search(&search, "a", &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "search: more than 50");
    steno_buf_free(&search);
}

static void paragraphs_are_cut_at_pauses_and_sentences_at_marks(void **state)
{
    json_t *j = answer(&(struct steno_deepgram_wants){.paragraphs = true});
    const json_t *p = json_object_get(best(j), "paragraphs"),
                 *list = json_object_get(p, "paragraphs"), *first = json_array_get(list, 0),
                 *sentences = json_object_get(first, "sentences");
    (void)state;
    assert_string_equal(string(p, "transcript"), "\nIch, Über. \"Nein!\"\n\n... ja");
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(json_integer_value(json_object_get(first, "num_words")), 3);
    assert_int_equal(json_array_size(sentences), 2);
    assert_string_equal(string(json_array_get(sentences, 1), "text"), "\"Nein!\"");
    assert_true(json_number_value(json_object_get(json_array_get(sentences, 1), "start")) == 1.2);
    json_decref(j);
}

static void sentences_end_at_marks_of_other_scripts_too(void **state)
{
    static const struct steno_word said[] = {{"«\xD9\x86\xD8\xB9\xD9\x85\xD8\x9F»", 0, 1, 1},
                                             {"\xE0\xA4\xB9\xE0\xA4\xBE\xE0\xA5\xA4", 1, 2, 1},
                                             {"ja", 2, 3, 1}};
    const struct steno_event ev = {
        .kind = STENO_FINAL,
        .text = "«\xD9\x86\xD8\xB9\xD9\x85\xD8\x9F» \xE0\xA4\xB9\xE0\xA4\xBE\xE0\xA5\xA4 ja",
        .n_words = 3,
        .words = said,
        .end = 3,
        .confidence = 1};
    steno_transcript *t = steno_transcript_new(0);
    json_t *j;
    const json_t *list;
    (void)state;
    assert_int_equal(steno_transcript_add(t, &ev, NULL), STENO_OK);
    j = answer_of(t, &(struct steno_deepgram_wants){.paragraphs = true});
    list = json_object_get(json_object_get(best(j), "paragraphs"), "paragraphs");
    assert_int_equal(json_array_size(json_object_get(json_array_get(list, 0), "sentences")), 3);
    json_decref(j);
}

static void language_and_utterances_are_sent_when_they_are_wanted(void **state)
{
    json_t *j = answer(&(struct steno_deepgram_wants){.detect_language = true, .utterances = true});
    const json_t *u = json_object_get(json_object_get(j, "results"), "utterances");
    (void)state;
    assert_string_equal(string(channel(j), "detected_language"), "de");
    assert_true(json_number_value(json_object_get(channel(j), "language_confidence")) == 0.5);
    assert_int_equal(json_array_size(u), 1);
    assert_string_equal(string(json_array_get(u, 0), "transcript"), "Ich, Über. \"Nein!\" ... ja");
    json_decref(j);
}

/* A recording in a language, told as a model tells it. */
static json_t *numbers(const struct steno_deepgram_wants *wants, const char *language)
{
    static const struct steno_word said[] = {
        {"Twenty", 0, 0.5, 1}, {"three,", 0.5, 1, 1}, {"six.", 1, 2, 1}};
    const struct steno_alternative alternatives[] = {
        {.text = "Twenty three, six.", .confidence = 1, .n_words = 3, .words = said},
        {.text = "Twenty", .confidence = 1, .n_words = 1, .words = said}};
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .text = "Twenty three, six.",
                                   .n_words = 3,
                                   .words = said,
                                   .end = 2,
                                   .confidence = 1,
                                   .n_alternatives = 2,
                                   .alternatives = alternatives,
                                   .language = language};
    const struct steno_deepgram_about about = {.sha256 = "00ff",
                                               .request_id = "id",
                                               .model = "m",
                                               .version = "1",
                                               .family = "f",
                                               .channels = 1,
                                               .wants = *wants};
    struct steno_openai_result r = {
        .transcript = steno_transcript_new(0), .language = language, .duration = 2};
    struct steno_buf b;
    json_t *j;
    assert_int_equal(steno_transcript_add(r.transcript, &ev, NULL), STENO_OK);
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_deepgram_write(&b, &r, &about), STENO_OK);
    j = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(j);
    steno_buf_free(&b);
    steno_transcript_free(r.transcript);
    return j;
}

static void english_numbers_become_digits_everywhere(void **state)
{
    json_t *j =
        numbers(&(struct steno_deepgram_wants){.smart_format = true, .utterances = true}, "en");
    const json_t *list = json_object_get(best(j), "words"), *first = json_array_get(list, 0);
    const json_t *u =
        json_array_get(json_object_get(json_object_get(j, "results"), "utterances"), 0);
    (void)state;
    assert_string_equal(string(best(j), "transcript"), "23, 6.");
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(string(first, "word"), "23");
    assert_string_equal(string(first, "punctuated_word"), "23,");
    assert_true(json_number_value(json_object_get(first, "end")) == 1);
    assert_string_equal(
        string(json_array_get(json_object_get(channel(j), "alternatives"), 1), "transcript"), "20");
    assert_string_equal(string(json_object_get(best(j), "paragraphs"), "transcript"),
                        "\n23, 6."); /* smart_format has them */
    assert_string_equal(string(u, "transcript"), "23, 6.");
    assert_int_equal(json_array_size(json_object_get(u, "words")), 2);
    assert_null(json_object_get(json_object_get(j, "metadata"), "warnings"));
    assert_string_equal(string(json_object_get(j, "metadata"), "sha256"), "00ff");
    json_decref(j);
}

static void numbers_of_other_languages_stay_with_a_warning(void **state)
{
    static const struct {
        const char *language;
        struct steno_deepgram_wants wants;
        const char *parameter;
    } rows[] = {{"de", {.numerals = true}, "numerals"},
                {"de", {.smart_format = true}, "smart_format"},
                {"", {.numerals = true, .smart_format = true}, "numerals"},
                {"de", {.punctuate = true, .dictation = true}, "dictation"},
                {"", {.measurements = true}, "measurements"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *j = numbers(&rows[i].wants, rows[i].language);
        const json_t *w = json_object_get(json_object_get(j, "metadata"), "warnings");
        assert_string_equal(string(best(j), "transcript"), "Twenty three, six.");
        assert_int_equal(json_array_size(w), 1);
        assert_string_equal(string(json_array_get(w, 0), "parameter"), rows[i].parameter);
        assert_string_equal(string(json_array_get(w, 0), "type"), "unsupported_language");
        json_decref(j);
    }
}

static void marks_and_units_that_are_said_become_signs(void **state)
{
    static struct steno_word dose[] = {{"take", 0, 1, 1},    {"five", 1, 2, 1},
                                       {"hundred", 2, 3, 1}, {"milligrams", 3, 4, 1},
                                       {"comma", 4, 5, 1},   {"please", 5, 6, 1}};
    static const struct steno_alternative a = {
        .text = "take five hundred milligrams comma please", .words = dose, .n_words = 6};
    static const struct {
        struct steno_deepgram_wants wants;
        const char *text;
    } rows[] = {
        {{.punctuate = true, .dictation = true}, "take five hundred milligrams, please"},
        {{.numerals = true, .measurements = true}, "take 500 mg comma please"},
        {{.smart_format = true, .dictation = true, .measurements = true}, "take 500 mg, please"},
        {{.dictation = true}, "take five hundred milligrams comma please"}, /* needs punctuate */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct steno_alternative shown = a;
        steno_arena *arena;
        assert_int_equal(steno_deepgram_format(&rows[i].wants, &shown, &arena), STENO_OK);
        assert_string_equal(shown.text, rows[i].text);
        steno_arena_free(arena);
    }
}

static void dictation_without_punctuate_is_in_warnings(void **state)
{
    const struct steno_deepgram_wants w = {.dictation = true};
    struct steno_buf b;
    (void)state;
    steno_buf_init(&b, 4096);
    assert_int_equal(steno_deepgram_put_warnings(&b, &w, ""), STENO_OK);
    assert_non_null(strstr(b.data, "\"parameter\":\"dictation\""));
    assert_non_null(strstr(b.data, "punctuate=true"));
    steno_buf_free(&b);
}

static void ids_and_errors_have_the_form_of_deepgrams(void **state)
{
    char id[STENO_DEEPGRAM_ID], reason[STENO_DEEPGRAM_ERROR];
    (void)state;
    steno_deepgram_request_id("req_00112233445566778899aabbccddeeff", id);
    assert_string_equal(id, "00112233-4455-6677-8899-aabbccddeeff");
    steno_deepgram_request_id("sess_00112233445566778899aabbccddeeff", id);
    assert_string_equal(id, "00112233-4455-6677-8899-aabbccddeeff");
    steno_deepgram_request_id("req_0011", id);
    assert_string_equal(id, "req_0011");
    steno_deepgram_request_id("00112233445566778899aabbccddeeff", id);
    assert_string_equal(id, "00112233445566778899aabbccddeeff");
    steno_deepgram_error_header("model: '\xC3\xA4\r\nX: y' \x7F", reason);
    assert_string_equal(reason, "model: '????X: y' ?");
}

static void parameters_are_read(void **state)
{
    static const struct {
        const char *name, *value;
        steno_status st;
        bool speakers;
    } diarize[] = {
        {"diarize", "true", STENO_OK, true},         {"diarize_model", "latest", STENO_OK, true},
        {"diarize_model", "false", STENO_OK, false}, {"diarize_model", "x", STENO_ERR_INVAL, true},
        {"diarize", "no", STENO_OK, false},          {"diarize", "maybe", STENO_ERR_INVAL, false}};
    struct steno_deepgram_wants w = {0};
    struct steno_hint_store h = {0};
    struct steno_options o = {0};
    char when[STENO_OPTION_TEXT];
    steno_err err;
    (void)state;
    assert_true(steno_deepgram_is_want("keyterm") && steno_deepgram_is_want("language"));
    assert_false(steno_deepgram_is_want("diarize"));
    for (size_t i = 0; i < sizeof diarize / sizeof *diarize; i++) {
        bool speakers = false;
        assert_int_equal(
            steno_deepgram_diarize(&w, diarize[i].name, diarize[i].value, &speakers, &err),
            diarize[i].st);
        assert_int_equal(speakers, diarize[i].speakers);
    }
    w.unsupported[0] = '\0';
    steno_deepgram_note_unsupported(&w, "summarize", "0");
    steno_deepgram_note_unsupported(&w, "tag", "x");
    assert_string_equal(w.unsupported, "");
    steno_deepgram_note_unsupported(&w, "extra", "key:value"); /* which the answer would have */
    steno_deepgram_note_unsupported(&w, "redact[]", "pci");
    assert_string_equal(w.unsupported, "extra redact[]");
    w.unsupported[0] = '\0';
    steno_deepgram_default_options(&o);
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "utterances", "true", &err), STENO_OK);
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "punctuate", "false", &err), STENO_OK);
    assert_string_equal(steno_options_get(&o, "punctuation", when), "off");
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "smart_format", "true", &err), STENO_OK);
    assert_string_equal(steno_options_get(&o, "punctuation", when), "auto");
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "punctuation", "off", &err), STENO_OK);
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "punctuate", "true", &err), STENO_OK);
    assert_string_equal(steno_options_get(&o, "punctuation", when), "off"); /* in any order */
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "keywords", "a:b:2.5", &err), STENO_OK);
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "keywords", "16:9x", &err), STENO_OK);
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "punctuate", "false", &err), STENO_OK);
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "numerals", "true", &err), STENO_OK);
    assert_true(w.smart_format && w.numerals && !w.punctuate);
    assert_string_equal(h.hotwords, "a:b, 16:9x");
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "keywords", "unsaid:0", &err), STENO_OK);
    assert_string_equal(w.unsupported, "");
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "keywords", "snuffle:-2.5", &err), STENO_OK);
    assert_string_equal(h.hotwords, "a:b, 16:9x"); /* it is not made likely */
    assert_string_equal(w.unsupported, "keywords");
    w.unsupported[0] = '\0';
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "profanity_filter", "true", &err), STENO_OK);
    assert_string_equal(w.unsupported, "profanity_filter"); /* there is no list */
    assert_false(h.profanity_filter);
    h.profanity = "darn";
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "profanity_filter", "true", &err), STENO_OK);
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "filler_words", "false", &err), STENO_OK);
    assert_true(h.profanity_filter && h.no_fillers);
    assert_int_equal(steno_deepgram_want(&w, &h, &o, "paragraphs", "2", &err), STENO_ERR_INVAL);
    assert_string_equal(err.msg, "paragraphs: '2' is not true or false");
    steno_hint_store_free(&h);
}

/* "forty five | sixty two": a number has one speaker. */
static void numbers_have_one_speaker(void **state)
{
    static const struct steno_word said[] = {
        {"forty", 0, 1, 1}, {"five", 1, 2, 1}, {"sixty", 2, 3, 1}, {"two", 3, 4, 1}};
    static const struct steno_turn turns[] = {{0, 2, 0}, {2, 4, 1}};
    const struct steno_event ev = {.kind = STENO_FINAL,
                                   .text = "forty five sixty two",
                                   .n_words = 4,
                                   .words = said,
                                   .end = 4,
                                   .confidence = 1,
                                   .language = "en"};
    const struct steno_deepgram_about about = {
        .request_id = "id",
        .model = "m",
        .version = "1",
        .family = "f",
        .channels = 1,
        .wants = {.numerals = true, .paragraphs = true, .utterances = true}};
    struct steno_openai_result r = {.language = "en", .duration = 4};
    steno_transcript *plain = steno_transcript_new(0);
    const json_t *best, *list;
    struct steno_buf b;
    json_t *j;
    (void)state;
    assert_int_equal(steno_transcript_add(plain, &ev, NULL), STENO_OK);
    r.transcript = steno_transcript_with_voices(plain, turns, 2, NULL);
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_deepgram_write(&b, &r, &about), STENO_OK);
    j = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    best = json_array_get(json_object_get(channel(j), "alternatives"), 0);
    assert_string_equal(json_string_value(json_object_get(best, "transcript")), "45 62");
    list = json_object_get(best, "words");
    assert_int_equal(json_array_size(list), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *w = json_array_get(list, i);
        assert_int_equal(json_integer_value(json_object_get(w, "speaker")), i);
        assert_true(json_real_value(json_object_get(w, "speaker_confidence")) == 1);
    }
    list = json_object_get(json_object_get(best, "paragraphs"), "paragraphs");
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(best, "paragraphs"), "transcript")),
        "\nSpeaker 0: 45\n\nSpeaker 1: 62");
    json_decref(j);
    steno_buf_free(&b);
    steno_transcript_free(plain);
    steno_transcript_free(r.transcript);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_more_is_sent_than_is_wanted),
        cmocka_unit_test(terms_are_searched_in_the_words),
        cmocka_unit_test(words_without_marks_have_their_punctuated_form_beside),
        cmocka_unit_test(paragraphs_are_cut_at_pauses_and_sentences_at_marks),
        cmocka_unit_test(sentences_end_at_marks_of_other_scripts_too),
        cmocka_unit_test(language_and_utterances_are_sent_when_they_are_wanted),
        cmocka_unit_test(english_numbers_become_digits_everywhere),
        cmocka_unit_test(numbers_of_other_languages_stay_with_a_warning),
        cmocka_unit_test(marks_and_units_that_are_said_become_signs),
        cmocka_unit_test(dictation_without_punctuate_is_in_warnings),
        cmocka_unit_test(ids_and_errors_have_the_form_of_deepgrams),
        cmocka_unit_test(parameters_are_read),
        cmocka_unit_test(numbers_have_one_speaker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
