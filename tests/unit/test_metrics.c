/* The metrics registry, its text format, and the counters of admission. */
/* link: server/base/metrics.c server/base/stats.c server/core/limits.c */
/* link: server/port/retry_spreader.c server/core/config.c */
/* link: server/port/proxy.c */
/* link: server/port/address.c */
/* link: server/base/log.c */

#include "base/clock.h"
#include "server/base/stats.h"
#include "server/core/limits.h"
#include "tests/support/test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static char *page(steno_metrics *m)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 20);
    assert_int_equal(steno_metrics_write(m, &b), STENO_OK);
    return steno_buf_take(&b, NULL);
}

static void text_format_is_that_of_prometheus(void **state)
{
    /* prometheus.io/docs/instrumenting/exposition_formats, "Text format example" */
    static const double bounds[] = {0.1, 1};
    steno_metrics *m = steno_metrics_new();
    steno_metric *a = steno_metrics_counter(m, "x_total", "Things.", "kind=\"a\"");
    steno_metric *b = steno_metrics_counter(m, "x_total", "ignored", "kind=\"b\"");
    steno_metric *h = steno_metrics_histogram(m, "y_seconds", "Time.", "", bounds, 2);
    steno_metric *g = steno_metrics_gauge(m, "z", "Level.", "");
    char *text;
    (void)state;
    steno_metric_add(a, 2);
    steno_metric_add(b, 0.25);
    steno_metric_observe(h, 0.1); /* a value equal to a bound belongs to that bucket ("le") */
    steno_metric_observe(h, 0.5);
    steno_metric_observe(h, 7);
    steno_metric_observe(h, NAN);
    steno_metric_set(g, -1.5);
    text = page(m);
    assert_string_equal(text, "# HELP x_total Things.\n"
                              "# TYPE x_total counter\n"
                              "x_total{kind=\"a\"} 2\n"
                              "x_total{kind=\"b\"} 0.25\n"
                              "# HELP y_seconds Time.\n"
                              "# TYPE y_seconds histogram\n"
                              "y_seconds_bucket{le=\"0.1\"} 1\n"
                              "y_seconds_bucket{le=\"1\"} 2\n"
                              "y_seconds_bucket{le=\"+Inf\"} 3\n"
                              "y_seconds_sum 7.6\n"
                              "y_seconds_count 3\n"
                              "# HELP z Level.\n"
                              "# TYPE z gauge\n"
                              "z -1.5\n");
    free(text);
    steno_metrics_free(m);
}

static void one_name_has_one_type(void **state)
{
    steno_metrics *m = steno_metrics_new();
    (void)state;
    assert_non_null(steno_metrics_counter(m, "x", "", ""));
    assert_null(steno_metrics_gauge(m, "x", "", ""));
    steno_metric_add(NULL, 1); /* a metric that failed to register is ignored */
    steno_metric_set(NULL, 1);
    steno_metric_observe(NULL, 1);
    steno_metrics_free(m);
}

static void page_that_does_not_fit_is_an_error(void **state)
{
    steno_metrics *m = steno_metrics_new();
    struct steno_buf b;
    (void)state;
    assert_non_null(steno_metrics_counter(m, "x", "A counter.", ""));
    steno_buf_init(&b, 10);
    assert_int_equal(steno_metrics_write(m, &b), STENO_ERR_LIMIT);
    steno_buf_free(&b);
    steno_metrics_free(m);
}

#define ADDS 20000

static void *adder(void *s)
{
    for (int i = 0; i < ADDS; i++)
        steno_metric_add(s, 1);
    return NULL;
}

static void no_addition_of_many_threads_is_lost(void **state)
{
    steno_metrics *m = steno_metrics_new();
    steno_metric *s = steno_metrics_counter(m, "x", "", "");
    pthread_t t[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, adder, s), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    assert_true(steno_metric_value(s) == 4.0 * ADDS);
    steno_metrics_free(m);
}

