/* The queue is a ring of whole reports, made at open. A report is copied under the lock, and the
 * exporter copies up to BATCH of them out before it writes or sends anything, so the lock is held
 * for a few microseconds.
 *
 * A batch that the collector does not take for now (no connection, 429, 502, 503, 504: OTLP 1.x,
 * "Retryable Response Codes") is sent again after 1 and 2 s; then it is dropped and counted. The
 * collector's other refusals are not retried. */
#include "server/watch/trace.h"

#include "base/clock.h"
#include "base/threads.h"
#include "curl/libcurl.h"
#include "protocol/json_text.h"
#include "server/base/log.h"
#include "steno.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define QUEUE 1024          /* reports */
#define BATCH 128           /* in one request */
#define EVERY_NS 1000000000 /* a batch is sent after this time at the latest */
#define TRIES 3
#define SEND_MS 10000L /* for one request */
#define LAST_MS 2000L  /* at the end of the process */
#define BODY_MAX (4u << 20)

struct steno_tracer {
    struct libcurl curl;
    char *url, *headers; /* headers: OTEL_EXPORTER_OTLP_HEADERS; NULL: none */
    char service[96], instance[96];
    double sample;
    steno_metric *exported, *dropped_full, *dropped_failed;
    pthread_t thread;
    bool running, complained;
    struct steno_trace_report batch[BATCH]; /* of the thread */
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct steno_trace_report *ring; /* [QUEUE], locked; also below */
    size_t first, n;
    bool stop;
};

/* ---- ids ------------------------------------------------------------------------------------- */

static void random_id(unsigned char *out, size_t n)
{
    (void)!getrandom(out, n, 0); /* up to 256 bytes never fail once seeded: random(7) */
    out[n - 1] |= 1;             /* all zeros are not an id */
}

/* The share is taken from the trace's id, so that all servers of one share decide alike
 * (OpenTelemetry SDK, "TraceIdRatioBased"). */
static bool in_share(const unsigned char trace[16], double share)
{
    uint64_t v = 0;
    for (int i = 9; i < 16; i++) /* 56 bits, exact in a double */
        v = v << 8 | trace[i];
    return (double)v < share * 72057594037927936.0; /* 2^56 */
}

void steno_trace_begin(steno_tracer *t, const char *traceparent, const char *tracestate,
                       struct steno_trace *out)
{
    struct steno_traceparent given;
    memset(out, 0, sizeof *out);
    out->on = t;
    out->has_parent =
        traceparent && steno_traceparent_parse(traceparent, strlen(traceparent), &given);
    if (out->has_parent) {
        out->own = given;
        memcpy(out->parent, given.span, sizeof out->parent);
        if (tracestate)
            (void)steno_tracestate_parse(tracestate, strlen(tracestate), out->state);
    } else if (t) {
        random_id(out->own.trace, sizeof out->own.trace);
        out->own.sampled = in_share(out->own.trace, t->sample);
    }
    if (t)
        random_id(out->own.span, sizeof out->own.span);
}

void steno_trace_get_headers(const struct steno_trace *tr, struct steno_trace_headers *out)
{
    out->parent[0] = out->state[0] = '\0';
    if (!tr->on && !tr->has_parent)
        return;
    (void)steno_traceparent_write(&tr->own, out->parent);
    memcpy(out->state, tr->state, sizeof out->state);
}

struct curl_slist *steno_trace_add_headers(const struct libcurl *curl, struct curl_slist *list,
                                           const struct steno_trace *tr)
{
    struct steno_trace_headers h;
    const char *const lines[] = {"traceparent", h.parent, "tracestate", h.state};
    steno_trace_get_headers(tr, &h);
    for (size_t i = 0; i < 4; i += 2) {
        char line[STENO_TRACESTATE_SIZE + 16];
        struct curl_slist *longer;
        if (!*lines[i + 1])
            continue;
        snprintf(line, sizeof line, "%s: %s", lines[i], lines[i + 1]);
        longer = curl->slist_append(list, line);
        if (!longer) {
            curl->slist_free_all(list);
            return NULL;
        }
        list = longer;
    }
    return list;
}

