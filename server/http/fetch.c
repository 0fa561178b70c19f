#include "server/http/fetch.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/threads.h"
#include "curl/libcurl.h"
#include "server/watch/trace.h"

#define REDIRECTS 3
#define CONNECT_SECONDS 10L
#define RESERVE_STEP (1u << 20)

struct steno_fetcher {
    const struct steno_config *conf;
    steno_limits *limits;
    struct libcurl curl;
    bool loaded;
    atomic_bool closing; /* relaxed: fetches look at it again and again */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    int running; /* locked */
};

struct fetch {
    steno_fetcher *f;
    void (*done)(void *user, struct steno_fetched *got);
    void *user;
    char url[STENO_FETCH_URL];
    struct steno_fetched got;
    const struct steno_fetch_sink *sink; /* NULL: got.body */
    CURL *handle;
    int64_t deadline;           /* of all hops */
    struct curl_slist *headers; /* of the trace; NULL: none */
};

/* ---- what is allowed ------------------------------------------------------------------------- */

bool steno_fetch_host_listed(const char *list, const char *host)
{
    const size_t len = strlen(host);
    struct steno_list_item it = steno_list_next(list);
    for (; it.n; it = steno_list_next(it.p + it.n)) {
        if (steno_list_is(it, "*") || (it.n == len && !strncasecmp(it.p, host, len)))
            return true;
        if (it.n > 2 && it.p[0] == '*' && it.p[1] == '.' && len > it.n - 1 &&
            !strncasecmp(it.p + 1, host + len - (it.n - 1), it.n - 1))
            return true;
    }
    return false;
}

/* RFC 6890 and later entries of IANA's registry of special-purpose addresses. */
static bool is_private_v4(uint32_t a)
{
    static const struct {
        uint32_t net;
        int bits;
    } nets[] = {{0x00000000, 8},  {0x0A000000, 8},  {0x64400000, 10}, {0x7F000000, 8},
                {0xA9FE0000, 16}, {0xAC100000, 12}, {0xC0000000, 24}, {0xC0000200, 24},
                {0xC0586300, 24}, {0xC0A80000, 16}, {0xC6120000, 15}, {0xC6336400, 24},
                {0xCB007100, 24}, {0xE0000000, 3}};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        if (!((a ^ nets[i].net) >> (32 - nets[i].bits)))
            return true;
    return false;
}

static uint32_t v4_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is_private_v6(const unsigned char a[16])
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    static const unsigned char nat64[12] = {0, 0x64, 0xFF, 0x9B};
    if (!memcmp(a, mapped, 12) || !memcmp(a, nat64, 12))
        return is_private_v4(v4_at(a + 12));
    if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
        return is_private_v4(v4_at(a + 2));
    return (a[0] & 0xE0) != 0x20 ||                      /* only 2000::/3 is for hosts of the net */
           (a[0] == 0x20 && a[1] == 0x01 && a[2] < 2) || /* Teredo and others */
           (a[0] == 0x20 && a[1] == 0x01 && a[2] == 0x0D && a[3] == 0xB8);
}

bool steno_fetch_is_private(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, a, sizeof in);
        return is_private_v4(ntohl(in.sin_addr.s_addr));
    }
    if (a->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        memcpy(&in, a, sizeof in);
        return is_private_v6(in.sin6_addr.s6_addr);
    }
    return true;
}

steno_status steno_fetch_check_url(const struct libcurl *curl, const char *hosts, bool https_only,
                                   const char *name, const char *url, steno_err *err)
{
    CURLU *u = curl->url();
    char *scheme = NULL, *host = NULL;
    steno_status st = STENO_OK;
    if (!u)
        return steno_fail(err, STENO_ERR_NOMEM, "%s: out of memory", name);
    if (curl->url_set(u, CURLUPART_URL, url, 0) || curl->url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
        curl->url_get(u, CURLUPART_HOST, &host, 0) ||
        ((https_only || strcmp(scheme, "http")) && strcmp(scheme, "https")))
        st = steno_fail(err, STENO_ERR_INVAL, "%s: must be %s with a host", name,
                        https_only ? "https" : "http or https");
    else if (!steno_fetch_host_listed(hosts, host))
        st = steno_fail(err, STENO_ERR_INVAL, "%s: this server %s that host", name,
                        strcmp(name, "url") ? "sends nothing to" : "fetches nothing from");
    curl->free(scheme);
    curl->free(host);
    curl->url_cleanup(u);
    return st;
}

