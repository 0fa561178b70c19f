/* The view that steno top computes from two answers of a server. */
/* link: engine/tools/cli/top_view.c */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/top_view.h"
#include "tests/support/test.h"

static json_t *answer(const char *text)
{
    json_error_t je;
    json_t *root = json_loads(text, 0, &je);
    if (!root)
        fail_msg("%d:%d %s", je.line, je.column, je.text);
    return root;
}

#define POOL(LIVE, CAP, AUDIO, B)                                                                  \
    "\"pool\":{\"workers\":2,\"busy\":1,\"active\":9,\"live\":" LIVE                               \
    ",\"places\":99,\"capacity\":" CAP ",\"ready\":7,\"batch_max\":4,\"batches\":" B               \
    ",\"audio_seconds\":" AUDIO "}"

static const char first[] =
    "{\"version\":\"9.8.7\",\"started\":1000,\"now\":1100,\"draining\":false,\"models\":["
    "{\"name\":\"digits\",\"generation\":1,\"weight_bytes\":1048576," POOL(
        "10", "40", "50",
        "[10,0,0,0,0,0]") "}],\"metrics\":{"
                          "\"process_cpu_seconds_total\":50,"
                          "\"steno_partial_latency_seconds_bucket{le=\\\"0.1\\\"}\":100,"
                          "\"steno_partial_latency_seconds_bucket{le=\\\"0.2\\\"}\":100,"
                          "\"steno_partial_latency_seconds_bucket{le=\\\"+Inf\\\"}\":100,"
                          "\"steno_partial_latency_seconds_count\":100,"
                          "\"steno_sessions_total{api=\\\"stream\\\",result=\\\"ok\\\"}\":5}}";

static const char second[] =
    "{\"version\":\"9.8.7\",\"started\":1000,\"now\":1104,\"draining\":true,\"models\":["
    "{\"name\":\"digits\",\"generation\":1,\"weight_bytes\":1048576," POOL(
        "30", "40", "90",
        "[20,0,30,0,0,0]") "},"
                           "{\"name\":\"other\",\"generation\":0}],\"metrics\":{"
                           "\"process_cpu_seconds_total\":51,"
                           "\"process_resident_memory_bytes\":104857600,"
                           "\"steno_sessions_active{api=\\\"stream\\\"}\":28,"
                           "\"steno_sessions_active{api=\\\"vosk\\\"}\":2,"
                           "\"steno_sessions_active{api=\\\"transcribe\\\"}\":3,"
                           "\"steno_ws_sessions_waiting\":4,"
                           "\"steno_partial_latency_seconds_bucket{le=\\\"+Inf\\\"}\":200,"
                           "\"steno_partial_latency_seconds_bucket{le=\\\"0.2\\\"}\":190,"
                           "\"steno_partial_latency_seconds_bucket{le=\\\"0.1\\\"}\":150,"
                           "\"steno_partial_latency_seconds_count\":200,"
                           "\"steno_sessions_total{api=\\\"stream\\\",result=\\\"ok\\\"}\":9,"
                           "\"steno_sessions_total{api=\\\"stream\\\",result=\\\"bad\\\"}\":2,"
                           "\"steno_sessions_rejected_total{reason=\\\"capacity\\\"}\":8}}";

static char *view_of(const char *now, const char *before, double seconds)
{
    json_t *a = answer(now), *b = before ? answer(before) : NULL;
    struct steno_buf out;
    steno_err err;
    steno_buf_init(&out, 1 << 20);
    if (top_view(&out, a, b, seconds, &err))
        fail_msg("%s", err.msg);
    json_decref(a);
    json_decref(b);
    return steno_buf_take(&out, NULL);
}

static void says(const char *text, const char *what)
{
    if (!strstr(text, what))
        fail_msg("'%s' is not in\n%s", what, text);
}

static void figures_are_those_between_two_answers(void **state)
{
    char *t = view_of(second, first, 4);
    (void)state;
    says(t, "stenod 9.8.7  up 0:01:44  draining  cpu 25.0 %  memory 100 MiB");
    says(t, "streams 30 (4 waiting)  uploads 3  ended 1.5/s  badly 0.5/s  refused 2.0/s");
    says(t, "audio 10.0 s/s");
    /* of 100 new values, half are below 0.1 s, 90 below 0.2 s, the rest above all bounds */
    says(t, "partial                 100.0    200.0    200.0      100\n");
    says(t, "first partial               -        -        -        0\n");
    says(t, "digits                  1      30       40  ###############.....   75 %     7   1/2   "
            "  1.0\n");
    says(t, "batches  1: 25 %  to 4: 75 %\n");
    says(t, "other                   0  not loaded\n");
    free(t);
}

static void without_an_earlier_answer_figures_count_from_the_start(void **state)
{
    char *t = view_of(first, NULL, 0);
    (void)state;
    says(t, "up 0:01:40  serving  cpu 50.0 %");
    says(t, "audio 0.5 s/s");
    says(t, "partial                  50.0     90.0     99.0      100\n");
    says(t, "batches  1: 100 %\n");
    free(t);
}

static void a_reloaded_model_begins_anew(void **state)
{
    char now[sizeof second], *gen, *t;
    (void)state;
    memcpy(now, second, sizeof second);
    gen = strstr(now, "\"generation\":1");
    gen[strlen("\"generation\":")] = '2';
    t = view_of(now, first, 10);
    says(t, "audio 9.0 s/s");
    says(t, "batches  1: 40 %  to 4: 60 %\n");
    free(t);
}

static void bad_answers_are_named(void **state)
{
    static const char *const bad[] = {"{}",
                                      "[]",
                                      "{\"metrics\":{}}",
                                      "{\"models\":[]}",
                                      "{\"error\":\"no\"}",
                                      "{\"models\":{},\"metrics\":{}}"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *a = answer(bad[i]);
        struct steno_buf out;
        steno_buf_init(&out, 1 << 20);
        assert_int_equal(top_view(&out, a, NULL, 1, NULL), STENO_ERR_FORMAT);
        steno_buf_free(&out);
        json_decref(a);
    }
    /* unexpected members are ignored */
    free(view_of("{\"models\":[1,{\"pool\":7},{\"name\":3,\"pool\":{\"batches\":9}}],\"metrics\":{"
                 "\"x\":[]}}",
                 first, 0));
}

static void lines_are_cut_to_the_terminal(void **state)
{
    struct steno_buf out;
    (void)state;
    steno_buf_init(&out, 1000);
    assert_int_equal(top_fit(&out, "abcdef\n\ngh\nij\n", 4, 3, "|"), STENO_OK);
    assert_string_equal(out.data, "abcd||gh|");
    steno_buf_reset(&out);
    assert_int_equal(top_fit(&out, "ab", 4, 3, "|"), STENO_OK);
    assert_string_equal(out.data, "ab|");
    steno_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_between_two_answers),
        cmocka_unit_test(without_an_earlier_answer_figures_count_from_the_start),
        cmocka_unit_test(a_reloaded_model_begins_anew),
        cmocka_unit_test(bad_answers_are_named),
        cmocka_unit_test(lines_are_cut_to_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
