/* The pool's inside: what pool.c (life of pool and streams, scheduling) and worker.c (what a worker
 * does with a stream) share. Locks and their order: docs/threads.md. */
#ifndef STENO_POOL_INTERNAL_H
#define STENO_POOL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "pool/pool.h"
#include "pool/ring.h"

/* What the pool does with a recogniser; steno_pool_open uses that of models/stream.h, tests bring
 * their own behind the same pointer types. Calls for one recogniser never overlap. */
struct steno_pool_ops {
    steno_status (*open)(steno_stream **out, steno_model *m, const struct steno_stream_options *opt,
                         steno_err *err);
    int (*rate)(const steno_model *m); /* when the options name none */
    void (*close)(steno_stream *s);
    steno_status (*feed)(steno_stream *s, const float *pcm, size_t n, size_t *used, steno_err *err);
    bool (*ready)(const steno_stream *s);
    size_t (*missing)(const steno_stream *s);
    void (*step)(steno_stream *const *s, size_t n, steno_status *st, steno_err *err);
    steno_status (*finalize)(steno_stream *s, steno_err *err);
    steno_status (*end)(steno_stream *s, steno_err *err);
    bool (*next)(steno_stream *s, struct steno_event *ev);
};

#define STENO_POOL_BLOCK 4096 /* samples a worker copies out of a ring at a time */
#define STENO_POOL_MARKS 64   /* pushes whose arrival is remembered per stream */

struct steno_pool_mark { /* samples up to `end` had arrived at `ns` */
    int64_t end, ns;
};

struct steno_pool_stream {
    steno_pool *pool;
    steno_stream *rec; /* NULL once it is over */
    int rate;
    int64_t slack_ns;
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

struct steno_pool_worker {
    steno_pool *pool;
    pthread_t thread;
    bool started;
    _Atomic bool busy;
    _Atomic int64_t since_ns;
    float block[STENO_POOL_BLOCK];
};

struct steno_pool {
    const struct steno_pool_ops *ops;
    steno_model *model;
    struct steno_pool_options opt;
    struct steno_pool_worker *workers;
    int n_workers;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t work;
    steno_pool_stream **heap; /* [max_streams], earliest deadline first */
    int n_ready;
    steno_pool_stream *streams; /* all that are not closed */
    uint64_t tickets;
    int refs; /* the owner and every open stream */
    bool stop;
    struct steno_pool_stats stats;
};

STENO_MUST steno_status steno_pool_open_with(steno_pool **out, const struct steno_pool_ops *ops,
                                             steno_model *model,
                                             const struct steno_pool_options *opt, steno_err *err);
/* Into the ready heap; the caller holds ps->lock and has set ps->held. */
void steno_pool_enqueue(steno_pool_stream *ps);
/* The next stream to serve, waiting for one; NULL when the pool stops. */
steno_pool_stream *steno_pool_take(steno_pool *p, int64_t *waited_ns);
/* There is something to do for the stream now; the caller holds ps->lock. */
bool steno_pool_has_work(const steno_pool_stream *ps);
void *steno_pool_work(void *worker); /* a worker's thread */
/* Deliver DONE unless that has happened; from a worker, or when there are none any more. */
void steno_pool_finish(steno_pool_stream *ps, steno_status st, const steno_err *err);
void steno_pool_stream_free(steno_pool_stream *ps);

#endif