static void every_series_is_there_at_zero(void **state)
{
    static const char *const wanted[] = {
        "steno_sessions_started_total{api=\"vosk\"} 0\n",
        "steno_audio_received_seconds_total{api=\"listen\"} 0\n",
        "steno_audio_dropped_seconds_total{api=\"realtime\"} 0\n",
        "steno_sessions_active{api=\"openai\"} 0\n",
        "steno_sessions_active{api=\"stream\"} 0\n",
        "steno_sessions_total{api=\"stream\",result=\"drained\"} 0\n",
        "steno_sessions_rejected_total{reason=\"draining\"} 0\n",
        "steno_audio_seconds_total{api=\"transcribe\"} 0\n",
        "steno_inference_seconds_total{api=\"openai\"} 0\n",
        "steno_realtime_factor_count 0\n",
        "steno_first_partial_seconds_count 0\n",
        "steno_partial_latency_seconds_bucket{le=\"0.025\"} 0\n",
        "steno_final_latency_seconds_count 0\n",
        "steno_queue_wait_seconds_count 0\n",
        "steno_audio_decode_errors_total{api=\"openai\",reason=\"empty\"} 0\n",
        "steno_partial_revisions_total 0\n",
        "steno_ws_send_queue_bytes 0\n",
        "steno_ws_rx_paused_total 0\n",
        "steno_speakers_audio_seconds_total 0\n",
        "steno_speakers_cpu_seconds_total 0\n",
        "steno_speakers_running 0\n"};
    struct steno_stats *st = steno_stats_new();
    char *text;
    (void)state;
    assert_non_null(st);
    text = page(st->registry);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(text, wanted[i]))
            fail_msg("missing: %s", wanted[i]);
    free(text);
    steno_stats_free(st);
}

static void refused_clients_of_a_crowd_get_different_retry_times(void **state)
{
    struct steno_config c;
    struct steno_stats *st = steno_stats_new();
    const int64_t s = 1000000000;
    int told[64] = {0};
    steno_limits *l;
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    c.retry_after = 3;
    l = steno_limits_new(&c, st);
    for (int i = 0; i < 1600; i++) { /* all within one second */
        double after = steno_limits_come_back(l, 100 * s + i);
        assert_true(after >= 3 && after < 64);
        told[(int)after]++;
    }
    for (int i = 0; i < 64; i++)
        assert_int_equal(told[i], i < 3 ? 0 : i < 6 ? 500 : i == 6 ? 100 : 0);
    /* two seconds later the next free second is still 4 s away; long after the crowd the answer
     * is the minimum again */
    assert_true(steno_limits_come_back(l, 102 * s) == 4);
    assert_true(steno_limits_come_back(l, 200 * s) == 3);
    for (int i = 0; i < 100000;
         i++) /* more clients than a minute can take: the delay stays at its maximum */
        assert_true(steno_limits_come_back(l, 300 * s) <= 63);
    steno_limits_free(l);
    steno_stats_free(st);
    steno_config_free(&c);
}

