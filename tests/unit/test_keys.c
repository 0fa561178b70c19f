/* API keys: the key file, lookup, and the limits of each key. The clock is the test's own. */
/* link: server/core/keys.c server/port/retry_spreader.c server/core/word_list.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/keys.h"
#include "tests/support/test.h"

#define SECOND INT64_C(1000000000)
#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static steno_status read_text(steno_keys *k, const char *text, steno_err *err)
{
    return steno_keys_read_text(k, "keys", text, strlen(text), err);
}

static steno_keys *with(const char *text)
{
    steno_keys *k;
    steno_err err;
    assert_int_equal(steno_keys_open(&k, NULL, &err), STENO_OK);
    assert_int_equal(read_text(k, text, &err), STENO_OK);
    return k;
}

static steno_key *find(steno_keys *k, const char *secret)
{
    steno_key *key = NULL;
    assert_int_equal(steno_keys_find(k, secret, &key, NULL), STENO_OK);
    assert_non_null(key);
    return key;
}

static void without_a_file_every_client_is_anonymous_and_unlimited(void **state)
{
    steno_keys *k;
    steno_key *key = (void *)1;
    double after;
    (void)state;
    assert_int_equal(steno_keys_open(&k, "", NULL), STENO_OK);
    assert_int_equal(steno_keys_find(k, NULL, &key, NULL), STENO_OK);
    assert_null(key);
    assert_int_equal(steno_keys_find(k, "anything", &key, NULL), STENO_OK);
    assert_int_equal(steno_key_enter(k, key, 1, &after, NULL), STENO_OK);
    assert_int_equal(steno_key_audio(k, key, 1, 1e6, NULL, NULL), STENO_OK);
    steno_key_leave(k, key);
    assert_string_equal(steno_key_name(NULL), "");
    assert_int_equal(steno_key_owner(NULL), 0);
    steno_keys_close(k);
}

static void a_key_is_found_by_its_secret_alone(void **state)
{
    steno_keys *k = with("[one]\nkey = " A "\n[two]\nkey=" B "\n");
    steno_key *key;
    steno_err err;
    (void)state;
    assert_string_equal(steno_key_name(find(k, A)), "one");
    assert_string_equal(steno_key_name(find(k, B)), "two");
    assert_int_not_equal(steno_key_owner(find(k, A)), steno_key_owner(find(k, B)));
    assert_int_equal(steno_keys_find(k, NULL, &key, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "required"));
    assert_int_equal(steno_keys_find(k, "", &key, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_keys_find(k, "aaaaaaaaaaaaaaa", &key, &err), STENO_ERR_INVAL);
    assert_int_equal(steno_keys_find(k, A "a", &key, &err), STENO_ERR_INVAL);
    assert_null(strstr(err.msg, "aaaa")); /* the message does not contain the secret */
    assert_string_equal(steno_key_of_authorization("Bearer  x"), "x");
    assert_string_equal(steno_key_of_authorization("token x"), "x");
    assert_null(steno_key_of_authorization("Basic x"));
    assert_null(steno_key_of_authorization(NULL));
    steno_keys_close(k);
}

static void sessions_at_once_are_counted(void **state)
{
    steno_keys *k = with("[one]\nkey = " A "\nsessions = 2\n");
    steno_key *key = find(k, A);
    double after = 0;
    steno_err err;
    (void)state;
    assert_int_equal(steno_key_enter(k, key, SECOND, &after, &err), STENO_OK);
    assert_int_equal(steno_key_enter(k, key, SECOND, &after, &err), STENO_OK);
    assert_int_equal(steno_key_enter(k, key, SECOND, &after, &err), STENO_ERR_BUSY);
    assert_non_null(strstr(err.msg, "'one'"));
    assert_true(after >= 1);
    steno_key_leave(k, key);
    assert_int_equal(steno_key_enter(k, key, SECOND, &after, &err), STENO_OK);
    steno_keys_close(k);
}

