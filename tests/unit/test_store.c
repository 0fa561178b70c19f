/* Models on this machine: catalogue, places, pages of a package index, SHA-256. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "steno.h"
#include "speech/store/catalogue.h"
#include "speech/store/package_index.h"
#include "speech/store/places.h"
#include "tests/support/test.h"

/* FIPS 180-4 examples (NIST, "SHA-256 example"), and one that ends at every place of a block. */
static void sha256_gives_the_published_digests(void **state)
{
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t d[STENO_SHA256_BYTES], back[STENO_SHA256_BYTES];
        char text[STENO_SHA256_HEX];
        struct steno_sha256 s;
        steno_sha256_begin(&s);
        steno_sha256_add(&s, cases[i].text, strlen(cases[i].text));
        steno_sha256_end(&s, d);
        steno_sha256_text(d, text);
        assert_string_equal(text, cases[i].digest);
        assert_true(steno_sha256_parse(text, back));
        assert_memory_equal(d, back, sizeof d);
    }
}

static void sha256_does_not_depend_on_how_the_bytes_come(void **state)
{
    uint8_t bytes[300], whole[STENO_SHA256_BYTES], d[STENO_SHA256_BYTES];
    struct steno_sha256 s;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n <= sizeof bytes; n += 13) {
        steno_sha256_begin(&s);
        steno_sha256_add(&s, bytes, n);
        steno_sha256_end(&s, whole);
        for (size_t step = 1; step < 70; step++) {
            steno_sha256_begin(&s);
            for (size_t at = 0; at < n; at += step)
                steno_sha256_add(&s, bytes + at, n - at < step ? n - at : step);
            steno_sha256_end(&s, d);
            assert_memory_equal(d, whole, sizeof d);
        }
    }
}

static void the_shipped_catalogue_is_good_and_knows_its_names(void **state)
{
    steno_catalogue *c = NULL;
    const struct steno_catalogue_model *m;
    steno_err err = {0};
    (void)state;
    unsetenv("STENO_CATALOGUE");
    if (steno_catalogue_open(&c, NULL, &err))
        fail_msg("%s", err.msg);
    m = steno_catalogue_find(c, "tiny.en");
    assert_non_null(m);
    assert_int_equal(m->bytes, 2317 + 75537502 + 2128466 + 422309);
    assert_int_equal(m->sources[0].n_packages, 1);
    assert_string_equal(m->sources[1].hub, "Systran/faster-whisper-tiny.en");
    assert_ptr_equal(steno_catalogue_find(c, "systran/Faster-Whisper-tiny.en"), m);
    assert_ptr_equal(steno_catalogue_find(c, "openai/whisper-tiny.en"), m);
    assert_null(steno_catalogue_find(c, "whisper-1"));
    assert_string_equal(steno_catalogue_client(c, "whisper-1"), "OpenAI");
    assert_string_equal(steno_catalogue_client(c, "gpt-4o-mini-transcribe-2025"), "OpenAI");
    assert_string_equal(steno_catalogue_client(c, "nova-3-general"), "Deepgram");
    assert_null(steno_catalogue_client(c, "digits-en"));
    assert_null(steno_catalogue_client(c, "my-model"));
    steno_catalogue_close(c);
}

#define SUM "abababababababababababababababababababababababababababababababab"
#define MODEL(NAME, FILE, SOURCE)                                                                  \
    "{\"name\":\"" NAME "\",\"family\":\"f\",\"about\":\"a\",\"languages\":\"l\",\"license\":"     \
    "\"x\",\"files\":{\"" FILE "\":{\"bytes\":3,\"sha256\":\"" SUM "\"}},\"sources\":[" SOURCE     \
    "]}"
#define HUB "{\"hub\":\"o/n\",\"revision\":\"r\"}"

