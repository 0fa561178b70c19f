/* Many streams on a few threads: admission, a bounded input queue per stream, earliest deadline
 * first, steps of several streams as one batch, results through callbacks. Threads, but no I/O.
 *
 *     steno_pool_open(&p, model, &(struct steno_pool_options){.workers = 2}, &err);
 *     steno_pool_stream_open(&ps, p, &opt, on_note, session, &err);    BUSY: all places taken
 *     steno_pool_stream_push(ps, pcm, n, &taken, &err);                taken < n: wait for ROOM
 *     steno_pool_stream_end(ps);                                       ... finals ..., then DONE
 *     steno_pool_stream_close(ps);
 *
 * Locked: every function may be called from any thread and from the callback (except pool_close).
 * Design and scheduling: docs/pool.md; lock order: docs/threads.md. */
#ifndef STENO_POOL_POOL_H
#define STENO_POOL_POOL_H

#include "steno.h"

typedef struct steno_pool steno_pool;
typedef struct steno_pool_stream steno_pool_stream;

/* Priority when there is more work than cores. The deadline of a waiting step is the time when it
 * became ready plus the slack of its class, so no stream starves. */
enum steno_pool_class {
    STENO_POOL_LIVE, /* interactive: no slack */
    /* A request that waits for its answer: 1 s, plus its audio so far, 30 s at most. */
    STENO_POOL_UPLOAD,
    STENO_POOL_JOB, /* background: 60 s */
    STENO_POOL_CLASSES
};

/* The costs of a model on this machine, measured when a pool was opened; another pool can open with
 * them without measuring again. All in seconds. */
#define STENO_POOL_BATCH_SIZES 6 /* batches of 1, 2, 4 ... 32 streams */
struct steno_pool_costs {
    double step[STENO_POOL_BATCH_SIZES]; /* one run of the network; INFINITY: size not used */
    double host; /* per second of audio: features, search, everything but the network */
};

struct steno_pool_options {
    int workers;           /* threads that run networks; 0 = processors of this process */
    int max_streams;       /* admitted at once; 0 = 256 */
    double buffer_seconds; /* audio that may wait per stream; 0 = 4 */
    int batch;             /* largest batch, 1 to 32; 0 = the measured best, 1 = off */
    /* s: how long a step waits for a larger batch; 0 = 0.02, < 0 = not at all. */
    double batch_wait;
    double batch_run; /* s: limit of a batch's run; larger sizes are not used; 0 = 0.1 */
    int capacity;     /* live streams; 0 = measured, < 0 = max_streams */
    const struct steno_pool_costs *costs; /* NULL: measure now */
    /* Called after each run of the network for a batch, on a worker's thread without a lock; or
     * NULL. */
    void (*on_batch)(void *user, size_t streams);
    void *user;
    /* The options that live streams will have; costs are measured with them. Its options are
     * borrowed until close. */
    struct steno_stream_options trial;
    /* Called once if costs is NULL (and, for streams with networks of their own, capacity is 0); or
     * NULL.
     * costs: what was measured; NULL: measuring failed.
     * quiet: it was not slowed by other work on the machine, so another pool can open with them.
     * each: 0 if called while the pool opens. Streams with networks of their own take long to
     * measure; then the call comes later from a thread of the pool, and `each` is what a live
     * stream takes of a processor. */
    void (*on_measured)(void *user, const struct steno_pool_costs *costs, bool quiet, double each);
    void *measured_user;
};

enum steno_pool_note_kind {
    STENO_POOL_EVENT, /* event: a result */
    /* After a push that took less than all: at least half the buffer is free. */
    STENO_POOL_ROOM,
    /* heard: asked for by the stream's options; after every round of work on the stream. */
    STENO_POOL_PROGRESS,
    STENO_POOL_FINALIZED, /* every event of one steno_pool_stream_finalize has been delivered */
    /* The stream is over; the last note. status: OK after end, CANCELLED after cancel, else the
     * error, with its message in err. */
    STENO_POOL_DONE
};

struct steno_pool_stream_stats {
    double audio_seconds; /* pushed so far */
    /* of that, not yet taken by a worker (set by steno_pool_stream_get_stats) */
    double waiting_seconds;
    double inference_seconds;  /* time that workers spent on this stream */
    double queue_wait_seconds; /* sum over steps: from ready until a worker took it */
    double queue_wait_max;
    double skipped_seconds; /* audio that the VAD filter of the options removed */
    uint64_t steps;         /* times a worker took the stream */
    uint64_t turn_answers;  /* of the network that judges turns; turn_ends: that said so */
    uint64_t turn_ends;
    double turn_seconds;    /* of inference_seconds: for them */
    double network_seconds; /* of inference_seconds: in runs of the networks that a trial times */
    /* steno_now_ns; 0: not yet. Of a sum: the first, the first, the last, the last. */
    int64_t opened_ns, first_step_ns, ended_ns, last_step_ns; /* ended_ns: of stream_end */
};

/* Add the statistics of another stream, as of streams that serve one request. */
void steno_pool_stream_stats_add(struct steno_pool_stream_stats *sum,
                                 const struct steno_pool_stream_stats *s);

struct steno_pool_note {
    enum steno_pool_note_kind kind;
    const struct steno_event *event; /* valid during the call */
    double latency;                  /* EVENT: s since the push that brought its last sample */
    double heard;                    /* PROGRESS: s of audio that were recognized */
    steno_status status;
    const steno_err *err;
    struct steno_pool_stream_stats stats; /* at the time of the note */
};

/* Runs on a worker thread without any lock of the pool. Notes of one stream come in order and never
 * two at a time. The function should pass the note on and return: the worker waits for it. */
