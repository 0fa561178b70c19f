/* The acceptor of the one port: request heads in any split reach the right side; bad heads get
 * an answer or lose the connection. */
/* link: server/port/proxy.c server/port/tls.c server/port/listeners.c */
/* link: server/port/acceptor.c server/port/retry_spreader.c server/port/refusal.c */
/* link: server/port/head.c server/port/origin.c */
/* link: server/base/metrics.c server/base/stats.c server/core/config.c server/port/address.c */
/* link: server/base/log.c */

#include "server/core/config.h"
#include "server/port/acceptor.h"
#include "server/port/head.h"
#include "tests/support/read_all.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- heads ----------------------------------------------------------------------------------- */

static void upgrade_is_recognised(void **state)
{
    static const struct {
        const char *head;
        bool request, upgrade;
        const char *path;
    } heads[] = {
        /* RFC 6455, 1.2 */
        {"GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\n"
         "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
         "Sec-WebSocket-Version: 13\r\n\r\n",
         true, true, "/chat"},
        {"GET /s?a=1 HTTP/1.1\r\nupgrade:WebSocket\r\nconnection: keep-alive, Upgrade\r\n\r\n",
         true, true, "/s"},
        {"GET / HTTP/1.1\nUpgrade: h2c, websocket \nConnection:\tupgrade\n\n", true, true, "/"},
        {"POST / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", true, false, "/"},
        {"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", true, false, "/"},
        {"GET / HTTP/1.1\r\nConnection: Upgrade\r\n\r\n", true, false, "/"},
        {"GET / HTTP/1.1\r\nX-Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", true, false, "/"},
        {"GET / HTTP/1.1\r\nUpgrade: websockets\r\nConnection: Upgrade\r\n\r\n", true, false, "/"},
        {"GET / HTTP/1.1\r\nX: Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", true, false,
         "/"},
        {"garbage\r\n\r\n", false, false, ""},
        {"GET  HTTP/1.1\r\n\r\n", false, false, ""},
        {"GET / FTP/1.1\r\n\r\n", false, false, ""},
        {" / HTTP/1.1\r\n\r\n", false, false, ""},
        {"", false, false, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct steno_request_head h = {0};
        size_t n = strlen(heads[i].head);
        char *exact = malloc(n ? n : 1);
        memcpy(exact, heads[i].head, n);
        if (steno_request_head_parse(exact, n, &h) != heads[i].request)
            fail_msg("request: %s", heads[i].head);
        if (heads[i].request) {
            if (h.upgrade != heads[i].upgrade)
                fail_msg("upgrade: %s", heads[i].head);
            assert_int_equal(h.path_len, strlen(heads[i].path));
            assert_memory_equal(h.path, heads[i].path, h.path_len);
        }
        free(exact);
    }
}

/* RFC 9112, 3.2, 5.1, 5.2, 6.1 to 6.3; RFC 9110, 8.6: the length is 1*DIGIT. */
static void heads_that_readers_may_differ_about_are_known(void **state)
{
    static const struct {
        const char *headers;
        bool good;
    } cases[] = {
        {"", true},
        {"Content-Length: 0\r\n", true},
        {"content-length:\t17 \r\n", true},
        {"Content-Length: 17\n", true},
        {"Content-Length: 9223372036854775807\r\n", true},
        {"Transfer-Encoding: chunked\r\n", true},
        {"X-Content-Length: -1\r\nContent-Length-X: -1\r\n", true},
        {"Content-Length: -1\r\n", false},
        {"Content-Length: +1\r\n", false},
        {"Content-Length: 1 2\r\n", false},
        {"Content-Length: 0x10\r\n", false},
        {"Content-Length:\r\n", false},
        {"Content-Length: 9223372036854775808\r\n", false},
        {"Content-Length: 18446744073709551617\r\n", false},
        {"Content-Length: 5\r\nContent-Length: 5\r\n", false},
        {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", false},
        {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", false},
        {"Transfer-Encoding: Chunked \r\n", true},
        {"Transfer-Encoding: gzip, chunked\r\n", false},
        {"Transfer-Encoding: chunked, identity\r\n", false},
        {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", false},
        {"Transfer-Encoding:\r\n chunked\r\n", false},
        {"Content-Length : 5\r\n", false},
        {"X : y\r\n", false},
        {"X\ty: z\r\n", false},
        {" X: y\r\n", false},
        {": y\r\n", false},
        {"no colon\r\n", false},
        {"X: a\rb\r\n", false},
        {"X: \r\nX:\ty: \xE9\r\n", true},
        {"Host: h\r\n", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char head[192], *exact;
        int n =
            snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: h\r\n%s\r\n", cases[i].headers);
        exact = malloc((size_t)n);
        memcpy(exact, head, (size_t)n);
        if (!steno_request_head_framing(exact, (size_t)n) != cases[i].good)
            fail_msg("framing: %s", cases[i].headers);
        free(exact);
    }
    assert_non_null(steno_request_head_framing("GET / HTTP/1.1\r\n\r\n", 18));
    assert_null(steno_request_head_framing("GET / HTTP/1.0\r\n\r\n", 18));
    assert_non_null(steno_request_head_framing("GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", 37));
    assert_non_null(
        steno_request_head_framing("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 46));
}

/* ---- sockets --------------------------------------------------------------------------------- */

struct fixture {
    struct steno_config conf;
    struct steno_stats *stats;
    steno_acceptor *acceptor;
    int port;
    pthread_mutex_t lock;
    pthread_cond_t came;
    int n, fd[16];
    bool upgrade[16];
    struct steno_peer peer[16];
};

static void on_head(void *user, int fd, const struct steno_peer *peer, const char *head, size_t len)
{
    struct fixture *f = user;
    struct steno_request_head h = {0};
    bool ok = steno_request_head_parse(head, len, &h);
    pthread_mutex_lock(&f->lock);
    f->fd[f->n] = fd;
    f->peer[f->n] = *peer;
    f->upgrade[f->n++] = ok && h.upgrade;
    pthread_cond_signal(&f->came);
    pthread_mutex_unlock(&f->lock);
}

static void open_fixture(struct fixture *f, const char *setting)
{
    steno_err err;
    memset(f, 0, sizeof *f);
    assert_int_equal(steno_config_init(&f->conf, NULL), STENO_OK);
    assert_int_equal(
        steno_config_assign(&f->conf, "server.listen=127.0.0.1:0", STENO_CONFIG_FLAG, NULL),
        STENO_OK);
    if (setting)
        assert_int_equal(steno_config_assign(&f->conf, setting, STENO_CONFIG_FLAG, NULL), STENO_OK);
    f->stats = steno_stats_new();
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->came, NULL);
    const struct steno_port_settings port = steno_config_port(&f->conf);
    if (steno_acceptor_open(&f->acceptor, &port, f->stats, on_head, f, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(sscanf(steno_acceptor_url(f->acceptor, 0), "http://127.0.0.1:%d", &f->port),
                     1);
    assert_null(steno_acceptor_url(f->acceptor, 1));
    assert_int_equal(steno_acceptor_start(f->acceptor, NULL), STENO_OK);
}

static void close_fixture(struct fixture *f)
{
    steno_acceptor_close(f->acceptor);
    for (int i = 0; i < f->n; i++)
        close(f->fd[i]);
    steno_stats_free(f->stats);
    steno_config_free(&f->conf);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->came);
}

static int dial(const struct fixture *f)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof sin), 0);
    return fd;
}

static void wait_for(struct fixture *f, int n)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&f->lock);
    while (f->n < n)
        if (pthread_cond_timedwait(&f->came, &f->lock, &until) == ETIMEDOUT)
            fail_msg("only %d of %d connections were handed over", f->n, n);
    pthread_mutex_unlock(&f->lock);
}

/* Whether the connection becomes the nth. If not, it was refused and is closed. */
static bool handed_over(struct fixture *f, int fd, int n)
{
    struct pollfd p = {fd, POLLIN, 0};
    for (;;) {
        bool there, refused = poll(&p, 1, 10) == 1;
        pthread_mutex_lock(&f->lock);
        there = f->n >= n;
        pthread_mutex_unlock(&f->lock);
        if (there)
            return true;
        if (refused) {
            close(fd);
            usleep(50000);
            return false;
        }
    }
}

static const char plain[] = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
static const char upgrade[] =
    "GET /v1/stream HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

static void heads_in_pieces_keep_every_byte(void **state)
{
    struct fixture f;
    char got[sizeof plain];
    const size_t head = (size_t)(strstr(plain, "\r\n\r\n") - plain) + 4;
    int a, b;
    (void)state;
    open_fixture(&f, NULL);
    a = dial(&f);
    for (size_t i = 0; i < head - 1; i++) {
        assert_int_equal(send(a, plain + i, 1, 0), 1);
        if (i % 16 == 0)
            usleep(1000);
    }
    b = dial(&f); /* an unfinished head delays no other connection */
    assert_int_equal(send(b, upgrade, sizeof upgrade - 1, 0), (ssize_t)sizeof upgrade - 1);
    wait_for(&f, 1);
    assert_true(f.upgrade[0]);
    assert_int_equal(send(a, plain + head - 1, sizeof plain - head, 0), sizeof plain - head);
    wait_for(&f, 2);
    assert_false(f.upgrade[1]);
    usleep(20000);
    assert_int_equal(recv(f.fd[1], got, sizeof got, 0), sizeof plain - 1);
    assert_memory_equal(got, plain, sizeof plain - 1);
    close(a);
    close(b);
    close_fixture(&f);
}

static void slow_heads_are_answered_408_and_silent_ones_dropped(void **state)
{
    struct fixture f;
    char got[1024];
    int slow, silent;
    (void)state;
    open_fixture(&f, "limits.header_timeout=300ms");
    slow = dial(&f);
    silent = dial(&f);
    /* Single bytes do not extend the timeout. On a busy machine the answer may be there before the
     * next byte, which is lost then. */
    for (int i = 0; i < 4 && poll(&(struct pollfd){slow, POLLIN, 0}, 1, 50) == 0; i++)
        (void)!send(slow, &"GET /"[i], 1, MSG_NOSIGNAL);
    read_all(slow, got, sizeof got);
    assert_non_null(strstr(got, "HTTP/1.1 408 "));
    assert_non_null(strstr(got, "Connection: close"));
    read_all(silent, got, sizeof got);
    assert_string_equal(got, "");
    assert_int_equal(f.n, 0);
    assert_true(steno_metric_value(f.stats->sessions_rejected[STENO_REJECT_SLOW]) == 2);
    close(slow);
    close(silent);
    close_fixture(&f);
}

static void endless_heads_are_answered_431(void **state)
{
    static char big[40000];
    struct fixture f;
    char got[1024];
    int fd;
    (void)state;
    memset(big, 'x', sizeof big);
    memcpy(big, "GET / HTTP/1.1\r\nX: ", 19);
    open_fixture(&f, NULL);
    fd = dial(&f);
    assert_int_equal(send(fd, big, sizeof big, MSG_NOSIGNAL), sizeof big);
    read_all(fd, got, sizeof got);
    assert_non_null(strstr(got, "HTTP/1.1 431 "));
    assert_int_equal(f.n, 0);
    close(fd);
    close_fixture(&f);
}

static void connections_over_the_limit_get_503_at_once(void **state)
{
    struct fixture f;
    char got[1024];
    int fd[9];
    (void)state;
    open_fixture(&f, "limits.connections=8");
    for (int i = 0; i < 8; i++) {
        fd[i] = dial(&f);
        assert_int_equal(send(fd[i], plain, sizeof plain - 1, 0), sizeof plain - 1);
    }
    wait_for(&f, 8);
    fd[8] = dial(&f);
    read_all(fd[8], got, sizeof got);
    assert_non_null(strstr(got, "HTTP/1.1 503 "));
    assert_non_null(strstr(got, "Retry-After: 1\r\n"));
    close(fd[8]);
    /* one connection ends: there is room again */
    steno_acceptor_closed(f.acceptor, &f.peer[0]);
    fd[8] = dial(&f);
    assert_int_equal(send(fd[8], plain, sizeof plain - 1, 0), sizeof plain - 1);
    wait_for(&f, 9);
    for (int i = 0; i < 9; i++)
        close(fd[i]);
    close_fixture(&f);
}

static void silent_connections_are_closed_for_those_that_send(void **state)
{
    struct fixture f;
    char got[64];
    int silent[8], fd;
    (void)state;
    open_fixture(&f, "limits.connections=8");
    for (int i = 0; i < 8; i++)
        silent[i] = dial(&f);
    for (int i = 0; i < 3; i++) { /* refused until a silent connection is one second old */
        do {
            fd = dial(&f);
            (void)!send(fd, plain, sizeof plain - 1, MSG_NOSIGNAL);
        } while (!handed_over(&f, fd, i + 1));
        close(fd);
    }
    for (int i = 0; i < 3; i++) { /* the oldest connections, in order */
        read_all(silent[i], got, sizeof got);
        assert_string_equal(got, "");
    }
    assert_true(steno_metric_value(f.stats->sessions_rejected[STENO_REJECT_SLOW]) == 3);
    for (int i = 0; i < 8; i++)
        close(silent[i]);
    close_fixture(&f);
}

static void one_address_has_its_own_limit(void **state)
{
    struct fixture f;
    char got[1024];
    int a, b;
    (void)state;
    open_fixture(&f, "limits.connections_per_address=1");
    a = dial(&f);
    assert_int_equal(send(a, plain, sizeof plain - 1, 0), sizeof plain - 1);
    wait_for(&f, 1);
    b = dial(&f);
    read_all(b, got, sizeof got);
    assert_non_null(strstr(got, "too many connections from this address"));
    close(a);
    close(b);
    close_fixture(&f);
}

static void refused_requests_can_still_be_written_to_the_end(void **state)
{
    static char body[4 << 20];
    struct fixture f;
    char got[64];
    int fd;
    size_t sent = 0;
    (void)state;
    open_fixture(&f, NULL);
    fd = dial(&f);
    assert_int_equal(send(fd, plain, sizeof plain - 1, 0), sizeof plain - 1);
    wait_for(&f, 1);
    /* the handler answers without reading and hands the connection back */
    assert_int_equal(send(f.fd[0], "answer", 6, 0), 6);
    shutdown(f.fd[0], SHUT_WR);
    steno_acceptor_linger(f.acceptor, dup(f.fd[0]));
    close(f.fd[0]);
    f.fd[0] = -1;
    while (sent < sizeof body) {
        ssize_t n = send(fd, body + sent, sizeof body - sent, MSG_NOSIGNAL);
        if (n <= 0)
            fail_msg("after %zu bytes: %s", sent, strerror(errno));
        sent += (size_t)n;
    }
    read_all(fd, got, sizeof got);
    assert_string_equal(got, "answer");
    close(fd);
    close_fixture(&f);
}

static void port_in_use_is_named(void **state)
{
    struct fixture f;
    struct steno_config c;
    steno_acceptor *a;
    steno_err err;
    char setting[64], want[64];
    (void)state;
    open_fixture(&f, NULL);
    snprintf(setting, sizeof setting, "server.listen=127.0.0.1:%d", f.port);
    snprintf(want, sizeof want, "127.0.0.1:%d: Address already in use", f.port);
    assert_int_equal(steno_config_init(&c, NULL), STENO_OK);
    assert_int_equal(steno_config_assign(&c, setting, STENO_CONFIG_FLAG, NULL), STENO_OK);
    const struct steno_port_settings port = steno_config_port(&c);
    assert_int_equal(steno_acceptor_open(&a, &port, f.stats, on_head, &f, &err), STENO_ERR_IO);
    assert_string_equal(err.msg, want);
    steno_config_free(&c);
    close_fixture(&f);
}

/* Open an acceptor for a unix socket at path. */
static steno_status open_at(const char *path, steno_acceptor **a, struct fixture *f, steno_err *err)
{
    char setting[128];
    steno_status st;
    memset(f, 0, sizeof *f);
    snprintf(setting, sizeof setting, "server.listen=unix:%s", path);
    assert_int_equal(steno_config_init(&f->conf, NULL), STENO_OK);
    assert_int_equal(steno_config_assign(&f->conf, setting, STENO_CONFIG_FLAG, NULL), STENO_OK);
    f->stats = steno_stats_new();
    const struct steno_port_settings port = steno_config_port(&f->conf);
    st = steno_acceptor_open(a, &port, f->stats, on_head, f, err);
    if (!st)
        steno_acceptor_close(*a);
    steno_stats_free(f->stats);
    steno_config_free(&f->conf);
    return st;
}

static void only_the_file_of_a_dead_socket_is_replaced(void **state)
{
    char dir[] = "/tmp/steno-acceptor-XXXXXX";
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct fixture f;
    steno_acceptor *a;
    steno_err err;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    FILE *file;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(sun.sun_path, sizeof sun.sun_path, "%s/steno.sock", dir);
    assert_int_equal(bind(fd, (const struct sockaddr *)&sun, sizeof sun), 0);
    close(fd);
    assert_int_equal(open_at(sun.sun_path, &a, &f, &err), STENO_OK);
    assert_int_equal(access(sun.sun_path, F_OK), -1);
    file = fopen(sun.sun_path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(open_at(sun.sun_path, &a, &f, &err), STENO_ERR_IO);
    assert_non_null(strstr(err.msg, "Address already in use"));
    assert_int_equal(unlink(sun.sun_path), 0);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(upgrade_is_recognised),
        cmocka_unit_test(heads_in_pieces_keep_every_byte),
        cmocka_unit_test(heads_that_readers_may_differ_about_are_known),
        cmocka_unit_test(slow_heads_are_answered_408_and_silent_ones_dropped),
        cmocka_unit_test(endless_heads_are_answered_431),
        cmocka_unit_test(connections_over_the_limit_get_503_at_once),
        cmocka_unit_test(silent_connections_are_closed_for_those_that_send),
        cmocka_unit_test(one_address_has_its_own_limit),
        cmocka_unit_test(refused_requests_can_still_be_written_to_the_end),
        cmocka_unit_test(port_in_use_is_named),
        cmocka_unit_test(only_the_file_of_a_dead_socket_is_replaced),
    };
    return cmocka_run_group_tests_name("acceptor", tests, NULL, NULL);
}
