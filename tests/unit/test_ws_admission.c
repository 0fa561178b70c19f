/* Admission of WebSocket handshakes: who is admitted, who is refused, and with which answer. The
 * pool is a fake that can be full; the test holds the other end of each socket. */
/* link: server/live/ws_admission.c server/live/handshake.c server/port/refusal.c */
/* link: server/core/keys.c server/core/word_list.c */
/* link: server/core/credentials.c server/port/listeners.c */
/* link: server/port/retry_spreader.c server/core/limits.c server/core/server.c */
/* link: server/port/acceptor.c */
/* link: server/port/origin.c */
/* link: server/port/proxy.c server/port/tls.c server/port/head.c */
/* link: server/watch/trace.c server/watch/traceparent.c engine/curl/libcurl.c */
/* link: server/base/metrics.c server/base/stats.c server/core/config.c server/port/address.c */
/* link: server/base/log.c */

#include "server/live/ws_admission.h"
#include "server/port/acceptor.h"
#include "tests/support/read_all.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET "aaaaaaaaaaaaaaaa"
#define OTHER "bbbbbbbbbbbbbbbb"
#define GOOD "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
#define ID "X-Request-Id: mine-1\r\n"

/* ---- fake models and a fake pool; the real ones are not linked ------------------------------ */

struct steno_models {
    bool loading, full;
    char asked[64]; /* name of the last requested model */
    int acquired, in_use;
    struct steno_served served;
};

steno_status steno_models_acquire(steno_models *m, const char *name,
                                  const struct steno_options *want, struct steno_served **out,
                                  steno_err *err)
{
    (void)want;
    snprintf(m->asked, sizeof m->asked, "%s", name);
    m->acquired++;
    if (*name && strcmp(name, "digits-en"))
        return steno_fail(err, STENO_ERR_INVAL, "model: there is no '%s'", name);
    if (m->loading)
        return steno_fail(err, STENO_ERR_BUSY, "model: it is being loaded");
    m->in_use++;
    m->served.name = "digits-en";
    m->served.pool = (steno_pool *)m;
    *out = &m->served;
    return STENO_OK;
}

void steno_models_release(steno_models *m, struct steno_served *s)
{
    assert_ptr_equal(s, &m->served);
    m->in_use--;
}

steno_status steno_pool_admit(steno_pool *p, enum steno_pool_class c, steno_err *err)
{
    assert_int_equal(c, STENO_POOL_LIVE);
    return ((steno_models *)p)->full
               ? steno_fail(err, STENO_ERR_BUSY, "as many streams as it carries")
               : STENO_OK;
}

/* ---- the fixture ---------------------------------------------------------------------------- */

struct fixture {
    struct steno_config conf;
    steno_models models;
    struct steno_server srv;
    struct steno_ws_admission admission;
    int closed, lingers; /* calls of the owner's callbacks */
    int client_end;      /* the client's end of the socket */
    struct steno_ws_handshake handshake;
    char answer[2048];
};

static void on_closed(void *user, const struct steno_peer *peer)
{
    (void)peer;
    ((struct fixture *)user)->closed++;
}

static void on_linger(void *user, int fd)
{
    ((struct fixture *)user)->lingers++;
    shutdown(fd, SHUT_WR);
    close(fd);
}

static const struct steno_ws_owner owner = {.closed = on_closed, .linger = on_linger};

/* settings: configuration settings separated by blanks. keys: the text of a key file, or NULL. */
static void open_fixture(struct fixture *h, const char *settings, const char *keys)
{
    memset(h, 0, sizeof *h);
    assert_int_equal(steno_config_init(&h->conf, NULL), STENO_OK);
    for (const char *s = settings; *s; s += strcspn(s, " "), s += *s == ' ') {
        char one[128];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(s, " "), s);
        assert_int_equal(steno_config_assign(&h->conf, one, STENO_CONFIG_FLAG, NULL), STENO_OK);
    }
    h->srv.conf = &h->conf;
    h->srv.models = &h->models;
    h->srv.stats = steno_stats_new();
    h->srv.limits = steno_limits_new(&h->conf, h->srv.stats);
    assert_int_equal(steno_keys_open(&h->srv.keys, NULL, NULL), STENO_OK);
    if (keys)
        assert_int_equal(steno_keys_read_text(h->srv.keys, "keys", keys, strlen(keys), NULL),
                         STENO_OK);
    h->admission = (struct steno_ws_admission){.srv = &h->srv, .owner = &owner, .user = h};
}

