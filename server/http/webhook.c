#include "server/http/webhook.h"

#include "base/file.h"
#include "curl/libcurl.h"
#include "server/http/fetch.h"
#include "server/watch/trace.h"

#include <openssl/hmac.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#define CONNECT_SECONDS 10L
#define SECONDS 30L /* of one try */
#define HOUR_MS 3600000
#define SECRET_MIN 16
#define SECRET_MAX 4096

struct steno_webhooks {
    const struct steno_config *conf;
    struct libcurl curl;
    bool loaded;
    char *secret; /* NULL: webhooks are not signed */
    size_t secret_len;
    atomic_bool stopping; /* relaxed: looked at again and again */
};

steno_status steno_webhook_sign(char out[STENO_SIGNATURE], const char *secret, size_t n,
                                int64_t seconds, const char *body, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    struct steno_buf text;
    int at;
    steno_status st;
    steno_buf_init(&text, len + 32);
    st = steno_buf_printf(&text, "%lld.", (long long)seconds);
    if (!st)
        st = steno_buf_add(&text, body, len);
    if (!st && !HMAC(EVP_sha256(), secret, (int)n, (const unsigned char *)text.data, text.len,
                     digest, &size))
        st = STENO_ERR_INTERNAL;
    steno_buf_free(&text);
    if (st)
        return st;
    at = snprintf(out, STENO_SIGNATURE, "t=%lld,v1=", (long long)seconds);
    for (unsigned i = 0; i < size && at + 2 < STENO_SIGNATURE; i++) {
        out[at++] = hex[digest[i] >> 4];
        out[at++] = hex[digest[i] & 15];
    }
    out[at] = '\0';
    return STENO_OK;
}

int64_t steno_webhook_retry_delay(int64_t first_ms, int tries)
{
    for (; tries > 1 && first_ms < HOUR_MS; tries--)
        first_ms *= 2;
    return first_ms < HOUR_MS ? first_ms : HOUR_MS;
}

/* ---- one try --------------------------------------------------------------------------------- */

/* What libcurl's callbacks get. */
struct
try {
    const steno_webhooks *hooks;
    bool trusted;
};

static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *a)
{
    const struct try *t = user;
    (void)purpose;
    if (!t->trusted && !t->hooks->conf->callback_private && steno_fetch_is_private(&a->addr))
        return CURL_SOCKET_BAD;
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static size_t discard(char *p, size_t size, size_t n, void *user)
{
    (void)p, (void)user;
    return size * n;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load_explicit(&((const struct try *)user)->hooks->stopping, memory_order_relaxed);
}

/* Append a header; the list is freed when that fails. */
static struct curl_slist *add_header(steno_webhooks *w, struct curl_slist *list, const char *name,
                                     const char *value)
{
    char line[256];
    struct curl_slist *more;
    snprintf(line, sizeof line, "%s: %s", name, value);
    more = w->curl.slist_append(list, line);
    if (!more)
        w->curl.slist_free_all(list);
    return more;
}

static struct curl_slist *make_headers(steno_webhooks *w, const struct steno_webhook *m,
                                       const struct steno_trace *trace)
{
    char text[STENO_SIGNATURE];
    struct curl_slist *list = add_header(w, NULL, "Content-Type", "application/json");
    if (list)
        list = add_header(w, list, "Steno-Event-Id", m->event);
    snprintf(text, sizeof text, "%d", m->tries);
    if (list)
        list = add_header(w, list, "Steno-Event-Try", text);
    if (list)
        list = add_header(w, list, "Expect", ""); /* libcurl's would cost a round trip */
    if (list && trace)
        list = steno_trace_add_headers(&w->curl, list, trace);
    if (!list || !w->secret)
        return list;
    if (steno_webhook_sign(text, w->secret, w->secret_len, (int64_t)time(NULL), m->body, m->len)) {
        w->curl.slist_free_all(list);
        return NULL;
    }
    return add_header(w, list, "Steno-Signature", text);
}

static void set_options(const steno_webhooks *w, CURL *c, const struct steno_webhook *m,
                        struct try *t, struct curl_slist *headers)
{
    const struct libcurl *l = &w->curl;
    const bool http = m->trusted || w->conf->callback_http;
    l->easy_setopt(c, CURLOPT_URL, m->url);
    l->easy_setopt(c, CURLOPT_PROTOCOLS_STR, http ? "http,https" : "https");
    l->easy_setopt(c, CURLOPT_PROXY, "");
    l->easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    l->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    l->easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    l->easy_setopt(c, CURLOPT_TIMEOUT, SECONDS);
    l->easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    l->easy_setopt(c, CURLOPT_OPENSOCKETDATA, t);
    l->easy_setopt(c, CURLOPT_WRITEFUNCTION, discard);
    l->easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    l->easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    l->easy_setopt(c, CURLOPT_XFERINFODATA, t);
    l->easy_setopt(c, CURLOPT_USERAGENT, "steno/" STENO_VERSION);
    l->easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    l->easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)m->len);
    l->easy_setopt(c, CURLOPT_POSTFIELDS, m->body);
    if (!strcmp(m->method, "PUT"))
        l->easy_setopt(c, CURLOPT_CUSTOMREQUEST, "PUT");
    if (*w->conf->callback_ca)
        l->easy_setopt(c, CURLOPT_CAINFO, w->conf->callback_ca);
}

