/* link: server/core/config_check.c server/core/aligners.c */
/* link: server/core/config.c server/core/misspelt.c server/port/proxy.c server/port/address.c */
/* link: server/base/log.c */
/* Settings: types, ranges and sources; which values are refused and how the message names them. */

#include "server/core/config.h"
#include "server/port/address.h"
#include "tests/support/shared.h"
#include "tests/support/test.h"

#define GET(o, name) steno_options_get(o, name, (char[STENO_OPTION_TEXT]){0})

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static steno_status read_text(struct steno_config *c, const char *text, steno_err *err)
{
    return steno_config_read_text(c, "test.conf", text, strlen(text), err);
}

static void defaults_are_in_range_and_go_together(void **state)
{
    struct steno_config c;
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    assert_int_equal(steno_config_check(&c, NULL), STENO_OK);
    assert_string_equal(c.listen, "127.0.0.1:8080");
    assert_int_equal(c.body_bytes, 256u << 20);
    assert_true(c.audio_seconds == 4 * 3600);
    steno_config_free(&c);
}

static void values_with_units_are_read(void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } times[] = {{"1", 1}, {"1.5", 1.5}, {"2 s", 2}, {"500ms", 0.5}, {"10min", 600}, {"1h", 3600}};
    struct steno_config c;
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        assert_int_equal(
            steno_config_set(&c, "limits", "audio", times[i].text, STENO_CONFIG_FLAG, NULL),
            STENO_OK);
        assert_true(c.audio_seconds == times[i].seconds);
    }
    assert_int_equal(steno_config_assign(&c, "limits.body=64K", STENO_CONFIG_FLAG, NULL), STENO_OK);
    assert_int_equal(c.body_bytes, 65536);
    assert_int_equal(steno_config_assign(&c, "log.requests=off", STENO_CONFIG_FLAG, NULL),
                     STENO_OK);
    assert_false(c.log_requests);
    steno_config_free(&c);
}

static void bad_values_are_refused_and_change_nothing(void **state)
{
    static const struct {
        const char *assignment, *says;
    } bad[] = {
        {"pool.threads=two", "pool.threads: 'two' is not a whole number"},
        {"pool.threads=1.5", "is not a whole number"},
        {"pool.threads=-1", "pool.threads: -1 is outside 0..1024"},
        {"pool.threads=0x10", "is not a whole number"},
        {"pool.threads=1e1", "is not a whole number"},
        {"pool.threads=", "is not a whole number"},
        {"pool.threads=99999999999999999999999999999999999999", "is not a whole number"},
        {"limits.body=nan", "limits.body: 'nan' is not a size"},
        {"limits.body=inf", "is not a size"},
        {"limits.body=12X", "is not a size"},
        {"limits.body=1", "limits.body: 1 is outside 1024.."},
        {"limits.header_timeout=0", "is outside 0.1..600"},
        {"limits.header_timeout=5 parsecs", "is not a time"},
        {"log.requests=perhaps", "log.requests: 'perhaps' is not yes or no"},
        {"limits.bodi=1", "unknown key limits.bodi (limits.body is known)"},
        {"log.fromat=json", "unknown key log.fromat (log.format is known)"},
        {"zzz.qqq=1", "unknown key zzz.qqq"},
        {"model.compat=other", "model.compat: 'other' is "},
        {"model.ctc_weight=2", "model.ctc_weight: 2 is outside 0..1"},
        {"model.quantised=yes", "unknown key model.quantised (model.quantized is known)"},
        {"pool.quantized=yes", "unknown key pool.quantized (model.quantized is known)"},
        {"pool.threds=2", "unknown key pool.threds (pool.threads is known)"},
        {"speakers.threds=2", "unknown key speakers.threds (speakers.threads is known)"},
        {"pol.threads=2", "unknown key pol.threads (pool.threads is known)"},
        {"speaker.threds=2", "unknown key speaker.threds (speakers.threads is known)"},
        {"nonsense", "'nonsense' is not SECTION.KEY=VALUE"},
    };
    struct steno_config c;
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        steno_err err;
        assert_int_equal(steno_config_assign(&c, bad[i].assignment, STENO_CONFIG_FLAG, &err),
                         STENO_ERR_INVAL);
        if (!strstr(err.msg, bad[i].says))
            fail_msg("%s: '%s' does not say '%s'", bad[i].assignment, err.msg, bad[i].says);
    }
    assert_int_equal(c.threads, 0);
    assert_int_equal(c.body_bytes, 256u << 20);
    steno_config_free(&c);
}

