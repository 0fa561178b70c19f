#include "server/base/stats.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const api_names[] = {"openai",      "transcribe",      "listen",   "whisper_cpp",
                                        "whisper_asr", "detect_language", "speakers", "align",
                                        "job",         "stream",          "deepgram", "vosk",
                                        "sherpa",      "realtime",        "wyoming"};
static const char *const result_names[] = {"ok",      "bad",    "gone",    "timeout",
                                           "drained", "failed", "refused", "moved"};
static const char *const rejection_names[] = {"sessions",    "draining", "capacity", "loading",
                                              "key",         "origin",   "quota",    "memory",
                                              "connections", "address",  "slow",     "descriptors"};
static const char *const decode_names[] = {"empty", "format", "unsupported", "limit"};
_Static_assert(COUNT(api_names) == STENO_SESSION_APIS, "a name per api");
_Static_assert(COUNT(result_names) == STENO_SESSION_RESULTS, "a name per result");
_Static_assert(COUNT(rejection_names) == STENO_REJECTIONS, "a name per reason");
_Static_assert(COUNT(decode_names) == STENO_DECODE_ERRORS, "a name per decode error");

/* In a conversation people notice latencies between 50 ms and 2 s. */
static const double batch_bounds[] = {1, 2, 4, 8, 16, 32};
static const double latency_bounds[] = {.025, .05, .1,  .15, .2, .3, .4, .5,
                                        .75,  1,   1.5, 2,   3,  5,  10};
static const double factor_bounds[] = {.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2};
static const double wait_bounds[] = {.0001, .0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 5};

const char *steno_session_api_name(enum steno_session_api api)
{
    return (unsigned)api < STENO_SESSION_APIS ? api_names[api] : "";
}

const char *steno_session_result_name(enum steno_session_result result)
{
    return (unsigned)result < STENO_SESSION_RESULTS ? result_names[result] : "";
}

static void by_api(struct steno_stats *st, steno_metrics *m)
{
    char labels[96];
    for (int a = 0; a < STENO_SESSION_APIS; a++) {
        snprintf(labels, sizeof labels, "api=\"%s\"", api_names[a]);
        st->sessions_started[a] = steno_metrics_counter(m, "steno_sessions_started_total",
                                                        "Sessions that were admitted.", labels);
        st->sessions_active[a] =
            steno_metrics_gauge(m, "steno_sessions_active", "Sessions running now.", labels);
        st->received_seconds[a] =
            steno_metrics_counter(m, "steno_audio_received_seconds_total",
                                  "Audio received by sessions that ended, in seconds.", labels);
        st->dropped_seconds[a] = steno_metrics_counter(
            m, "steno_audio_dropped_seconds_total",
            "Received audio that was not recognised because its session was over, in seconds.",
            labels);
        st->audio_seconds[a] = steno_metrics_counter(m, "steno_audio_seconds_total",
                                                     "Audio recognised, in seconds.", labels);
        st->inference_seconds[a] =
            steno_metrics_counter(m, "steno_inference_seconds_total",
                                  "Time workers spent on recognition, in seconds.", labels);
        st->skipped_seconds[a] = steno_metrics_counter(
            m, "steno_vad_skipped_seconds_total",
            "Audio without speech that did not go through the network, in seconds.", labels);
        for (int r = 0; r < STENO_SESSION_RESULTS; r++) {
            snprintf(labels, sizeof labels, "api=\"%s\",result=\"%s\"", api_names[a],
                     result_names[r]);
            st->sessions_total[a][r] = steno_metrics_counter(
                m, "steno_sessions_total", "Sessions that ended, by result.", labels);
        }
        for (int r = 0; r < STENO_DECODE_ERRORS; r++) {
            snprintf(labels, sizeof labels, "api=\"%s\",reason=\"%s\"", api_names[a],
                     decode_names[r]);
            st->decode_errors[a][r] =
                steno_metrics_counter(m, "steno_audio_decode_errors_total",
                                      "Sessions whose audio could not be used.", labels);
        }
    }
    for (int end = 0; end < 2; end++) {
        snprintf(labels, sizeof labels, "end=\"%s\"", end ? "true" : "false");
        st->turn_answers[end] = steno_metrics_counter(
            m, "steno_turn_answers_total",
            "Pauses that the network for turns judged, in sessions that ended.", labels);
    }
    for (int r = 0; r < STENO_REJECTIONS; r++) {
        snprintf(labels, sizeof labels, "reason=\"%s\"", rejection_names[r]);
        st->sessions_rejected[r] =
            steno_metrics_counter(m, "steno_sessions_rejected_total",
                                  "Sessions and connections refused, by reason.", labels);
    }
}