static void close_fixture(struct fixture *h)
{
    assert_int_equal(h->models.in_use, 0);
    assert_int_equal(steno_limits_active(h->srv.limits), 0);
    steno_keys_close(h->srv.keys);
    steno_limits_free(h->srv.limits);
    steno_stats_free(h->srv.stats);
    steno_config_free(&h->conf);
}

static double refused(const struct fixture *h, enum steno_rejection why)
{
    return steno_metric_value(h->srv.stats->sessions_rejected[why]);
}

/* A handshake for target with additional headers, and `behind` sent right after its head. True:
 * admitted, *fd is the descriptor. False: refused, h->answer has the answer. */
static bool send_handshake(struct fixture *h, const char *target, const char *headers,
                           const char *behind, int *fd)
{
    struct steno_peer peer = {.len = 0};
    char head[1024];
    int pair[2];
    int n = snprintf(
        head, sizeof head,
        "GET %s HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n%s\r\n", target,
        headers);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(send(pair[1], head, (size_t)n, 0), n);
    if (*behind)
        assert_int_equal(send(pair[1], behind, strlen(behind), 0), strlen(behind));
    h->client_end = pair[1];
    *h->answer = '\0';
    if (steno_ws_admit(&h->admission, pair[0], &peer, head, (size_t)n, &h->handshake)) {
        *fd = pair[0];
        return true;
    }
    read_all(pair[1], h->answer, sizeof h->answer);
    close(pair[1]);
    return false;
}

/* The handshake is admitted and then released. */
static void expect_admitted(struct fixture *h, const char *target, const char *headers)
{
    int fd, closed = h->closed;
    if (!send_handshake(h, target, headers, "", &fd))
        fail_msg("%s: %s", target, h->answer);
    /* after admission the closing is reported by the new owner of the connection */
    assert_int_equal(h->closed, closed);
    steno_ws_handshake_release(&h->srv, &h->handshake);
    close(fd);
    close(h->client_end);
}

/* The handshake is refused with this status. The answer contains each of the lines in `says`,
 * which ends with NULL. */
static void expect_refused(struct fixture *h, const char *target, const char *headers, int status,
                           const char *const *says)
{
    char line[32];
    int fd, closed = h->closed;
    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    if (send_handshake(h, target, headers, "", &fd))
        fail_msg("%s was admitted", target);
    if (strncmp(h->answer, line, strlen(line)))
        fail_msg("%s: %s instead of %d", target, h->answer, status);
    for (; *says; says++)
        if (!strstr(h->answer, *says))
            fail_msg("%s: no '%s' in %s", target, *says, h->answer);
    assert_int_equal(h->closed, closed + 1);
    assert_false(h->handshake.entered);
}

/* Seconds in the last answer's Retry-After. */
static int retry_after(const struct fixture *h)
{
    const char *at = strstr(h->answer, "\r\nRetry-After: ");
    return at ? (int)strtol(at + 15, NULL, 10) : 0;
}

#define SAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- decisions ------------------------------------------------------------------------------- */