static void errors_in_a_file_name_file_and_line(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"[server]\nlisten = 127.0.0.1:1\nlisten_on = x\n",
         "test.conf:3: unknown key server.listen_on"},
        {"\n\n[pool]\n; comment\nthreads = many\n", "test.conf:5: pool.threads: 'many'"},
        {"threads = 1\n", "test.conf:1: key 'threads' is before the first [section]"},
        {"[pool]\nthreads = 1\nthreads = 2\n", "test.conf:3: pool.threads is given twice"},
        {"[model]\npenalty = 1\npenalty = 1\n", "test.conf:3: model.penalty is given twice"},
        {"[model]\nquantized = perhaps\n", "test.conf:2: model.quantized: 'perhaps'"},
        {"[pool]\nwhat is this\n", "test.conf:2: neither"},
        {"[pool\nthreads = 1\n", "test.conf:1: neither"},
        {"[Pool]\nthreads = 1\n", "unknown key Pool.threads"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct steno_config c;
        steno_err err;
        assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
        assert_int_equal(read_text(&c, bad[i].text, &err), STENO_ERR_INVAL);
        if (strncmp(err.msg, "test.conf:", 10) || !strstr(err.msg, bad[i].says))
            fail_msg("'%s' does not say '%s'", err.msg, bad[i].says);
        steno_config_free(&c);
    }
}

static void hostile_files_are_errors(void **state)
{
    struct steno_config c;
    steno_err err;
    char text[5000];
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    memset(text, 'a', sizeof text);
    assert_int_equal(steno_config_read_text(&c, "long", text, sizeof text, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "long:1: the line is too long"));
    assert_int_equal(steno_config_read_text(&c, "nul", "[pool]\nthr\0eads = 1\n", 20, &err),
                     STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "nul:2: the line holds a NUL byte"));
    assert_int_equal(steno_config_read_file(&c, "/nonexistent/steno.conf", &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "/nonexistent/steno.conf: No such file"));
    steno_config_free(&c);
}

static void environment_counts_over_file_and_flags_over_both(void **state)
{
    struct steno_config c;
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    setenv("STENO_THREADS", "3", 1);
    assert_int_equal(read_text(&c, "[pool]\nthreads = 2\n", NULL), STENO_OK);
    assert_int_equal(c.threads, 2);
    assert_int_equal(steno_config_read_environment(&c, NULL), STENO_OK);
    assert_int_equal(c.threads, 3);
    assert_int_equal(steno_config_assign(&c, "pool.threads=4", STENO_CONFIG_FLAG, NULL), STENO_OK);
    assert_int_equal(c.threads, 4);
    setenv("STENO_THREADS", "x", 1);
    {
        steno_err err;
        assert_int_equal(steno_config_read_environment(&c, &err), STENO_ERR_INVAL);
        assert_non_null(strstr(err.msg, "environment variable STENO_THREADS: pool.threads: 'x'"));
    }
    unsetenv("STENO_THREADS");
    steno_config_free(&c);
}

/* Options of families are keys of [model]. model.search sets the same options of streams in one
 * line. */
static void options_of_families_are_settings(void **state)
{
    struct steno_config c;
    struct steno_options o = {0};
    struct steno_stream_options so = {0};
    steno_err err;
    (void)state;
    assert_null(steno_option_at(STENO_CONFIG_OPTIONS)); /* the settings have room for all rows */
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    assert_int_equal(read_text(&c,
                               "[model]\nquantized = no\ncompat = espnet-onnx\npenalty = 3\n"
                               "search = beam=4, penalty=1, lm_weight=0.5, ctc_weight=0.5\n",
                               NULL),
                     STENO_OK);
    setenv("STENO_MODEL_QUANTIZED", "yes", 1);
    setenv("STENO_MODEL_COMPAT", "", 1);
    assert_int_equal(steno_config_read_environment(&c, NULL), STENO_OK);
    assert_string_equal(GET(&c.options, "quantized"), "yes");
    assert_null(GET(&c.options, "compat"));
    setenv("STENO_MODEL_QUANTIZED", "perhaps", 1);
    assert_int_equal(steno_config_read_environment(&c, &err), STENO_ERR_INVAL);
    assert_non_null(
        strstr(err.msg, "environment variable STENO_MODEL_QUANTIZED: model.quantized: 'perhaps'"));
    unsetenv("STENO_MODEL_QUANTIZED");
    unsetenv("STENO_MODEL_COMPAT");
    assert_int_equal(steno_config_check(&c, NULL), STENO_OK);
    assert_int_equal(steno_options_set(&o, "ctc_weight", "0", NULL), STENO_OK);
    assert_int_equal(steno_config_search(&c, steno_option_find("penalty")->family, &o, &so, NULL),
                     STENO_OK);
    assert_int_equal(so.beam, -4);
    assert_int_equal(o.n, 3);
    assert_string_equal(GET(&o, "ctc_weight"), "0");
    assert_string_equal(GET(&o, "lm_weight"), "0.5");
    assert_string_equal(GET(&o, "penalty"), "3");
    o = (struct steno_options){0}; /* a family without these options does not get them */
    assert_int_equal(steno_config_search(&c, "no_family", &o, &so, NULL), STENO_OK);
    assert_int_equal(o.n, 0);
    assert_int_equal(steno_config_assign(&c, "model.search=ctc_weight=3", STENO_CONFIG_FLAG, NULL),
                     STENO_OK);
    assert_int_equal(steno_config_check(&c, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "model.search: ctc_weight: 3 is outside 0..1"));
    steno_config_free(&c);
}