static void add_histograms(struct steno_stats *st, steno_metrics *m)
{
    st->realtime_factor = steno_metrics_histogram(m, "steno_realtime_factor",
                                                  "Worker time divided by audio time, per session.",
                                                  "", factor_bounds, COUNT(factor_bounds));
    st->first_partial =
        steno_metrics_histogram(m, "steno_first_partial_seconds",
                                "From a stream's first audio to its first partial result.", "",
                                latency_bounds, COUNT(latency_bounds));
    st->partial_latency =
        steno_metrics_histogram(m, "steno_partial_latency_seconds",
                                "From the arrival of a partial's last audio until it is sent.", "",
                                latency_bounds, COUNT(latency_bounds));
    st->final_latency = steno_metrics_histogram(m, "steno_final_latency_seconds",
                                                "From the end of speech until its final is sent.",
                                                "", latency_bounds, COUNT(latency_bounds));
    st->queue_wait = steno_metrics_histogram(m, "steno_queue_wait_seconds",
                                             "Mean wait of a session's steps for a free worker.",
                                             "", wait_bounds, COUNT(wait_bounds));
    st->batch_size =
        steno_metrics_histogram(m, "steno_batch_size", "Streams per run of the network.", "",
                                batch_bounds, COUNT(batch_bounds));
    st->partial_revisions = steno_metrics_counter(
        m, "steno_partial_revisions_total", "Partial results that changed an earlier word.", "");
    st->ws_connections =
        steno_metrics_gauge(m, "steno_ws_connections", "Open WebSocket connections.", "");
    st->ws_waiting = steno_metrics_gauge(
        m, "steno_ws_sessions_waiting",
        "Running sessions without a connection, whose client may come back.", "");
    st->ws_resumed = steno_metrics_counter(m, "steno_ws_sessions_resumed_total",
                                           "Sessions resumed on another connection.", "");
    st->ws_send_queue = steno_metrics_gauge(m, "steno_ws_send_queue_bytes",
                                            "Results waiting for clients to read them.", "");
    st->ws_rx_paused = steno_metrics_counter(
        m, "steno_ws_rx_paused_total",
        "Times reading was paused because a client was ahead of the workers or did not read.", "");
    st->turn_seconds = steno_metrics_counter(
        m, "steno_turn_seconds_total", "Time workers spent on judging pauses, in seconds.", "");
    st->speakers_audio = steno_metrics_counter(m, "steno_speakers_audio_seconds_total",
                                               "Audio whose speakers were told apart.", "");
    st->speakers_cpu = steno_metrics_counter(m, "steno_speakers_cpu_seconds_total",
                                             "Processor time of telling speakers apart.", "");
    st->speakers_running =
        steno_metrics_gauge(m, "steno_speakers_running",
                            "Recordings and live sessions of which speakers are told.", "");
}

struct steno_stats *steno_stats_new(void)
{
    struct steno_stats *st = calloc(1, sizeof *st);
    if (!st)
        return NULL;
    st->registry = steno_metrics_new();
    if (!st->registry) {
        free(st);
        return NULL;
    }
    by_api(st, st->registry);
    add_histograms(st, st->registry);
    return st;
}

void steno_stats_free(struct steno_stats *st)
{
    if (!st)
        return;
    steno_metrics_free(st->registry);
    free(st);
}

void steno_stats_audio(struct steno_stats *st, enum steno_session_api api, double received,
                       double dropped, const struct steno_pool_stream_stats *ps, const char *trace)
{
    steno_metric_add(st->received_seconds[api], received);
    steno_metric_add(st->audio_seconds[api], ps->audio_seconds - ps->waiting_seconds);
    steno_metric_add(st->dropped_seconds[api], dropped + ps->waiting_seconds);
    steno_metric_add(st->inference_seconds[api], ps->inference_seconds);
    steno_metric_add(st->skipped_seconds[api], ps->skipped_seconds);
    steno_metric_add(st->turn_answers[0], (double)(ps->turn_answers - ps->turn_ends));
    steno_metric_add(st->turn_answers[1], (double)ps->turn_ends);
    steno_metric_add(st->turn_seconds, ps->turn_seconds);
    if (ps->audio_seconds > 0)
        steno_metric_observe_traced(st->realtime_factor, ps->inference_seconds / ps->audio_seconds,
                                    trace);
    if (ps->steps)
        steno_metric_observe_traced(st->queue_wait, ps->queue_wait_seconds / (double)ps->steps,
                                    trace);
}

struct steno_stats_totals steno_stats_totals(const struct steno_stats *st)
{
    struct steno_stats_totals t = {0};
    for (int a = 0; a < STENO_SESSION_APIS; a++) {
        t.started += steno_metric_value(st->sessions_started[a]);
        for (int r = 0; r < STENO_SESSION_RESULTS; r++)
            t.ended += steno_metric_value(st->sessions_total[a][r]);
        t.received += steno_metric_value(st->received_seconds[a]);
        t.recognised += steno_metric_value(st->audio_seconds[a]);
        t.dropped += steno_metric_value(st->dropped_seconds[a]);
    }
    return t;
}

void steno_stats_decode_error(struct steno_stats *st, enum steno_session_api api,
                              steno_status status)
{
    enum steno_decode_error e;
    switch (status) {
    case STENO_NEED_MORE:
        e = STENO_DECODE_EMPTY;
        break;
    case STENO_ERR_FORMAT:
        e = STENO_DECODE_FORMAT;
        break;
    case STENO_ERR_UNSUPPORTED:
    case STENO_ERR_INVAL:
        e = STENO_DECODE_UNSUPPORTED;
        break;
    case STENO_ERR_LIMIT:
        e = STENO_DECODE_LIMIT;
        break;
    default:
        return;
    }
    steno_metric_add(st->decode_errors[api][e], 1);
}