static void correct_handshakes_are_admitted(void **state)
{
    static const struct {
        const char *target, *headers;
        enum steno_session_api api;
        const char *protocol;
    } handshakes[] = {
        {"/v1/stream", GOOD, STENO_SESSION_STREAM, ""},
        {"/v1/stream?model=digits-en", GOOD "Sec-WebSocket-Protocol: steno.v1\r\n",
         STENO_SESSION_STREAM, "steno.v1"},
        {"/v1/listen?encoding=linear16&sample_rate=8000",
         GOOD "Sec-WebSocket-Protocol: token, " SECRET "\r\n", STENO_SESSION_DEEPGRAM, "token"},
        {"/v1/listen", GOOD "Sec-WebSocket-Protocol: bearer," SECRET "\r\n", STENO_SESSION_DEEPGRAM,
         "bearer"},
        {"/v1/realtime",
         GOOD "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key." SECRET
              ", openai-beta.realtime-v1\r\n",
         STENO_SESSION_REALTIME, "realtime"},
        {"/v1/realtime",
         GOOD "Sec-WebSocket-Protocol: openai-insecure-api-key." SECRET
              ", openai-beta.realtime-v1\r\n",
         STENO_SESSION_REALTIME, "openai-beta.realtime-v1"},
        {"/v1/realtime", GOOD "Sec-WebSocket-Protocol: openai-insecure-api-key." SECRET "\r\n",
         STENO_SESSION_REALTIME, ""},
        {"/v1/realtime?intent=transcription", GOOD, STENO_SESSION_REALTIME, ""},
        {"/vosk", GOOD, STENO_SESSION_VOSK, ""},
    };
    struct fixture h;
    (void)state;
    open_fixture(&h, "", NULL);
    for (size_t i = 0; i < sizeof handshakes / sizeof *handshakes; i++) {
        int fd;
        char byte;
        if (!send_handshake(&h, handshakes[i].target, handshakes[i].headers, "!", &fd))
            fail_msg("%s: %s", handshakes[i].target, h.answer);
        assert_int_equal(h.handshake.api, handshakes[i].api);
        assert_string_equal(steno_ws_subprotocol(h.handshake.dialect, &h.handshake.hs),
                            handshakes[i].protocol);
        assert_string_equal(h.handshake.hs.target, handshakes[i].target);
        assert_true(h.handshake.entered);
        assert_int_equal(steno_limits_active(h.srv.limits), 1);
        /* the head was read from the socket, the bytes after it were not, and nothing was sent
         * yet */
        assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 1);
        assert_int_equal(byte, '!');
        assert_int_equal(recv(h.client_end, &byte, 1, MSG_DONTWAIT), -1);
        steno_ws_handshake_release(&h.srv, &h.handshake);
        steno_ws_handshake_release(&h.srv, &h.handshake); /* the second call has no effect */
        assert_int_equal(steno_limits_active(h.srv.limits), 0);
        close(fd);
        close(h.client_end);
    }
    assert_int_equal(h.closed + h.lingers, 0);
    close_fixture(&h);
}

static void wrong_handshakes_are_told_why(void **state)
{
    struct fixture h;
    (void)state;
    open_fixture(&h, "", NULL);
    h.models.full = true; /* capacity is checked last */
    expect_refused(&h, "/v1/nothing", GOOD, 404,
                   SAYS("not_found", "/v1/stream", "Connection: close\r\n"));
    expect_refused(&h, "/v1/stream", "Sec-WebSocket-Version: 13\r\n", 400,
                   SAYS("invalid_argument"));
    expect_refused(&h, "/v1/stream", "Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n", 400,
                   SAYS("invalid_argument"));
    expect_refused(&h, "/v1/stream",
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 12\r\n",
                   426, SAYS("upgrade_required", "Sec-WebSocket-Version: 13\r\n"));
    expect_refused(&h, "/v1/stream", GOOD "Sec-WebSocket-Protocol: chat\r\n", 400,
                   SAYS("no protocol of this path", "which speaks steno.v1"));
    assert_null(strstr(h.answer, "chat")); /* it may be a key */
    assert_int_equal(h.models.acquired, 0);
    close_fixture(&h);
}

static void a_key_is_found_in_every_usual_place(void **state)
{
    struct fixture h;
    (void)state;
    open_fixture(&h, "", "[one]\nkey = " SECRET "\n");
    expect_admitted(&h, "/v1/stream", GOOD "Authorization: Bearer " SECRET "\r\n");
    expect_admitted(&h, "/v1/stream", GOOD "Authorization: Token " SECRET "\r\n");
    expect_admitted(&h, "/v1/stream", GOOD "X-API-Key: " SECRET "\r\n");
    expect_admitted(&h, "/v1/stream", GOOD "Sec-WebSocket-Protocol: token, " SECRET "\r\n");
    expect_admitted(&h, "/v1/stream", GOOD "Sec-WebSocket-Protocol: bearer," SECRET "\r\n");
    expect_admitted(&h, "/v1/realtime",
                    GOOD "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key." SECRET
                         "\r\n");
    expect_admitted(&h, "/v1/stream?api_key=" SECRET, GOOD);
    expect_admitted(&h, "/v1/stream?token=" SECRET, GOOD);
    assert_string_equal(steno_key_name(h.handshake.key), "one");
    expect_refused(&h, "/v1/stream", GOOD, 401,
                   SAYS("invalid_api_key", "is required", "WWW-Authenticate: Bearer\r\n",
                        "X-Request-Id: req_"));
    expect_refused(&h, "/v1/stream?api_key=" OTHER, GOOD, 401, SAYS("unknown API key"));
    assert_null(strstr(h.answer, OTHER));
    /* the header takes precedence over the URL */
    expect_refused(&h, "/v1/stream?api_key=" SECRET, GOOD "Authorization: Bearer " OTHER "\r\n",
                   401, SAYS("unknown API key"));
    assert_true(refused(&h, STENO_REJECT_KEY) == 3);
    /* without a valid key a client learns nothing of the models and takes no place */
    assert_int_equal(h.models.acquired, 8);
    close_fixture(&h);
}

