/* ldflags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=pthread_create */
/* ldflags: -Wl,--wrap=epoll_create1,--wrap=epoll_ctl,--wrap=eventfd,--wrap=accept4 */
/* link: server/core/config_check.c server/core/aligners.c */
/* link: server/port/acceptor.c server/port/tls.c server/port/refusal.c server/port/head.c */
/* link: server/http/hangup.c */
/* link: server/port/origin.c */
/* link: server/core/limits.c server/port/listeners.c server/port/proxy.c */
/* link: server/port/retry_spreader.c server/base/metrics.c */
/* link: server/base/stats.c server/core/config.c server/port/address.c server/base/log.c */
/* The 1st, 2nd, ... nth call fails until the scenario passes: settings, forms, answers, metrics,
 * the port. Each time there is an error with a message and no leak (AddressSanitizer's build
 * checks), and at last success. */

#include "protocol/multipart.h"
#include "protocol/openai_rest.h"
#include "protocol/result_json.h"
#include "protocol/whisper_asr.h"
#include "protocol/whisper_cpp.h"
#include "server/core/limits.h"
#include "server/http/hangup.h"
#include "server/port/acceptor.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static long countdown = -1; /* our own fallible calls until one fails; < 0: none fails */
static int no_descriptors;  /* number of accept4 calls that fail with EMFILE */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __real_epoll_create1(int flags);
int __real_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev);
int __real_eventfd(unsigned v, int flags);
int __real_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev);
int __wrap_eventfd(unsigned v, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);

static bool fails(int error)
{
    bool now;
    pthread_mutex_lock(&lock);
    now = countdown >= 0 && countdown-- == 0;
    pthread_mutex_unlock(&lock);
    if (now)
        errno = error;
    return now;
}

void *__wrap_malloc(size_t n)
{
    return fails(ENOMEM) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
    return fails(ENOMEM) ? NULL : __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails(ENOMEM) ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
    return fails(ENOMEM) ? NULL : __real_strdup(s);
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    return fails(EAGAIN) ? EAGAIN : __real_pthread_create(t, a, fn, arg);
}

int __wrap_epoll_create1(int flags)
{
    return fails(EMFILE) ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
    return fails(ENOMEM) ? -1 : __real_epoll_ctl(ep, op, fd, ev);
}

int __wrap_eventfd(unsigned v, int flags)
{
    return fails(EMFILE) ? -1 : __real_eventfd(v, flags);
}

int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool none;
    pthread_mutex_lock(&lock);
    none = no_descriptors > 0 && poll(&p, 1, 0) == 1; /* only where a client is waiting */
    no_descriptors -= none;
    pthread_mutex_unlock(&lock);
    if (!none)
        return __real_accept4(fd, a, n, flags);
    errno = EMFILE;
    return -1;
}

/* Run with the 1st, 2nd, ... call failing until the scenario succeeds. At least `least` calls
 * must fail. */
static void until_it_passes(steno_status (*scenario)(steno_err *err), long least)
{
    for (long n = 0;; n++) {
        steno_err err = {STENO_OK, ""};
        steno_status st;
        countdown = n;
        st = scenario(&err);
        if (countdown >= 0) { /* no call was left to fail */
            countdown = -1;
            if (st)
                fail_msg("after %ld failures: %s", n, err.msg);
            assert_true(n >= least);
            return;
        }
        if (st && !err.msg[0])
            fail_msg("failure %ld says nothing", n);
    }
}

static steno_status settings(steno_err *err)
{
    static const char text[] =
        "[server]\nlisten = [::1]:0\n[model]\ndir = /m\n[log]\nlevel = debug\n";
    struct steno_config c;
    steno_status st = steno_config_init(&c, err);
    if (st)
        return st;
    st = steno_config_read_text(&c, "t", text, sizeof text - 1, err);
    if (!st)
        st = steno_config_check(&c, err);
    steno_config_free(&c);
    return st;
}

static steno_status on_part(void *user, const char *name, const char *filename, steno_err *err)
{
    (void)filename;
    return steno_buf_puts(user, name) ? steno_fail(err, STENO_ERR_NOMEM, "part") : STENO_OK;
}

static steno_status on_data(void *user, const char *data, size_t n, steno_err *err)
{
    return steno_buf_add(user, data, n) ? steno_fail(err, STENO_ERR_NOMEM, "data") : STENO_OK;
}