const char *steno_trace_id(const struct steno_trace *tr, char *out)
{
    out[0] = '\0';
    return steno_trace_recorded(tr) ? steno_hex_write(tr->own.trace, 16, out) : out;
}

void steno_trace_client(struct steno_trace_report *r, const struct sockaddr_storage *addr)
{
    char text[STENO_ADDRESS_TEXT], *colon;
    const char *host = steno_address_print(addr, text);
    colon = addr->ss_family == AF_UNIX ? NULL : strrchr(text, ':');
    if (colon)
        colon[-(*host == '[')] = '\0';
    snprintf(r->client, sizeof r->client, "%.63s", host + (*host == '['));
}

/* ---- phases ---------------------------------------------------------------------------------- */

static int64_t at_most(int64_t t, int64_t end)
{
    return t < end ? t : end;
}

/* A sum of `seconds` as a span from start on. It may be longer than the request: channels of a live
 * session run at the same time. So it ends with the request, and `seconds` keeps the sum. */
static struct steno_phase_time sum_from(int64_t start, double seconds, int64_t end)
{
    start = at_most(start, end);
    return (struct steno_phase_time){start, at_most(start + (int64_t)(seconds * 1e9), end),
                                     seconds};
}

void steno_trace_pool_phases(struct steno_trace_report *r, const struct steno_pool_stream_stats *ps)
{
    struct steno_phase_time *p = r->phases;
    const double search = fmax(0, ps->inference_seconds - ps->network_seconds);
    if (!ps->opened_ns)
        return;
    p[STENO_PHASE_DECODE] =
        (struct steno_phase_time){at_most(ps->opened_ns, r->end_ns),
                                  at_most(ps->ended_ns ? ps->ended_ns : r->end_ns, r->end_ns), 0};
    if (!ps->first_step_ns)
        return;
    p[STENO_PHASE_QUEUE] = sum_from(ps->opened_ns, ps->queue_wait_seconds, r->end_ns);
    p[STENO_PHASE_NETWORK] = sum_from(ps->first_step_ns, ps->network_seconds, r->end_ns);
    p[STENO_PHASE_SEARCH] = sum_from(p[STENO_PHASE_NETWORK].end_ns, search, r->end_ns);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

struct writer {
    struct steno_buf *out;
    steno_status st;
    bool any; /* an attribute was written */
};

static void print_span(struct writer *w, const char *fmt, ...) STENO_PRINTF(2, 3);
static void print_span(struct writer *w, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!w->st)
        w->st = steno_buf_puts(w->out, text);
}

static void put_string(struct writer *w, const char *s)
{
    if (!w->st)
        w->st = steno_json_put_string(w->out, s, strlen(s));
}

static void begin_attribute(struct writer *w, const char *key)
{
    print_span(w, "%s{\"key\":\"%s\",\"value\":{", w->any ? "," : "", key);
    w->any = true;
}

static void put_attribute(struct writer *w, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    begin_attribute(w, key);
    print_span(w, "\"stringValue\":");
    put_string(w, value);
    print_span(w, "}}");
}

static void put_int(struct writer *w, const char *key, int64_t value)
{
    begin_attribute(w, key); /* 64-bit integers are strings (protobuf's JSON mapping) */
    print_span(w, "\"intValue\":\"%lld\"}}", (long long)value);
}

static void put_double(struct writer *w, const char *key, double value)
{
    begin_attribute(w, key);
    print_span(w, "\"doubleValue\":%.9g}}", value);
}