static char *print_to_text(const struct steno_config *c, size_t *len)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    assert_non_null(f);
    if (c)
        steno_config_print(c, f);
    else
        steno_config_print_sample(f);
    fclose(f);
    return text;
}

static void printed_settings_read_back_to_the_same(void **state)
{
    struct steno_config a, b;
    size_t n, n2;
    char *text, *again;
    steno_err err;
    (void)state;
    assert_int_equal(steno_config_init(&a, NULL), STENO_OK);
    assert_int_equal(steno_config_init(&b, NULL), STENO_OK);
    assert_int_equal(read_text(&a,
                               "[model]\ndir = /some where/m\naliases = a, b\n"
                               "quantized = yes\nctc_weight = 0.25\n[limits]\n"
                               "body = 2M\naudio = 1.5h\n[log]\nrequests = no\n",
                               NULL),
                     STENO_OK);
    text = print_to_text(&a, &n);
    if (steno_config_read_text(&b, "printed", text, n, &err))
        fail_msg("%s", err.msg);
    memcpy(b.from, a.from, sizeof a.from);
    memcpy(b.option_from, a.option_from, sizeof a.option_from);
    again = print_to_text(&b, &n2);
    assert_string_equal(text, again);
    assert_non_null(strstr(text, "body = 2097152 ; file"));
    assert_non_null(strstr(text, "threads = 0 ; default"));
    assert_non_null(strstr(text, "\nquantized = yes ; file"));
    assert_non_null(strstr(text, "\ncompat = none ; default"));
    assert_non_null(strstr(text, "\nctc_weight = 0.25 ; file"));
    free(text);
    free(again);
    steno_config_free(&a);
    steno_config_free(&b);
}

static void shipped_sample_is_the_table(void **state)
{
    char *sample, *shipped;
    size_t n, m;
    FILE *f = fopen("conf/steno.conf", "r");
    (void)state;
    assert_non_null(f);
    sample = print_to_text(NULL, &n);
    shipped = malloc(n + 2);
    assert_non_null(shipped);
    m = fread(shipped, 1, n + 1, f);
    fclose(f);
    assert_int_equal(m, n);
    assert_memory_equal(sample, shipped, n); /* made by stenod --print-sample-config */
    free(sample);
    free(shipped);
}

static char told[512];

static void tell(const char *message)
{
    snprintf(told, sizeof told, "%s", message);
}