static steno_status on_end(void *user, steno_err *err)
{
    (void)user, (void)err;
    return STENO_OK;
}

static steno_status form(steno_err *err)
{
    static const char body[] =
        "--b\r\nContent-Disposition: form-data; name=file\r\n\r\n"
        "0123456789012345678901234567890123456789012345678901234567890123\r\n"
        "--b--";
    struct steno_buf out;
    const struct steno_multipart_events on = {&out, on_part, on_data, on_end};
    steno_multipart *mp = NULL;
    steno_status st;
    steno_buf_init(&out, 1 << 16);
    st = steno_multipart_open(&mp, "multipart/form-data; boundary=b", &on, err);
    if (!st)
        st = steno_multipart_push(mp, body, sizeof body - 1, err);
    if (!st)
        st = steno_multipart_end(mp, err);
    steno_multipart_close(mp);
    steno_buf_free(&out);
    return st;
}

static const struct steno_word words[] = {{"four", 0.5, 0.8, 0.9f}, {"two", 1, 1.2, 0.8f}};
static const int32_t ids[] = {4, 2};
static const struct steno_alternative alternatives[] = {
    {"four two", 0.8f, -1.5, .n_words = 2, .words = words, .ids = ids, .n_ids = 2},
    {"for two", 0.1f, -3, .n_words = 2, .words = words, .ids = ids, .n_ids = 2}};
static const struct steno_event final = {.kind = STENO_FINAL,
                                         .text = "four two",
                                         .start = 0.5,
                                         .end = 1.2,
                                         .n_words = 2,
                                         .words = words,
                                         .n_alternatives = 2,
                                         .alternatives = alternatives};

static steno_status answer(steno_err *err)
{
    struct steno_openai_result r = {.language = "en", .duration = 2};
    struct steno_alternative second;
    struct steno_buf out;
    steno_status st = STENO_ERR_NOMEM;
    steno_buf_init(&out, 1 << 16);
    r.transcript = steno_transcript_new(0);
    if (r.transcript)
        st = steno_transcript_add(r.transcript, &final, err);
    if (!st)
        st = steno_transcript_alternative(r.transcript, 1, &second, err);
    assert_true(!st || st == STENO_ERR_NOMEM); /* out of memory, not over its limit */
    if (!st)
        st = steno_openai_write_verbose(&out, &r, true, true);
    if (st)
        (void)steno_fail(err, st, "answer");
    else
        assert_non_null(strstr(out.data, "\"four two\""));
    steno_buf_free(&out);
    steno_transcript_free(r.transcript);
    return st;
}

/* Append the answers of whisper.cpp's server and whisper-asr-webservice. */
static steno_status write_whisper_forms(struct steno_buf *out, const struct steno_openai_result *r)
{
    static const enum steno_openai_format formats[] = {STENO_OPENAI_JSON, STENO_OPENAI_VERBOSE_JSON,
                                                       STENO_OPENAI_SRT};
    static const struct steno_whisper_cpp_wants wants[] = {{.max_len = 1}, {.detect = true}};
    steno_status st = STENO_OK;
    for (size_t i = 0; i < 6 && !st; i++) {
        const struct steno_whisper_cpp_about about = {.wants = &wants[i / 3], .detected = true};
        st = steno_whisper_cpp_write(out, formats[i % 3], r, &about);
    }
    for (int output = STENO_WHISPER_ASR_TXT; output <= STENO_WHISPER_ASR_TSV && !st; output++) {
        const struct steno_whisper_asr_wants asr = {.output = (enum steno_whisper_asr_output)output,
                                                    .words = true};
        st = steno_whisper_asr_write(out, r, &asr);
    }
    return st;
}

static steno_status whisper_forms(steno_err *err)
{
    struct steno_openai_request ask = {0};
    struct steno_whisper_cpp_wants cpp = {0};
    struct steno_whisper_asr_wants asr = {0};
    struct steno_openai_result r = {.language = "en", .duration = 2};
    const char *param;
    struct steno_buf out;
    steno_status st;
    steno_buf_init(&out, 1 << 16);
    st = steno_whisper_cpp_field(&ask, &cpp, "prompt", "digits", 6, &param, err);
    if (!st)
        st = steno_whisper_asr_query(&ask, &asr, "initial_prompt", "numbers", err);
    if (!st) {
        r.transcript = steno_transcript_new(0);
        st = r.transcript ? steno_transcript_add(r.transcript, &final, err) : STENO_ERR_NOMEM;
        if (!st)
            st = write_whisper_forms(&out, &r);
        if (st)
            (void)steno_fail(err, st, "answer");
    }
    assert_true(!st || st == STENO_ERR_NOMEM);
    steno_buf_free(&out);
    steno_transcript_free(r.transcript);
    steno_hint_store_free(&ask.hints);
    return st;
}