static void pages_of_others_are_refused_where_they_need_no_key(void **state)
{
    struct fixture h;
    (void)state;
    open_fixture(&h, "", NULL);
    expect_admitted(&h, "/v1/stream", GOOD "Origin: http://h\r\n");
    expect_refused(&h, "/v1/stream", GOOD "Origin: https://evil.example\r\n", 403,
                   SAYS("forbidden", "server.cors_origins"));
    expect_refused(&h, "/v1/listen", GOOD "Sec-Fetch-Site: cross-site\r\n", 403,
                   SAYS("err_code", "server.cors_origins"));
    assert_true(refused(&h, STENO_REJECT_ORIGIN) == 2);
    assert_int_equal(h.models.acquired, 1);
    close_fixture(&h);
    open_fixture(&h, "", "[one]\nkey = " SECRET "\n"); /* the key is the permission */
    expect_admitted(&h, "/v1/stream?token=" SECRET, GOOD "Origin: https://app.example\r\n");
    close_fixture(&h);
    open_fixture(&h, "server.cors_origins=https://app.example", "[one]\nkey = " SECRET "\n");
    expect_admitted(&h, "/v1/stream?token=" SECRET, GOOD "Origin: https://app.example\r\n");
    expect_admitted(&h, "/v1/stream?token=" SECRET, GOOD "Origin: http://h\r\n");
    expect_admitted(&h, "/v1/stream?token=" SECRET, GOOD);
    expect_refused(&h, "/v1/stream?token=" SECRET, GOOD "Origin: https://evil.example\r\n", 403,
                   SAYS("forbidden"));
    close_fixture(&h);
    open_fixture(&h, "server.cors_origins=*", NULL);
    expect_admitted(&h, "/v1/stream", GOOD "Origin: https://evil.example\r\n");
    close_fixture(&h);
}

static void without_a_place_the_answer_is_503_with_retry_after(void **state)
{
    struct fixture h;
    int fd;
    (void)state;
    open_fixture(&h, "limits.sessions=1 limits.retry_after=7s", NULL);
    h.models.full = true;
    expect_refused(&h, "/v1/stream", GOOD ID, 503,
                   SAYS("\"busy\"", "as many streams as it carries", "Retry-After: 7\r\n", ID));
    h.models.full = false;
    h.models.loading = true;
    expect_refused(&h, "/v1/stream", GOOD, 503, SAYS("being loaded", "Retry-After: 7\r\n"));
    h.models.loading = false;
    assert_true(send_handshake(&h, "/v1/stream", GOOD, "", &fd));
    close(h.client_end);
    {
        struct steno_ws_handshake first = h.handshake;
        expect_refused(&h, "/v1/stream", GOOD, 503,
                       SAYS("all 1 places for streams", "Retry-After: 7\r\n"));
        steno_ws_handshake_release(&h.srv, &first);
    }
    close(fd);
    expect_admitted(&h, "/v1/stream", GOOD);
    steno_limits_drain(h.srv.limits);
    expect_refused(&h, "/v1/stream", GOOD, 503,
                   SAYS("\"draining\"", "shutting down", "Retry-After: 7\r\n"));
    assert_true(refused(&h, STENO_REJECT_CAPACITY) == 1 && refused(&h, STENO_REJECT_LOADING) == 1 &&
                refused(&h, STENO_REJECT_SESSIONS) == 1 && refused(&h, STENO_REJECT_DRAINING) == 1);
    close_fixture(&h);
}

