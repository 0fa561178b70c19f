/* Jobs: recordings whose transcripts are made later, and that outlive the process. This is the
 * interface of a store of jobs. job_sqlite.h has the one that needs nothing beside it, job_redis.h
 * the one that several machines share.
 *
 * A job is queued, then running, then done, failed, expired or cancelled. Who runs a job has
 * claimed it: the claim has a number (attempts) and a lease. Every later call for this run passes
 * the number, and a store refuses it (STENO_ERR_CANCELLED) when the job is no longer in this run,
 * because its lease ended, it expired or it was removed. So a result is stored once, whoever comes
 * late. The recording is in the spool (job_spool.h), or in the store if that has put_audio.
 *
 * Times are in ms since 1970; the caller passes the present. Locked: every function may be called
 * by any thread. Functions that change something return when it is on the disk, except heartbeat
 * and progress, whose loss harms nothing. */
#ifndef STENO_SERVER_JOBS_JOB_QUEUE_H
#define STENO_SERVER_JOBS_JOB_QUEUE_H

#include "base/buf.h"
#include "server/jobs/job_states.h"

#define STENO_JOB_ID 40    /* bytes of an id with its NUL */
#define STENO_JOB_OWNER 48 /* likewise of an owner, the name of an API key */
#define STENO_JOB_TRIES 3  /* then a job fails */

enum steno_job_state {
    STENO_JOB_QUEUED = STENO_STORED_QUEUED,
    STENO_JOB_RUNNING = STENO_STORED_RUNNING,
    STENO_JOB_DONE = STENO_STORED_DONE,
    STENO_JOB_FAILED = STENO_STORED_FAILED,
    STENO_JOB_EXPIRED = STENO_STORED_EXPIRED,
    STENO_JOB_CANCELLED = STENO_STORED_CANCELLED,
    STENO_JOB_STATES
};

/* "queued", "running", ...: static. */
const char *steno_job_state_name(enum steno_job_state s);
static inline bool steno_job_is_over(enum steno_job_state s)
{
    return s >= STENO_JOB_DONE;
}

/* How the result is delivered to the callback of a job. */
enum steno_callback_state {
    STENO_CALLBACK_NONE = STENO_STORED_NONE, /* the job has no callback, or is not over yet */
    STENO_CALLBACK_PENDING = STENO_STORED_PENDING,
    STENO_CALLBACK_DELIVERED = STENO_STORED_DELIVERED,
    STENO_CALLBACK_DEAD = STENO_STORED_DEAD, /* given up */
    STENO_CALLBACK_STATES
};
const char *steno_callback_state_name(enum steno_callback_state s); /* "none", ...: static */

/* The form of the request, and of what a callback gets. */
enum steno_job_form { STENO_JOB_NATIVE, STENO_JOB_DEEPGRAM };

/* A job as it is stored. Strings are never NULL, and belong to it (steno_job_record_free). */
struct steno_job_record {
    char id[STENO_JOB_ID], owner[STENO_JOB_OWNER];
    enum steno_job_form form;
    char *target; /* the options, as the target of a request: "/v1/transcribe?model=x" */
    char *url;    /* where the recording is; "": in the spool from the beginning */
    enum steno_job_state state;
    int attempts;
    int64_t bytes;             /* of the recording; 0: not known yet */
    double position, duration; /* s of audio that are transcribed; of all, 0: not known yet */
    char *model;               /* that ran it; "" before */
    int64_t created, started, ended, expires; /* 0: not yet; expires 0: never */
    char *reason, *code; /* why it failed, or why its last try ended; "" = nothing was wrong */
    char *callback, *method;
    enum steno_callback_state callback_state;
    char event[STENO_JOB_ID]; /* the id of what the callback is told */
    int callback_tries;
    int64_t callback_next;
    char *callback_error;           /* of the last try */
    char *traceparent, *tracestate; /* of the request, for what is done for it later; "" = none */
};
void steno_job_record_free(struct steno_job_record *r); /* the strings; a zeroed one is fine */

