/* Shared by pool.c (life of pool and streams), schedule.c (which streams are next, in which batch),
 * accounts.c (what the time was spent on), trial.c (streams that are measured) and worker.c (a
 * worker's round). Locks and their order: docs/threads.md. */
#ifndef STENO_POOL_INTERNAL_H
#define STENO_POOL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "speech/recognizer/stream.h"
#include "speech/pool/capacity.h"
#include "speech/pool/pool.h"
#include "speech/pool/ring.h"

/* The pool's calls of a recogniser. steno_pool_open uses those of recognizer/stream.h; tests bring
 * their own behind the same pointer types. Calls for one recogniser never overlap. */
struct steno_pool_ops {
    steno_status (*open)(steno_stream **out, steno_model *m, const struct steno_stream_options *opt,
                         const struct steno_stream_known *known, steno_err *err);
    int (*rate)(const steno_model *m); /* if the options name none */
    void (*close)(steno_stream *s);
    steno_status (*feed)(steno_stream *s, const float *pcm, size_t n, size_t *used, steno_err *err);
    void (*set_waiting)(steno_stream *s, size_t samples); /* NULL: it need not know */
    void (*set_queued)(steno_stream *s, double seconds);  /* the same */
    bool (*ready)(const steno_stream *s);
    size_t (*missing)(const steno_stream *s);
    double (*share)(const steno_stream *s); /* NULL: 0 */
    double (*slack)(const steno_stream *s); /* NULL: 0 */
    void (*set_early)(steno_stream *s, bool early);
    steno_status (*set_filters)(steno_stream *s, const struct steno_filter_options *o,
                                steno_err *err);
    steno_status (*set_turn)(steno_stream *s, const steno_turn_detector *d, double threshold,
                             double early, steno_err *err);
    bool (*turn_due)(const steno_stream *s);                      /* NULL: never */
    struct steno_turn_stats (*turn_stats)(const steno_stream *s); /* NULL: it never asks */
    steno_status (*flush)(steno_stream *s, bool end, bool *done, steno_err *err);
    void (*rescue)(steno_stream *s); /* NULL: it knows no more than it has told */
    bool (*next)(steno_stream *s, struct steno_event *ev);
    double (*skipped)(const steno_stream *s); /* NULL: it never skips */
    double (*heard)(const steno_stream *s);
    /* one per worker */
    steno_status (*batcher_open)(steno_batcher **out, const steno_model *m, int max,
                                 steno_err *err);
    void (*batcher_close)(steno_batcher *p);
    int (*batcher_max)(const steno_batcher *p);
    bool (*batcher_shares)(const steno_batcher *p); /* NULL: false */
    void (*set_costs)(steno_batcher *p, const struct steno_step_costs *c);
    void (*step)(steno_batcher *p, steno_stream *const *s, size_t n, steno_status *st,
                 steno_err *err);
    steno_status (*measure)(steno_batcher *p, double longest, struct steno_step_costs *c,
                            steno_err *err);
    int64_t (*network_ns)(const steno_batcher *p); /* time in runs of the network so far */
    int64_t (*network_cpu)(steno_batcher *p);      /* the same in processor time */
    double (*chunk_seconds)(const steno_model *m);
    double (*cpu_free)(void); /* as steno_cpu_free; NULL: not known */
};
_Static_assert(STENO_POOL_BATCH_SIZES == STENO_BATCH_SIZES, "one list of sizes");

#define STENO_POOL_BLOCK 4096 /* samples that a worker feeds at a time, at most */
#define STENO_POOL_MARKS 64   /* pushes whose arrival is remembered per stream */

struct steno_pool_mark { /* samples up to `end` had arrived at `ns` */
    int64_t end, ns;
};

struct steno_pool_stream {
    steno_pool *pool;
    steno_stream *rec; /* NULL once it is over */
    int rate;
    enum steno_pool_class class;
    unsigned owner; /* slot in the pool's owners */
    bool counted;   /* against the capacity */
    bool progress;  /* PROGRESS notes are wanted */
    steno_pool_fn fn;
    void *user;

    pthread_mutex_t lock; /* guards the fields down to the next blank line */
    pthread_cond_t idle;  /* signalled when `held` becomes false */
    struct steno_ring ring;
    int64_t pushed, consumed; /* samples */
    int64_t finalize_at[STENO_POOL_MAX_FINALIZE];
    size_t n_finalize, missing; /* missing: samples needed for the next step; 0: it is due */
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
    double share;    /* of its next step */
    bool early;      /* its result is not needed yet */
    steno_pool_stream *prev, *next;
    bool swept; /* pool_close has handled it */
};

struct steno_pool_item { /* a work item: one stream in a round */
    steno_pool_stream *ps;
    int64_t waited_ns, spent_ns, network_ns; /* network_ns: its part of spent_ns */
    double audio;                            /* s that were fed in this round */
    bool live;                               /* the stream's class */
    bool early;                              /* its result was not needed yet when it was taken */
    bool steps;                              /* its window is full */
    bool answer;                             /* its step is an answer, not one of the model */
    steno_status st;
    steno_err err;
};