/* Variables that are somebody else's are none of ours misspelt. */
static void misspelt_variables_are_told_with_what_is_meant(void **state)
{
    static const struct {
        const char *name, *meant; /* NULL: nothing is told */
    } cases[] = {{"STENO_LISTNE", "STENO_LISTEN"},
                 {"STENO_LISEN", "STENO_LISTEN"},
                 {"STENO_MODLE", "STENO_MODEL"},
                 {"STENO_JOBS_QUEU", "STENO_JOBS_QUEUE"},
                 {"STENO_JOB_QUEUES", "STENO_JOBS_QUEUE"},
                 {"STENO_MODEL_CTC_WIEGHT", "STENO_MODEL_CTC_WEIGHT"},
                 {"STENO_LISTEN", NULL},
                 {"STENO_DECODE", NULL},
                 {"STENO_PORT", NULL}, /* of Kubernetes, for a service named steno */
                 {"STENO_PORT_8080_TCP_ADDR", NULL},
                 {"STENO_SERVICE_HOST", NULL},
                 {"STENO_SERVICE_PORT_HTTP", NULL},
                 {"STENO_BUILD", NULL},
                 {"STENO_ROOT", NULL},
                 {"STENO_", NULL},
                 {"STENOL_ISTEN", NULL}};
    char want[160];
    size_t before = steno_config_misspelt(tell);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *old = getenv(cases[i].name);
        *told = '\0';
        if (!old)
            setenv(cases[i].name, "x", 1);
        assert_int_equal(steno_config_misspelt(tell) - before, cases[i].meant != NULL);
        snprintf(want, sizeof want, "environment variable %s: unknown; %s is known", cases[i].name,
                 cases[i].meant);
        if (cases[i].meant)
            assert_string_equal(told, want);
        if (!old)
            unsetenv(cases[i].name);
    }
}

static void a_setting_knows_its_line(void **state)
{
    static const char text[] =
        "[server]\nlisten = 127.0.0.1:1\n\n[model]\ndir = x\nctc_weight = 0.3\n";
    static const char *const nowhere[] = {"model.dir", "log.level", "no.such", "x", ""};
    struct steno_config c;
    char place[80];
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    assert_int_equal(steno_config_read_text(&c, "a.conf", text, sizeof text - 1, NULL), STENO_OK);
    steno_config_place(&c, "server.listen: wrong", place, sizeof place);
    assert_string_equal(place, "a.conf:2: ");
    steno_config_place(&c, "model.ctc_weight", place, sizeof place);
    assert_string_equal(place, "a.conf:6: ");
    assert_int_equal(steno_config_set(&c, "model", "dir", "y", STENO_CONFIG_ENVIRONMENT, NULL), 0);
    steno_config_place(&c, "model.dir", place, sizeof place);
    assert_string_equal(place, "environment variable STENO_MODEL: ");
    assert_int_equal(steno_config_set(&c, "model", "dir", "y", STENO_CONFIG_FLAG, NULL), 0);
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        steno_config_place(&c, nowhere[i], place, sizeof place);
        assert_string_equal(place, "");
    }
    steno_config_free(&c);
}

