/* Many streams on a few threads: admission, a bounded input queue per stream, earliest deadline
 * first, steps of several streams as one batch, results through callbacks. Threads, but no I/O.
 *
 *     steno_pool_open(&p, model, &(struct steno_pool_options){.workers = 2}, &err);
 *     steno_pool_stream_open(&ps, p, &opt, on_note, session, &err);    BUSY: all places taken
 *     steno_pool_stream_push(ps, pcm, n, &taken, &err);                taken < n: wait for ROOM
 *     steno_pool_stream_end(ps);                                       ... finals ..., then DONE
 *     steno_pool_stream_close(ps);
 *
 * Locked: every function may be called from any thread, the callback included (but for pool_close).
 * Design and scheduling: docs/pool.md; lock order: docs/threads.md. */
#ifndef STENO_POOL_POOL_H
#define STENO_POOL_POOL_H

#include "steno.h"

typedef struct steno_pool steno_pool;
typedef struct steno_pool_stream steno_pool_stream;

/* Who goes first when there is more work than cores. A waiting step's deadline is the moment it
 * became ready plus the slack of its class; so nobody starves. */
enum steno_pool_class {
    STENO_POOL_LIVE,   /* somebody is listening: no slack */
    STENO_POOL_UPLOAD, /* a request that waits for its answer: 1 s, and what it has had, up to 30 s
                        */
    STENO_POOL_JOB,    /* background: 60 s */
    STENO_POOL_CLASSES
};

/* What a model costs on this machine, as measured when a pool was opened: for opening another one
 * without measuring again. All in seconds. */
#define STENO_POOL_BATCH_SIZES 6 /* batches of 1, 2, 4 ... 32 streams */
struct steno_pool_costs {
    double step[STENO_POOL_BATCH_SIZES]; /* one run of the network; INFINITY: not to be used */
    double host; /* per second of audio: features, search, everything but the network */
};

struct steno_pool_options {
    int workers;           /* threads that run networks; 0 = processors this process may use */
    int max_streams;       /* admitted at once; 0 = 256 */
    double buffer_seconds; /* audio that may wait in one stream; 0 = 4 */
    int batch;             /* most streams of one batch, 1 to 32; 0 = the measured best, 1 = off */
    double batch_wait;     /* s: a step waits for company no longer; 0 = 0.02, < 0 = not at all */
    double batch_run;      /* s: no batch size that takes longer; 0 = 0.1 */
    int capacity;          /* live streams; 0 = as measured, < 0 = max_streams */
    const struct steno_pool_costs *costs; /* NULL: measure now */
    /* After each run of the network for a batch, on a worker's thread without a lock; or NULL. */
    void (*on_batch)(void *user, size_t streams);
    void *user;
    struct steno_stream_options trial; /* what live streams will ask for: they are measured so */
    /* Once, where costs is NULL (and, for streams with networks of their own, the capacity is
     * open): what was measured (NULL: it failed), and how much longer that took than the processor
     * worked for it. While the pool opens, or, where streams run networks of their own and it takes
     * long, on a thread of the pool's afterwards: then `each` is what a live stream takes of a
     * processor, else 0; or NULL. */
    void (*on_measured)(void *user, const struct steno_pool_costs *costs, double slowed,
                        double each);
    void *measured_user;
};

enum steno_pool_note_kind {
    STENO_POOL_EVENT, /* event: a result */
    STENO_POOL_ROOM,  /* after a push that took less than all: at least half the buffer is free */
    STENO_POOL_FINALIZED, /* every event of one steno_pool_stream_finalize has been delivered */
    STENO_POOL_DONE       /* the stream is over; the last note. status: OK after end, CANCELLED
                             after cancel, else what failed, with the message in err */
};

struct steno_pool_stream_stats {
    double audio_seconds; /* pushed so far, */
    double
        waiting_seconds; /* and of that not yet taken by a worker (steno_pool_stream_get_stats) */
    double inference_seconds;  /* time workers spent on this stream */
    double queue_wait_seconds; /* sum over steps: ready until taken by a worker */
    double queue_wait_max;
    double skipped_seconds; /* audio that no network heard, by the options' vad */
    uint64_t steps;         /* times a worker took the stream */
};

struct steno_pool_note {
    enum steno_pool_note_kind kind;
    const struct steno_event *event; /* valid during the call */
    double latency;                  /* EVENT: s since the push that brought its last sample */
    steno_status status;
    const steno_err *err;
    struct steno_pool_stream_stats stats; /* as of now */
};