typedef void (*steno_pool_fn)(void *user, steno_pool_stream *ps,
                              const struct steno_pool_note *note);

/* Open a pool and start its workers. The model must outlive the pool. opt may be NULL. */
STENO_MUST steno_status steno_pool_open(steno_pool **out, steno_model *m,
                                        const struct steno_pool_options *opt, steno_err *err);
/* Cancel what runs, join the workers, and release the pool. No other call may run at that time.
 * Every stream should be closed before; the others get DONE (CANCELLED) and stay valid until they
 * are closed. Not from a callback. */
void steno_pool_close(steno_pool *p);

struct steno_pool_stream_options {
    struct steno_stream_options stream;
    enum steno_pool_class priority;
    uint64_t owner; /* hash of the API key; owners are served round robin; 0 = none */
    bool progress;  /* send PROGRESS notes */
    bool always;    /* does not count against the capacity: a canary */
    /* As steno_stream_set_turn; NULL: silence alone ends an utterance. Borrowed until close. */
    const steno_turn_detector *turn;
    double turn_threshold, turn_early;
    struct steno_filter_options filters; /* borrowed for the call, like the next */
    const char *vocabulary;              /* as of struct steno_stream_known */
    const struct steno_line *lines;      /* likewise, [n_lines] */
    size_t n_lines;
};

/* Check whether a stream of this class would find a place now. STENO_ERR_BUSY with the reason if
 * not: for refusing before anything is opened or received. For a live stream the place is reserved
 * for one to two seconds, so that several callers at once do not get the same place. */
STENO_MUST steno_status steno_pool_admit(steno_pool *p, enum steno_pool_class c, steno_err *err);
/* Take a place and open a stream. STENO_ERR_BUSY if there is no place: all max_streams are taken,
 * or, for a live stream, the live streams have reached the capacity. opt may be NULL. */
STENO_MUST steno_status steno_pool_stream_open(steno_pool_stream **out, steno_pool *p,
                                               const struct steno_pool_stream_options *opt,
                                               steno_pool_fn fn, void *user, steno_err *err);
/* Reserve room at the end of the stream's buffer, in one piece: what is written to *to [*room] f32
 * becomes its audio with steno_pool_stream_add. least <= *room <= most; least may pass the buffer's
 * limit. *room = 0: it is full; one ROOM note follows, and nothing was reserved. Never waits. One
 * caller at a time; until the add the stream is neither pushed to, ended nor closed.
 * STENO_ERR_CANCELLED after end, cancel or a failure. */
STENO_MUST steno_status steno_pool_stream_room(steno_pool_stream *ps, size_t least, size_t most,
                                               float **to, size_t *room, steno_err *err);
/* Give the room back: its first n samples are audio. */
void steno_pool_stream_add(steno_pool_stream *ps, size_t n);
/* Copy as much of pcm [n] f32 as fits into the stream's buffer; *taken <= n. If it is less than n,
 * one ROOM note follows. Never waits. STENO_ERR_CANCELLED after end, cancel or a failure. */
STENO_MUST steno_status steno_pool_stream_push(steno_pool_stream *ps, const float *pcm, size_t n,
                                               size_t *taken, steno_err *err);
/* Close the segment after the audio pushed so far. STENO_ERR_CANCELLED after end; STENO_ERR_BUSY if
 * STENO_POOL_MAX_FINALIZE requests are waiting. */
STENO_MUST steno_status steno_pool_stream_finalize(steno_pool_stream *ps, steno_err *err);
#define STENO_POOL_MAX_FINALIZE 16
/* No more audio follows; DONE comes after the last final. A second call does nothing. */
void steno_pool_stream_end(steno_pool_stream *ps);
/* Drop waiting audio and unread events; DONE follows soon. */
void steno_pool_stream_cancel(steno_pool_stream *ps);
/* Release the stream and its place. Cancels it if it still runs. Waits for a running callback of
 * this stream to return (unless called from it). No note follows. Accepts NULL. */
void steno_pool_stream_close(steno_pool_stream *ps);
void steno_pool_stream_get_stats(steno_pool_stream *ps, struct steno_pool_stream_stats *st);

struct steno_pool_stats {
    int workers, active, live; /* open streams: all, and live ones that count */
    int places;                /* for streams of all classes */
    int capacity;              /* live streams that can run in real time */
    /* The capacity is not known yet; until then it is one per worker. */
    bool measuring;
    /* s of a worker that a second of a live stream's audio takes, once it is known. Above 1 one
     * stream alone falls behind: the model is too slow for live use on this machine. */
    double each;
    int ready;     /* streams waiting for a worker */
    int busy;      /* workers that are busy */
    int batch_max; /* largest batch */
    uint64_t opened, refused, steps;
    uint64_t batches[STENO_POOL_BATCH_SIZES]; /* network runs for up to 1, 2, 4 ... streams */
    uint64_t batched;                         /* streams in all of them */
    double audio_seconds, inference_seconds, queue_wait_seconds; /* sums since start */
    double network_seconds;                                      /* share of inference_seconds */
    struct steno_pool_costs costs;                               /* as corrected at run time */
};
void steno_pool_get_stats(steno_pool *p, struct steno_pool_stats *st);

/* For a watchdog, which asks again and again. Worker i (0..workers-1) has been busy since
 * `since_ns` (CLOCK_MONOTONIC; if idle: the end of its last step). A step may take minutes, of a
 * large model on a slow machine: where the network has advanced by a node since the last call, the
 * time is that of this call. A busy worker whose time does not change is stuck. */
struct steno_pool_heartbeat {
    bool busy;
    int64_t since_ns;
};
struct steno_pool_heartbeat steno_pool_worker_heartbeat(steno_pool *p, int i);

#endif
