/* Traces in OpenTelemetry's form: one root span for each upload, request about jobs, live session,
 * refused handshake, run of a job and try of a callback, with child spans for its phases. Without
 * tracing.endpoint there is no tracer, and every call returns at once.
 *
 * A request holds a struct steno_trace, which costs nothing but its bytes. At its end one call
 * copies a report into a bounded queue. One thread takes reports in batches, writes them as JSON
 * (OTLP 1.x, "JSON Protobuf Encoding") and sends them by libcurl, which is loaded at open. A full
 * queue drops the report and counts it: requests never wait for the collector.
 *
 * Locked: steno_tracer.lock, any thread. */
#ifndef STENO_SERVER_WATCH_TRACE_H
#define STENO_SERVER_WATCH_TRACE_H

#include "base/buf.h"
#include "speech/pool/pool.h"
#include "server/base/metrics.h"
#include "server/core/config.h"
#include "server/port/address.h"
#include "server/watch/traceparent.h"

typedef struct steno_tracer steno_tracer;

/* Of one request or session. All zero: it is not traced. */
struct steno_trace {
    bool on;                      /* there is a tracer: the answer has traceparent */
    bool has_parent;              /* the client sent one; parent is its span. Without a tracer own
                                   * is the client's, to be passed on */
    struct steno_traceparent own; /* the trace, this server's span, whether it is recorded */
    unsigned char parent[8];
    char state[STENO_TRACESTATE_SIZE]; /* the client's tracestate, to be passed on; "": none */
};

enum steno_phase {
    STENO_PHASE_RECEIVE, /* from the head to the last byte of audio */
    STENO_PHASE_DECODE,  /* audio is decoded and handed to the pool */
    STENO_PHASE_QUEUE,   /* sum over steps: ready until a worker took it */
    STENO_PHASE_NETWORK, /* sum over steps: in networks */
    STENO_PHASE_SEARCH,  /* sum over steps: features, search, results */
    STENO_PHASE_ANSWER,  /* from the last result to the last byte sent */
    STENO_PHASES
};

/* Times are of steno_now_ns; 0 where a phase did not happen. */
struct steno_trace_report {
    struct steno_trace trace;
    int64_t start_ns, end_ns;
    struct steno_phase_time {
        int64_t start_ns, end_ns;
        double seconds; /* of a sum; 0: the phase is its interval */
    } phases[STENO_PHASES];
    enum steno_trace_kind {
        STENO_TRACE_REQUEST,
        STENO_TRACE_RUN,     /* of a job: method and route are not used */
        STENO_TRACE_CALLBACK /* likewise: a try; method is its own */
    } kind;
    const char *method, *route, *api; /* static strings */
    int status;                       /* HTTP status of the answer, 101 for a session; 0: none */
    int close_code;                   /* of a WebSocket; 0: none */
    bool failed;                      /* the server's fault */
    char result[24];                  /* "ok", ...: the label of steno_sessions_total; of a run the
                                       * job's state, or what became of the run; or "" */
    char id[72], request_id[72];      /* of the session; "" for uploads */
    char job[40];                     /* id; "": none */
    char model[64], key[48], client[64];
    double audio_seconds;
};

/* Open by conf->trace_endpoint, else by the environment's OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
 * OTEL_EXPORTER_OTLP_ENDPOINT. *out is NULL when none is set. STENO_ERR_UNSUPPORTED: no libcurl.
 * registry: gets the series of exported and dropped spans. */
STENO_MUST steno_status steno_tracer_open(steno_tracer **out, const struct steno_config *conf,
                                          steno_metrics *registry, steno_err *err);
/* Send what waits, at most 2 s, and join the thread. Accepts NULL. */
void steno_tracer_close(steno_tracer *t);

/* Begin the trace of a request. traceparent: the header's value; NULL or "": absent. A valid one
 * decides whether the trace is recorded, otherwise conf->trace_sample does. tracestate: likewise,
 * of several headers joined by commas; without a valid traceparent it is dropped. t NULL: only what
 * the client sent is kept. */
void steno_trace_begin(steno_tracer *t, const char *traceparent, const char *tracestate,
                       struct steno_trace *out);
/* What a request that is made on behalf of this one has in its headers: its traceparent and
 * tracestate. "": none. */
struct steno_trace_headers {
    char parent[STENO_TRACEPARENT_SIZE], state[STENO_TRACESTATE_SIZE];
};
void steno_trace_get_headers(const struct steno_trace *tr, struct steno_trace_headers *out);
/* Append them to a list for libcurl, which is freed when that fails: NULL. */
struct libcurl;
struct curl_slist;
struct curl_slist *steno_trace_add_headers(const struct libcurl *curl, struct curl_slist *list,
                                           const struct steno_trace *tr);
/* Whether a report would be used: the caller fills one only then. */
static inline bool steno_trace_recorded(const struct steno_trace *tr)
{
    return tr->on && tr->own.sampled;
}
/* The trace's id in hexadecimal for logs and exemplars, in out [33]; "" unless it is recorded. */
const char *steno_trace_id(const struct steno_trace *tr, char *out);
/* Write the host of an address to r->client. */
void steno_trace_client(struct steno_trace_report *r, const struct sockaddr_storage *addr);
/* Fill decode, queue, network and search from the statistics of the pool's streams. */
void steno_trace_pool_phases(struct steno_trace_report *r,
                             const struct steno_pool_stream_stats *ps);
/* Queue a report. r is copied. */
void steno_tracer_report(steno_tracer *t, const struct steno_trace_report *r);

/* Append n reports as one ExportTraceServiceRequest in JSON. offset_ns: CLOCK_REALTIME minus
 * CLOCK_MONOTONIC. *spans: their number. Pure; random ids of child spans apart. */
STENO_MUST steno_status steno_trace_write(struct steno_buf *out, const char *service,
                                          const char *instance,
                                          const struct steno_trace_report *reports, size_t n,
                                          int64_t offset_ns, size_t *spans);

#endif