static void sample_with_its_comments_removed_is_the_defaults(void **state)
{
    struct steno_config c;
    size_t n, at = 0;
    char *text = print_to_text(NULL, &n), *plain = malloc(n + 1);
    steno_err err;
    (void)state;
    assert_non_null(plain);
    for (char *line = text; line && *line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t len = strcspn(line, "\n") + 1;
        size_t skip = line[0] == '#' && line[1] != ' ';
        if (line[0] == '#' && !skip)
            continue;
        memcpy(plain + at, line + skip, len - skip);
        at += len - skip;
    }
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    if (steno_config_read_text(&c, "sample", plain, at, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(steno_config_check(&c, NULL), STENO_OK);
    steno_config_free(&c);
    free(text);
    free(plain);
}

static void minimal_configuration_is_good(void **state)
{
    struct steno_config c;
    steno_err err;
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    if (steno_config_read_file(&c, "conf/steno-minimal.conf", &err) || steno_config_check(&c, &err))
        fail_msg("%s", err.msg);
    assert_true(strstr(c.model, "models/digits-en") != NULL);
    steno_config_free(&c);
}

static void settings_that_contradict_each_other_are_refused(void **state)
{
    struct steno_config c;
    steno_err err;
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    assert_int_equal(steno_config_assign(&c, "limits.upload_memory=1M", STENO_CONFIG_FLAG, NULL),
                     STENO_OK);
    assert_int_equal(steno_config_check(&c, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "limits.body"));
    assert_int_equal(steno_config_assign(&c, "limits.body=1M", STENO_CONFIG_FLAG, NULL), STENO_OK);
    assert_int_equal(steno_config_assign(&c, "log.level=loud", STENO_CONFIG_FLAG, NULL), STENO_OK);
    assert_int_equal(steno_config_check(&c, &err), STENO_ERR_INVAL);
    assert_non_null(strstr(err.msg, "log.level: 'loud' is not a log level"));
    steno_config_free(&c);
}

/* Each of them would be taken and never match, or be read by nobody. */
static void settings_without_an_effect_are_refused(void **state)
{
    static const char *const rows[][2] = {
        {"server.hosts=a.example, https://stt.example.org", "'https://stt.example.org' is not"},
        {"fetch.hosts=http://media.example/", "fetch.hosts: 'http://media.example/' is not"},
        {"jobs.callback_hosts=*.a.example,b.example/hook", "'b.example/hook' is not the name"},
        {"server.cors_origins=app.example.org", "'app.example.org' is no origin"},
        {"server.cors_origins=https://app.example.org/", "'https://app.example.org/' is no origin"},
        {"jobs.queue_password=/etc/steno/redis", "jobs.queue_password: needs jobs.queue"},
        {"calls.callback=https://", "calls.callback: 'https://' is no"},
        {"calls.callback=http:///hook", "calls.callback: 'http:///hook' is no"},
        {"align.model=en=a,English=b", "align.model: 'English=b' comes after another one"},
        {"align.model=a, b", "align.model: 'b' comes after another one"}};
    static const char *const good[] = {"server.hosts=*, stt.example.org",
                                       "fetch.hosts=*.media.example, 10.0.0.1",
                                       "server.cors_origins=https://a.example:8443, null",
                                       "server.cors_origins=*",
                                       "calls.callback=http://10.0.0.1/hook",
                                       "align.model=en=a, de=a, a"};
    struct steno_config c;
    steno_err err;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
        assert_int_equal(steno_config_assign(&c, rows[i][0], STENO_CONFIG_FLAG, NULL), STENO_OK);
        assert_int_equal(steno_config_check(&c, &err), STENO_ERR_INVAL);
        assert_non_null(strstr(err.msg, rows[i][1]));
        steno_config_free(&c);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
        assert_int_equal(steno_config_assign(&c, good[i], STENO_CONFIG_FLAG, NULL), STENO_OK);
        assert_int_equal(steno_config_check(&c, &err), STENO_OK);
        steno_config_free(&c);
    }
}

static void addresses_are_read_and_printed(void **state)
{
    static const struct {
        const char *text, *printed;
    } good[] = {{"127.0.0.1:8080", "127.0.0.1:8080"},
                {"[::1]:80", "[::1]:80"},
                {"*:0", "[::]:0"},
                {":65535", "[::]:65535"},
                {"localhost:1", "127.0.0.1:1"}};
    static const char *const bad[] = {"",
                                      "8080",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:80x",
                                      "::1:80",
                                      "[::1:80",
                                      "example.org:80",
                                      "1.2.3:80",
                                      "127.0.0.1:1,",
                                      ",",
                                      "[]:80x"};
    struct steno_address a[STENO_MAX_ADDRESSES];
    char text[STENO_ADDRESS_TEXT];
    size_t n;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(steno_address_parse_list(good[i].text, a, &n, NULL), STENO_OK);
        assert_int_equal(n, 1);
        assert_string_equal(steno_address_print(&a[0].addr, text), good[i].printed);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (steno_address_parse_list(bad[i], a, &n, NULL) != STENO_ERR_INVAL)
            fail_msg("'%s' was taken", bad[i]);
    assert_int_equal(steno_address_parse_list(" 1.2.3.4:5 , [fe80::1]:6", a, &n, NULL), STENO_OK);
    assert_int_equal(n, 2);
    assert_int_equal(steno_address_parse_list("[::ffff:1.2.3.4]:9", a + 2, &n, NULL), STENO_OK);
    assert_true(steno_address_same_host(&a[0].addr, &a[2].addr));
    assert_false(steno_address_same_host(&a[0].addr, &a[1].addr));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_in_range_and_go_together),
        cmocka_unit_test(values_with_units_are_read),
        cmocka_unit_test(bad_values_are_refused_and_change_nothing),
        cmocka_unit_test(errors_in_a_file_name_file_and_line),
        cmocka_unit_test(hostile_files_are_errors),
        cmocka_unit_test(environment_counts_over_file_and_flags_over_both),
        cmocka_unit_test(options_of_families_are_settings),
        cmocka_unit_test(printed_settings_read_back_to_the_same),
        cmocka_unit_test(shipped_sample_is_the_table),
        cmocka_unit_test(misspelt_variables_are_told_with_what_is_meant),
        cmocka_unit_test(a_setting_knows_its_line),
        cmocka_unit_test(sample_with_its_comments_removed_is_the_defaults),
        cmocka_unit_test(minimal_configuration_is_good),
        cmocka_unit_test(settings_that_contradict_each_other_are_refused),
        cmocka_unit_test(settings_without_an_effect_are_refused),
        cmocka_unit_test(addresses_are_read_and_printed),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
