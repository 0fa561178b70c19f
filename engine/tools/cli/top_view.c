#include "tools/cli/top_view.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR 20 /* columns of a model's load */
#define MAX_BOUNDS 32

struct view {
    const json_t *now, *before; /* metrics */
    double seconds;
    struct steno_buf *out;
    steno_status st;
};

#define PUT(v, ...)                                                                                \
    do {                                                                                           \
        if (!(v)->st)                                                                              \
            (v)->st = steno_buf_printf((v)->out, __VA_ARGS__);                                     \
    } while (0)

/* ---- metrics ------------------------------------------------------------------------------- */

static double number_in_status(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

static bool is_of(const char *series, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(series, name, n) && (series[n] == '{' || !series[n]);
}

/* Sum over all series of this name whose labels have `label`. */
static double sum(const json_t *metrics, const char *name, const char *label)
{
    const char *series;
    json_t *v;
    double total = 0;
    json_object_foreach ((json_t *)(uintptr_t)metrics, series, v)
        if (is_of(series, name) && strstr(series, label))
            total += json_number_value(v);
    return total;
}

static double since(const struct view *v, const char *name, const char *label)
{
    return sum(v->now, name, label) - (v->before ? sum(v->before, name, label) : 0);
}

struct bucket {
    double bound, n;
};

static int by_bound(const void *a, const void *b)
{
    double x = ((const struct bucket *)a)->bound, y = ((const struct bucket *)b)->bound;
    return (x > y) - (x < y);
}

/* The quantile q of the histogram's observations between the two answers, interpolated within its
 * bucket. NaN when there are none; the last bound when it is above that. */
static double quantile(const struct view *v, const char *name, double q)
{
    struct bucket b[MAX_BOUNDS];
    char full[96];
    const char *series, *le;
    json_t *value;
    double want, below = 0, from = 0;
    int n = 0;
    snprintf(full, sizeof full, "%s_bucket", name);
    json_object_foreach ((json_t *)(uintptr_t)v->now, series, value) {
        if (n == MAX_BOUNDS || !is_of(series, full) || !(le = strstr(series, "le=\"")))
            continue;
        b[n].bound = strtod(le + 4, NULL); /* "+Inf" too */
        b[n++].n = json_number_value(value) - (v->before ? number_in_status(v->before, series) : 0);
    }
    qsort(b, (size_t)n, sizeof *b, by_bound);
    if (!n || !(b[n - 1].n > 0))
        return (double)NAN;
    want = q * b[n - 1].n;
    for (int i = 0; i < n; i++) {
        if (b[i].n >= want && isinf(b[i].bound))
            return from;
        if (b[i].n >= want)
            return from +
                   (b[i].bound - from) * (b[i].n > below ? (want - below) / (b[i].n - below) : 1);
        below = b[i].n;
        from = b[i].bound;
    }
    return from;
}

/* ---- lines --------------------------------------------------------------------------------- */

static void put_head(struct view *v, const json_t *root)
{
    long up = (long)(number_in_status(root, "now") - number_in_status(root, "started"));
    double cpu = v->seconds > 0 ? since(v, "process_cpu_seconds_total", "") / v->seconds : 0;
    const char *version = json_string_value(json_object_get(root, "version"));
    PUT(v, "stenod %s  up %ld:%02ld:%02ld  %s  cpu %.1f %%  memory %.0f MiB  descriptors %.0f\n",
        version ? version : "?", up / 3600, up / 60 % 60, up % 60,
        json_is_true(json_object_get(root, "draining")) ? "draining" : "serving", 100 * cpu,
        number_in_status(v->now, "process_resident_memory_bytes") / 1048576,
        number_in_status(v->now, "process_open_fds"));
}

static double live(const json_t *metrics)
{
    static const char *const apis[] = {"stream", "deepgram", "vosk", "sherpa", "realtime"};
    double n = 0;
    char label[48];
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        snprintf(label, sizeof label, "api=\"%s\"", apis[i]);
        n += sum(metrics, "steno_sessions_active", label);
    }
    return n;
}

static const json_t *model_before(const json_t *before, const char *name)
{
    size_t i;
    json_t *m;
    json_array_foreach (json_object_get(before, "models"), i, m)
        if (name && !strcmp(json_string_value(json_object_get(m, "name")), name))
            return m;
    return NULL;
}

/* The model's pool in the answer before, if it is the same pool: a reload makes a new one. */
static const json_t *pool_before(const json_t *m, const json_t *before)
{
    const json_t *m0 = model_before(before, json_string_value(json_object_get(m, "name")));
    return number_in_status(m, "generation") == number_in_status(m0, "generation")
               ? json_object_get(m0, "pool")
               : NULL;
}

/* Seconds of audio through the pools; the metric counts audio only when a session ends. */
static double audio_rate(const json_t *now, const json_t *before)
{
    double total = 0;
    size_t i;
    json_t *m;
    json_array_foreach (json_object_get(now, "models"), i, m)
        total += number_in_status(json_object_get(m, "pool"), "audio_seconds") -
                 number_in_status(pool_before(m, before), "audio_seconds");
    return total;
}