/* Appended after "head": all of it or nothing. */
static steno_status json_is_whole_or_none(steno_status st, struct steno_buf *out, const char *want,
                                          steno_err *err)
{
    assert_string_equal(out->data, st ? "head" : want);
    steno_buf_cut(out, 4);
    assert_true(!st || st == STENO_ERR_NOMEM);
    return st ? steno_fail(err, st, "%s", want) : STENO_OK;
}

#define TWO_WORDS                                                                                  \
    "{\"word\":\"four\",\"start\":0.5,\"end\":0.8,\"confidence\":0.9},"                            \
    "{\"word\":\"two\",\"start\":1.0,\"end\":1.2,\"confidence\":0.8}"
static steno_transcript *spoken;

static steno_status json(steno_err *err)
{
    static const struct steno_result_json_options opt = {
        .file = "\xff.wav", .model = "m", .language = "en", .warning = "w"};
    struct steno_event partial = final;
    char room[4096] = "head"; /* here jansson's allocations fail */
    struct steno_buf out = {room, 4, sizeof room, sizeof room - 1};
    steno_status st;
    partial.kind = STENO_PARTIAL;
    partial.stable_bytes = 4;
    st = json_is_whole_or_none(
        steno_result_json_write(&out, spoken, &opt), &out,
        "head{\"file\":\"\xEF\xBF\xBD.wav\",\"text\":\"four "
        "two\",\"duration\":0.0,\"confidence\":0.849,"
        "\"model\":\"m\",\"language\":\"en\",\"segments\":[{\"text\":\"four "
        "two\",\"start\":0.5,\"end\":1.2,"
        "\"confidence\":0.0,\"reason\":\"endpoint\",\"words\":[" TWO_WORDS "],\"alternatives\":["
        "{\"text\":\"four two\",\"confidence\":0.8,\"score\":-1.5,\"words\":[" TWO_WORDS "]},"
        "{\"text\":\"for two\",\"confidence\":0.1,\"score\":-3.0,\"words\":[" TWO_WORDS "]}]}],"
        "\"warnings\":[\"w\"]}",
        err);
    if (!st)
        st = json_is_whole_or_none(
            steno_event_json_write(&out, &partial), &out,
            "head{\"type\":\"partial\",\"segment\":0,\"time\":0.0,\"start\":0.5,\"end\":1.2,"
            "\"text\":\"four two\",\"stable\":\"four\",\"confidence\":0.0,\"words\":[" TWO_WORDS
            "]}\n",
            err);
    if (!st)
        st = json_is_whole_or_none(
            steno_nbest_json_write(&out, &final), &out,
            "head{\"nbest\":[{\"token_ids\":[4,2],\"score\":-1.5,\"text\":\"four two\"},"
            "{\"token_ids\":[4,2],\"score\":-3.0,\"text\":\"for two\"}]}\n",
            err);
    return st;
}

static void json_is_whole_or_absent_without_memory(void **state)
{
    (void)state;
    spoken = steno_transcript_new(0);
    assert_non_null(spoken);
    assert_int_equal(steno_transcript_add(spoken, &final, NULL), STENO_OK);
    json_set_alloc_funcs(__wrap_malloc, free);
    until_it_passes(json, 100);
    json_set_alloc_funcs(malloc, free);
    steno_transcript_free(spoken);
}

/* Metrics that could not be made are left out; the others work. */
static steno_status series(steno_err *err)
{
    struct steno_config c;
    struct steno_stats *stats;
    steno_limits *l = NULL;
    steno_status st = steno_config_init(&c, err);
    if (st)
        return st;
    stats = steno_stats_new();
    if (stats)
        l = steno_limits_new(&c, stats);
    if (l) {
        st = steno_limits_enter(l, STENO_SESSION_STREAM, err);
        if (!st)
            steno_limits_leave(l, STENO_SESSION_STREAM, STENO_SESSION_OK);
    } else {
        st = steno_fail(err, STENO_ERR_NOMEM, "series");
    }
    steno_limits_free(l);
    steno_stats_free(stats);
    steno_config_free(&c);
    return st;
}