static steno_status check_url(const steno_fetcher *f, const char *url, steno_err *err)
{
    return steno_fetch_check_url(&f->curl, f->conf->fetch_hosts, false, "url", url, err);
}

/* ---- one fetch ------------------------------------------------------------------------------- */

static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *a)
{
    const steno_fetcher *f = user;
    (void)purpose;
    if (!f->conf->fetch_private && steno_fetch_is_private(&a->addr))
        return CURL_SOCKET_BAD;
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static size_t on_body(char *p, size_t size, size_t n, void *user)
{
    struct fetch *t = user;
    struct steno_fetched *g = &t->got;
    n *= size;
    if (t->sink) {
        long code = 0;
        t->f->curl.easy_getinfo(t->handle, CURLINFO_RESPONSE_CODE, &code);
        return code != 200 || !t->sink->write(t->user, p, n, &g->err) ? n : 0;
    }
    if (n > g->body.max - g->body.len) {
        (void)steno_fail(&g->err, STENO_ERR_LIMIT, "url: larger than limits.body (%zu bytes)",
                         g->body.max);
        return 0;
    }
    while (g->reserved < g->body.len + n) {
        if (steno_limits_reserve(t->f->limits, RESERVE_STEP, &g->err))
            return 0;
        g->reserved += RESERVE_STEP;
    }
    if (steno_buf_add(&g->body, p, n)) {
        (void)steno_fail(&g->err, STENO_ERR_NOMEM, "url: out of memory");
        return 0;
    }
    return n;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct fetch *t = user;
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load_explicit(&t->f->closing, memory_order_relaxed) ||
           (t->sink && t->sink->stopped(t->user));
}

/* At least 1: for libcurl 0 is no limit. */
static long milliseconds_left(const struct fetch *t)
{
    const int64_t left = (t->deadline - steno_now_ns()) / 1000000;
    return left > 1 ? (long)left : 1;
}

static void set_options(struct fetch *t, CURL *c)
{
    const struct libcurl *l = &t->f->curl;
    l->easy_setopt(c, CURLOPT_URL, t->url);
    l->easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    l->easy_setopt(c, CURLOPT_PROXY, "");
    l->easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    l->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    l->easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    l->easy_setopt(c, CURLOPT_TIMEOUT_MS, milliseconds_left(t));
    l->easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    l->easy_setopt(c, CURLOPT_OPENSOCKETDATA, t->f);
    l->easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    l->easy_setopt(c, CURLOPT_WRITEDATA, t);
    l->easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    l->easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    l->easy_setopt(c, CURLOPT_XFERINFODATA, t);
    l->easy_setopt(c, CURLOPT_USERAGENT, "steno/" STENO_VERSION);
    l->easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
}

/* One hop. *next: where a redirect leads (libcurl's), or NULL. */
static steno_status get_hop(struct fetch *t, CURL *c, const char **next, steno_err *err)
{
    const struct libcurl *l = &t->f->curl;
    long code = 0;
    CURLcode rc;
    set_options(t, c);
    steno_buf_reset(&t->got.body);
    rc = l->easy_perform(c);
    *next = NULL;
    if (rc && t->got.err.code)
        return t->got.err.code;
    if (rc == CURLE_ABORTED_BY_CALLBACK)
        return steno_fail(err, STENO_ERR_CANCELLED, "url: the server is shutting down");
    if (rc) /* without the reason of libcurl: it may tell of hosts behind this one */
        return steno_fail(err, STENO_ERR_INVAL, "url: %s",
                          rc == CURLE_OPERATION_TIMEDOUT ? "it took longer than fetch.timeout"
                                                         : "it cannot be fetched");
    l->easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
    if (code >= 300 && code < 400)
        l->easy_getinfo(c, CURLINFO_REDIRECT_URL, next);
    if (code == 200 || *next)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL, "url: its server answers with %ld", code);
}

static steno_status get_all(struct fetch *t, CURL *c, steno_err *err)
{
    for (int hop = 0; hop <= REDIRECTS; hop++) {
        const char *next;
        char url[STENO_FETCH_URL];
        steno_status st = get_hop(t, c, &next, err);
        if (st || !next)
            return st;
        if (strlen(next) >= sizeof url)
            return steno_fail(err, STENO_ERR_INVAL, "url: it redirects to a URL that is too long");
        memcpy(url, next, strlen(next) + 1);
        st = check_url(t->f, url, err);
        if (st)
            return st;
        memcpy(t->url, url, sizeof url);
    }
    return steno_fail(err, STENO_ERR_INVAL, "url: more than %d redirects", REDIRECTS);
}