static void a_key_without_quota_gets_429_and_others_are_admitted(void **state)
{
    struct fixture h;
    struct steno_ws_handshake first;
    int fd;
    (void)state;
    open_fixture(&h, "limits.retry_after=7s",
                 "[one]\nkey = " SECRET "\nsessions = 1\n[two]\nkey = " OTHER
                 "\nrequests_per_minute = 2\n");
    assert_true(send_handshake(&h, "/v1/stream?api_key=" SECRET, GOOD, "", &fd));
    first = h.handshake;
    close(h.client_end);
    expect_refused(&h, "/v1/stream?api_key=" SECRET, GOOD ID, 429,
                   SAYS("quota_exceeded", "'one'", "Retry-After: 1\r\n", ID));
    assert_int_equal(steno_limits_active(h.srv.limits), 1); /* its place was returned */
    expect_admitted(&h, "/v1/stream?api_key=" OTHER, GOOD);
    expect_admitted(&h, "/v1/stream?api_key=" OTHER, GOOD);
    expect_refused(&h, "/v1/stream?api_key=" OTHER, GOOD, 429, SAYS("'two'"));
    assert_in_range(retry_after(&h), 2, 30); /* the next request is allowed in half a minute */
    steno_ws_handshake_release(&h.srv, &first);
    close(fd);
    expect_admitted(&h, "/v1/stream?api_key=" SECRET, GOOD);
    assert_true(refused(&h, STENO_REJECT_QUOTA) == 2);
    close_fixture(&h);
}

/* The admission passes on what only the session can answer in its dialect. */
static void wrong_settings_are_left_to_the_session(void **state)
{
    struct fixture h;
    (void)state;
    open_fixture(&h, "", NULL);
    h.models.full = true;
    expect_admitted(&h, "/v1/stream?model=nowhere", GOOD);
    assert_string_equal(h.models.asked, "nowhere");
    expect_admitted(&h, "/v1/stream?model=%zz", GOOD);
    expect_admitted(&h, "/v1/stream?quantized=perhaps", GOOD);
    assert_int_equal(h.models.acquired, 1);
    expect_refused(&h, "/v1/stream?model=digits-en&colour=red", GOOD, 503, SAYS("busy"));
    close_fixture(&h);
}

static void resumed_sessions_need_no_place(void **state)
{
    struct fixture h;
    int fd;
    (void)state;
    open_fixture(&h, "", "[one]\nkey = " SECRET "\nsessions = 1\n");
    h.models.full = true;
    steno_limits_drain(h.srv.limits);
    assert_true(send_handshake(&h, "/v1/stream?session_id=sess_1&api_key=" SECRET, GOOD, "", &fd));
    assert_true(h.handshake.resumes && !h.handshake.entered);
    steno_ws_handshake_release(&h.srv, &h.handshake);
    close(fd);
    close(h.client_end);
    /* a resumed session still needs its key, and a dialect with resumable sessions */
    expect_refused(&h, "/v1/stream?session_id=sess_1", GOOD, 401, SAYS("is required"));
    expect_refused(&h, "/v1/listen?session_id=sess_1&api_key=" SECRET, GOOD, 503,
                   SAYS("shutting down"));
    close_fixture(&h);
}

static void deepgrams_clients_get_its_form(void **state)
{
    struct fixture h;
    (void)state;
    open_fixture(&h, "limits.retry_after=3s", "[one]\nkey = " SECRET "\nrequests_per_minute = 1\n");
    h.models.full = true;
    expect_refused(&h, "/v1/listen", GOOD ID, 401,
                   SAYS("\"err_code\":\"invalid_api_key\"", "\"request_id\":\"mine-1\"", ID,
                        "dg-request-id: mine-1\r\n", "WWW-Authenticate: Bearer\r\n"));
    expect_refused(&h, "/v1/listen?api_key=" SECRET, GOOD ID, 503,
                   SAYS("\"err_code\":", "Retry-After: 3\r\n", "dg-request-id: mine-1\r\n"));
    h.models.full = false;
    expect_refused(&h, "/v1/listen?channels=9&api_key=" SECRET, GOOD ID, 400,
                   SAYS("dg-error: channels: "));
    expect_refused(&h, "/v2/listen?eot_threshold=2&api_key=" SECRET, GOOD ID, 400,
                   SAYS("dg-error: eot_threshold: "));
    expect_admitted(&h, "/v1/listen?api_key=" SECRET, GOOD);
    expect_refused(&h, "/v1/listen?api_key=" SECRET, GOOD, 429,
                   SAYS("\"err_code\":\"quota_exceeded\"", "dg-error: the key 'one'"));
    assert_in_range(retry_after(&h), 2, 60);
    close_fixture(&h);
}

