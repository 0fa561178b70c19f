/* Voice prints as files, and the directory that they are in. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "speech/speakers/networks.h"
#include "speech/speakers/voiceprint.h"
#include "tests/support/test.h"

#define FLOATS 3
#define GOOD                                                                                       \
    "steno voice print 1\nnetwork 00000000000000ab\nseconds 12.5\nsince 1764428400\n"              \
    "print AACAPwAAAAAAAAC/\n" /* 1, 0, -0.5 */

static char top[] = "/tmp/steno-enrolled-XXXXXX", dir[64];
static steno_speakers networks = {.embedding = {.dim = FLOATS, .tag = 0xab}};
static const float print[FLOATS] = {1, 0, -0.5f}, other[FLOATS] = {0, 1, 0};

static int make_top(void **state)
{
    (void)state;
    if (!mkdtemp(top))
        return -1;
    snprintf(dir, sizeof dir, "%s/a/b", top);
    return 0;
}

static int remove_top(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", top);
    return system(command); /* NOLINT */
}

static void a_file_is_read_and_written(void **state)
{
    struct steno_voiceprint v;
    struct steno_buf out;
    steno_err err;
    (void)state;
    assert_int_equal(steno_voiceprint_parse(&v, GOOD, strlen(GOOD), &err), STENO_OK);
    assert_int_equal(v.network, 0xab);
    assert_true(v.seconds == 12.5 && v.since == 1764428400 && v.n == FLOATS);
    assert_memory_equal(v.print, print, sizeof print);
    steno_buf_init(&out, STENO_VOICEPRINT_MAX);
    assert_int_equal(steno_voiceprint_write(&out, &v), STENO_OK);
    assert_string_equal(out.data, GOOD);
    steno_buf_free(&out);
    free(v.print);
}

static void a_wrong_file_is_refused_by_its_line(void **state)
{
    static const struct {
        const char *text;
        char line;
    } wrong[] = {
        {"", '1'},
        {"steno voice print 2\n", '1'},
        {"steno voice print 1", '1'},
        {"steno voice print 1\nnetwork 0ab\n", '2'},
        {"steno voice print 1\nnetwork 00000000000000ag\n", '2'},
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds nan\n", '3'},
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds -1\n", '3'},
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds 1 2\n", '3'},
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds 1\nsince x\n", '4'},
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds 1\nsince 1\n", '5'},
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds 1\nsince 1\nprint \n", '5'},
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds 1\nsince 1\nprint AA*A\n", '5'},
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds 1\nsince 1\nprint AACA\n", '5'},
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds 1\nsince 1\nprint AADAfw==\n",
         '5'}, /* not a number */
        {"steno voice print 1\nnetwork 00000000000000ab\nseconds 1\nsince 1\nprint AAAAQA==\n",
         '5'}, /* 2 */
    };
    struct steno_voiceprint v;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *text = wrong[i].text;
        assert_int_equal(steno_voiceprint_parse(&v, text, strlen(text), &err), STENO_ERR_FORMAT);
        assert_memory_equal(err.msg, "line ", 5);
        assert_int_equal(err.msg[5], wrong[i].line);
        assert_null(v.print);
    }
}

static void a_name_has_one_file(void **state)
{
    static const char *const good[][2] = {{"Ann", "Ann.voice"},
                                          {"Ann Lee", "Ann%20Lee.voice"},
                                          {"..", "%2E%2E.voice"},
                                          {"a/b", "a%2Fb.voice"},
                                          {"Zo\xc3\xab", "Zo%C3%AB.voice"}};
    static const char *const no_name[] = {"",
                                          " a",
                                          "a ",
                                          "a\nb",
                                          "\xff",
                                          "\xc3",
                                          "\x7f",
                                          "1234567890123456789012345678901234567890"
                                          "1234567890123456789012345"};
    static const char *const no_file[] = {
        "Ann",          ".voice",    "Ann.voice.new", "%4.voice",   "%41nn.voice",
        "%c3%ab.voice", "%00.voice", "a.b.voice",     "%20a.voice", "../x.voice"};
    char file[STENO_VOICEPRINT_FILE], name[STENO_SPEAKER_NAME];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(steno_voiceprint_name_ok(good[i][0]));
        steno_voiceprint_file(file, good[i][0]);
        assert_string_equal(file, good[i][1]);
        assert_true(steno_voiceprint_person(name, file));
        assert_string_equal(name, good[i][0]);
    }
    for (size_t i = 0; i < sizeof no_name / sizeof *no_name; i++)
        assert_false(steno_voiceprint_name_ok(no_name[i]));
    for (size_t i = 0; i < sizeof no_file / sizeof *no_file; i++)
        assert_false(steno_voiceprint_person(name, no_file[i]));
}

static mode_t mode_of(const char *file)
{
    char path[128];
    struct stat sb;
    snprintf(path, sizeof path, "%s%s%s", dir, file ? "/" : "", file ? file : "");
    assert_int_equal(stat(path, &sb), 0);
    return sb.st_mode & 0777;
}