static void a_catalogue_with_a_fault_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"{\"models\":[]}", "'models' must be a list with content"},
        {"{\"models\":1,\"more\":1}", "unknown member 'more'"},
        {"{\"models\":[" MODEL("..", "m", HUB) "]}", "'name' is not a name"},
        {"{\"models\":[" MODEL("a/b", "m", HUB) "]}", "'name' is not a name"},
        {"{\"models\":[" MODEL("a", "../m", HUB) "]}", "a file's name"},
        {"{\"models\":[" MODEL("a", "f/../m", HUB) "]}", "a file's name"},
        {"{\"models\":[" MODEL("a", "m", "{\"hub\":\"o\",\"revision\":\"r\"}") "]}",
         "'hub' is not a name"},
        {"{\"models\":[" MODEL("a", "m", "{\"hub\":\"../n\",\"revision\":\"r\"}") "]}",
         "'hub' is not a name"},
        {"{\"models\":[" MODEL("a", "m", HUB) "," MODEL("A", "m", HUB) "]}", "another model"},
        {"{\"models\":[" MODEL("a", "m",
                               "{\"packages\":[{\"name\":\"p\",\"file\":\"w\",\"bytes\":1,"
                               "\"sha256\":\"" SUM "\"}],\"unpack\":{}}") "]}",
         "'unpack' lacks m"},
        {"[", "line 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        steno_catalogue *c = NULL;
        steno_err err = {0};
        assert_int_not_equal(
            steno_catalogue_parse(&c, cases[i].text, strlen(cases[i].text), "file", &err),
            STENO_OK);
        assert_null(c);
        if (!strstr(err.msg, cases[i].reason))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].reason);
    }
}