/* Runs on a worker thread without any lock of the pool held; notes of one stream come in order and
 * never two at a time. It should hand the news over and return: the worker waits for it. */
typedef void (*steno_pool_fn)(void *user, steno_pool_stream *ps,
                              const struct steno_pool_note *note);

/* The model must outlive the pool. opt may be NULL. */
STENO_API STENO_MUST steno_status steno_pool_open(steno_pool **out, steno_model *m,
                                                  const struct steno_pool_options *opt,
                                                  steno_err *err);
/* Cancel what runs, join the workers, release. No other call may run then. Every stream should be
 * closed before; those which are not get DONE (CANCELLED) and stay valid until closed. Not from a
 * callback. */
STENO_API void steno_pool_close(steno_pool *p);

struct steno_pool_stream_options {
    struct steno_stream_options stream;
    enum steno_pool_class priority;
    uint64_t owner; /* whose it is (a hash of the API key): owners take turns; 0 = nobody's */
    bool always;    /* not counted against the capacity: a canary */
};

/* Would a stream of this class find a place now? STENO_ERR_BUSY with the reason if not: for a
 * refusal before anything is opened or received. For a live one the place is kept for a second or
 * two, so that many who ask at once are not all told of the same one. */
STENO_API STENO_MUST steno_status steno_pool_admit(steno_pool *p, enum steno_pool_class c,
                                                   steno_err *err);
/* Take a place. STENO_ERR_BUSY when there is none: all max_streams are taken, or, for a live
 * stream, as many live ones run as the machine has shown it can carry. opt may be NULL. */
STENO_API STENO_MUST steno_status steno_pool_stream_open(
    steno_pool_stream **out, steno_pool *p, const struct steno_pool_stream_options *opt,
    steno_pool_fn fn, void *user, steno_err *err);
/* Copy what fits of pcm [n] f32 into the stream's buffer; *taken <= n. When it is less than n, one
 * ROOM note follows. Never waits. STENO_ERR_CANCELLED after end, cancel or a failure. */
STENO_API STENO_MUST steno_status steno_pool_stream_push(steno_pool_stream *ps, const float *pcm,
                                                         size_t n, size_t *taken, steno_err *err);
/* Samples that a push would take now. */
STENO_API size_t steno_pool_stream_room(steno_pool_stream *ps);
/* After the audio pushed so far: close the segment. STENO_ERR_CANCELLED after end, STENO_ERR_BUSY
 * with STENO_POOL_MAX_FINALIZE of them still waiting. */
STENO_API STENO_MUST steno_status steno_pool_stream_finalize(steno_pool_stream *ps, steno_err *err);
#define STENO_POOL_MAX_FINALIZE 16
/* No more audio; DONE follows the last final. Again: nothing. */
STENO_API void steno_pool_stream_end(steno_pool_stream *ps);
/* Forget waiting audio and unread events; DONE follows soon. */
STENO_API void steno_pool_stream_cancel(steno_pool_stream *ps);
/* Give the place back: cancels if still running; waits for a running callback of this stream to
 * return (not when called from it). No note comes after it. Accepts NULL. */
STENO_API void steno_pool_stream_close(steno_pool_stream *ps);
STENO_API void steno_pool_stream_get_stats(steno_pool_stream *ps,
                                           struct steno_pool_stream_stats *st);

struct steno_pool_stats {
    int workers, active, live; /* streams open, all and live ones that count */
    int places;                /* for streams of all classes */
    int capacity;              /* live streams that can run at the pace of real time */
    bool measuring;            /* it is not known yet, and four for each worker till then */
    int ready;                 /* streams waiting for a worker */
    int busy;                  /* workers at work */
    int batch_max;             /* most streams of one batch */
    uint64_t opened, refused, steps;
    uint64_t batches[STENO_POOL_BATCH_SIZES]; /* network runs for up to 1, 2, 4 ... streams */
    uint64_t batched;                         /* streams in them all */
    double audio_seconds, inference_seconds, queue_wait_seconds; /* sums since start */
    double network_seconds;                                      /* share of inference_seconds */
    struct steno_pool_costs costs;                               /* as corrected while running */
};
STENO_API void steno_pool_get_stats(steno_pool *p, struct steno_pool_stats *st);

/* For a watchdog: worker i (0..workers-1) is busy since `since_ns` (CLOCK_MONOTONIC; when idle:
 * when it finished its last step). A busy worker whose time stands still is stuck. */
struct steno_pool_heartbeat {
    bool busy;
    int64_t since_ns;
};
STENO_API struct steno_pool_heartbeat steno_pool_worker_heartbeat(const steno_pool *p, int i);

#endif