/* A job to be stored. All strings are borrowed; owner, url, callback, method may be "", traceparent
 * and tracestate NULL. */
struct steno_job_new {
    const char *id, *owner, *target, *url, *callback, *method;
    const char *traceparent, *tracestate;
    enum steno_job_form form;
    int64_t bytes, created, expires;
};
struct steno_job_quota {
    int max, per_key; /* jobs that are not over: of all owners, of this one; 0 = no limit */
};

/* A request that a client names, so that it may send it again (Idempotency-Key). It is known as
 * long as one of its jobs is in the store. */
struct steno_job_once {
    const char *key;    /* the client's, of this owner */
    const char *digest; /* of the whole request, in hexadecimal digits */
    /* Set by submit. repeated: the request was stored before, ids [n] are its jobs, and nothing was
     * stored now. ids has room for `room` of them. */
    bool repeated;
    char (*ids)[STENO_JOB_ID];
    size_t room, n;
};
/* Note a job of a repeated request. */
STENO_MUST steno_status steno_job_once_add(struct steno_job_once *once, const char *id,
                                           steno_err *err);
/* STENO_ERR_INVAL: the key came with another request. */
STENO_MUST steno_status steno_job_once_check(const struct steno_job_once *once, const char *digest,
                                             steno_err *err);

struct steno_job_segment {
    double start, end; /* s */
    const char *text;
};

/* How far a run is. */
struct steno_job_progress {
    double position, duration; /* as of steno_job_record */
    int64_t bytes;             /* of the recording, now that it was fetched; 0 = as before */
    const struct steno_job_segment *segments; /* [n] to append to those of this run */
    size_t n;
};

/* A run that is given up. */
struct steno_job_release {
    int64_t now, not_before; /* when the job is due again */
    bool counted;            /* it was a try, and after the last one the job fails */
    const char *code, *reason;
};

/* The end of a run. */
struct steno_job_end {
    enum steno_job_state state; /* done, failed or cancelled */
    const char *reason, *code, *model;
    double duration;
    const struct steno_job_body {
        const char *format; /* "json", "srt", ... */
        const char *text;
        size_t len;
    } * results;
    size_t n_results;
};

/* What list shows. */
struct steno_job_page {
    const char *owner;
    bool all;          /* every owner's: no keys are in use */
    const char *after; /* id of the last job of the page before; "" = the first page */
    int limit;
    int state;          /* -1: any */
    int callback_state; /* -1: any */
};

struct steno_job_counts {
    int64_t jobs[STENO_JOB_STATES], callbacks[STENO_CALLBACK_STATES];
    int64_t oldest; /* when the queued job that waits for longest was created; 0: none waits */
};