static void put_sessions(struct view *v, const json_t *root, const json_t *root0)
{
    double streams = live(v->now), all = sum(v->now, "steno_sessions_active", "");
    double s = v->seconds > 0 ? v->seconds : 1;
    PUT(v,
        "streams %.0f (%.0f waiting)  uploads %.0f  ended %.1f/s  badly %.1f/s  refused %.1f/s\n",
        streams, number_in_status(v->now, "steno_ws_sessions_waiting"), all - streams,
        since(v, "steno_sessions_total", "") / s,
        (since(v, "steno_sessions_total", "") - since(v, "steno_sessions_total", "result=\"ok\"") -
         since(v, "steno_sessions_total", "result=\"refused\"")) /
            s,
        since(v, "steno_sessions_rejected_total", "") / s);
    PUT(v, "audio %.1f s/s  connections %.0f  unread %.0f KiB  readers paused %.1f/s\n",
        audio_rate(root, root0) / s, number_in_status(v->now, "steno_ws_connections"),
        number_in_status(v->now, "steno_ws_send_queue_bytes") / 1024,
        since(v, "steno_ws_rx_paused_total", "") / s);
}

static void put_latency(struct view *v)
{
    static const struct {
        const char *name, *title;
    } rows[] = {{"steno_first_partial_seconds", "first partial"},
                {"steno_partial_latency_seconds", "partial"},
                {"steno_final_latency_seconds", "final"},
                {"steno_queue_wait_seconds", "wait for a worker"}};
    static const double q[] = {.5, .9, .99};
    PUT(v, "\n%-20s %8s %8s %8s %8s\n", "LATENCY ms", "p50", "p90", "p99", "count");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char count[96];
        PUT(v, "%-20s", rows[i].title);
        for (size_t k = 0; k < sizeof q / sizeof *q; k++) {
            double ms = 1e3 * quantile(v, rows[i].name, q[k]);
            if (isnan(ms))
                PUT(v, " %8s", "-");
            else
                PUT(v, " %8.1f", ms);
        }
        snprintf(count, sizeof count, "%s_count", rows[i].name);
        PUT(v, " %8.0f\n", since(v, count, ""));
    }
}

static void put_bar(struct view *v, double share)
{
    char bar[BAR + 1];
    int n = share >= 1 ? BAR : share > 0 ? (int)(share * BAR + 0.5) : 0;
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)n);
    bar[BAR] = '\0';
    PUT(v, "  %s", bar);
}

/* Print batches by size between the two answers. */
static void put_batches(struct view *v, const json_t *pool, const json_t *pool0)
{
    const json_t *b = json_object_get(pool, "batches"), *b0 = json_object_get(pool0, "batches");
    double n[16] = {0}, all = 0;
    size_t sizes = json_array_size(b) < 16 ? json_array_size(b) : 16;
    for (size_t i = 0; i < sizes; i++) {
        n[i] = json_number_value(json_array_get(b, i)) - json_number_value(json_array_get(b0, i));
        all += n[i];
    }
    PUT(v, "  batches");
    for (size_t i = 0; i < sizes && all > 0; i++)
        if (n[i] > 0)
            PUT(v, "  %s%d: %.0f %%", i > 1 ? "to " : "", 1 << i, 100 * n[i] / all);
    PUT(v, "%s\n", all > 0 ? "" : "  none");
}

static void put_model(struct view *v, const json_t *m, const json_t *pool0)
{
    const json_t *pool = json_object_get(m, "pool");
    const char *name = json_string_value(json_object_get(m, "name"));
    double capacity = number_in_status(pool, "capacity"), on = number_in_status(pool, "live");
    if (!pool) {
        PUT(v, "%-20.20s %4.0f  not loaded\n", name ? name : "?",
            number_in_status(m, "generation"));
        return;
    }
    PUT(v, "%-20.20s %4.0f %7.0f %8.0f", name ? name : "?", number_in_status(m, "generation"), on,
        capacity);
    put_bar(v, capacity > 0 ? on / capacity : 0);
    PUT(v, " %4.0f %% %5.0f %3.0f/%.0f %7.1f\n", capacity > 0 ? 100 * on / capacity : 0.0,
        number_in_status(pool, "ready"), number_in_status(pool, "busy"),
        number_in_status(pool, "workers"), number_in_status(m, "weight_bytes") / 1048576);
    put_batches(v, pool, pool0);
}

steno_status top_view(struct steno_buf *out, const json_t *now, const json_t *before,
                      double seconds, steno_err *err)
{
    struct view v = {json_object_get(now, "metrics"), json_object_get(before, "metrics"), seconds,
                     out, STENO_OK};
    size_t i;
    json_t *m;
    if (!json_is_object(v.now) || !json_is_array(json_object_get(now, "models")))
        return steno_fail(err, STENO_ERR_FORMAT, "not an answer of stenod");
    if (!before)
        v.seconds = number_in_status(now, "now") - number_in_status(now, "started");
    put_head(&v, now);
    put_sessions(&v, now, before);
    put_latency(&v);
    PUT(&v, "\n%-20s %4s %7s %8s  %-*s %6s %5s %5s %7s\n", "MODEL", "gen", "streams", "capacity",
        BAR, "load", "", "ready", "busy", "MiB");
    json_array_foreach (json_object_get(now, "models"), i, m)
        put_model(&v, m, pool_before(m, before));
    return v.st ? steno_fail(err, v.st, "out of memory") : STENO_OK;
}

steno_status top_fit(struct steno_buf *out, const char *text, int width, int rows, const char *end)
{
    steno_status st = STENO_OK;
    for (int i = 0; !st && *text && i < rows; i++) {
        size_t n = strcspn(text, "\n");
        st = steno_buf_add(out, text, n < (size_t)width ? n : (size_t)width);
        if (!st)
            st = steno_buf_puts(out, end);
        text += n + (text[n] == '\n');
    }
    return st;
}
