/* Uploads: a recording in memory -> transcript, on the pool. A few feeder threads decode the files
 * and push the samples; a job holds a thread only while it has something to do: when its stream's
 * buffer is full it lies down until the pool says there is room. Knows nothing of HTTP.
 *
 * Locked: any thread may start, cancel and free jobs. Callbacks run without a lock of this module.
 */
#ifndef STENO_SERVER_JOBS_H
#define STENO_SERVER_JOBS_H

#include "protocol/options.h"
#include "protocol/transcript.h"
#include "server/server.h"

typedef struct steno_jobs steno_jobs;
typedef struct steno_job steno_job;

struct steno_job_request {
    enum steno_session_api api;
    struct steno_served *served; /* the model; in use until done */
    uint64_t owner;              /* whose turn it counts as; 0 = nobody's */
    char *audio; /* [len]: the job takes it over (free()), on success of start only */
    size_t len;
    unsigned channel; /* 0 = mean of all, k = the k-th */
    int beam, n_best; /* 0 = the model's */
    enum steno_vad_choice vad;
    struct steno_options options; /* what is not set is the server's */
    bool partials;                /* deliver partials to `event` as well */
    bool no_endpointing;
    /* Every event in order, on a worker thread; NULL = not wanted. */
    void (*event)(void *user, const struct steno_event *ev);
    /* Once, when all is over, on the worker thread that took the last step or on a feeder; no event
     * comes after it. */
    void (*done)(void *user, steno_job *job);
    /* The recording's memory has been given back (before done); NULL = not wanted. */
    void (*released)(void *user, size_t bytes);
    void *user;
};

struct steno_job_result {
    steno_status status;
    steno_err err;
    steno_transcript *transcript; /* the job's */
    double duration;              /* s of audio */
    double received, dropped;     /* s that were decoded, and of them that the pool never got */
    struct steno_pool_stream_stats stats;
    char format[32];   /* "wav/s16le"; "" when it was not recognised */
    char warning[160]; /* about the recording; "" = none */
};

STENO_MUST steno_status steno_jobs_open(steno_jobs **out, const struct steno_server *srv,
                                        int threads, steno_err *err);
/* Every job must have been freed. Accepts NULL. */
void steno_jobs_close(steno_jobs *jobs);

/* STENO_ERR_CANCELLED after steno_jobs_cancel_all. */
STENO_MUST steno_status steno_job_start(steno_job **out, steno_jobs *jobs,
                                        const struct steno_job_request *request, steno_err *err);
/* End it soon with STENO_ERR_CANCELLED; done still comes. */
void steno_job_cancel(steno_job *job);
/* The same for every job; none starts any more. Returns when all have ended. */
void steno_jobs_cancel_all(steno_jobs *jobs);
/* From done on, until free. */
const struct steno_job_result *steno_job_get_result(const steno_job *job);
/* Only after done was called (within it at the earliest). Accepts NULL. */
void steno_job_free(steno_job *job);

#endif