static void only_harmless_request_ids_are_kept(void **state)
{
    static const struct {
        const char *given;
        bool kept;
    } ids[] = {
        {"abc-1_2.3:4", true}, {"", false}, {"a b", false}, {"a\"b", false}, {"\xc3\xa9", false}};
    char id[STENO_REQUEST_ID], long_one[STENO_REQUEST_ID + 1];
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct steno_handshake hs = {.request_id = ids[i].given};
        steno_ws_request_id(id, &hs, "own");
        assert_string_equal(id, ids[i].kept ? ids[i].given : "own");
    }
    memset(long_one, 'x', sizeof long_one);
    for (size_t n = STENO_REQUEST_ID; n >= STENO_REQUEST_ID - 1; n--) {
        struct steno_handshake hs = {.request_id = long_one};
        long_one[n] = '\0';
        steno_ws_request_id(id, &hs, "own");
        assert_string_equal(id, n == STENO_REQUEST_ID ? "own" : long_one);
    }
}

static void a_rush_logs_ten_lines_per_second(void **state)
{
    struct steno_log_ration r = {0};
    (void)state;
    for (int second = 5; second < 8; second++)
        for (int i = 0; i < 1000; i++)
            assert_int_equal(steno_log_ration_take(&r, second * INT64_C(1000000000) + i), i < 10);
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void a_client_that_sends_after_a_refused_head_still_reads_the_answer(void **state)
{
    struct fixture h;
    int fd;
    (void)state;
    open_fixture(&h, "", NULL);
    h.models.full = true;
    assert_false(send_handshake(&h, "/v1/stream", GOOD, "more", &fd));
    assert_non_null(strstr(h.answer, "HTTP/1.1 503 "));
    assert_int_equal(h.lingers, 1); /* closing at once would reset the connection */
    assert_int_equal(h.closed, 1);
    close_fixture(&h);
}

static void a_client_that_left_before_the_answer_leaves_nothing(void **state)
{
    static const char head[] = "GET /v1/stream HTTP/1.1\r\nConnection: Upgrade\r\n"
                               "Upgrade: websocket\r\n" GOOD "\r\n";
    const size_t n = sizeof head - 1;
    struct fixture h;
    struct steno_peer peer = {.len = 0};
    int pair[2];
    (void)state;
    open_fixture(&h, "", NULL);
    /* a refusal that nobody reads */
    h.models.full = true;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(send(pair[1], head, n, 0), n);
    close(pair[1]);
    assert_false(steno_ws_admit(&h.admission, pair[0], &peer, head, n, &h.handshake));
    assert_int_equal(h.closed, 1);
    assert_int_equal(fcntl(pair[0], F_GETFD), -1);
    /* the client leaves in the middle of its head: the models are not asked */
    h.models.full = false;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(send(pair[1], head, n / 2, 0), n / 2);
    close(pair[1]);
    assert_false(steno_ws_admit(&h.admission, pair[0], &peer, head, n, &h.handshake));
    assert_int_equal(h.closed, 2);
    assert_int_equal(h.models.acquired, 1);
    close_fixture(&h);
}

/* The acceptor's thread delivers the head, as in the daemon. */
struct listener {
    struct fixture fixture;
    steno_acceptor *acceptor;
    pthread_mutex_t lock;
    pthread_cond_t came;
    int in, others; /* descriptors: admitted, or of other paths; 0 = none yet */
};

static void on_head(void *user, int fd, const struct steno_peer *peer, const char *head, size_t len)
{
    struct listener *e = user;
    struct steno_peer who = *peer;
    bool ours = steno_ws_asked(&e->fixture.srv, peer, head, len);
    if (ours && !steno_ws_admit(&e->fixture.admission, fd, &who, head, len, &e->fixture.handshake))
        return;
    pthread_mutex_lock(&e->lock);
    *(ours ? &e->in : &e->others) = fd;
    pthread_cond_signal(&e->came);
    pthread_mutex_unlock(&e->lock);
}

static int wait_for(struct listener *e, const int *fd)
{
    struct timespec until;
    int got;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&e->lock);
    while (!*fd && pthread_cond_timedwait(&e->came, &e->lock, &until) != ETIMEDOUT)
        ;
    got = *fd;
    pthread_mutex_unlock(&e->lock);
    assert_true(got > 0);
    return got;
}

