/* Shared by the parts of steno-load: the plan, the users, the figures. One thread, plus the
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
#define LOAD_START_BYTES 900 /* limit of --start */
#define LOAD_KEY_BYTES 400
#define LOAD_WHEEL 4096 /* ms; the farthest that a user's next time can be */

struct load_plan {
    const char *url_text, *expect, *start, *key, *json, *label, *metrics_text;
    struct load_url url, metrics;
    /* Every file in every encoding; users go through them round robin. */
    struct clip clips[LOAD_MAX_CLIPS];
    int n_clips;
    int users, sessions, say, gap_ms, chunk_ms, think_ms, pid, drop_percent;
    double ramp, seconds; /* s */
    bool fast, retry, plain;
    double max_p99_ms, max_wer; /* < 0: not checked */
};

/* The outcome of a session. */
enum load_outcome {
    LOAD_OK,      /* transcript right, or unknown */
    LOAD_WRONG,   /* another transcript */
    LOAD_REFUSED, /* 429, 503, close 1013 */
    LOAD_FAILED,  /* anything else */
    LOAD_DROPPED, /* cut by us: planned, or on SIGINT */
    LOAD_OUTCOMES
};

struct load_run;
struct load_user {
    struct load_run *run;
    int number, session; /* from 0 */
    const struct clip *clip;
    int64_t due_ns; /* time of its next action */
    struct load_user *next_due;
    bool active, waiting; /* active: a session runs; waiting: in the wheel */
    struct load_ws ws;
    struct load_http http;
    uint32_t watched; /* epoll events of its socket; 0: none */
    int retry_after;  /* s, from the server's refusal; 0: absent */
    struct steno_buf said;
    /* of the current session */
    int64_t begun_ns, t0_ns, end_ns, dropped_at; /* dropped_at: in samples; 0 = never */
    int64_t *sent_ns;                            /* by chunk: when it was sent */
    size_t sent;                                 /* samples */
    int64_t segment, stable_segment;
    size_t known_words;
    struct steno_buf stable; /* text that the last partial of stable_segment declared stable */
    bool ready, error, had_partial;
};

struct load_point { /* one second of the run */
    double t, cpu_percent, rss_mib, batch;
    int active, descriptors;
};

struct load_run {
    const struct load_plan *plan;
    struct load_user *users;
    int epoll, signals; /* signals: signalfd of SIGINT and SIGTERM */
    bool interrupted;
    struct load_user *wheel[LOAD_WHEEL];
    int64_t t0_ns, wheel_ms, stop_ns; /* stop_ns: no session begins after it */
    int done;                         /* users that are finished */
    _Atomic int active;               /* running sessions */
    int outcomes[LOAD_OUTCOMES];
    /* Refused after the handshake, with close code 1013. */
    int refused_late;
    size_t words, word_errors;
    char *said[LOAD_MAX_CLIPS]; /* by clip: its last complete transcript; NULL: none */
    double audio_seconds;
    struct histogram first, partial, word, final, answer, late;
    int printed; /* complaints printed so far */
    struct process_usage before, after;
    double took; /* s */
    struct load_point *points;
    int n_points;
};

/* run.c */
STENO_MUST steno_status load_run(struct load_run *r, const struct load_plan *p, steno_err *err);
void load_run_free(struct load_run *r);
void load_at(struct load_user *u, int64_t ns); /* call its `due` then */
void load_watch(struct load_user *u, int fd, bool in_epoll, bool out);
void load_complain(struct load_user *u, const char *what);
/* End the session. With LOAD_OK the transcript is checked first. */
void load_session_over(struct load_user *u, enum load_outcome outcome);

/* stream_user.c and upload_user.c. begin: begin a session. due: its time has come. pump: its socket
 * is ready. idle: the same between sessions. cut: end the session at once. */
struct load_kind {
    void (*begin)(struct load_user *u);
    void (*due)(struct load_user *u, int64_t now);
    void (*pump)(struct load_user *u);
    void (*idle)(struct load_user *u);
    void (*cut)(struct load_user *u);
    void (*free)(struct load_user *u);
};
extern const struct load_kind load_streams, load_uploads;

/* observe.c: a thread that samples the server every second. */
struct load_observer;
STENO_MUST steno_status load_observe(struct load_observer **out, struct load_run *r,
                                     steno_err *err);
/* Stop the thread and give its points to the run. Accepts NULL. */
void load_observe_end(struct load_observer *o);

/* report.c: print to stdout and write JSON; returns the exit status. */
int load_report(const struct load_run *r);

#endif
