#include "server/jobs/job_hooks.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/threads.h"
#include "curl/libcurl.h"
#include "protocol/deepgram.h"
#include "server/base/log.h"
#include "server/http/request.h"
#include "server/jobs/job_json.h"
#include "server/watch/trace.h"

#include <openssl/hmac.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define THREADS 4
#define BODY_MAX (256u << 20)
#define CONNECT_SECONDS 10L
#define SECONDS 30L    /* of one try */
#define GUARD_MS 40000 /* no other thread, of any machine, takes a callback while one sends it */
#define HOUR_MS 3600000
#define TICK_MS 500
#define SECRET_MIN 16
#define SECRET_MAX 4096

struct steno_job_hooks {
    const struct steno_job_parts *parts;
    const struct steno_config *conf;
    struct libcurl curl;
    bool loaded;
    char *secret; /* NULL: callbacks are not signed */
    size_t secret_len;
    atomic_bool stopping; /* relaxed: looked at again and again */
    pthread_mutex_t lock; /* with the condition, for the sleep between two looks */
    pthread_cond_t wake;
    pthread_t threads[THREADS];
    int n_threads;
};

steno_status steno_job_sign(char out[STENO_SIGNATURE], const char *secret, size_t n,
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

int64_t steno_job_retry_delay(int64_t first_ms, int tries)
{
    for (; tries > 1 && first_ms < HOUR_MS; tries--)
        first_ms *= 2;
    return first_ms < HOUR_MS ? first_ms : HOUR_MS;
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static steno_status write_native(steno_job_queue *q, const struct steno_job_record *r,
                                 struct steno_buf *b, steno_err *err)
{
    steno_status st = steno_buf_printf(
        b, "{\"event_id\":\"%s\",\"type\":\"job.%s\",\"created\":%.3f,\"job\":", r->event,
        steno_job_state_name(r->state), (double)r->ended / 1000);
    if (!st)
        st = steno_job_json_write(b, r, false);
    if (!st && r->state == STENO_JOB_DONE) {
        st = steno_buf_puts(b, ",\"result\":");
        if (!st)
            st = q->ops->result(q, r->id, "json", b, err);
        if (!st && b->data[b->len - 1] == '\n')
            steno_buf_cut(b, b->len - 1);
    }
    return st ? st : steno_buf_puts(b, "}");
}

static steno_status write_body(steno_job_queue *q, const struct steno_job_record *r,
                               struct steno_buf *b, steno_err *err)
{
    if (r->form != STENO_JOB_DEEPGRAM)
        return write_native(q, r, b, err);
    if (r->state == STENO_JOB_DONE)
        return q->ops->result(q, r->id, "deepgram", b, err);
    return steno_deepgram_write_error(b, r->code, r->reason, r->id);
}

/* ---- one try --------------------------------------------------------------------------------- */

static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *a)
{
    const steno_job_hooks *h = user;
    (void)purpose;
    if (!h->conf->callback_private && steno_fetch_is_private(&a->addr))
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
    return atomic_load_explicit(&((steno_job_hooks *)user)->stopping, memory_order_relaxed);
}

/* Append a header; the list is freed when that fails. */
static struct curl_slist *add_header(steno_job_hooks *h, struct curl_slist *list, const char *name,
                                     const char *value)
{
    char line[256];
    struct curl_slist *more;
    snprintf(line, sizeof line, "%s: %s", name, value);
    more = h->curl.slist_append(list, line);
    if (!more)
        h->curl.slist_free_all(list);
    return more;
}

static struct curl_slist *make_headers(steno_job_hooks *h, const struct steno_job_record *r,
                                       const struct steno_trace *trace,
                                       const struct steno_buf *body)
{
    char text[STENO_SIGNATURE];
    struct curl_slist *list = add_header(h, NULL, "Content-Type", "application/json");
    if (list)
        list = add_header(h, list, "Steno-Event-Id", r->event);
    snprintf(text, sizeof text, "%d", r->callback_tries);
    if (list)
        list = add_header(h, list, "Steno-Event-Try", text);
    if (list)
        list = add_header(h, list, "Expect", ""); /* libcurl's would cost a round trip */
    if (list)
        list = steno_trace_add_headers(&h->curl, list, trace);
    if (!list || !h->secret)
        return list;
    if (steno_job_sign(text, h->secret, h->secret_len, steno_job_now() / 1000, body->data,
                       body->len)) {
        h->curl.slist_free_all(list);
        return NULL;
    }
    return add_header(h, list, "Steno-Signature", text);
}

static void set_options(steno_job_hooks *h, CURL *c, const struct steno_job_record *r,
                        const struct steno_buf *body, struct curl_slist *headers)
{
    const struct libcurl *l = &h->curl;
    l->easy_setopt(c, CURLOPT_URL, r->callback);
    l->easy_setopt(c, CURLOPT_PROTOCOLS_STR, h->conf->callback_http ? "http,https" : "https");
    l->easy_setopt(c, CURLOPT_PROXY, "");
    l->easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    l->easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    l->easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    l->easy_setopt(c, CURLOPT_TIMEOUT, SECONDS);
    l->easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    l->easy_setopt(c, CURLOPT_OPENSOCKETDATA, h);
    l->easy_setopt(c, CURLOPT_WRITEFUNCTION, discard);
    l->easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    l->easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    l->easy_setopt(c, CURLOPT_XFERINFODATA, h);
    l->easy_setopt(c, CURLOPT_USERAGENT, "steno/" STENO_VERSION);
    l->easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    l->easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
    l->easy_setopt(c, CURLOPT_POSTFIELDS, body->data);
    if (!strcmp(r->method, "PUT"))
        l->easy_setopt(c, CURLOPT_CUSTOMREQUEST, "PUT");
    if (*h->conf->callback_ca)
        l->easy_setopt(c, CURLOPT_CAINFO, h->conf->callback_ca);
}

/* Send a body. *code: of the answer. why [64] is "" when it was accepted; otherwise without
 * libcurl's reason, which may tell of hosts behind this one. */
static void post(steno_job_hooks *h, const struct steno_job_record *r,
                 const struct steno_trace *trace, const struct steno_buf *body, long *code,
                 char why[64])
{
    struct curl_slist *headers = make_headers(h, r, trace, body);
    CURL *c = headers ? h->curl.easy_init() : NULL;
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    *code = 0;
    if (c) {
        set_options(h, c, r, body, headers);
        rc = h->curl.easy_perform(c);
        if (!rc)
            h->curl.easy_getinfo(c, CURLINFO_RESPONSE_CODE, code);
        h->curl.easy_cleanup(c);
    }
    if (headers)
        h->curl.slist_free_all(headers);
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

/* A try is over: deliver, put back or give up. */
static void conclude(steno_job_hooks *h, const struct steno_job_record *r, long code,
                     const char *why)
{
    steno_job_queue *q = h->parts->queue;
    const int64_t now = steno_job_now();
    const int64_t first = (int64_t)(h->conf->callback_retry * 1000);
    const int64_t next = now + steno_job_retry_delay(first, r->callback_tries);
    enum steno_callback_state state = STENO_CALLBACK_PENDING;
    steno_metric *m = h->parts->metrics.callbacks_failed;
    steno_err err;
    if (!*why) {
        state = STENO_CALLBACK_DELIVERED;
        m = h->parts->metrics.callbacks_delivered;
    } else if (code == 410 || next > r->ended + (int64_t)(h->conf->callback_give_up * 1000)) {
        state = STENO_CALLBACK_DEAD;
        m = h->parts->metrics.callbacks_dead;
        steno_log(LOG_WARNING, "job %s: its callback is given up after %d tries: %s", r->id,
                  r->callback_tries, why);
    }
    steno_metric_add(m, 1);
    /* when this is lost, the callback is sent again, as another try */
    if (q->ops->callback_over(q, r->id, state, state == STENO_CALLBACK_PENDING ? next : 0, why,
                              &err))
        steno_log(LOG_ERR, "jobs: %s", err.msg);
}

static void trace_try(steno_job_hooks *h, const struct steno_job_record *r,
                      const struct steno_trace *trace, int64_t began, long code, const char *why)
{
    struct steno_trace_report t = {.trace = *trace,
                                   .start_ns = began,
                                   .end_ns = steno_now_ns(),
                                   .kind = STENO_TRACE_CALLBACK,
                                   .method = strcmp(r->method, "PUT") ? "POST" : "PUT",
                                   .api = steno_session_api_name(STENO_SESSION_JOB),
                                   .status = (int)code,
                                   .failed = *why};
    snprintf(t.job, sizeof t.job, "%s", r->id);
    snprintf(t.key, sizeof t.key, "%s", r->owner);
    snprintf(t.result, sizeof t.result, "%s", *why ? "failed" : "delivered");
    steno_tracer_report(h->parts->sv->srv->tracer, &t);
}

static void deliver_callback(steno_job_hooks *h, const struct steno_job_record *r)
{
    const int64_t began = steno_now_ns();
    struct steno_trace trace;
    struct steno_buf body;
    char why[64] = "the result cannot be read";
    long code = 0;
    steno_err err = {STENO_OK, ""};
    steno_buf_init(&body, BODY_MAX);
    steno_trace_begin(h->parts->sv->srv->tracer, r->traceparent, r->tracestate, &trace);
    if (!h->loaded) /* it was submitted when callbacks were allowed */
        snprintf(why, sizeof why, "jobs.callback_hosts is empty");
    else if (steno_job_hooks_check(h, r->callback, &err))
        snprintf(why, sizeof why, "this host is no longer allowed");
    else if (!write_body(h->parts->queue, r, &body, &err))
        post(h, r, &trace, &body, &code, why);
    steno_buf_free(&body);
    if (steno_trace_recorded(&trace))
        trace_try(h, r, &trace, began, code, why);
    conclude(h, r, code, why);
}

/* ---- the threads ----------------------------------------------------------------------------- */

static bool is_stopping(steno_job_hooks *h)
{
    return atomic_load_explicit(&h->stopping, memory_order_relaxed);
}

/* Sleep for a while, or until stop. */
static void pause_sending(steno_job_hooks *h)
{
    const int64_t until = steno_now_ns() + TICK_MS * INT64_C(1000000);
    pthread_mutex_lock(&h->lock);
    if (!is_stopping(h))
        (void)steno_cond_wait_until(&h->wake, &h->lock, until);
    pthread_mutex_unlock(&h->lock);
}

static void *run_hooks(void *arg)
{
    steno_job_hooks *h = arg;
    steno_job_queue *q = h->parts->queue;
    while (!is_stopping(h)) {
        struct steno_job_record r;
        const int64_t now = steno_job_now();
        steno_err err;
        steno_status st = q->ops->callback(q, now, now + GUARD_MS, &r, &err);
        if (st) {
            pause_sending(h);
            continue;
        }
        deliver_callback(h, &r);
        steno_job_record_free(&r);
    }
    return NULL;
}

steno_status steno_job_hooks_read_secret(const char *path, char **secret, size_t *len,
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

steno_status steno_job_hooks_open(steno_job_hooks **out, const struct steno_job_parts *parts,
                                  steno_err *err)
{
    steno_job_hooks *h = calloc(1, sizeof *h);
    steno_status st;
    if (!h)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    h->parts = parts;
    h->conf = parts->sv->srv->conf;
    pthread_mutex_init(&h->lock, NULL);
    steno_cond_init(&h->wake);
    st = *h->conf->callback_secret ? steno_job_hooks_read_secret(h->conf->callback_secret,
                                                                 &h->secret, &h->secret_len, err)
                                   : STENO_OK;
    if (st)
        (void)steno_fail_in(err, st, "jobs.callback_secret");
    if (!st && *h->conf->callback_hosts) {
        st = libcurl_load(&h->curl, err);
        h->loaded = !st;
        if (h->loaded && h->curl.global_init(CURL_GLOBAL_DEFAULT))
            st = steno_fail(err, STENO_ERR_INTERNAL, "libcurl cannot be set up");
        if (st)
            (void)steno_fail_in(err, st, "jobs.callback_hosts");
    }
    if (st) {
        steno_job_hooks_close(h);
        return st;
    }
    *out = h;
    return STENO_OK;
}

steno_status steno_job_hooks_start(steno_job_hooks *h, steno_err *err)
{
    for (; h->n_threads < THREADS; h->n_threads++) {
        steno_status st =
            steno_thread_start(&h->threads[h->n_threads], "callbacks", run_hooks, h, err);
        if (st)
            return st;
    }
    return STENO_OK;
}

void steno_job_hooks_stop(steno_job_hooks *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    atomic_store_explicit(&h->stopping, true, memory_order_relaxed);
    pthread_cond_broadcast(&h->wake);
    pthread_mutex_unlock(&h->lock);
    for (; h->n_threads; h->n_threads--)
        pthread_join(h->threads[h->n_threads - 1], NULL);
}

void steno_job_hooks_close(steno_job_hooks *h)
{
    if (!h)
        return;
    steno_job_hooks_stop(h);
    if (h->secret)
        explicit_bzero(h->secret, h->secret_len);
    free(h->secret);
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

steno_status steno_job_hooks_check(steno_job_hooks *h, const char *url, steno_err *err)
{
    if (!h->loaded)
        return steno_fail(err, STENO_ERR_INVAL,
                          "callback: this server sends none (jobs.callback_hosts is empty)");
    return steno_fetch_check_url(&h->curl, h->conf->callback_hosts, !h->conf->callback_http,
                                 "callback", url, err);
}