static int dial(const steno_acceptor *a)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    int port, fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(sscanf(steno_acceptor_url(a, 0), "http://127.0.0.1:%d", &port), 1);
    sin.sin_port = htons((uint16_t)port);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof sin), 0);
    return fd;
}

static void send_slowly(int fd, const char *text)
{
    for (size_t i = 0; text[i]; i++) {
        assert_int_equal(send(fd, text + i, 1, 0), 1);
        if (i % 16 == 0)
            usleep(1000);
    }
}

static void heads_in_pieces_are_answered_when_they_are_whole(void **state)
{
    static const char ours[] = "GET /v1/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                               "Upgrade: websocket\r\n" GOOD;
    static const char other[] = "GET /v2/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                                "Upgrade: websocket\r\n" GOOD "\r\nbehind";
    struct listener e = {0};
    struct fixture *h = &e.fixture;
    char got[512];
    int fd;
    (void)state;
    open_fixture(h, "server.listen=127.0.0.1:0", NULL);
    pthread_mutex_init(&e.lock, NULL);
    pthread_cond_init(&e.came, NULL);
    const struct steno_port_settings port = steno_config_port(&h->conf);
    assert_int_equal(steno_acceptor_open(&e.acceptor, &port, h->srv.stats, on_head, &e, NULL),
                     STENO_OK);
    h->models.full = true;
    assert_int_equal(steno_acceptor_start(e.acceptor, NULL), STENO_OK);
    fd = dial(e.acceptor);
    send_slowly(fd, ours);
    /* half a head gets no answer */
    assert_int_equal(poll(&(struct pollfd){fd, POLLIN, 0}, 1, 20), 0);
    send_slowly(fd, "\r\n");
    read_all(fd, got, sizeof got);
    assert_memory_equal(got, "HTTP/1.1 503 ", 13);
    close(fd);
    /* another path is passed on byte for byte */
    fd = dial(e.acceptor);
    send_slowly(fd, other);
    (void)wait_for(&e, &e.others);
    for (size_t n = 0; n < sizeof other - 1;) {
        ssize_t k = recv(e.others, got + n, sizeof got - n, 0);
        assert_true(k > 0 || errno == EAGAIN);
        n += k > 0 ? (size_t)k : 0;
    }
    assert_memory_equal(got, other, sizeof other - 1);
    close(fd);
    close(e.others);
    steno_acceptor_close(e.acceptor);
    pthread_mutex_destroy(&e.lock);
    pthread_cond_destroy(&e.came);
    close_fixture(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_handshakes_are_admitted),
        cmocka_unit_test(wrong_handshakes_are_told_why),
        cmocka_unit_test(a_key_is_found_in_every_usual_place),
        cmocka_unit_test(pages_of_others_are_refused_where_they_need_no_key),
        cmocka_unit_test(without_a_place_the_answer_is_503_with_retry_after),
        cmocka_unit_test(a_key_without_quota_gets_429_and_others_are_admitted),
        cmocka_unit_test(wrong_settings_are_left_to_the_session),
        cmocka_unit_test(resumed_sessions_need_no_place),
        cmocka_unit_test(deepgrams_clients_get_its_form),
        cmocka_unit_test(only_harmless_request_ids_are_kept),
        cmocka_unit_test(a_rush_logs_ten_lines_per_second),
        cmocka_unit_test(a_client_that_sends_after_a_refused_head_still_reads_the_answer),
        cmocka_unit_test(a_client_that_left_before_the_answer_leaves_nothing),
        cmocka_unit_test(heads_in_pieces_are_answered_when_they_are_whole),
    };
    return cmocka_run_group_tests_name("ws_admission", tests, NULL, NULL);
}
