/* The daemon's own series (names and labels: docs/metrics.md). steno_stats_new registers all of
 * them, with every label value they can have. Frozen after it; the series themselves are atomics.
 */
#ifndef STENO_SERVER_BASE_STATS_H
#define STENO_SERVER_BASE_STATS_H

#include "speech/pool/pool.h"
#include "server/base/metrics.h"
#include "steno.h"

/* Label api. */
enum steno_session_api {
    STENO_SESSION_OPENAI,      /* POST /v1/audio/transcriptions */
    STENO_SESSION_TRANSCRIBE,  /* POST /v1/transcribe */
    STENO_SESSION_LISTEN,      /* POST /v1/listen */
    STENO_SESSION_WHISPER_CPP, /* POST /inference */
    STENO_SESSION_WHISPER_ASR, /* POST /asr */
    STENO_SESSION_DETECT,      /* POST /detect-language */
    STENO_SESSION_ENROLL,      /* POST /v1/speakers */
    STENO_SESSION_ALIGN,       /* POST /v1/align */
    STENO_SESSION_JOB,         /* POST /v1/jobs; the audio of jobs that ran */
    STENO_SESSION_STREAM,      /* GET /v1/stream; this and the following are live */
    STENO_SESSION_DEEPGRAM,    /* GET /v1/listen */
    STENO_SESSION_VOSK,
    STENO_SESSION_SHERPA,
    STENO_SESSION_REALTIME, /* GET /v1/realtime */
    STENO_SESSION_WYOMING,  /* a connection to wyoming.listen */
    STENO_SESSION_APIS
};

static inline bool steno_session_is_live(enum steno_session_api api)
{
    return api >= STENO_SESSION_STREAM;
}

/* Label result of steno_sessions_total: how a session ended. */
enum steno_session_result {
    STENO_SESSION_OK,
    STENO_SESSION_BAD,     /* the client's fault: bad audio, bad message, over a limit */
    STENO_SESSION_GONE,    /* the client went away */
    STENO_SESSION_TIMEOUT, /* idle or too long */
    STENO_SESSION_DRAINED, /* ended by the server's shutdown */
    STENO_SESSION_FAILED,  /* the server's fault */
    STENO_SESSION_REFUSED, /* told to come back: no capacity, or its model is being loaded */
    STENO_SESSION_MOVED,   /* another machine goes on with it */
    STENO_SESSION_RESULTS
};

/* Label reason of steno_sessions_rejected_total. */
enum steno_rejection {
    STENO_REJECT_SESSIONS, /* limits.sessions or limits.uploads */
    STENO_REJECT_DRAINING,
    STENO_REJECT_CAPACITY,    /* the pool runs as many streams as the machine can carry */
    STENO_REJECT_LOADING,     /* the model is being loaded, or there is no memory for it now */
    STENO_REJECT_KEY,         /* no API key, or an unknown one */
    STENO_REJECT_ORIGIN,      /* a page of others, or a host that is not the server's */
    STENO_REJECT_QUOTA,       /* a key has used up its quota */
    STENO_REJECT_MEMORY,      /* limits.upload_bytes */
    STENO_REJECT_CONNECTIONS, /* limits.connections */
    STENO_REJECT_ADDRESS,     /* limits.per_address */
    STENO_REJECT_SLOW,        /* no request head within limits.header_timeout */
    STENO_REJECT_DESCRIPTORS, /* the process has no descriptors left */
    STENO_REJECTIONS
};

/* Label reason of steno_audio_decode_errors_total. */
enum steno_decode_error {
    STENO_DECODE_EMPTY,       /* no samples at all */
    STENO_DECODE_FORMAT,      /* STENO_ERR_FORMAT: not audio, damaged */
    STENO_DECODE_UNSUPPORTED, /* STENO_ERR_UNSUPPORTED, STENO_ERR_INVAL: rate, channels, codec */
    STENO_DECODE_LIMIT,       /* longer than limits.audio_seconds */
    STENO_DECODE_ERRORS
};

struct steno_stats {
    steno_metrics *registry;
    steno_metric *sessions_started[STENO_SESSION_APIS]; /* = active + total over all results */
    steno_metric *sessions_active[STENO_SESSION_APIS];
    steno_metric *sessions_total[STENO_SESSION_APIS][STENO_SESSION_RESULTS];
    steno_metric *sessions_rejected[STENO_REJECTIONS];
    /* Counted when a session ends. received = recognised (audio_seconds) + dropped, each counted in
     * its own place: where audio is decoded, in the pool, and where audio is dropped. */
    steno_metric *received_seconds[STENO_SESSION_APIS];
    steno_metric *audio_seconds[STENO_SESSION_APIS];
    steno_metric *dropped_seconds[STENO_SESSION_APIS];
    steno_metric *inference_seconds[STENO_SESSION_APIS]; /* worker time */
    steno_metric *skipped_seconds[STENO_SESSION_APIS];   /* audio without speech, not run */
    steno_metric *turn_answers[2]; /* of the network that judges turns: it goes on, it is over */
    steno_metric *turn_seconds;    /* worker time for them */
    steno_metric *realtime_factor; /* per session: inference / audio seconds */
    steno_metric *first_partial;   /* s from a stream's first audio to its first partial */
    steno_metric *partial_latency; /* s from arrival of a partial's last sample to sending */
    steno_metric *final_latency;   /* s from the end of speech to its final */
    steno_metric *queue_wait; /* s, mean per step of a session: from ready to taken by a worker */
    steno_metric *batch_size; /* streams in one run of the network */
    steno_metric *partial_revisions; /* partials that changed an earlier word */
    steno_metric *ws_connections;    /* gauge */
    steno_metric *ws_waiting;        /* gauge: sessions whose client may come back */
    steno_metric *ws_resumed;        /* sessions resumed on another connection */
    steno_metric *ws_send_queue;     /* gauge: bytes over all sessions */
    steno_metric *ws_rx_paused;      /* times a client was faster than the workers */
    steno_metric *speakers_audio;    /* s of audio that went through the networks of speakers */
    steno_metric *speakers_cpu;      /* s of processor time for that */
    steno_metric *speakers_running;  /* gauge: recordings that have a place for it, live sessions */
    steno_metric *decode_errors[STENO_SESSION_APIS][STENO_DECODE_ERRORS];
};

/* NULL when out of memory. */
struct steno_stats *steno_stats_new(void);
void steno_stats_free(struct steno_stats *st);
/* The label values "openai", "stream", ... */
const char *steno_session_api_name(enum steno_session_api api);
/* The label values "ok", "bad", ... */
const char *steno_session_result_name(enum steno_session_result result);
/* Count the audio of a session that ends. received, dropped: s that were decoded, and s that never
 * reached the pool. ps: statistics of its stream in the pool, before that is closed. trace: for
 * exemplars, as of steno_metric_observe_traced. */
void steno_stats_audio(struct steno_stats *st, enum steno_session_api api, double received,
                       double dropped, const struct steno_pool_stream_stats *ps, const char *trace);
/* Sums over all APIs; audio in s. When nothing runs, started = ended and received = recognised +
 * dropped. */
struct steno_stats_totals {
    double started, ended, received, recognised, dropped;
};
struct steno_stats_totals steno_stats_totals(const struct steno_stats *st);
/* Count a failed decode by its status. Statuses that are not decode errors are not counted. */
void steno_stats_decode_error(struct steno_stats *st, enum steno_session_api api,
                              steno_status status);

#endif