static void begin_span(struct writer *w, const unsigned char trace[16], const unsigned char span[8],
                       const unsigned char *parent, const char *name, int kind, int64_t start,
                       int64_t end)
{
    char hex[33];
    print_span(w, "{\"traceId\":\"%s\",", steno_hex_write(trace, 16, hex));
    print_span(w, "\"spanId\":\"%s\",", steno_hex_write(span, 8, hex));
    if (parent)
        print_span(w, "\"parentSpanId\":\"%s\",", steno_hex_write(parent, 8, hex));
    print_span(w, "\"name\":");
    put_string(w, name);
    print_span(w, ",\"kind\":%d,\"startTimeUnixNano\":\"%lld\",\"endTimeUnixNano\":\"%lld\",", kind,
               (long long)start, (long long)end);
    print_span(w, "\"attributes\":[");
    w->any = false;
}

static void put_root(struct writer *w, const struct steno_trace_report *r, int64_t offset)
{
    /* SPAN_KIND_SERVER, SPAN_KIND_CONSUMER, SPAN_KIND_CLIENT */
    static const int kinds[] = {
        [STENO_TRACE_REQUEST] = 2, [STENO_TRACE_RUN] = 5, [STENO_TRACE_CALLBACK] = 3};
    char name[96], code[16];
    if (r->kind == STENO_TRACE_REQUEST)
        snprintf(name, sizeof name, "%s %s", r->method, r->route);
    else
        snprintf(name, sizeof name, "job %s", r->kind == STENO_TRACE_RUN ? "run" : "callback");
    begin_span(w, r->trace.own.trace, r->trace.own.span,
               r->trace.has_parent ? r->trace.parent : NULL, name, kinds[r->kind],
               r->start_ns + offset, r->end_ns + offset);
    if (r->kind != STENO_TRACE_RUN)
        put_attribute(w, "http.request.method", r->method);
    if (r->kind == STENO_TRACE_REQUEST)
        put_attribute(w, "http.route", r->route);
    put_attribute(w, "client.address", r->client);
    if (r->status)
        put_int(w, "http.response.status_code", r->status);
    if (r->failed) {
        snprintf(code, sizeof code, "%d", r->status);
        put_attribute(w, "error.type",
                      r->status >= (r->kind == STENO_TRACE_CALLBACK ? 300 : 500) ? code : "failed");
    }
    put_attribute(w, "steno.api", r->api);
    put_attribute(w, "steno.model", r->model);
    put_attribute(w, "steno.key", r->key);
    put_attribute(w, "steno.request_id", r->request_id);
    put_attribute(w, "steno.session_id", r->id);
    put_attribute(w, "steno.job_id", r->job);
    put_attribute(w, "steno.result", r->result);
    if (r->close_code)
        put_int(w, "steno.close_code", r->close_code);
    if (r->kind != STENO_TRACE_CALLBACK)
        put_double(w, "steno.audio_seconds", r->audio_seconds);
    print_span(w, "],");
    if (*r->trace.state) {
        print_span(w, "\"traceState\":");
        put_string(w, r->trace.state);
        print_span(w, ",");
    }
    print_span(w, "\"status\":{%s}}", r->failed ? "\"code\":2" : "");
}

static const char *const phase_names[] = {"receive", "decode audio", "queue",
                                          "network", "search",       "answer"};
_Static_assert(sizeof phase_names / sizeof *phase_names == STENO_PHASES, "a name per phase");

static void put_phase(struct writer *w, const struct steno_trace_report *r, int phase,
                      int64_t offset)
{
    const struct steno_phase_time *p = &r->phases[phase];
    unsigned char id[8];
    random_id(id, sizeof id);
    print_span(w, ",");
    begin_span(w, r->trace.own.trace, id, r->trace.own.span, phase_names[phase],
               1 /* SPAN_KIND_INTERNAL */, p->start_ns + offset, p->end_ns + offset);
    if (phase >= STENO_PHASE_QUEUE && phase <= STENO_PHASE_SEARCH)
        put_double(w, "steno.seconds", p->seconds);
    print_span(w, "]}");
}