static void requests_and_audio_come_back_with_time(void **state)
{
    steno_keys *k = with("[one]\nkey = " A "\nrequests_per_minute = 6\naudio_per_minute = 120s\n");
    steno_key *key = find(k, A);
    int64_t now = SECOND;
    double after = 0;
    (void)state;
    for (int i = 0; i < 6; i++)
        assert_int_equal(steno_key_enter(k, key, now, &after, NULL), STENO_OK);
    assert_int_equal(steno_key_enter(k, key, now, &after, NULL), STENO_ERR_BUSY);
    assert_true(after == 10); /* one request per 10 s */
    now += 9 * SECOND;
    assert_int_equal(steno_key_enter(k, key, now, &after, NULL), STENO_ERR_BUSY);
    now += 2 * SECOND;
    assert_int_equal(steno_key_enter(k, key, now, &after, NULL), STENO_OK);
    /* audio: what exceeds the quota counts against the following seconds */
    assert_int_equal(steno_key_audio(k, key, now, 119, NULL, NULL), STENO_OK);
    assert_int_equal(steno_key_audio(k, key, now, 11, NULL, NULL), STENO_OK);
    assert_int_equal(steno_key_audio(k, key, now, 1, &after, NULL), STENO_ERR_BUSY);
    assert_true(after == 6); /* 2 s of audio per second; missing are 10 s and the requested one */
    now += 4 * SECOND;       /* 8 of the 10 s that were too much */
    assert_int_equal(steno_key_audio(k, key, now, 1, NULL, NULL), STENO_ERR_BUSY);
    now += 60 * SECOND;
    assert_int_equal(steno_key_audio(k, key, now, 1, NULL, NULL), STENO_OK);
    now -= 50 * SECOND; /* a clock that goes back changes nothing */
    assert_int_equal(steno_key_audio(k, key, now, 1, NULL, NULL), STENO_OK);
    steno_keys_close(k);
}

static void a_rush_of_one_key_is_spread_over_seconds_and_delays_no_other(void **state)
{
    steno_keys *k = with("[one]\nkey = " A "\nsessions = 1\n[two]\nkey = " B "\nsessions = 1\n");
    steno_key *one = find(k, A), *two = find(k, B);
    double after = 0;
    (void)state;
    assert_int_equal(steno_key_enter(k, one, SECOND, &after, NULL), STENO_OK);
    assert_int_equal(steno_key_enter(k, two, SECOND, &after, NULL), STENO_OK);
    for (int i = 0; i < 1600; i++) {
        assert_int_equal(steno_key_enter(k, one, SECOND + i, &after, NULL), STENO_ERR_BUSY);
        assert_true(after == 1 + i / 500);
    }
    assert_int_equal(steno_key_enter(k, two, SECOND, &after, NULL), STENO_ERR_BUSY);
    assert_true(after == 1);
    steno_keys_close(k);
}

static void a_reload_keeps_sessions_and_used_quotas(void **state)
{
    steno_keys *k = with("[one]\nkey = " A "\nsessions = 1\n[two]\nkey = " B "\n");
    steno_key *one = find(k, A), *two = find(k, B), *key;
    struct steno_key_use use;
    double after;
    steno_err err;
    (void)state;
    assert_int_equal(steno_key_enter(k, one, SECOND, &after, NULL), STENO_OK);
    assert_int_equal(steno_key_enter(k, two, SECOND, &after, NULL), STENO_OK);
    /* a bad file changes nothing */
    assert_int_equal(read_text(k, "[one]\nkey = short\n", &err), STENO_ERR_INVAL);
    assert_ptr_equal(find(k, A), one);
    /* "two" is removed; "one" gets a new secret and more places */
    assert_int_equal(read_text(k, "[one]\nkey = " A "new\nsessions = 2\n", &err), STENO_OK);
    assert_int_equal(steno_keys_find(k, A, &key, NULL), STENO_ERR_INVAL);
    assert_int_equal(steno_keys_find(k, B, &key, NULL), STENO_ERR_INVAL);
    assert_ptr_equal(find(k, A "new"), one);
    assert_int_equal(steno_key_enter(k, one, SECOND, &after, NULL), STENO_OK);
    assert_int_equal(steno_key_enter(k, one, SECOND, &after, NULL), STENO_ERR_BUSY);
    steno_key_leave(k, two); /* a session of a removed key still ends properly */
    steno_key_get_use(one, &use);
    assert_int_equal(use.sessions, 2);
    assert_int_equal(use.refused, 1);
    steno_keys_close(k);
}

