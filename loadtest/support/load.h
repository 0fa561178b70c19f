/* What the parts of steno-load share: the plan, the users, the figures. One thread but for the
 * observer (observe.c), which only reads atomics. */
#ifndef STENO_LOADTEST_LOAD_H
#define STENO_LOADTEST_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>

#include "loadtest/support/clip.h"
#include "loadtest/support/histogram.h"
#include "loadtest/support/http_client.h"
#include "loadtest/support/process.h"
#include "loadtest/support/ws_client.h"

#define LOAD_MAX_CLIPS 256
#define LOAD_START_BYTES 900 /* of --start */
#define LOAD_KEY_BYTES 400
#define LOAD_WHEEL 4096 /* ms; a user's next moment is never further away */

struct load_plan {
    const char *url_text, *expect, *start, *key, *json, *label, *metrics_text;
    struct load_url url, metrics;
    struct clip clips[LOAD_MAX_CLIPS]; /* every file in every encoding; users take them in turn */
    int n_clips;
    int users, sessions, say, gap_ms, chunk_ms, think_ms, pid, drop_percent;
    double ramp, seconds; /* s */
    bool fast, retry;
    double max_p99_ms, max_wer; /* < 0: not judged */
};

/* How a session went. Each is one of these. */
enum load_outcome {
    LOAD_OK,      /* transcript right, or not known */
    LOAD_WRONG,   /* another transcript */
    LOAD_REFUSED, /* 429, 503, close 1013 */
    LOAD_FAILED,  /* anything else */
    LOAD_DROPPED, /* cut by us, as planned or on SIGINT */
    LOAD_OUTCOMES
};

struct load_run;
struct load_user {
    struct load_run *run;
    int number, session; /* from 0 */
    const struct clip *clip;
    int64_t due_ns; /* its next moment */
    struct load_user *next_due;
    bool active, waiting; /* a session runs; in the wheel */
    struct load_ws ws;
    struct load_http http;
    uint32_t watched; /* epoll's events of its socket; 0 = none */
    int retry_after;  /* s; what the server said when it refused, 0 = nothing */
    struct steno_buf said;
    /* of the session */
    int64_t begun_ns, t0_ns, end_ns, dropped_at; /* dropped_at: in samples; 0 = never */
    int64_t *sent_ns;                            /* by chunk: when it left */
    size_t sent;                                 /* samples */
    int64_t segment;
    size_t known_words;
    bool ready, error, had_partial;
};

struct load_point { /* one second of the run */
    double t, cpu_percent, rss_mib, batch;
    int active, descriptors;
};

struct load_run {
    const struct load_plan *plan;
    struct load_user *users;
    int epoll, signals; /* signals: a signalfd of SIGINT and SIGTERM */
    bool interrupted;
    struct load_user *wheel[LOAD_WHEEL];
    int64_t t0_ns, wheel_ms, stop_ns; /* stop_ns: no session begins later */
    int done;                         /* users */
    _Atomic int active;               /* sessions */
    int outcomes[LOAD_OUTCOMES];
    int refused_late; /* of the refused: after the handshake, with close code 1013 */
    size_t words, word_errors;
    double audio_seconds;
    struct histogram first, partial, word, final, answer, late;
    int printed; /* of the complaints */
    struct process_usage before, after;
    double took; /* s */
    struct load_point *points;
    int n_points;
};

/* run.c */
STENO_MUST steno_status load_run(struct load_run *r, const struct load_plan *p, steno_err *err);
void load_run_free(struct load_run *r);
void load_at(struct load_user *u, int64_t ns); /* wake it then */
void load_watch(struct load_user *u, int fd, bool in_epoll, bool out);
void load_complain(struct load_user *u, const char *what);
/* The session is over; judges the transcript when outcome is LOAD_OK. */
void load_session_over(struct load_user *u, enum load_outcome outcome);

/* stream_user.c and upload_user.c: begin a session, what to do when its moment has come, when its
 * socket has something (idle: between sessions), end it where it is. */
struct load_kind {
    void (*begin)(struct load_user *u);
    void (*due)(struct load_user *u, int64_t now);
    void (*pump)(struct load_user *u);
    void (*idle)(struct load_user *u);
    void (*cut)(struct load_user *u);
    void (*free)(struct load_user *u);
};
extern const struct load_kind load_streams, load_uploads;

/* observe.c: a thread that looks at the server every second. */
struct load_observer;
STENO_MUST steno_status load_observe(struct load_observer **out, struct load_run *r,
                                     steno_err *err);
/* Stop; its points go to the run. NULL is fine. */
void load_observe_end(struct load_observer *o);

/* report.c: to stdout, and as JSON; the exit status. */
int load_report(const struct load_run *r);

#endif