static void put_resource(struct writer *w, const char *service, const char *instance)
{
    char host[256] = "";
    w->any = false;
    (void)gethostname(host, sizeof host - 1);
    print_span(w, "{\"attributes\":[");
    put_attribute(w, "service.name", service);
    put_attribute(w, "service.version", steno_version());
    put_attribute(w, "service.instance.id", instance);
    put_attribute(w, "host.name", host);
    put_int(w, "process.pid", getpid());
    put_attribute(w, "telemetry.sdk.name", "stenod");
    put_attribute(w, "telemetry.sdk.language", "c");
    put_attribute(w, "telemetry.sdk.version", steno_version());
    print_span(w, "]}");
}

steno_status steno_trace_write(struct steno_buf *out, const char *service, const char *instance,
                               const struct steno_trace_report *reports, size_t n,
                               int64_t offset_ns, size_t *spans)
{
    struct writer w = {.out = out};
    *spans = 0;
    print_span(&w, "{\"resourceSpans\":[{\"resource\":");
    put_resource(&w, service, instance);
    print_span(&w,
               ",\"scopeSpans\":[{\"scope\":{\"name\":\"stenod\",\"version\":\"%s\"},\"spans\":[",
               steno_version());
    for (size_t i = 0; i < n; i++) {
        if (i)
            print_span(&w, ",");
        put_root(&w, &reports[i], offset_ns);
        ++*spans;
        for (int p = 0; p < STENO_PHASES; p++)
            if (reports[i].phases[p].start_ns) {
                put_phase(&w, &reports[i], p, offset_ns);
                ++*spans;
            }
    }
    print_span(&w, "]}]}]}");
    return w.st;
}

/* ---- sending --------------------------------------------------------------------------------- */

static size_t ignore_body(char *p, size_t size, size_t n, void *user)
{
    (void)p, (void)user;
    return size * n;
}

/* "name=value,name=value" (OpenTelemetry, "Specifying headers via environment variables"). */
static struct curl_slist *make_headers(struct steno_tracer *t)
{
    struct curl_slist *list = t->curl.slist_append(NULL, "Content-Type: application/json");
    char *copy = t->headers ? strdup(t->headers) : NULL, *rest = copy, *item;
    while (copy && (item = strsep(&rest, ","))) {
        char line[1024], *equals = strchr(item, '=');
        struct curl_slist *longer;
        if (!equals)
            continue;
        *equals = '\0';
        snprintf(line, sizeof line, "%.200s: %.800s", item + strspn(item, " "), equals + 1);
        longer = t->curl.slist_append(list, line);
        list = longer ? longer : list;
    }
    free(copy);
    return list;
}

/* Send once. False: *again tells whether a retry may help. */
static bool post(struct steno_tracer *t, const struct steno_buf *body, long ms, bool *again,
                 char *why, size_t size)
{
    CURL *h = t->curl.easy_init();
    struct curl_slist *headers = make_headers(t);
    CURLcode rc;
    long status = 0;
    *again = true;
    snprintf(why, size, "out of memory");
    if (!h || !headers) {
        t->curl.easy_cleanup(h);
        t->curl.slist_free_all(headers);
        return false;
    }
    t->curl.easy_setopt(h, CURLOPT_URL, t->url);
    t->curl.easy_setopt(h, CURLOPT_HTTPHEADER, headers);
    t->curl.easy_setopt(h, CURLOPT_POSTFIELDS, body->data);
    t->curl.easy_setopt(h, CURLOPT_POSTFIELDSIZE, (long)body->len);
    t->curl.easy_setopt(h, CURLOPT_TIMEOUT_MS, ms);
    t->curl.easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    t->curl.easy_setopt(h, CURLOPT_WRITEFUNCTION, ignore_body);
    rc = t->curl.easy_perform(h);
    if (!rc)
        t->curl.easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    if (rc)
        snprintf(why, size, "%s", t->curl.easy_strerror(rc));
    else
        snprintf(why, size, "status %ld", status);
    *again = rc || status == 429 || (status >= 502 && status <= 504);
    t->curl.easy_cleanup(h);
    t->curl.slist_free_all(headers);
    return !rc && status >= 200 && status < 300;
}