typedef struct steno_job_queue steno_job_queue;
struct steno_job_queue_ops {
    /* Store jobs, all or none. STENO_ERR_BUSY: quota->per_key is reached; STENO_ERR_LIMIT:
     * quota->max is; STENO_ERR_IO: nothing can be stored (the disk is full, ...). once: NULL =
     * none; STENO_ERR_INVAL: its key came with another request. All jobs have one owner. */
    steno_status (*submit)(steno_job_queue *q, const struct steno_job_new *jobs, size_t n,
                           const struct steno_job_quota *quota, struct steno_job_once *once,
                           steno_err *err);
    /* Take the next job: the oldest one of the owner with the fewest running jobs. STENO_NEED_MORE:
     * none is due. */
    steno_status (*claim)(steno_job_queue *q, const char *worker, int64_t now, int64_t lease,
                          struct steno_job_record *out, steno_err *err);
    /* Extend the lease of a run. */
    steno_status (*heartbeat)(steno_job_queue *q, const char *id, int attempt, int64_t lease,
                              steno_err *err);
    steno_status (*progress)(steno_job_queue *q, const char *id, int attempt,
                             const struct steno_job_progress *p, steno_err *err);
    steno_status (*finish)(steno_job_queue *q, const char *id, int attempt, int64_t now,
                           const struct steno_job_end *end, steno_err *err);
    /* Give a run up: the job is queued again, or (*failed) it has failed. */
    steno_status (*release)(steno_job_queue *q, const char *id, int attempt,
                            const struct steno_job_release *r, bool *failed, steno_err *err);
    /* Read a job of an owner (NULL: of any). STENO_ERR_INVAL: there is none. */
    steno_status (*get)(steno_job_queue *q, const char *owner, const char *id,
                        struct steno_job_record *out, steno_err *err);
    /* Pass on the segments of a job from number `from`, at most limit. */
    steno_status (*segments)(steno_job_queue *q, const char *id, int64_t from, int limit,
                             steno_status (*fn)(void *user, const struct steno_job_segment *s),
                             void *user, steno_err *err);
    /* Append a result to out. STENO_NEED_MORE: there is none in this format. */
    steno_status (*result)(steno_job_queue *q, const char *id, const char *format,
                           struct steno_buf *out, steno_err *err);
    /* Pass on jobs, the newest first. *more: there are others after them. STENO_ERR_INVAL: `after`
     * is no job of this owner. */
    steno_status (*list)(steno_job_queue *q, const struct steno_job_page *page,
                         steno_status (*fn)(void *user, const struct steno_job_record *r),
                         void *user, bool *more, steno_err *err);
    /* Remove a job: one that is over with its results, another one becomes cancelled and loses its
     * run. STENO_ERR_INVAL as of get. */
    steno_status (*remove)(steno_job_queue *q, const char *owner, const char *id, int64_t now,
                           steno_err *err);
    /* Do what is due: jobs expire, leases end, jobs that were over for keep ms are forgotten. gone
     * is told of every job that needs its recording no longer. */
    steno_status (*sweep)(steno_job_queue *q, int64_t now, int64_t keep,
                          void (*gone)(void *user, const char *id), void *user, steno_err *err);
    /* Take the callback that is due: its number of tries has been counted, and it is due again at
     * `next` unless callback_over comes. STENO_NEED_MORE: none is due. */
    steno_status (*callback)(steno_job_queue *q, int64_t now, int64_t next,
                             struct steno_job_record *out, steno_err *err);
    /* A try of a callback is over. state: pending (again at `next`), delivered or dead. */
    steno_status (*callback_over)(steno_job_queue *q, const char *id,
                                  enum steno_callback_state state, int64_t next, const char *error,
                                  steno_err *err);
    /* Send a callback once more that was delivered or given up: it is due at once, as the next
     * try. STENO_ERR_INVAL as of get; STENO_NEED_MORE: the job has no such callback. */
    steno_status (*callback_again)(steno_job_queue *q, const char *owner, const char *id,
                                   int64_t now, steno_err *err);
    /* Count the jobs by state. */
    steno_status (*count)(steno_job_queue *q, struct steno_job_counts *out, steno_err *err);
    /* Store the recording of a job that is to be submitted, all of fd, where other machines reach
     * it. Without its job it is removed later. NULL: the spool of this process keeps recordings. */
    steno_status (*put_audio)(steno_job_queue *q, const char *id, int fd, steno_err *err);
    /* Pass a recording on in blocks; NULL likewise. STENO_NEED_MORE: it is not there. */
    steno_status (*get_audio)(steno_job_queue *q, const char *id,
                              steno_status (*fn)(void *user, const void *p, size_t n,
                                                 steno_err *err),
                              void *user, steno_err *err);
    void (*close)(steno_job_queue *q);
};
struct steno_job_queue {
    const struct steno_job_queue_ops *ops;
};

/* ms since 1970. */
int64_t steno_job_now(void);

#endif