static void put_file(const char *file, const char *text)
{
    char path[128];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* Those who are enrolled, as "NAME+ NAME- ", with + for those who are known. */
static void list(const steno_speakers *s, char out[256])
{
    struct steno_enrolled_speaker who;
    steno_enrolled *e;
    steno_err err;
    out[0] = '\0';
    assert_int_equal(steno_enrolled_open(&e, dir, s, &err), STENO_OK);
    for (size_t i = 0; steno_enrolled_at(e, i, &who); i++)
        snprintf(out + strlen(out), 256 - strlen(out), "%s%c ", who.name, who.known ? '+' : '-');
    steno_enrolled_close(e);
}

static void people_are_enrolled_and_deleted(void **state)
{
    char who[256];
    struct steno_enrolled_speaker first;
    steno_enrolled *e;
    steno_err err;
    (void)state;
    list(&networks, who); /* no directory: nobody */
    assert_string_equal(who, "");
    assert_int_equal(steno_enroll(dir, "Bob", &networks, other, 4, &err), STENO_OK);
    assert_int_equal(steno_enroll(dir, "Ann Lee", &networks, other, 4, &err), STENO_OK);
    assert_int_equal(steno_enroll(dir, "Ann Lee", &networks, print, 12.5, &err), STENO_OK);
    assert_int_equal(mode_of(NULL), 0700);
    assert_int_equal(mode_of("Ann%20Lee.voice"), 0600);
    assert_int_equal(steno_enrolled_open(&e, dir, &networks, &err), STENO_OK);
    assert_int_equal(steno_enrolled_count(e), 2);
    assert_true(steno_enrolled_at(e, 0, &first));
    assert_true(first.seconds == 12.5 && first.since > 1764428400);
    assert_memory_equal(steno_enrolled_prints(e), print, sizeof print); /* the later one */
    assert_memory_equal(steno_enrolled_prints(e) + FLOATS, other, sizeof other);
    steno_enrolled_close(e);
    list(NULL, who);
    assert_string_equal(who, "Ann Lee- Bob- ");
    assert_int_equal(steno_enrolled_delete(dir, "Ann Lee", &err), STENO_OK);
    assert_int_equal(steno_enrolled_delete(dir, "Ann Lee", &err), STENO_ERR_INVAL);
    assert_null(strstr(err.msg, "Ann")); /* names are in no message */
    assert_int_equal(steno_enrolled_delete(dir, "", &err), STENO_ERR_INVAL);
    assert_int_equal(steno_enroll(dir, "a\n", &networks, print, 1, &err), STENO_ERR_INVAL);
    list(&networks, who);
    assert_string_equal(who, "Bob+ ");
}

static void a_damaged_print_or_one_of_another_network_is_nobodys(void **state)
{
    static const float zeros[FLOATS];
    steno_speakers others = networks;
    char who[256];
    steno_enrolled *e;
    steno_err err;
    (void)state;
    others.embedding.tag++;
    list(&others, who);
    assert_string_equal(who, "Bob- ");
    put_file("Cut.voice", "steno voice print 1\n");
    put_file("notes.txt", "no print");
    list(&networks, who);
    assert_string_equal(who, "Bob+ Cut- ");
    assert_int_equal(steno_enrolled_open(&e, dir, &networks, &err), STENO_OK);
    assert_memory_equal(steno_enrolled_prints(e) + FLOATS, zeros, sizeof zeros);
    steno_enrolled_close(e);
    assert_int_equal(steno_enrolled_delete(dir, "Cut", &err), STENO_OK);
}

static void a_directory_that_others_may_use_is_refused(void **state)
{
    steno_enrolled *e;
    steno_err err;
    (void)state;
    assert_int_equal(chmod(dir, 0750), 0);
    assert_int_equal(steno_enrolled_open(&e, dir, &networks, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "mode 750"));
    assert_int_equal(steno_enroll(dir, "Eve", &networks, print, 1, &err), STENO_ERR_IO);
    assert_int_equal(steno_enrolled_delete(dir, "Bob", &err), STENO_ERR_IO);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(steno_enrolled_open(&e, "/dev/null", &networks, &err), STENO_ERR_IO);
}

static void only_so_many_are_enrolled(void **state)
{
    char name[16];
    steno_err err;
    (void)state;
    for (int i = 1; i < STENO_ENROLLED_MAX; i++) {
        snprintf(name, sizeof name, "n%d.voice", i);
        put_file(name, GOOD);
    }
    assert_int_equal(steno_enroll(dir, "one more", &networks, print, 1, &err), STENO_ERR_LIMIT);
    assert_int_equal(steno_enroll(dir, "Bob", &networks, print, 1, &err), STENO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_and_written),
        cmocka_unit_test(a_wrong_file_is_refused_by_its_line),
        cmocka_unit_test(a_name_has_one_file),
        cmocka_unit_test(people_are_enrolled_and_deleted),
        cmocka_unit_test(a_damaged_print_or_one_of_another_network_is_nobodys),
        cmocka_unit_test(a_directory_that_others_may_use_is_refused),
        cmocka_unit_test(only_so_many_are_enrolled),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