struct steno_pool_worker {
    steno_pool *pool;
    steno_batcher *batcher;
    pthread_t thread;
    bool started;
    double cpu;      /* s this thread had used after its last round; its own */
    clockid_t clock; /* of this thread's use of processors; guarded by the pool's lock, as is */
    bool has_clock;
    _Atomic bool busy;
    _Atomic int64_t since_ns;
    _Atomic uint64_t beats, seen; /* of its thread; the last that a watchdog has seen */
    struct steno_pool_item items[STENO_BATCH_MAX];
    size_t n;
    /* of the items that step */
    steno_stream *rec[STENO_BATCH_MAX];
    steno_status st[STENO_BATCH_MAX];
    steno_err err[STENO_BATCH_MAX];
};

/* Costs of streams, and what follows from them. Guarded by the pool's lock. */
struct steno_pool_load {
    struct steno_pool_costs costs; /* as measured */
    bool measuring;                /* costs.host is not known yet */
    double chunk;                  /* s of audio per step */
    struct steno_capacity capacity;
    double demand;                    /* of the live steps, if each ran alone: busy workers */
    struct steno_capacity_look since; /* sums of live streams since the last look */
    uint64_t steps;                   /* of theirs */
};

/* The work of one round of a worker. */
struct steno_pool_work {
    size_t steps, live_steps;
    double network, host; /* s */
    double live_audio;    /* s that live streams were fed */
    double live_cpu;      /* s of a processor that they took */
    double live_planned;  /* s of their steps as planned */
};

/* Power of two; owners in one slot count as one. */
#define STENO_POOL_OWNERS 1024

struct steno_pool {
    const struct steno_pool_ops *ops;
    steno_model *model;
    struct steno_pool_options opt;
    struct steno_pool_worker *workers;
    int n_workers, batch_max;
    int64_t wait_ns; /* batch wait, at most */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t work;  /* a stream is ready */
    /* The batch that one worker collects is full; only that worker waits. */
    pthread_cond_t batch_full;
    bool collecting;
    steno_pool_stream **heap;           /* [max_streams], earliest deadline first */
    int n_ready, n_ready_live, idle;    /* idle: workers waiting for work */
    uint32_t owners[STENO_POOL_OWNERS]; /* each owner's streams in the heap */
    steno_pool_stream *streams;         /* all open streams */
    uint64_t tickets;
    int refs; /* the owner and every open stream */
    bool stop;
    struct steno_pool_load load;
    struct steno_pool_stats stats;
    /* places that steno_pool_admit reserved and no stream has taken yet: in the current
     * second, which began at promised_ns, and in the one before */
    int promised, promised_before;
    int64_t promised_ns;
    pthread_t trier; /* measures the costs while the pool serves */
    bool trying;     /* the thread was started; only the owner reads it */
    _Atomic bool give_up;
};

STENO_MUST steno_status steno_pool_open_with(steno_pool **out, const struct steno_pool_ops *ops,
                                             steno_model *model,
                                             const struct steno_pool_options *opt, steno_err *err);

/* schedule.c */
/* Add the stream to the ready heap. The caller holds ps->lock and has set ps->held. wake: wake a
 * sleeping worker; false if the caller takes streams next. goes_on: its result needs another step;
 * a live stream keeps its deadline then, unless steps can be shared from now on. */
void steno_pool_enqueue(steno_pool_stream *ps, bool wake, bool goes_on);
/* Audio has come, or a client asks for the result: if the stream waits in the heap because that was
 * not needed yet, a worker looks at it as soon as at others. The caller holds ps->lock. */
void steno_pool_hurry(steno_pool_stream *ps);
/* Fill w->items with the next streams. Waits for a stream, and perhaps for a larger batch. False if
 * the pool stops. */
bool steno_pool_take(struct steno_pool_worker *w);

/* accounts.c */
/* Add the work of a round. True if a look is due. The caller holds the pool's lock. */
bool steno_pool_account(steno_pool *p, const struct steno_pool_work *w);
/* Look at the machine if that is due. Takes the pool's lock. */
void steno_pool_look(steno_pool *p);
/* Begin with load.costs, as they were measured. The pool's lock is held, or no worker runs; so it
 * is for the next ones. */
void steno_pool_plan(steno_pool *p);
/* Return the capacity in live streams, and whether steps should wait for larger batches. */
int steno_pool_capacity_now(const steno_pool *p);
bool steno_pool_crowded(const steno_pool *p);
/* Return the seconds that a step of n streams takes by the costs at start, which do not change. */
double steno_pool_planned(const steno_pool *p, size_t n);
/* Return what a second of a live stream takes of a worker in the largest batch, as of late. */
double steno_pool_each(const steno_pool *p);
double steno_pool_thread_cpu(void); /* seconds of the calling thread */

/* trial.c */
/* Measure the costs, or use known ones (NULL: measure); sets the largest batch. Before any worker
 * runs. */
STENO_MUST steno_status steno_pool_calibrate(steno_pool *p, const struct steno_pool_costs *known,
                                             steno_err *err);
/* Measure the streams on a new thread, which sets load.costs; the workers may run. */
STENO_MUST steno_status steno_pool_try_later(steno_pool *p, steno_err *err);

/* worker.c */
/* True if there is something to do for the stream now. The caller holds ps->lock. */
bool steno_pool_has_work(const steno_pool_stream *ps);
void *steno_pool_work(void *worker); /* a worker's thread */
/* Deliver DONE unless it has been delivered. Called from a worker, or when no workers run. */
void steno_pool_finish(steno_pool_stream *ps, steno_status st, const steno_err *err);
void steno_pool_stream_free(steno_pool_stream *ps);

#endif