static void sessions_beyond_capacity_are_refused_at_once_and_counted(void **state)
{
    struct steno_config c;
    struct steno_stats *st = steno_stats_new();
    steno_limits *l;
    steno_err err;
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    c.sessions = 2;
    c.uploads = 1;
    l = steno_limits_new(&c, st);
    assert_int_equal(steno_limits_enter(l, STENO_SESSION_STREAM, NULL), STENO_OK);
    assert_int_equal(steno_limits_enter(l, STENO_SESSION_STREAM, NULL), STENO_OK);
    assert_int_equal(steno_limits_enter(l, STENO_SESSION_STREAM, &err), STENO_ERR_BUSY);
    assert_non_null(strstr(err.msg, "all 2 places for streams are taken"));
    /* uploads have their own places, which both kinds of upload share */
    assert_int_equal(steno_limits_enter(l, STENO_SESSION_OPENAI, NULL), STENO_OK);
    assert_int_equal(steno_limits_enter(l, STENO_SESSION_TRANSCRIBE, NULL), STENO_ERR_BUSY);
    assert_true(steno_metric_value(st->sessions_rejected[STENO_REJECT_SESSIONS]) == 2);
    assert_true(steno_metric_value(st->sessions_active[STENO_SESSION_STREAM]) == 2);
    steno_limits_leave(l, STENO_SESSION_STREAM, STENO_SESSION_GONE);
    /* the freed place */
    assert_int_equal(steno_limits_enter(l, STENO_SESSION_STREAM, NULL), STENO_OK);
    steno_limits_started(l, STENO_SESSION_STREAM);
    steno_limits_leave(l, STENO_SESSION_STREAM, STENO_SESSION_OK);
    assert_true(steno_metric_value(st->sessions_started[STENO_SESSION_STREAM]) == 1);
    assert_int_equal(steno_limits_enter(l, STENO_SESSION_STREAM, NULL), STENO_OK);
    steno_limits_refund(l, STENO_SESSION_STREAM, STENO_REJECT_QUOTA);
    assert_true(steno_metric_value(st->sessions_rejected[STENO_REJECT_QUOTA]) == 1);
    steno_limits_drain(l);
    assert_int_equal(steno_limits_enter(l, STENO_SESSION_STREAM, &err), STENO_ERR_BUSY);
    assert_non_null(strstr(err.msg, "shutting down"));
    assert_false(steno_limits_wait_idle(l, steno_now_ns() + 10000000));
    steno_limits_leave(l, STENO_SESSION_STREAM, STENO_SESSION_OK);
    steno_limits_leave(l, STENO_SESSION_OPENAI, STENO_SESSION_OK);
    assert_true(steno_limits_wait_idle(l, steno_now_ns()));
    assert_true(steno_metric_value(st->sessions_total[STENO_SESSION_STREAM][STENO_SESSION_GONE]) ==
                1);
    steno_limits_free(l);
    steno_stats_free(st);
    steno_config_free(&c);
}

static void audio_that_came_was_recognised_or_dropped(void **state)
{
    struct steno_stats *st = steno_stats_new();
    /* of 10 s, 1 s never reached the pool and 2 s still waited there */
    const struct steno_pool_stream_stats ps = {
        .audio_seconds = 9, .waiting_seconds = 2, .inference_seconds = 0.5, .steps = 4};
    (void)state;
    steno_stats_audio(st, STENO_SESSION_VOSK, 10, 1, &ps, "");
    assert_true(steno_metric_value(st->received_seconds[STENO_SESSION_VOSK]) == 10);
    assert_true(steno_metric_value(st->audio_seconds[STENO_SESSION_VOSK]) == 7);
    assert_true(steno_metric_value(st->dropped_seconds[STENO_SESSION_VOSK]) == 3);
    assert_true(steno_metric_value(st->realtime_factor) == 1);
    assert_true(steno_metric_value(st->queue_wait) == 1);
    steno_stats_audio(st, STENO_SESSION_VOSK, 0, 0, &(struct steno_pool_stream_stats){0}, "");
    assert_true(steno_metric_value(st->received_seconds[STENO_SESSION_VOSK]) == 10);
    assert_true(steno_metric_value(st->realtime_factor) == 1);
    steno_stats_free(st);
}

static void sums_of_seconds_are_printed_to_the_sample(void **state)
{
    steno_metrics *m = steno_metrics_new();
    steno_metric *s = steno_metrics_counter(m, "x", "", "");
    char *text;
    (void)state;
    steno_metric_add(s, 123456789.0);
    steno_metric_add(s, 1.0 / 48000);
    text = page(m);
    assert_non_null(strstr(text, "x 123456789.000021\n"));
    free(text);
    steno_metrics_free(m);
}