void steno_webhooks_send(steno_webhooks *w, const struct steno_webhook *m,
                         const struct steno_trace *trace, long *code, char why[64])
{
    struct try t = {w, m->trusted};
    struct curl_slist *headers = make_headers(w, m, trace);
    CURL *c = headers ? w->curl.easy_init() : NULL;
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    *code = 0;
    if (c) {
        set_options(w, c, m, &t, headers);
        rc = w->curl.easy_perform(c);
        if (!rc)
            w->curl.easy_getinfo(c, CURLINFO_RESPONSE_CODE, code);
        w->curl.easy_cleanup(c);
    }
    if (headers)
        w->curl.slist_free_all(headers);
    *why = '\0';
    if (rc)
        snprintf(why, 64, "%s",
                 rc == CURLE_ABORTED_BY_CALLBACK        ? "the server was stopped"
                 : rc == CURLE_OPERATION_TIMEDOUT       ? "no answer in time"
                 : rc == CURLE_PEER_FAILED_VERIFICATION ? "its certificate is not trusted"
                                                        : "it cannot be reached");
    else if (*code < 200 || *code > 299)
        snprintf(why, 64, "it answered %ld", *code);
}

/* ---- open, close ----------------------------------------------------------------------------- */

steno_status steno_webhooks_read_secret(const char *path, char **secret, size_t *len,
                                        steno_err *err)
{
    steno_status st = steno_file_read(path, SECRET_MAX, secret, len, err);
    if (st)
        return st;
    while (*len && strchr("\r\n", (*secret)[*len - 1]))
        --*len;
    if (*len >= SECRET_MIN)
        return STENO_OK;
    return steno_fail(err, STENO_ERR_INVAL, "%s: the secret is shorter than %d bytes", path,
                      SECRET_MIN);
}

steno_status steno_webhooks_open(steno_webhooks **out, const struct steno_config *conf, bool needed,
                                 steno_err *err)
{
    steno_webhooks *w = calloc(1, sizeof *w);
    steno_status st = STENO_OK;
    if (!w)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    w->conf = conf;
    if (*conf->callback_secret)
        st = steno_webhooks_read_secret(conf->callback_secret, &w->secret, &w->secret_len, err);
    if (st)
        (void)steno_fail_in(err, st, "jobs.callback_secret");
    if (!st && (needed || *conf->callback_hosts)) {
        st = libcurl_load(&w->curl, err);
        w->loaded = !st;
        if (w->loaded && w->curl.global_init(CURL_GLOBAL_DEFAULT))
            st = steno_fail(err, STENO_ERR_INTERNAL, "libcurl cannot be set up");
        if (st)
            (void)steno_fail_in(err, st, needed ? "calls.callback" : "jobs.callback_hosts");
    }
    if (st) {
        steno_webhooks_close(w);
        return st;
    }
    *out = w;
    return STENO_OK;
}

void steno_webhooks_stop(steno_webhooks *w)
{
    if (w)
        atomic_store_explicit(&w->stopping, true, memory_order_relaxed);
}

void steno_webhooks_close(steno_webhooks *w)
{
    if (!w)
        return;
    if (w->secret)
        explicit_bzero(w->secret, w->secret_len);
    free(w->secret);
    free(w);
}

bool steno_webhooks_allowed(const steno_webhooks *w)
{
    return w->loaded && *w->conf->callback_hosts;
}

steno_status steno_webhooks_check(const steno_webhooks *w, const char *url, steno_err *err)
{
    if (!steno_webhooks_allowed(w))
        return steno_fail(err, STENO_ERR_INVAL,
                          "callback: this server sends none (jobs.callback_hosts is empty)");
    return steno_fetch_check_url(&w->curl, w->conf->callback_hosts, !w->conf->callback_http,
                                 "callback", url, err);
}