static void on_hangup(void *user, enum steno_hangup_why why)
{
    (void)user, (void)why;
}

static steno_status watching(steno_err *err)
{
    steno_hangup *h;
    int p[2];
    steno_status st = steno_hangup_open(&h, 2, err);
    if (st)
        return st;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
    /* watching may fail: 0 */
    steno_hangup_forget(h, steno_hangup_watch(h, p[0], 0, on_hangup, NULL));
    steno_hangup_close(h);
    close(p[0]);
    close(p[1]);
    return STENO_OK;
}

static void on_head(void *user, int fd, const struct steno_peer *peer, const char *head, size_t len)
{
    (void)peer, (void)head, (void)len;
    assert_int_equal(write(fd, "served", 6), 6);
    close(fd);
    (void)user;
}

static steno_status open_port(steno_acceptor **a, struct steno_config *c,
                              struct steno_stats **stats, steno_err *err)
{
    steno_status st = steno_config_init(c, err);
    if (!st)
        st = steno_config_assign(c, "server.listen=127.0.0.1:0", STENO_CONFIG_FLAG, err);
    *stats = st ? NULL : steno_stats_new();
    if (!st && !*stats)
        st = steno_fail(err, STENO_ERR_NOMEM, "stats");
    const struct steno_port_settings port = steno_config_port(c);
    if (!st)
        st = steno_acceptor_open(a, &port, *stats, on_head, NULL, err);
    if (!st) {
        st = steno_acceptor_start(*a, err);
        if (st)
            steno_acceptor_close(*a);
    }
    if (st) {
        steno_stats_free(*stats);
        steno_config_free(c);
    }
    return st;
}

static steno_status port(steno_err *err)
{
    struct steno_config c = {0};
    struct steno_stats *stats;
    steno_acceptor *a;
    steno_status st = open_port(&a, &c, &stats, err);
    if (st)
        return st;
    steno_acceptor_close(a);
    steno_stats_free(stats);
    steno_config_free(&c);
    return STENO_OK;
}

static void settings_forms_and_answers_survive_failures(void **state)
{
    (void)state;
    until_it_passes(settings, 5);
    until_it_passes(form, 2);
    until_it_passes(answer, 3);
    until_it_passes(whisper_forms, 10);
}

static void series_and_admission_survive_failures(void **state)
{
    (void)state;
    until_it_passes(series, 50);
}

static void threads_and_sockets_survive_failures(void **state)
{
    (void)state;
    until_it_passes(watching, 4);
    until_it_passes(port, 50);
}

static bool served(int portno)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)portno)};
    struct pollfd p = {.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN};
    char got[16] = "";
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(p.fd, (struct sockaddr *)&sin, sizeof sin), 0);
    (void)!send(p.fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, MSG_NOSIGNAL);
    if (poll(&p, 1, 5000) == 1 && read(p.fd, got, 6) < 0)
        got[0] = '\0';
    close(p.fd);
    return !strcmp(got, "served");
}

static void without_descriptors_it_closes_clients_and_still_serves(void **state)
{
    struct steno_config c;
    struct steno_stats *stats;
    steno_acceptor *a;
    int portno;
    (void)state;
    assert_int_equal(open_port(&a, &c, &stats, NULL), STENO_OK);
    assert_int_equal(sscanf(steno_acceptor_url(a, 0), "http://127.0.0.1:%d", &portno), 1);
    assert_true(served(portno));
    pthread_mutex_lock(&lock);
    no_descriptors =
        1; /* with its spare descriptor it accepts the connection in order to close it */
    pthread_mutex_unlock(&lock);
    assert_false(served(portno));
    assert_true(served(portno));
    assert_true(steno_metric_value(stats->sessions_rejected[STENO_REJECT_DESCRIPTORS]) == 1);
    steno_acceptor_close(a);
    steno_stats_free(stats);
    steno_config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_forms_and_answers_survive_failures),
        cmocka_unit_test(json_is_whole_or_absent_without_memory),
        cmocka_unit_test(series_and_admission_survive_failures),
        cmocka_unit_test(threads_and_sockets_survive_failures),
        cmocka_unit_test(without_descriptors_it_closes_clients_and_still_serves),
    };
    return cmocka_run_group_tests_name("http faults", tests, NULL, NULL);
}