static void memory_of_all_uploads_is_bounded(void **state)
{
    struct steno_config c;
    struct steno_stats *st = steno_stats_new();
    steno_limits *l;
    (void)state;
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    c.upload_bytes = 1000;
    l = steno_limits_new(&c, st);
    assert_int_equal(steno_limits_reserve(l, 600, NULL), STENO_OK);
    assert_int_equal(steno_limits_reserve(l, 401, NULL), STENO_ERR_BUSY);
    assert_int_equal(steno_limits_reserve(l, SIZE_MAX, NULL), STENO_ERR_BUSY);
    assert_int_equal(steno_limits_reserve(l, 400, NULL), STENO_OK);
    steno_limits_release(l, 600);
    assert_int_equal(steno_limits_reserve(l, 600, NULL), STENO_OK);
    steno_limits_free(l);
    steno_stats_free(st);
    steno_config_free(&c);
}

static char *open_page(steno_metrics *m)
{
    struct steno_buf b;
    steno_buf_init(&b, 1 << 20);
    assert_int_equal(steno_metrics_write_open(m, &b), STENO_OK);
    return steno_buf_take(&b, NULL);
}

static void openmetrics_has_exemplars_and_an_end(void **state)
{
    /* OpenMetrics 1.0: "Exemplars", "Counter" (the family without _total), canonical floats */
    static const double bounds[] = {0.1, 1};
    steno_metrics *m = steno_metrics_new();
    steno_metric *a = steno_metrics_counter(m, "x_total", "Things.", "kind=\"a\"");
    steno_metric *h = steno_metrics_histogram(m, "y_seconds", "Time.", "", bounds, 2);
    char *text, *at;
    (void)state;
    steno_metric_add(a, 2);
    steno_metric_observe_traced(h, 0.05, "0af7651916cd43dd8448eb211c80319c");
    steno_metric_observe_traced(h, 0.07, "4bf92f3577b34da6a3ce929d0e0e4736");
    steno_metric_observe_traced(h, 7, "");
    text = open_page(m);
    assert_non_null(strstr(text, "# HELP x Things.\n# TYPE x counter\nx_total{kind=\"a\"} 2\n"));
    at = strstr(text, "y_seconds_bucket{le=\"0.1\"} 2 # "
                      "{trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 0.07 ");
    assert_non_null(at);
    assert_non_null(strstr(text, "y_seconds_bucket{le=\"1.0\"} 2\n"));
    assert_non_null(strstr(text, "y_seconds_bucket{le=\"+Inf\"} 3\n"));
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    free(text);
    text = page(m);
    assert_null(strstr(text, "trace_id"));
    free(text);
    steno_metrics_free(m);
}

static void accept_decides_between_the_formats(void **state)
{
    (void)state;
    assert_false(steno_metrics_open_wanted(NULL));
    assert_false(steno_metrics_open_wanted(""));
    assert_false(steno_metrics_open_wanted("*/*"));
    assert_false(steno_metrics_open_wanted("text/plain, application/openmetrics-text;q=0"));
    assert_false(steno_metrics_open_wanted("text/plain;q=0.9,application/openmetrics-text;q=0.5"));
    assert_false(steno_metrics_open_wanted("application/openmetrics-textual"));
    assert_true(steno_metrics_open_wanted("application/openmetrics-text"));
    /* of Prometheus 2.42 and 2.53 */
    assert_true(steno_metrics_open_wanted(
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
        "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    assert_true(steno_metrics_open_wanted(
        "text/plain;version=0.0.4;q=0.3, application/openmetrics-text ; version=1.0.0; q=0.5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_format_is_that_of_prometheus),
        cmocka_unit_test(openmetrics_has_exemplars_and_an_end),
        cmocka_unit_test(accept_decides_between_the_formats),
        cmocka_unit_test(one_name_has_one_type),
        cmocka_unit_test(page_that_does_not_fit_is_an_error),
        cmocka_unit_test(no_addition_of_many_threads_is_lost),
        cmocka_unit_test(every_series_is_there_at_zero),
        cmocka_unit_test(sessions_beyond_capacity_are_refused_at_once_and_counted),
        cmocka_unit_test(refused_clients_of_a_crowd_get_different_retry_times),
        cmocka_unit_test(audio_that_came_was_recognised_or_dropped),
        cmocka_unit_test(sums_of_seconds_are_printed_to_the_sample),
        cmocka_unit_test(memory_of_all_uploads_is_bounded),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
