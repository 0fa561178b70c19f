/* traceparent, and the JSON of spans. */
/* link: server/watch/trace.c server/watch/traceparent.c server/base/metrics.c */
/* link: server/core/config.c server/port/address.c */
/* link: server/port/proxy.c server/base/log.c engine/curl/libcurl.c */

#include "base/clock.h"
#include "server/watch/trace.h"
#include "tests/support/test.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#define GOOD "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" /* W3C, 3.2.2.5 */

static bool parses(const char *text)
{
    struct steno_traceparent t;
    return steno_traceparent_parse(text, strlen(text), &t);
}

static void the_examples_of_the_recommendation_parse(void **state)
{
    struct steno_traceparent t;
    char out[STENO_TRACEPARENT_SIZE];
    (void)state;
    assert_true(steno_traceparent_parse(GOOD, strlen(GOOD), &t));
    assert_true(t.sampled);
    assert_int_equal(t.trace[0], 0x0a);
    assert_int_equal(t.trace[15], 0x9c);
    assert_int_equal(t.span[0], 0xb7);
    assert_int_equal(t.span[7], 0x31);
    assert_string_equal(steno_traceparent_write(&t, out), GOOD);
    assert_true(
        steno_traceparent_parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", 55, &t));
    assert_false(t.sampled);
    assert_string_equal(steno_traceparent_write(&t, out),
                        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
}

static void a_later_version_may_have_more_fields(void **state)
{
    (void)state; /* 4.3 */
    assert_true(parses("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future"));
    assert_true(parses("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    assert_false(parses("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what"));
    assert_false(parses("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"));
}

static void what_is_not_valid_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "00",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", /* 3.2.2.1 */
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333x-01",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
        " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        GOOD " ",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(parses(bad[i]));
}

/* Write key and a value of n bytes. */
static int put_member(char *p, const char *key, size_t n)
{
    const size_t k = strlen(key);
    memcpy(p, key, k);
    memset(p + k, 'v', n);
    p[k + n] = '\0';
    return (int)(k + n);
}

static void a_tracestate_is_passed_on_or_dropped_whole(void **state)
{
    static const struct {
        const char *text, *want; /* NULL: not valid */
    } cases[] = {
        {"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
        {" rojo=1 ,\tcongo=2 , ,", "rojo=1,congo=2"}, /* 3.3.1.1: empty members are allowed */
        {"fw529a3039@dt=FfAAAAPAAQ", "fw529a3039@dt=FfAAAAPAAQ"},
        {"4a@x=1,a-b_c*d/e=!~", "4a@x=1,a-b_c*d/e=!~"},
        {"", ""},
        {"rojo", NULL},
        {"=1", NULL},
        {"rojo=", NULL},
        {"Rojo=1", NULL},
        {"4a=1", NULL},
        {"a@4=1", NULL},
        {"a@b@c=1", NULL},
        {"@b=1", NULL},
        {"a=1=2", NULL},
        {"a=1,a=2", NULL}, /* 3.3.1.3 */
        {"a=\x7f", NULL},
    };
    char out[STENO_TRACESTATE_SIZE], text[2048] = "", *p = text;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *t = cases[i].text;
        assert_int_equal(steno_tracestate_parse(t, strlen(t), out), cases[i].want != NULL);
        assert_string_equal(out, cases[i].want ? cases[i].want : "");
    }
    for (int i = 0; i < 33; i++)
        p += snprintf(p, sizeof text - (size_t)(p - text), "%sk%d=v", i ? "," : "", i);
    assert_false(steno_tracestate_parse(text, strlen(text), out)); /* 3.3.1.1: at most 32 */
    *strrchr(text, ',') = '\0';
    assert_true(steno_tracestate_parse(text, strlen(text), out));
    assert_string_equal(out, text);
}

static void a_long_tracestate_loses_large_members_first(void **state)
{
    char text[2048], out[STENO_TRACESTATE_SIZE], *p = text;
    (void)state; /* 3.3.1.5 */
    p += put_member(p, "first=", 200);
    p += put_member(p, ",small=", 100);
    p += put_member(p, ",large=", 200);
    p += put_member(p, ",last=", 100);
    assert_true(steno_tracestate_parse(text, (size_t)(p - text), out));
    assert_non_null(strstr(out, "first="));
    assert_null(strstr(out, "large="));
    assert_non_null(strstr(out, ",last="));
    p = text;
    for (int i = 0; i < 6; i++) {
        char key[8];
        snprintf(key, sizeof key, "%sk%d=", i ? "," : "", i);
        p += put_member(p, key, 100);
    }
    assert_true(steno_tracestate_parse(text, (size_t)(p - text), out));
    assert_non_null(strstr(out, "k3="));
    assert_null(strstr(out, "k4="));
}

static void without_a_tracer_nothing_is_traced(void **state)
{
    struct steno_trace tr;
    char id[33];
    (void)state;
    steno_trace_begin(NULL, GOOD, "a=b", &tr);
    assert_false(tr.on);
    assert_false(steno_trace_recorded(&tr));
    assert_string_equal(steno_trace_id(&tr, id), "");
    steno_tracer_report(NULL, NULL);
    steno_tracer_close(NULL);
}

static json_t *spans_of(json_t *root)
{
    json_t *resource = json_array_get(json_object_get(root, "resourceSpans"), 0);
    json_t *scope = json_array_get(json_object_get(resource, "scopeSpans"), 0);
    return json_object_get(scope, "spans");
}

static void a_report_becomes_a_span_and_its_phases(void **state)
{
    struct steno_trace_report r = {.start_ns = 1000,
                                   .end_ns = 9000000000,
                                   .method = "POST",
                                   .route = "/v1/transcribe",
                                   .api = "transcribe",
                                   .status = 200,
                                   .model = "quo\"te\\",
                                   .audio_seconds = 5.5};
    const struct steno_pool_stream_stats ps = {.inference_seconds = 3,
                                               .network_seconds = 2,
                                               .queue_wait_seconds = .5,
                                               .opened_ns = 1000000000,
                                               .first_step_ns = 2000000000,
                                               .ended_ns = 7000000000,
                                               .last_step_ns = 8000000000};
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(4711)};
    struct sockaddr_storage addr = {0};
    struct steno_buf b;
    json_t *root, *spans, *span;
    size_t n;
    (void)state;
    assert_true(steno_traceparent_parse(GOOD, strlen(GOOD), &r.trace.own));
    r.trace.on = true;
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(&addr, &sin, sizeof sin);
    steno_trace_client(&r, &addr);
    assert_string_equal(r.client, "127.0.0.1");
    steno_trace_pool_phases(&r, &ps);
    steno_buf_init(&b, 1 << 20);
    assert_int_equal(steno_trace_write(&b, "stenod", "i-1", &r, 1, 100, &n), STENO_OK);
    assert_int_equal(n, 5); /* receive and answer did not happen */
    root = json_loads(b.data, 0, NULL);
    assert_non_null(root);
    spans = spans_of(root);
    assert_int_equal(json_array_size(spans), 5);
    span = json_array_get(spans, 0);
    assert_string_equal(json_string_value(json_object_get(span, "name")), "POST /v1/transcribe");
    assert_string_equal(json_string_value(json_object_get(span, "traceId")),
                        "0af7651916cd43dd8448eb211c80319c");
    assert_null(json_object_get(span, "parentSpanId"));
    assert_string_equal(json_string_value(json_object_get(span, "startTimeUnixNano")), "1100");
    span = json_array_get(spans, 4);
    assert_string_equal(json_string_value(json_object_get(span, "name")), "search");
    assert_string_equal(json_string_value(json_object_get(span, "parentSpanId")),
                        "b7ad6b7169203331");
    assert_string_equal(json_string_value(json_object_get(span, "startTimeUnixNano")),
                        "4000000100");
    assert_string_equal(json_string_value(json_object_get(span, "endTimeUnixNano")), "5000000100");
    json_decref(root);
    steno_buf_free(&b);
}

static void phases_never_pass_the_end_of_the_request(void **state)
{
    struct steno_trace_report r = {.start_ns = 1000, .end_ns = 5000};
    const struct steno_pool_stream_stats ps = {.inference_seconds = 60,
                                               .network_seconds = 40,
                                               .queue_wait_seconds = 20,
                                               .opened_ns = 1500,
                                               .first_step_ns = 2000,
                                               .ended_ns = 9000};
    (void)state;
    steno_trace_pool_phases(&r, &ps);
    for (int i = STENO_PHASE_DECODE; i <= STENO_PHASE_SEARCH; i++) {
        assert_true(r.phases[i].start_ns >= 1500 && r.phases[i].start_ns <= 5000);
        assert_int_equal(r.phases[i].end_ns, 5000);
    }
    assert_float_equal(r.phases[STENO_PHASE_SEARCH].seconds, 20, 1e-9);
}

/* A collector that is not there: requests do not wait, and what is lost is counted. */
static void a_full_queue_drops_and_counts(void **state)
{
    struct steno_config conf = {0};
    struct steno_trace_report r = {
        .method = "POST", .route = "/", .api = "", .start_ns = 1, .end_ns = 2};
    steno_metrics *m = steno_metrics_new();
    steno_tracer *t;
    struct steno_buf page;
    steno_err err;
    int64_t began;
    (void)state;
    conf.trace_endpoint = (char[]){"http://127.0.0.1:9"}; /* discard: nobody listens */
    conf.trace_sample = 1;
    assert_int_equal(steno_tracer_open(&t, &conf, m, &err), STENO_OK);
    assert_non_null(t);
    steno_trace_begin(t, NULL, NULL, &r.trace);
    assert_true(steno_trace_recorded(&r.trace));
    began = steno_now_ns();
    for (int i = 0; i < 3000; i++)
        steno_tracer_report(t, &r);
    assert_true(steno_now_ns() - began < 1000000000);
    steno_tracer_close(t);
    steno_buf_init(&page, 1 << 16);
    assert_int_equal(steno_metrics_write(m, &page), STENO_OK);
    assert_non_null(strstr(page.data, "steno_trace_spans_exported_total 0\n"));
    assert_null(strstr(page.data, "{reason=\"queue_full\"} 0\n"));
    steno_buf_free(&page);
    steno_metrics_free(m);
}

static void the_share_decides_where_the_client_does_not(void **state)
{
    struct steno_config conf = {0};
    steno_metrics *m = steno_metrics_new();
    steno_tracer *t;
    struct steno_trace tr;
    steno_err err;
    int recorded = 0;
    (void)state;
    conf.trace_endpoint = (char[]){"http://127.0.0.1:9/v1/traces"};
    conf.trace_sample = 0.25;
    assert_int_equal(steno_tracer_open(&t, &conf, m, &err), STENO_OK);
    for (int i = 0; i < 4000; i++) {
        steno_trace_begin(t, NULL, NULL, &tr);
        assert_true(tr.on && !tr.has_parent);
        recorded += steno_trace_recorded(&tr);
    }
    assert_in_range(recorded, 800, 1200); /* 1000, standard deviation 27 */
    /* without a tracer the client's is passed on */
    struct steno_trace_headers h;
    steno_trace_begin(NULL, GOOD, "a=1", &tr);
    steno_trace_get_headers(&tr, &h);
    assert_true(!tr.on && !steno_trace_recorded(&tr));
    assert_string_equal(h.parent, GOOD);
    assert_string_equal(h.state, "a=1");
    steno_trace_begin(NULL, "nonsense", "a=1", &tr);
    steno_trace_get_headers(&tr, &h);
    assert_string_equal(h.parent, "");
    assert_string_equal(h.state, "");
    steno_trace_begin(t, GOOD, NULL, &tr);
    steno_trace_get_headers(&tr, &h);
    assert_memory_equal(h.parent, GOOD, 36);
    assert_true(strcmp(h.parent, GOOD) != 0);
    assert_true(tr.has_parent && steno_trace_recorded(&tr));
    assert_int_equal(tr.parent[0], 0xb7);
    assert_memory_not_equal(tr.parent, tr.own.span, 8);
    steno_trace_begin(t, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", NULL, &tr);
    assert_true(tr.on && !steno_trace_recorded(&tr));
    steno_tracer_close(t);
    steno_metrics_free(m);
    conf.trace_endpoint = (char[]){"collector:4318"};
    m = steno_metrics_new();
    assert_int_equal(steno_tracer_open(&t, &conf, m, &err), STENO_ERR_INVAL);
    steno_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_recommendation_parse),
        cmocka_unit_test(a_later_version_may_have_more_fields),
        cmocka_unit_test(what_is_not_valid_is_refused),
        cmocka_unit_test(a_tracestate_is_passed_on_or_dropped_whole),
        cmocka_unit_test(a_long_tracestate_loses_large_members_first),
        cmocka_unit_test(without_a_tracer_nothing_is_traced),
        cmocka_unit_test(a_report_becomes_a_span_and_its_phases),
        cmocka_unit_test(phases_never_pass_the_end_of_the_request),
        cmocka_unit_test(a_full_queue_drops_and_counts),
        cmocka_unit_test(the_share_decides_where_the_client_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
