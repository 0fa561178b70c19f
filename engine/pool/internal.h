/* The pool's inside: what pool.c (life of pool and streams), schedule.c (who is next, with whom),
 * capacity.c (what a stream costs), trial.c (streams that are measured) and worker.c (what a worker
 * does with the streams it took) share. Locks and their order: docs/threads.md. */
#ifndef STENO_POOL_INTERNAL_H
#define STENO_POOL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "recognizer/stream.h"
#include "pool/others.h"
#include "pool/pool.h"
#include "pool/ring.h"

/* What the pool does with a recogniser; steno_pool_open uses that of recognizer/stream.h, tests
 * bring their own behind the same pointer types. Calls for one recogniser never overlap. */
struct steno_pool_ops {
    steno_status (*open)(steno_stream **out, steno_model *m, const struct steno_stream_options *opt,
                         steno_err *err);
    int (*rate)(const steno_model *m); /* when the options name none */
    void (*close)(steno_stream *s);
    steno_status (*feed)(steno_stream *s, const float *pcm, size_t n, size_t *used, steno_err *err);
    bool (*ready)(const steno_stream *s);
    size_t (*missing)(const steno_stream *s);
    steno_status (*flush)(steno_stream *s, bool end, bool *done, steno_err *err);
    bool (*next)(steno_stream *s, struct steno_event *ev);
    double (*skipped)(const steno_stream *s); /* NULL: it never skips */
    /* a worker's own */
    steno_status (*stepper_open)(steno_stepper **out, const steno_model *m, int max,
                                 steno_err *err);
    void (*stepper_close)(steno_stepper *p);
    int (*stepper_max)(const steno_stepper *p);
    void (*set_costs)(steno_stepper *p, const struct steno_step_costs *c);
    void (*step)(steno_stepper *p, steno_stream *const *s, size_t n, steno_status *st,
                 steno_err *err);
    steno_status (*measure)(steno_stepper *p, double longest, struct steno_step_costs *c,
                            steno_err *err);
    int64_t (*network_ns)(const steno_stepper *p); /* in runs of the network so far */
    int64_t (*network_cpu)(steno_stepper *p);      /* the same in processor time */
    double (*chunk_seconds)(const steno_model *m);
    double (*cpu_free)(void); /* as steno_cpu_free; NULL: nobody says */
};
_Static_assert(STENO_POOL_BATCH_SIZES == STENO_BATCH_SIZES, "one list of sizes");

#define STENO_POOL_BLOCK 4096 /* samples a worker copies out of a ring at a time */
#define STENO_POOL_MARKS 64   /* pushes whose arrival is remembered per stream */

struct steno_pool_mark { /* samples up to `end` had arrived at `ns` */
    int64_t end, ns;
};

struct steno_pool_stream {
    steno_pool *pool;
    steno_stream *rec; /* NULL once it is over */
    int rate;
    enum steno_pool_class class;
    unsigned owner; /* slot in the pool's list of turns */
    bool counted;   /* against the capacity */
    steno_pool_fn fn;
    void *user;

    pthread_mutex_t lock; /* guards all down to the next blank line */
    pthread_cond_t idle;  /* signalled when `held` becomes false */
    struct steno_ring ring;
    int64_t pushed, consumed; /* samples */
    int64_t finalize_at[STENO_POOL_MAX_FINALIZE];
    size_t n_finalize, missing; /* missing: samples below which a step can't come */
    struct steno_pool_mark marks[STENO_POOL_MARKS];
    size_t n_marks;
    struct steno_pool_stream_stats stats;
    bool want_room, end, cancel, done, closed;
    bool held;        /* in the ready heap or with a worker */
    pthread_t worker; /* valid while with_worker */
    bool with_worker;
    bool free_after; /* closed from its own callback: the worker frees it */

    /* guarded by the pool's lock */
    int64_t ready_ns, deadline_ns;
    uint64_t ticket; /* order among equal deadlines */
    steno_pool_stream *prev, *next;
    bool swept; /* pool_close has dealt with it */
};

struct steno_pool_item { /* one stream in a worker's hands */
    steno_pool_stream *ps;
    int64_t waited_ns, spent_ns;
    double audio; /* s that it took in */
    bool steps;   /* its window is full */
    steno_status st;
    steno_err err;
};

struct steno_pool_worker {
    steno_pool *pool;
    steno_stepper *stepper;
    pthread_t thread;
    bool started;
    double cpu; /* s this thread has used; guarded by the pool's lock */
    _Atomic bool busy;
    _Atomic int64_t since_ns;
    struct steno_pool_item items[STENO_BATCH_MAX];
    size_t n;
    /* those of the turns that step */
    steno_stream *rec[STENO_BATCH_MAX];
    steno_status st[STENO_BATCH_MAX];
    steno_err err[STENO_BATCH_MAX];
    float block[STENO_POOL_BLOCK];
};

