/* Metrics in the Prometheus text format 0.0.4 (prometheus.io, exposition formats) and in
 * OpenMetrics 1.0, which adds exemplars: for each bucket of a histogram the last observation whose
 * request was traced, with the trace's id. A series is registered once, with its labels, and
 * appears from then on with value 0, so that every series exists from the start. Updates are
 * lock-free atomics with relaxed order: a scrape is a sample, not a snapshot. Locked: registration
 * and writing under one mutex, updates from any thread without it. stats.h has the daemon's own
 * series. */
#ifndef STENO_SERVER_BASE_METRICS_H
#define STENO_SERVER_BASE_METRICS_H

#include "base/buf.h"

typedef struct steno_metrics steno_metrics;
typedef struct steno_metric steno_metric; /* one series */

STENO_MUST steno_metrics *steno_metrics_new(void); /* NULL when out of memory */
void steno_metrics_free(steno_metrics *m);

/* Register a series. name: with prefix and unit ("steno_audio_seconds_total"). labels:
 * `api="stream"`, "" = none. Series of one name share the help of the first. NULL when out of
 * memory; updates of NULL do nothing. */
steno_metric *steno_metrics_counter(steno_metrics *m, const char *name, const char *help,
                                    const char *labels);
steno_metric *steno_metrics_gauge(steno_metrics *m, const char *name, const char *help,
                                  const char *labels);
/* bounds: [n] upper bounds, ascending, borrowed for the registry's life. +Inf is added. */
steno_metric *steno_metrics_histogram(steno_metrics *m, const char *name, const char *help,
                                      const char *labels, const double *bounds, size_t n);
/* Register a gauge or counter that is read at each scrape. */
void steno_metrics_sample(steno_metrics *m, const char *name, const char *help, const char *labels,
                          bool counter, double (*read)(void *ctx), void *ctx);

void steno_metric_add(steno_metric *s, double v);     /* counter: v >= 0; gauge: any */
void steno_metric_set(steno_metric *s, double v);     /* gauge */
void steno_metric_observe(steno_metric *s, double v); /* histogram; NaN is dropped */
/* The same, with a trace's id (32 hexadecimal digits) as exemplar; "" or NULL: none. */
void steno_metric_observe_traced(steno_metric *s, double v, const char *trace);
double steno_metric_value(const steno_metric *s); /* histogram: count of observations */

/* Append the whole page to out. STENO_ERR_LIMIT, STENO_ERR_NOMEM from the buffer. */
STENO_MUST steno_status steno_metrics_write(steno_metrics *m, struct steno_buf *out);
/* The same as OpenMetrics text 1.0. */
STENO_MUST steno_status steno_metrics_write_open(steno_metrics *m, struct steno_buf *out);
/* Whether an Accept header (NULL: absent) prefers OpenMetrics to the text format. Pure. */
bool steno_metrics_open_wanted(const char *accept);

#endif