/* Sleep, or until the tracer closes. Lock not held. */
static bool sleep_on(struct steno_tracer *t, int64_t ns)
{
    const int64_t until = steno_now_ns() + ns;
    bool stop;
    pthread_mutex_lock(&t->lock);
    while (!t->stop && steno_now_ns() < until)
        (void)steno_cond_wait_until(&t->work, &t->lock, until);
    stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    return stop;
}

static void export_batch(struct steno_tracer *t, size_t n, bool last)
{
    struct timespec real;
    struct steno_buf body;
    char why[128] = "";
    size_t spans = 0;
    bool sent = false, again = true;
    steno_buf_init(&body, BODY_MAX);
    clock_gettime(CLOCK_REALTIME, &real);
    if (!steno_trace_write(&body, t->service, t->instance, t->batch, n,
                           (int64_t)real.tv_sec * 1000000000 + real.tv_nsec - steno_now_ns(),
                           &spans))
        for (int i = 0; i < TRIES && !sent && again; i++) {
            if (i && (last || (last = sleep_on(t, (int64_t)1000000000 << (i - 1)))))
                break;
            sent = post(t, &body, last ? LAST_MS : SEND_MS, &again, why, sizeof why);
        }
    steno_buf_free(&body);
    steno_metric_add(sent ? t->exported : t->dropped_failed, (double)spans);
    if (!sent && !t->complained)
        steno_log(LOG_WARNING, "tracing: %s takes no spans: %s", t->url, why);
    else if (sent && t->complained)
        steno_log(LOG_NOTICE, "tracing: %s takes spans again", t->url);
    t->complained = !sent;
}

/* Wait for a batch, at most EVERY_NS after its first report. False: closing, and nothing waits. */
static bool take_batch(struct steno_tracer *t, size_t *n, bool *last)
{
    int64_t until;
    pthread_mutex_lock(&t->lock);
    while (!t->n && !t->stop)
        pthread_cond_wait(&t->work, &t->lock);
    until = steno_now_ns() + EVERY_NS;
    while (t->n < BATCH && !t->stop && steno_now_ns() < until)
        (void)steno_cond_wait_until(&t->work, &t->lock, until);
    *n = t->n < BATCH ? t->n : BATCH;
    for (size_t i = 0; i < *n; i++)
        t->batch[i] = t->ring[(t->first + i) % QUEUE];
    t->first = (t->first + *n) % QUEUE;
    t->n -= *n;
    *last = t->stop;
    pthread_mutex_unlock(&t->lock);
    return *n || !*last;
}

static void *run_tracer(void *arg)
{
    struct steno_tracer *t = arg;
    bool last = false;
    int64_t end = 0; /* when closing must be done */
    size_t n;
    steno_thread_give_way();
    while (take_batch(t, &n, &last)) {
        if (last && !end)
            end = steno_now_ns() + LAST_MS * 1000000;
        if (last && steno_now_ns() > end)
            break;
        export_batch(t, n, last);
    }
    return NULL;
}

void steno_tracer_report(steno_tracer *t, const struct steno_trace_report *r)
{
    bool full;
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    full = t->n == QUEUE || t->stop;
    if (!full) {
        t->ring[(t->first + t->n++) % QUEUE] = *r;
        if (t->n == 1 || t->n == BATCH)
            pthread_cond_signal(&t->work);
    }
    pthread_mutex_unlock(&t->lock);
    if (full) {
        size_t spans = 1;
        for (int p = 0; p < STENO_PHASES; p++)
            spans += r->phases[p].start_ns != 0;
        steno_metric_add(t->dropped_full, (double)spans);
    }
}

/* ---- open and close -------------------------------------------------------------------------- */