/* What streams cost, and what follows from it. Guarded by the pool's lock. */
struct steno_pool_load {
    struct steno_pool_costs costs; /* step: at start; host: corrected */
    bool measuring;                /* costs.host is not known yet */
    double slower;                 /* steps take this times their time at start, lately */
    double running;                /* share of their time that workers at work have a processor */
    double other;                  /* process time outside the workers, s per s of audio */
    struct steno_pool_others others;
    double chunk;  /* s of audio per step */
    double demand; /* of the live steps, if each ran alone: busy workers */
    int cpus;      /* asked for once, as the quota: a system call reads a file for it */
    double quota;  /* processors that the control group may use up */
    /* since the last look */
    _Atomic int64_t
        since_ns; /* written under the lock, relaxed: a worker asks whether it is time */
    double planned, network, host, audio; /* s */
    uint64_t live_steps;
    int64_t turnover;               /* streams opened and closed, at the last look */
    uint64_t refused;               /* likewise */
    double process_cpu, worker_cpu; /* at the last look */
};

/* What a worker has done in one round. */
struct steno_pool_work {
    size_t steps, live_steps;
    double planned, network, host, audio;
    double cpu_free; /* as of now, s; 0: not asked for */
};

#define STENO_POOL_OWNERS 1024 /* power of two; owners who share a slot share their turns */

struct steno_pool {
    const struct steno_pool_ops *ops;
    steno_model *model;
    struct steno_pool_options opt;
    struct steno_pool_worker *workers;
    int n_workers, batch_max;
    int64_t wait_ns; /* for company, at most */

    pthread_mutex_t lock;      /* guards the rest */
    pthread_cond_t work;       /* somebody is ready */
    pthread_cond_t batch_full; /* the batch that is being waited for is full; one worker waits */
    bool collecting;
    steno_pool_stream **heap;           /* [max_streams], earliest deadline first */
    int n_ready, n_ready_live, idle;    /* idle: workers waiting for work */
    uint32_t owners[STENO_POOL_OWNERS]; /* streams of theirs in the heap */
    steno_pool_stream *streams;         /* all that are not closed */
    uint64_t tickets;
    int refs; /* the owner and every open stream */
    bool stop;
    struct steno_pool_load load;
    struct steno_pool_stats stats;
    /* places that steno_pool_admit told of and nobody has taken yet: in this PROMISE_NS, and in the
     * one before, which began at promised_ns */
    int promised, promised_before;
    int64_t promised_ns;
    pthread_t trier; /* measures what a stream costs while the pool serves */
    bool trying;     /* it was started; the owner's alone */
    _Atomic bool give_up;
};

STENO_MUST steno_status steno_pool_open_with(steno_pool **out, const struct steno_pool_ops *ops,
                                             steno_model *model,
                                             const struct steno_pool_options *opt, steno_err *err);

/* schedule.c */
/* Into the ready heap; the caller holds ps->lock and has set ps->held. wake: a worker that sleeps;
 * not where the caller is one that comes to take next. */
void steno_pool_enqueue(steno_pool_stream *ps, bool wake);
/* Fill w->turns with the next streams to serve, waiting for one and perhaps for company; false when
 * the pool stops. */
bool steno_pool_take(struct steno_pool_worker *w);

/* capacity.c */
/* Measure, or take over what is known (NULL: nothing); decides the largest batch. Before any worker
 * runs. */
STENO_MUST steno_status steno_pool_calibrate(steno_pool *p, const struct steno_pool_costs *known,
                                             steno_err *err);
/* It is time for a correction: the next account should bring cpu_free. Any thread, without a lock.
 */
bool steno_pool_look_due(const steno_pool *p);
/* After a round of a worker; the caller holds the pool's lock. */
void steno_pool_account(steno_pool *p, const struct steno_pool_work *w);
/* Live streams that the workers can carry, and whether steps should wait for company: pool's lock
 * held. */
int steno_pool_capacity_now(const steno_pool *p);
bool steno_pool_crowded(const steno_pool *p);
/* Seconds that steps of n streams take by the costs at start; those do not change. */
double steno_pool_planned(const steno_pool *p, size_t n);
/* What a live stream takes of a worker, by the costs so far, in largest batches. */
double steno_pool_each(const steno_pool *p);
double steno_pool_thread_cpu(void); /* seconds of the calling thread */
/* How much longer than the processor worked for it something took the calling thread. */
struct steno_pool_watch {
    int64_t wall_ns;
    double cpu;
};
void steno_pool_watch_begin(struct steno_pool_watch *w);
double steno_pool_watch_end(const struct steno_pool_watch *w);

/* trial.c */
/* Seconds of processor time for a second of a stream's audio, without the network's runs for
 * batches. STENO_ERR_CANCELLED: the pool closes. */
STENO_MUST steno_status steno_pool_try(const steno_pool *p, steno_stepper *stepper, double *host,
                                       steno_err *err);
/* The same on a thread of its own, for load.costs; the workers may run. */
STENO_MUST steno_status steno_pool_try_later(steno_pool *p, steno_err *err);

/* worker.c */
/* There is something to do for the stream now; the caller holds ps->lock. */
bool steno_pool_has_work(const steno_pool_stream *ps);
void *steno_pool_work(void *worker); /* a worker's thread */
/* Deliver DONE unless that has happened; from a worker, or when there are none any more. */
void steno_pool_finish(steno_pool_stream *ps, steno_status st, const steno_err *err);
void steno_pool_stream_free(steno_pool_stream *ps);

#endif