static void wrong_files_are_named(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"[one]\n", NULL}, /* a section without a key */
        {"[one]\nsessions = 1\n", "[one] has no key"},
        {"[one]\nkey = 123\n", "16 to 256"},
        {"[one]\nkey = " A "\nsessions = many\n", "[one] sessions: is not a whole number"},
        {"[one]\nkey = " A "\nsessions = -1\n", "sessions: is not a whole number"},
        {"[one]\nkey = " A "\nsessions = 0.5\n", "sessions: is not a whole number"},
        {"[one]\nkey = " A "\nsessions = 0x10\n", "sessions: is not a whole number"},
        {"[one]\nkey = " A "\naudio_per_minute = 30min\n", "seconds such as 1800s"},
        {"[one]\nkey = " A "\nrequests_per_minute = 0.5\n", "0, or a number from 1 on"},
        {"[one]\nkey = " A "\nsessions = 1\n[two]\nkey = " B "\n[one]\nsessions = 2\n",
         "[one] sessions is given twice"},
        {"[one]\nkey = " A "\ncolour = red\n", "unknown setting"},
        {"[one]\nkey = " A "\n[two]\nkey = " A "\n", "key of another"},
        {"[one two]\nkey = " A "\n", "not a valid key name"},
        {"key = " A "\n", "not a valid key name"},
        {"[one]\nkey = " A "\nnonsense\n", "keys:3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        steno_keys *k;
        steno_err err;
        steno_status st;
        assert_int_equal(steno_keys_open(&k, NULL, NULL), STENO_OK);
        st = read_text(k, bad[i].text, &err);
        if (bad[i].says) {
            assert_int_equal(st, STENO_ERR_INVAL);
            assert_non_null(strstr(err.msg, bad[i].says));
            assert_null(strstr(err.msg, A));
        } else {
            assert_int_equal(st, STENO_OK);
        }
        steno_keys_close(k);
    }
}

static void an_ephemeral_key_has_the_rights_of_its_key_until_it_ends(void **state)
{
    steno_keys *k = with("[one]\nkey = " A "\n");
    steno_key *one = find(k, A), *key;
    char *session, name[16];
    (void)state;
    assert_int_equal(steno_keys_add_ephemeral(k, one, "ek_1", INT64_MAX, "{}"), STENO_OK);
    assert_int_equal(steno_keys_add_ephemeral(k, one, "ek_2", 1, "{}"), STENO_OK); /* has ended */
    assert_ptr_equal(find(k, "ek_1"), one);
    assert_int_equal(steno_keys_find(k, "ek_2", &key, NULL), STENO_ERR_INVAL);
    assert_int_equal(steno_keys_find(k, "ek_", &key, NULL), STENO_ERR_INVAL);
    session = steno_keys_session(k, "ek_1");
    assert_string_equal(session, "{}");
    free(session);
    assert_null(steno_keys_session(k, "ek_2"));
    for (int i = 0; i < 3 * STENO_EPHEMERAL_KEYS; i++) { /* the table is bounded; later ends stay */
        snprintf(name, sizeof name, "ek_x%d", i);
        assert_int_equal(steno_keys_add_ephemeral(k, one, name, INT64_MAX - 1, "{}"), STENO_OK);
    }
    assert_ptr_equal(find(k, "ek_1"), one);
    assert_int_equal(read_text(k, "[two]\nkey = " B "\n", NULL), STENO_OK);
    assert_int_equal(steno_keys_find(k, "ek_1", &key, NULL), STENO_ERR_INVAL);
    /* a key that comes back, even with its old secret, has none of its ephemeral ones */
    assert_int_equal(read_text(k, "[one]\nkey = " A "\n", NULL), STENO_OK);
    assert_int_equal(steno_keys_find(k, "ek_1", &key, NULL), STENO_ERR_INVAL);
    steno_keys_close(k);
}

static void an_ephemeral_key_ends_with_the_secret_of_its_key(void **state)
{
    steno_keys *k = with("[one]\nkey = " A "\n");
    steno_key *one = find(k, A), *key;
    (void)state;
    assert_int_equal(steno_keys_add_ephemeral(k, one, "ek_1", INT64_MAX, "{}"), STENO_OK);
    assert_int_equal(read_text(k, "[one]\nkey = " A "\nsessions = 7\n", NULL), STENO_OK);
    assert_ptr_equal(find(k, "ek_1"), one);
    assert_int_equal(read_text(k, "[one]\nkey = " B "\n", NULL), STENO_OK);
    assert_ptr_equal(find(k, B), one);
    assert_int_equal(steno_keys_find(k, "ek_1", &key, NULL), STENO_ERR_INVAL);
    assert_null(steno_keys_session(k, "ek_1"));
    steno_keys_close(k);
}