#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static void a_path_stays_below_the_directory_of_the_model(void **state)
{
    static const char *const good[] = {
        "model.onnx", "tokenizer/vocab.json", "onnx/encoder_model.onnx",
        "a/b/c/d/e",  "Qwen3-0.6B/_x",        TEN TEN "/" TEN TEN,
    };
    static const char *const bad[] = {
        "",
        "/",
        "/etc/passwd",
        "..",
        "a/..",
        "../a",
        "a/../b",
        "a//b",
        "a/",
        "./a",
        "a/./b",
        ".a",
        "a/.b",
        "a/-b",
        "-a",
        "a\\b",
        "a b/c",
        "a/b\nc",
        "a/b/c/d/e/f",
        "C:/a",
        "a/%2e",
        "a/b\x7f",
        "~/a",
        "$HOME/a",
        HUNDRED,
        "a/" HUNDRED,
        TEN TEN TEN TEN TEN "/" TEN TEN TEN TEN TEN,
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!steno_catalogue_harmless_path(good[i]))
            fail_msg("'%s' is refused", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (steno_catalogue_harmless_path(bad[i]))
            fail_msg("'%s' is taken", bad[i]);
    assert_false(steno_catalogue_harmless("a/b"));
}

static void a_page_of_an_index_gives_the_link_of_the_file(void **state)
{
    static const char file[] = "a_b-1.0-py3-none-any.whl";
    static const struct {
        const char *page, *link; /* NULL: an error */
    } cases[] = {
        {"<a href=\"../a_b-1.0-py3-none-any.whl#sha256=0\">a</a>", "../a_b-1.0-py3-none-any.whl"},
        {" \n<html><A class=x HREF='http://h/p?q=1&amp;r#f'>x</A>"
         "<a href='/a%5Fb-1.0-py3-none-any.whl?x=1&amp;y=2'>x",
         "/a%5Fb-1.0-py3-none-any.whl?x=1&y=2"},
        {"<a href=\"xa_b-1.0-py3-none-any.whl\">", NULL},
        {"<a href=\"a_b-1.0-py3-none-any.whl", NULL},
        {"{\"files\":[{\"filename\":\"a_b-1.0-py3-none-any.whl\",\"url\":\"u/x#y\"}]}", "u/x"},
        {"{\"files\":[{\"filename\":\"a_b-1.0-py3-none-any.whl\",\"url\":7}]}", NULL},
        {"{\"files\":{}}", NULL},
        {"{", NULL},
        {"", NULL},
        {"404", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char link[STENO_PACKAGE_LINK] = "";
        steno_err err = {0};
        steno_status st =
            steno_package_link(cases[i].page, strlen(cases[i].page), file, link, &err);
        if (!cases[i].link) {
            assert_int_not_equal(st, STENO_OK);
            assert_true(*err.msg);
            continue;
        }
        assert_int_equal(st, STENO_OK);
        assert_string_equal(link, cases[i].link);
    }
}

static void finds(const char *given, const char *want)
{
    char *dir = NULL;
    steno_err err = {0};
    if (steno_model_find(&dir, given, &err))
        fail_msg("%s", err.msg);
    if (!strstr(dir, want))
        fail_msg("%s: found %s, expected %s", given ? given : "(default)", dir, want);
    free(dir);
}

/* silero-vad lies among the models, but is none of them. */
static void the_detector_is_found(const char *models, const char *default_model)
{
    char dir[80], file[128], *found = NULL;
    steno_err err = {0};
    FILE *f;
    assert_int_equal(steno_vad_find(&found, NULL, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "steno model fetch silero-vad"));
    assert_int_equal(steno_vad_find(&found, "snakers4/silero-vad", &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "steno model fetch silero-vad"));
    snprintf(dir, sizeof dir, "%s/silero-vad", models);
    snprintf(file, sizeof file, "%s/silero_vad.onnx", dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_false(steno_vad_is_dir(dir));
    f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    assert_true(steno_vad_is_dir(dir));
    for (int by_name = 0; by_name < 2; by_name++) {
        assert_int_equal(steno_vad_find(&found, by_name ? "silero-vad" : NULL, &err), STENO_OK);
        assert_string_equal(found, dir);
        free(found);
    }
    finds(NULL, default_model);
    unlink(file);
    rmdir(dir);
}

/* Nor are the networks that tell speakers apart. */
static void the_networks_of_speakers_are_found(const char *models, const char *default_model)
{
    char dir[80], *found = NULL;
    steno_err err = {0};
    unsetenv("STENO_SPEAKERS");
    assert_int_equal(steno_speakers_find(&found, NULL, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "steno model fetch speakers"));
    assert_int_equal(steno_speakers_find(&found, "speakers", &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "steno model fetch speakers"));
    snprintf(dir, sizeof dir, "%s/speakers", models);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (int by_name = 0; by_name < 2; by_name++) {
        assert_int_equal(steno_speakers_find(&found, by_name ? "speakers" : NULL, &err), STENO_OK);
        assert_string_equal(found, dir);
        free(found);
    }
    setenv("STENO_SPEAKERS", "/tmp", 1);
    assert_int_equal(steno_speakers_find(&found, NULL, &err), STENO_OK);
    assert_string_equal(found, "/tmp");
    free(found);
    unsetenv("STENO_SPEAKERS");
    finds(NULL, default_model);
    rmdir(dir);
}

/* Nor is the network that hears the end of a turn. */
static void the_network_of_turns_is_found(const char *models, const char *default_model)
{
    char dir[80], file[120], *found = NULL;
    steno_err err = {0};
    FILE *f;
    unsetenv("STENO_TURN");
    assert_int_equal(steno_turn_detector_find(&found, NULL, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "steno model fetch smart-turn"));
    snprintf(dir, sizeof dir, "%s/smart-turn", models);
    snprintf(file, sizeof file, "%s/smart-turn-v9.onnx", dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_false(steno_turn_detector_is_dir(dir));
    assert_non_null(f = fopen(file, "w"));
    fclose(f);
    assert_true(steno_turn_detector_is_dir(dir));
    for (int by_name = 0; by_name < 2; by_name++) {
        assert_int_equal(steno_turn_detector_find(&found, by_name ? "smart-turn" : NULL, &err),
                         STENO_OK);
        assert_string_equal(found, dir);
        free(found);
    }
    setenv("STENO_TURN", "/tmp", 1);
    assert_int_equal(steno_turn_detector_find(&found, NULL, &err), STENO_OK);
    assert_string_equal(found, "/tmp");
    free(found);
    unsetenv("STENO_TURN");
    finds(NULL, default_model);
    unlink(file);
    rmdir(dir);
}

static void the_default_is_the_first_fetched_model_else_the_one_that_ships(void **state)
{
    char data[] = "/tmp/steno-store-XXXXXX", models[64], tiny[80], base[80], own[80];
    char *dir = NULL;
    steno_err err = {0};
    (void)state;
    assert_non_null(mkdtemp(data));
    snprintf(models, sizeof models, "%s/models", data);
    snprintf(tiny, sizeof tiny, "%s/tiny.en", models);
    snprintf(base, sizeof base, "%s/base", models);
    snprintf(own, sizeof own, "%s/mine", models);
    unsetenv("STENO_MODEL");
    setenv("STENO_DATA", data, 1);
    finds(NULL, "digits-en");
    finds("digits-en", "/digits-en");
    finds("unknown-name", "unknown-name");
    assert_int_equal(steno_model_find(&dir, "tiny.en", &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "steno model fetch tiny.en"));
    assert_int_equal(steno_model_find(&dir, "tny.en", &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "no model of the catalogue (tiny.en is known)"));
    assert_int_equal(mkdir(models, 0700), 0);
    assert_int_equal(mkdir(tiny, 0700), 0);
    finds(NULL, tiny);
    finds("Systran/faster-whisper-tiny.en", tiny);
    assert_int_equal(mkdir(base, 0700), 0);
    finds(NULL, base);
    finds("tiny.en", tiny);
    finds("digits-en", "/digits-en");
    assert_int_equal(mkdir(own, 0700), 0);
    finds("mine", own);
    assert_int_equal(rmdir(own), 0);
    the_detector_is_found(models, base);
    the_network_of_turns_is_found(models, base);
    the_networks_of_speakers_are_found(models, base);
    setenv("STENO_MODEL", "tiny.en", 1);
    finds(NULL, tiny);
    finds("base", base);
    unsetenv("STENO_MODEL");
    rmdir(base);
    rmdir(tiny);
    rmdir(models);
    rmdir(data);
}

static void models_lie_where_the_user_keeps_data(void **state)
{
    char dir[STENO_PLACE_MAX];
    (void)state;
    setenv("STENO_DATA", "/data", 1);
    assert_true(steno_place_models(dir, 0));
    assert_string_equal(dir, "/data/models");
    assert_false(steno_place_models(dir, 1));
    unsetenv("STENO_DATA");
    setenv("XDG_DATA_HOME", "/xdg", 1);
    assert_true(steno_place_models(dir, 0));
    assert_string_equal(dir, geteuid() ? "/xdg/steno/models" : "/var/lib/steno/models");
    assert_int_equal(steno_place_models(dir, 1), geteuid() != 0);
}

static const char *convert_of(const char *convert, const char *files, steno_err *err)
{
    static char weights[8];
    char text[600];
    steno_catalogue *c = NULL;
    const struct steno_catalogue_model *m;
    snprintf(text, sizeof text,
             "{\"models\": [{\"name\": \"a\", \"family\": \"f\", \"about\": \"b\", \"languages\": "
             "\"l\", \"license\": \"l\", %s, \"convert\": %s, \"sources\": [{\"hub\": \"o/n\", "
             "\"revision\": \"main\"}]}]}",
             files, convert);
    if (steno_catalogue_parse(&c, text, strlen(text), "test", err))
        return NULL;
    m = steno_catalogue_find(c, "a");
    snprintf(weights, sizeof weights, "%s", m->convert);
    steno_catalogue_close(c);
    return weights;
}

static void a_checkpoint_says_what_weights_it_gets(void **state)
{
    static const char picks[] = "\"pick\": [\"*.nemo\"], \"bytes\": 5";
    static const char files[] =
        "\"files\": {\"a\": {\"bytes\": 1, \"sha256\": "
        "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}}";
    steno_err err = {0};
    (void)state;
    assert_string_equal(convert_of("\"int8\"", picks, &err), "int8");
    assert_string_equal(convert_of("\"fp32\"", picks, &err), "fp32");
    assert_string_equal(convert_of("\"bf16\"", picks, &err), "bf16");
    assert_null(convert_of("\"fp64\"", picks, &err));
    assert_non_null(strstr(err.msg, "'convert' is \"fp32\", \"int8\" or \"bf16\""));
    assert_null(convert_of("true", picks, &err));
    assert_string_equal(convert_of("\"fp32\"", files, &err), "fp32");
}

static void a_map_of_confidences_is_checked(void **state)
{
    steno_err err = {0};
    (void)state;
    assert_non_null(convert_of("\"fp32\", \"confidence\": {\"knots\": [[0.1, 0.2]]}",
                               "\"pick\": [\"*\"], \"bytes\": 5", &err));
    assert_null(convert_of("\"fp32\", \"confidence\": {\"knots\": [[0.1, 2]]}",
                           "\"pick\": [\"*\"], \"bytes\": 5", &err));
    assert_string_equal(err.msg, "test: line 1: a knot is two numbers of 0 to 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_the_published_digests),
        cmocka_unit_test(sha256_does_not_depend_on_how_the_bytes_come),
        cmocka_unit_test(the_shipped_catalogue_is_good_and_knows_its_names),
        cmocka_unit_test(a_catalogue_with_a_fault_is_refused_with_the_reason),
        cmocka_unit_test(a_path_stays_below_the_directory_of_the_model),
        cmocka_unit_test(a_page_of_an_index_gives_the_link_of_the_file),
        cmocka_unit_test(the_default_is_the_first_fetched_model_else_the_one_that_ships),
        cmocka_unit_test(models_lie_where_the_user_keeps_data),
        cmocka_unit_test(a_checkpoint_says_what_weights_it_gets),
        cmocka_unit_test(a_map_of_confidences_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
