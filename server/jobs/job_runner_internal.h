/* A run and its runner, shared by job_runner.c (what moves a run on) and job_run_end.c (how it
 * ends: its result, a failure, another try). Everything here is called by the runner's thread. */
#ifndef STENO_SERVER_JOBS_JOB_RUNNER_INTERNAL_H
#define STENO_SERVER_JOBS_JOB_RUNNER_INTERNAL_H

#include "server/http/upload_internal.h"
#include "server/jobs/job_runner.h"
#include "server/watch/trace.h"

#define STENO_JOB_RESULTS 5
#define STENO_JOB_SEGMENTS_MAX (4u << 20) /* bytes of the texts of one beat */

enum steno_job_phase { IDLE, FETCHING, WAITING, RUNNING, STORING, GIVING_UP };

struct steno_job_segment_text {
    double start, end;
    size_t at; /* in texts */
};

struct steno_job_run {
    steno_job_runner *r;
    enum steno_job_phase phase;
    struct steno_job_record rec;
    struct steno_upload *up;
    steno_transcription *work;
    int fd;
    steno_spool_file *file; /* while it is fetched */
    int64_t next;           /* beat, or look, in ns */
    int64_t deadline;
    bool late;
    /* STORING */
    struct steno_job_end end;
    struct steno_job_body bodies[STENO_JOB_RESULTS];
    char reason[sizeof((steno_err *)0)->msg], code[32]; /* of GIVING_UP too */
    /* GIVING_UP */
    bool counted;  /* it was a try */
    int64_t delay; /* ms until the next one */

    struct steno_trace trace;
    int64_t began, result_ns;            /* the run, and its result, in ns; 0: none */
    struct steno_pool_stream_stats pool; /* of its streams */
    const char *outcome;                 /* static; NULL: nobody wants its result any more */

    /* under the runner's lock */
    bool over;    /* of the fetch, or of the job */
    bool removed; /* nobody wants the result: the job was removed, or is another run's */
    steno_err fetch_err;
    struct steno_buf texts; /* of segments that are not stored yet, each with its NUL */
    struct steno_job_segment_text *segments;
    size_t n_segments, room;
    unsigned channel;     /* of the last event */
    int64_t cutting;      /* the segment whose sections are being passed on */
    size_t sent_sections; /* of it */
};

struct steno_job_runner {
    const struct steno_services *sv;
    steno_job_queue *q;
    steno_spool *spool;
    const struct steno_job_metrics *metrics;
    pthread_t thread;
    int64_t next_sweep, next_claim;
    int64_t put_off; /* jobs, since a fetch ended, for which there was no place to fetch */
    int64_t quiet;   /* no warning about the store before */

    pthread_mutex_t lock; /* guards what follows, and the fields of runs named above */
    pthread_cond_t wake;
    bool woken, stop;

    int workers, n; /* n: workers and FETCHES */
    struct steno_job_run runs[];
};

int64_t steno_job_runner_lease_ms(const steno_job_runner *r);
/* Log a failure of the store, at most once a minute. */
void steno_job_runner_complain(steno_job_runner *r, const char *msg);

/* Free what a run has: its place is free. */
void steno_job_run_clear(struct steno_job_run *x);
/* Store the end of the job. The result is kept until the store takes it. */
void steno_job_run_store_end(struct steno_job_run *x);
/* The job has failed for good. */
void steno_job_run_fail(struct steno_job_run *x, const char *code, const char *why);
/* Give the run up; counted: it was a try. delay: ms until the next one. */
void steno_job_run_give_up(struct steno_job_run *x, bool counted, int64_t delay, const char *code,
                           const char *why);
/* Tell the store that the run is given up, once more after a failure. */
void steno_job_run_release(struct steno_job_run *x);
/* A try has failed, and another one may not. */
void steno_job_run_try_again(struct steno_job_run *x, const char *code, const char *why);
/* Whether a failure may be gone at another try. */
bool steno_job_run_is_passing(steno_status st);
/* Write the bodies of a result, and store them with the end of the job. */
void steno_job_run_store_result(struct steno_job_run *x,
                                const struct steno_transcription_result *r);
/* Count what a transcription took. */
void steno_job_run_observe(struct steno_job_run *x, const struct steno_transcription_result *r);

#endif