static void one_key_does_not_take_the_places_of_anothers_ephemeral_ones(void **state)
{
    steno_keys *k = with("[one]\nkey = " A "\n[two]\nkey = " B "\n");
    steno_key *one = find(k, A), *two = find(k, B), *key;
    char name[16];
    (void)state;
    assert_int_equal(steno_keys_add_ephemeral(k, one, "ek_one", INT64_MAX - 9, "{}"), STENO_OK);
    for (int i = 0; i < 3 * STENO_EPHEMERAL_KEYS; i++) {
        snprintf(name, sizeof name, "ek_x%d", i);
        assert_int_equal(steno_keys_add_ephemeral(k, two, name, INT64_MAX - 1, "{}"), STENO_OK);
    }
    assert_ptr_equal(find(k, "ek_one"), one); /* though it ends first */
    assert_int_equal(steno_keys_add_ephemeral(k, one, "ek_more", INT64_MAX - 9, "{}"), STENO_OK);
    assert_ptr_equal(find(k, "ek_one"), one);
    assert_ptr_equal(find(k, "ek_more"), one);
    assert_int_equal(steno_keys_find(k, "ek_x0", &key, NULL), STENO_ERR_INVAL);
    steno_keys_close(k);
}

static void a_request_without_a_place_counts_in_the_quota(void **state)
{
    steno_keys *k = with("[one]\nkey = " A "\nsessions = 1\nrequests_per_minute = 2\n");
    steno_key *one = find(k, A);
    double after = 0;
    (void)state;
    assert_int_equal(steno_key_enter(k, one, 1, &after, NULL), STENO_OK);
    assert_int_equal(steno_key_request(k, one, 1, &after, NULL), STENO_OK);
    assert_int_equal(steno_key_request(k, one, 1, &after, NULL), STENO_ERR_BUSY);
    assert_true(after >= 29);
    steno_key_leave(k, one);
    steno_keys_close(k);
}

static char *usage_of(steno_keys *k)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 16);
    assert_int_equal(steno_keys_write_usage(k, &b), STENO_OK);
    return steno_buf_take(&b, NULL);
}

static void usage_outlives_the_process(void **state)
{
    static const char *const keys = "[one]\nkey = " A "\n[two]\nkey = " B "\n";
    steno_keys *k = with(keys), *next = with(keys);
    struct steno_key_use u;
    steno_key *key;
    char *text, *again;
    double after;
    steno_err err;
    (void)state;
    assert_int_equal(steno_keys_find(k, A, &key, NULL), STENO_OK);
    assert_int_equal(steno_key_enter(k, key, 1, &after, NULL), STENO_OK);
    assert_int_equal(steno_key_audio(k, key, 1, 12.5, NULL, NULL), STENO_OK);
    steno_key_leave(k, key);
    text = usage_of(k); /* of two, which was not used, there is no line */
    assert_non_null(strstr(text, "steno usage 1\none "));
    assert_null(strstr(text, "two"));
    assert_int_equal(steno_keys_read_usage(next, "u", text, strlen(text), &err), STENO_OK);
    again = usage_of(next);
    assert_string_equal(text, again);
    assert_int_equal(steno_keys_find(next, A, &key, NULL), STENO_OK);
    steno_key_get_use(key, &u);
    assert_true(u.requests == 1 && u.audio_seconds == 12.5 && u.sessions == 0);
    free(text);
    free(again);
    steno_keys_close(k);
    steno_keys_close(next);
}

static void usage_of_a_removed_key_is_kept_until_it_comes_back(void **state)
{
    static const char text[] = "steno usage 1\ngone 1000 7 2 3.500\n";
    steno_keys *k = with("[one]\nkey = " A "\n");
    struct steno_key_use u;
    steno_key *key;
    char *out;
    steno_err err;
    (void)state;
    assert_int_equal(steno_keys_read_usage(k, "u", text, strlen(text), &err), STENO_OK);
    out = usage_of(k);
    assert_string_equal(out, text);
    free(out);
    assert_int_equal(steno_keys_named(k, "gone", &key, NULL), STENO_ERR_INVAL);
    assert_int_equal(steno_keys_find(k, "", &key, NULL), STENO_ERR_INVAL);
    assert_int_equal(read_text(k, "[gone]\nkey = " B "\n", &err), STENO_OK);
    assert_int_equal(steno_keys_find(k, B, &key, NULL), STENO_OK);
    steno_key_get_use(key, &u);
    assert_true(u.requests == 7 && u.refused == 2 && u.since == 1000);
    steno_keys_close(k);
}