static void *run_fetcher(void *arg)
{
    struct fetch *t = arg;
    steno_fetcher *f = t->f;
    CURL *c = t->handle = f->curl.easy_init();
    steno_err err = {STENO_OK, ""};
    steno_status st =
        c ? get_all(t, c, &err) : steno_fail(&err, STENO_ERR_NOMEM, "url: out of memory");
    if (c)
        f->curl.easy_cleanup(c);
    if (st && !t->got.err.code)
        t->got.err = err;
    t->done(t->user, &t->got);
    f->curl.slist_free_all(t->headers);
    free(t);
    pthread_mutex_lock(&f->lock);
    f->running--;
    pthread_cond_broadcast(&f->idle);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

steno_status steno_fetcher_open(steno_fetcher **out, const struct steno_config *conf,
                                steno_limits *limits, steno_err *err)
{
    steno_fetcher *f = calloc(1, sizeof *f);
    steno_status st = STENO_OK;
    if (!f)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    f->conf = conf;
    f->limits = limits;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->idle, NULL);
    if (*conf->fetch_hosts) {
        st = libcurl_load(&f->curl, err);
        f->loaded = !st;
    }
    if (f->loaded && f->curl.global_init(CURL_GLOBAL_DEFAULT))
        st = steno_fail(err, STENO_ERR_INTERNAL, "libcurl cannot be set up");
    if (st) {
        steno_fetcher_close(f);
        return steno_fail_in(err, st, "fetch.hosts");
    }
    *out = f;
    return STENO_OK;
}

void steno_fetcher_stop(steno_fetcher *f)
{
    if (!f)
        return;
    atomic_store_explicit(&f->closing, true, memory_order_relaxed);
    pthread_mutex_lock(&f->lock);
    while (f->running)
        pthread_cond_wait(&f->idle, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

void steno_fetcher_close(steno_fetcher *f)
{
    if (!f)
        return;
    steno_fetcher_stop(f);
    pthread_cond_destroy(&f->idle);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static steno_status start_fetch(steno_fetcher *f, struct fetch *t, steno_err *err)
{
    pthread_t thread;
    steno_status st = STENO_OK;
    pthread_mutex_lock(&f->lock);
    if (atomic_load_explicit(&f->closing, memory_order_relaxed))
        st = steno_fail(err, STENO_ERR_CANCELLED, "url: the server is shutting down");
    else if (f->running >= STENO_FETCHES)
        st = steno_fail(err, STENO_ERR_BUSY, "url: %d recordings are being fetched", STENO_FETCHES);
    if (!st)
        st = steno_thread_start(&thread, "fetch", run_fetcher, t, err);
    if (!st) {
        f->running++;
        pthread_detach(thread);
    }
    pthread_mutex_unlock(&f->lock);
    return st;
}

steno_status steno_fetch_check(steno_fetcher *f, const char *url, steno_err *err)
{
    if (!f->loaded)
        return steno_fail(err, STENO_ERR_INVAL,
                          "url: this server fetches nothing (fetch.hosts is empty)");
    if (strlen(url) >= STENO_FETCH_URL)
        return steno_fail(err, STENO_ERR_INVAL, "url: longer than %d bytes", STENO_FETCH_URL - 1);
    return check_url(f, url, err);
}

steno_status steno_fetch_into(steno_fetcher *f, const char *url, const struct steno_trace *trace,
                              const struct steno_fetch_sink *sink,
                              void (*done)(void *user, struct steno_fetched *got), void *user,
                              steno_err *err)
{
    struct fetch *t;
    steno_status st = steno_fetch_check(f, url, err);
    if (st)
        return st;
    t = calloc(1, sizeof *t);
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "url: out of memory");
    t->f = f;
    t->done = done;
    t->user = user;
    t->sink = sink;
    t->deadline = steno_now_ns() + (int64_t)(f->conf->fetch_timeout * 1e9);
    memcpy(t->url, url, strlen(url) + 1);
    t->headers = steno_trace_add_headers(&f->curl, NULL, trace);
    steno_buf_init(&t->got.body, f->conf->body_bytes);
    st = start_fetch(f, t, err);
    if (st) {
        f->curl.slist_free_all(t->headers);
        free(t);
    }
    return st;
}

steno_status steno_fetch(steno_fetcher *f, const char *url, const struct steno_trace *trace,
                         void (*done)(void *user, struct steno_fetched *got), void *user,
                         steno_err *err)
{
    return steno_fetch_into(f, url, trace, NULL, done, user, err);
}
