/* A family is a name with its help and type; its series are in a list in the order of registration.
 * Values are doubles in 64-bit atomics. A compare-and-swap loop adds, so counters of seconds and of
 * events work alike, and counts are exact up to 2^53. The order is relaxed everywhere: a metric
 * publishes no other memory. */
#include "server/base/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define TOTAL "_total" /* what every counter's name ends with */

enum kind { COUNTER, GAUGE, HISTOGRAM };
static const char *const kind_names[] = {"counter", "gauge", "histogram"};

/* The last traced observation of a bucket. A writer that finds it taken leaves its own out. */
struct exemplar {
    atomic_flag taken;
    double value, at; /* at: s since 1970; 0: none yet */
    char trace[33];
};

struct steno_metric {
    struct steno_metric *next;
    char *labels;
    _Atomic uint64_t value; /* bits of a double; of a histogram: the sum */
    double (*read)(void *ctx);
    void *ctx;
    const double *bounds; /* of a histogram: [n_bounds] */
    size_t n_bounds;
    _Atomic uint64_t *counts;   /* [n_bounds + 1], not cumulative */
    struct exemplar *exemplars; /* [n_bounds + 1] */
};

struct family {
    struct family *next;
    char *name, *help;
    enum kind kind;
    struct steno_metric *first, *last;
};

struct steno_metrics {
    pthread_mutex_t lock; /* guards the lists */
    struct family *first, *last;
};