static void a_damaged_usage_file_names_its_line_and_adds_nothing(void **state)
{
    static const char *const bad[] = {
        "",
        "steno usage 2\n",
        "steno usage 1\none 1 2 3\n",
        "steno usage 1\none 1 2 3 4\n\none 1 2 3 4\n",
        "steno usage 1\none 1 2 3 4 5\n",
        "steno usage 1\none 1 -2 3 4\n",
        "steno usage 1\none 1 2 3 nan\n",
        "steno usage 1\none 1 2 3 1.2.3\n",
        "steno usage 1\none 1 99999999999999999999 3 4\n",
        "steno usage 1\no!e 1 2 3 4\n",
        "steno usage 1\n 1 2 3 4\n",
    };
    steno_keys *k = with("[one]\nkey = " A "\n");
    char *out;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(steno_keys_read_usage(k, "u", bad[i], strlen(bad[i]), &err),
                         STENO_ERR_FORMAT);
        assert_non_null(strstr(err.msg, "u:"));
    }
    out = usage_of(k);
    assert_string_equal(out, "steno usage 1\n");
    free(out);
    steno_keys_close(k);
}

static void write_words(char *path, const char *words)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(words, f);
    assert_int_equal(fclose(f), 0);
}

static void expect_words(steno_keys *k, const steno_key *key, const char *want)
{
    char *got;
    assert_int_equal(steno_keys_vocabulary(k, key, &got, NULL), STENO_OK);
    if (!want)
        assert_null(got);
    else
        assert_string_equal(got, want);
    free(got);
}

static void words_of_a_key_come_before_those_of_all(void **state)
{
    char dir[] = "/tmp/steno-keys-XXXXXX", keys[64], all[64], own[64], text[256];
    steno_keys *k;
    steno_err err;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(keys, sizeof keys, "%s/keys", dir);
    snprintf(all, sizeof all, "%s/all", dir);
    snprintf(own, sizeof own, "%s/own", dir);
    snprintf(text, sizeof text, "[one]\nkey = " A "\nvocabulary = %s\n[two]\nkey = " B "\n", own);
    write_words(keys, text);
    assert_int_equal(steno_keys_open(&k, keys, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "one: "));
    assert_non_null(strstr(err.msg, own));
    write_words(own, "Ann\nBob :2\n");
    assert_int_equal(steno_keys_open(&k, keys, &err), STENO_OK);
    expect_words(k, find(k, A), "Ann\nBob :2\n\n");
    expect_words(k, find(k, B), NULL);
    expect_words(k, NULL, NULL);
    write_words(all, "steno");
    assert_int_equal(steno_keys_read_vocabulary(k, all, &err), STENO_OK);
    expect_words(k, find(k, A), "Ann\nBob :2\n\nsteno");
    expect_words(k, find(k, B), "\nsteno");
    expect_words(k, NULL, "\nsteno");
    write_words(all, "\xff");
    assert_int_equal(steno_keys_read_vocabulary(k, all, &err), STENO_ERR_INVAL);
    write_words(all, " \n");
    assert_int_equal(steno_keys_read_vocabulary(k, all, &err), STENO_ERR_INVAL);
    expect_words(k, NULL, "\nsteno");
    write_words(own, "Eve");
    assert_int_equal(steno_keys_reload(k, keys, &err), STENO_OK);
    expect_words(k, find(k, A), "Eve\nsteno");
    assert_int_equal(steno_keys_read_vocabulary(k, "", &err), STENO_OK);
    expect_words(k, NULL, NULL);
    steno_keys_close(k);
    remove(keys), remove(all), remove(own), remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_outlives_the_process),
        cmocka_unit_test(usage_of_a_removed_key_is_kept_until_it_comes_back),
        cmocka_unit_test(a_damaged_usage_file_names_its_line_and_adds_nothing),
        cmocka_unit_test(without_a_file_every_client_is_anonymous_and_unlimited),
        cmocka_unit_test(a_key_is_found_by_its_secret_alone),
        cmocka_unit_test(sessions_at_once_are_counted),
        cmocka_unit_test(requests_and_audio_come_back_with_time),
        cmocka_unit_test(a_rush_of_one_key_is_spread_over_seconds_and_delays_no_other),
        cmocka_unit_test(a_reload_keeps_sessions_and_used_quotas),
        cmocka_unit_test(wrong_files_are_named),
        cmocka_unit_test(words_of_a_key_come_before_those_of_all),
        cmocka_unit_test(an_ephemeral_key_has_the_rights_of_its_key_until_it_ends),
        cmocka_unit_test(an_ephemeral_key_ends_with_the_secret_of_its_key),
        cmocka_unit_test(one_key_does_not_take_the_places_of_anothers_ephemeral_ones),
        cmocka_unit_test(a_request_without_a_place_counts_in_the_quota),
    };
    return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