static char *join_url(const char *base, bool whole)
{
    const size_t n = strlen(base);
    const char path[] = "/v1/traces";
    const bool has = n >= sizeof path - 1 && !strcmp(base + n - (sizeof path - 1), path);
    char *url = malloc(n + sizeof path);
    if (url)
        snprintf(url, n + sizeof path, "%.*s%s", (int)(n - (!whole && !has && base[n - 1] == '/')),
                 base, whole || has ? "" : path);
    return url;
}

static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* The collector's URL; NULL: none is set. *whole: it is used as it is. */
static const char *find_endpoint(const struct steno_config *conf, bool *whole)
{
    *whole = false;
    if (*conf->trace_endpoint)
        return conf->trace_endpoint;
    *whole = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    return *whole ? variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
                  : variable("OTEL_EXPORTER_OTLP_ENDPOINT");
}

static void register_series(struct steno_tracer *t, steno_metrics *m)
{
    t->exported = steno_metrics_counter(m, "steno_trace_spans_exported_total",
                                        "Spans that the collector took.", "");
    t->dropped_full =
        steno_metrics_counter(m, "steno_trace_spans_dropped_total",
                              "Spans that were lost, by reason.", "reason=\"queue_full\"");
    t->dropped_failed =
        steno_metrics_counter(m, "steno_trace_spans_dropped_total",
                              "Spans that were lost, by reason.", "reason=\"not_sent\"");
}

static steno_status open_tracer(struct steno_tracer *t, const struct steno_config *conf,
                                const char *endpoint, bool whole, steno_metrics *registry,
                                steno_err *err)
{
    unsigned char id[8];
    const char *service = variable("OTEL_SERVICE_NAME"), *headers;
    pthread_mutex_init(&t->lock, NULL);
    steno_cond_init(&t->work);
    if (strncmp(endpoint, "http://", 7) && strncmp(endpoint, "https://", 8))
        return steno_fail(err, STENO_ERR_INVAL, "'%.100s' is not a URL of http or https", endpoint);
    t->sample = conf->trace_sample;
    snprintf(t->service, sizeof t->service, "%s", service ? service : "stenod");
    random_id(id, sizeof id);
    steno_hex_write(id, sizeof id, t->instance);
    headers = variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS");
    if (!headers)
        headers = variable("OTEL_EXPORTER_OTLP_HEADERS");
    t->headers = headers ? strdup(headers) : NULL;
    t->url = join_url(endpoint, whole);
    t->ring = malloc(QUEUE * sizeof *t->ring);
    if (!t->url || !t->ring || (headers && !t->headers))
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    if (libcurl_load(&t->curl, err))
        return STENO_ERR_UNSUPPORTED;
    t->curl.global_init(CURL_GLOBAL_DEFAULT);
    register_series(t, registry);
    if (steno_thread_start(&t->thread, "tracer", run_tracer, t, err))
        return STENO_ERR_NOMEM;
    t->running = true;
    return STENO_OK;
}

steno_status steno_tracer_open(steno_tracer **out, const struct steno_config *conf,
                               steno_metrics *registry, steno_err *err)
{
    bool whole;
    const char *endpoint = find_endpoint(conf, &whole);
    struct steno_tracer *t;
    steno_status st;
    *out = NULL;
    if (!endpoint)
        return STENO_OK;
    t = calloc(1, sizeof *t);
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "out of memory");
    st = open_tracer(t, conf, endpoint, whole, registry, err);
    if (st) {
        steno_tracer_close(t);
        return st;
    }
    steno_log(LOG_NOTICE, "tracing: spans go to %s", t->url);
    *out = t;
    return STENO_OK;
}

void steno_tracer_close(steno_tracer *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->work);
    pthread_mutex_unlock(&t->lock);
    if (t->running) {
        pthread_join(t->thread, NULL);
        t->curl.global_cleanup();
    }
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    free(t->ring);
    free(t->url);
    free(t->headers);
    free(t);
}