steno_metrics *steno_metrics_new(void)
{
    steno_metrics *m = calloc(1, sizeof *m);
    if (m)
        pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void series_free(struct steno_metric *s)
{
    if (!s)
        return;
    free(s->labels);
    free(s->counts);
    free(s->exemplars);
    free(s);
}

static void family_free(struct family *f)
{
    if (!f)
        return;
    for (struct steno_metric *s = f->first, *next; s; s = next) {
        next = s->next;
        series_free(s);
    }
    free(f->name);
    free(f->help);
    free(f);
}

void steno_metrics_free(steno_metrics *m)
{
    if (!m)
        return;
    for (struct family *f = m->first, *next; f; f = next) {
        next = f->next;
        family_free(f);
    }
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* The family of this name, made if needed. Lock held. */
static struct family *family_get(steno_metrics *m, const char *name, const char *help,
                                 enum kind kind)
{
    struct family *f;
    for (f = m->first; f; f = f->next)
        if (!strcmp(f->name, name))
            return f->kind == kind ? f : NULL;
    f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->kind = kind;
    f->name = strdup(name);
    f->help = strdup(help);
    if (!f->name || !f->help) {
        family_free(f);
        return NULL;
    }
    if (m->last)
        m->last->next = f;
    else
        m->first = f;
    m->last = f;
    return f;
}

static struct steno_metric *series_new(const char *labels, const double *bounds, size_t n)
{
    struct steno_metric *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->labels = strdup(labels);
    s->bounds = bounds;
    s->n_bounds = n;
    if (bounds)
        s->counts = calloc(n + 1, sizeof *s->counts);
    if (bounds)
        s->exemplars = calloc(n + 1, sizeof *s->exemplars);
    if (!s->labels || (bounds && (!s->counts || !s->exemplars))) {
        series_free(s);
        return NULL;
    }
    for (size_t i = 0; bounds && i <= n; i++)
        atomic_flag_clear(&s->exemplars[i].taken);
    return s;
}

static steno_metric *add_series(steno_metrics *m, enum kind kind, const char *name,
                                const char *help, struct steno_metric *s)
{
    struct family *f;
    if (!s)
        return NULL;
    pthread_mutex_lock(&m->lock);
    f = family_get(m, name, help, kind);
    if (f) {
        if (f->last)
            f->last->next = s;
        else
            f->first = s;
        f->last = s;
    }
    pthread_mutex_unlock(&m->lock);
    if (f)
        return s;
    series_free(s);
    return NULL;
}

steno_metric *steno_metrics_counter(steno_metrics *m, const char *name, const char *help,
                                    const char *labels)
{
    return add_series(m, COUNTER, name, help, series_new(labels, NULL, 0));
}

steno_metric *steno_metrics_gauge(steno_metrics *m, const char *name, const char *help,
                                  const char *labels)
{
    return add_series(m, GAUGE, name, help, series_new(labels, NULL, 0));
}

steno_metric *steno_metrics_histogram(steno_metrics *m, const char *name, const char *help,
                                      const char *labels, const double *bounds, size_t n)
{
    return add_series(m, HISTOGRAM, name, help, series_new(labels, bounds, n));
}

void steno_metrics_sample(steno_metrics *m, const char *name, const char *help, const char *labels,
                          bool counter, double (*read)(void *ctx), void *ctx)
{
    struct steno_metric *s = series_new(labels, NULL, 0);
    if (!s)
        return;
    s->read = read;
    s->ctx = ctx;
    (void)add_series(m, counter ? COUNTER : GAUGE, name, help, s);
}

static double from_bits(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint64_t to_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

void steno_metric_add(steno_metric *s, double v)
{
    uint64_t old;
    if (!s)
        return;
    old = atomic_load_explicit(&s->value, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&s->value, &old, to_bits(from_bits(old) + v),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

void steno_metric_set(steno_metric *s, double v)
{
    if (s)
        atomic_store_explicit(&s->value, to_bits(v), memory_order_relaxed);
}

static void keep_exemplar(struct exemplar *e, double v, const char *trace)
{
    struct timespec now;
    if (atomic_flag_test_and_set_explicit(&e->taken, memory_order_acquire))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    e->value = v;
    e->at = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    snprintf(e->trace, sizeof e->trace, "%s", trace);
    atomic_flag_clear_explicit(&e->taken, memory_order_release);
}

void steno_metric_observe(steno_metric *s, double v)
{
    steno_metric_observe_traced(s, v, NULL);
}

void steno_metric_observe_traced(steno_metric *s, double v, const char *trace)
{
    size_t i = 0;
    if (!s || !s->counts || isnan(v))
        return;
    while (i < s->n_bounds && v > s->bounds[i])
        i++;
    atomic_fetch_add_explicit(&s->counts[i], 1, memory_order_relaxed);
    steno_metric_add(s, v);
    if (trace && *trace)
        keep_exemplar(&s->exemplars[i], v, trace);
}

double steno_metric_value(const steno_metric *s)
{
    uint64_t n = 0;
    if (!s)
        return 0;
    if (s->read)
        return s->read(s->ctx);
    if (!s->counts)
        return from_bits(atomic_load_explicit(&s->value, memory_order_relaxed));
    for (size_t i = 0; i <= s->n_bounds; i++)
        n += atomic_load_explicit(&s->counts[i], memory_order_relaxed);
    return (double)n;
}

/* An exemplar, or nothing, before the line's end. */
static steno_status write_exemplar(struct steno_buf *out, struct exemplar *e)
{
    steno_status st = STENO_OK;
    if (atomic_flag_test_and_set_explicit(&e->taken, memory_order_acquire))
        return STENO_OK;
    if (e->at > 0)
        st = steno_buf_printf(out, " # {trace_id=\"%s\"} %.9g %.3f", e->trace, e->value, e->at);
    atomic_flag_clear_explicit(&e->taken, memory_order_release);
    return st;
}

static steno_status write_value(struct steno_buf *out, double v)
{
    if (isinf(v))
        return steno_buf_puts(out, v > 0 ? " +Inf\n" : " -Inf\n");
    if (isnan(v))
        return steno_buf_puts(out, " NaN\n");
    if (floor(v) == v && fabs(v) < 9007199254740992.0) /* 2^53 */
        return steno_buf_printf(out, " %.0f\n", v);
    return steno_buf_printf(out, " %.15g\n", v);
}

static steno_status write_name(struct steno_buf *out, const char *name, const char *suffix,
                               const char *labels, const char *more)
{
    if (!*labels && !*more)
        return steno_buf_printf(out, "%s%s", name, suffix);
    return steno_buf_printf(out, "%s%s{%s%s%s}", name, suffix, labels, *labels && *more ? "," : "",
                            more);
}

static steno_status write_histogram(struct steno_buf *out, const char *name,
                                    const struct steno_metric *s, bool open)
{
    uint64_t sum = 0;
    steno_status st = STENO_OK;
    for (size_t i = 0; i <= s->n_bounds && !st; i++) {
        char le[40] = "le=\"+Inf\"";
        if (i < s->n_bounds) /* OpenMetrics: the canonical form of a float has a point */
            snprintf(le, sizeof le, "le=\"%g%s\"", s->bounds[i],
                     open && floor(s->bounds[i]) == s->bounds[i] ? ".0" : "");
        sum += atomic_load_explicit(&s->counts[i], memory_order_relaxed);
        st = write_name(out, name, "_bucket", s->labels, le);
        if (!st)
            st = steno_buf_printf(out, " %llu", (unsigned long long)sum);
        if (!st && open)
            st = write_exemplar(out, &s->exemplars[i]);
        if (!st)
            st = steno_buf_puts(out, "\n");
    }
    if (!st)
        st = write_name(out, name, "_sum", s->labels, "");
    if (!st)
        st = write_value(out, from_bits(atomic_load_explicit(&s->value, memory_order_relaxed)));
    if (!st)
        st = write_name(out, name, "_count", s->labels, "");
    if (!st)
        st = steno_buf_printf(out, " %llu\n", (unsigned long long)sum);
    return st;
}

static steno_status write_family(struct steno_buf *out, const struct family *f, bool open)
{
    /* OpenMetrics: a counter's family is named without _total */
    const int n = (int)(strlen(f->name) - (open && f->kind == COUNTER ? sizeof TOTAL - 1 : 0));
    steno_status st = steno_buf_printf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", n, f->name, f->help,
                                       n, f->name, kind_names[f->kind]);
    for (const struct steno_metric *s = f->first; s && !st; s = s->next) {
        if (f->kind == HISTOGRAM) {
            st = write_histogram(out, f->name, s, open);
            continue;
        }
        st = write_name(out, f->name, "", s->labels, "");
        if (!st)
            st = write_value(out, steno_metric_value(s));
    }
    return st;
}

static steno_status write_metrics(steno_metrics *m, struct steno_buf *out, bool open)
{
    steno_status st = STENO_OK;
    pthread_mutex_lock(&m->lock);
    for (const struct family *f = m->first; f && !st; f = f->next)
        st = write_family(out, f, open);
    pthread_mutex_unlock(&m->lock);
    return st;
}

steno_status steno_metrics_write(steno_metrics *m, struct steno_buf *out)
{
    return write_metrics(m, out, false);
}

steno_status steno_metrics_write_open(steno_metrics *m, struct steno_buf *out)
{
    steno_status st = write_metrics(m, out, true);
    return st ? st : steno_buf_puts(out, "# EOF\n");
}

/* The weight q of a media range of an Accept header (RFC 9110, 12.4.2): the highest of equal ones;
 * -1: it is not named. Parameters of the range itself are not compared. */
static double weight_of(const char *accept, const char *media)
{
    const size_t n = strlen(media);
    double best = -1;
    for (const char *p = accept; *p; p += strcspn(p, ","), p += *p == ',') {
        double q = 1;
        p += strspn(p, " \t");
        if (strncasecmp(p, media, n) || !strchr(" \t;,", p[n]))
            continue;
        for (const char *s = p + n; *s && *s != ',';) {
            s += strcspn(s, ";,");
            if (*s == ';') {
                s += 1 + strspn(s + 1, " \t");
                if ((*s == 'q' || *s == 'Q') && s[1] == '=')
                    q = strtod(s + 2, NULL);
            }
        }
        best = q > best ? q : best;
    }
    return best;
}

bool steno_metrics_open_wanted(const char *accept)
{
    const double open = accept ? weight_of(accept, "application/openmetrics-text") : -1;
    return open > 0 && open >= weight_of(accept, "text/plain");
}
