/* A job is published by one 64-bit ticket {epoch, parts left}. The parts left are a bit each or, if
 * there are more than 32, their number. A worker takes a part by replacing the ticket by one with a
 * part less. That succeeds only while the job of the epoch is unfinished, so the job fields that
 * the worker read before belong to that epoch. A worker that wakes up late cannot touch a later job
 * with stale fields, and nobody waits for sleeping workers. The caller waits only until `done` has
 * counted all parts.
 *
 * Part i belongs to thread i, with the caller as number 0, if that thread comes to take it in time.
 * Parts are mostly ranges of rows, and what a thread wrote last is in the cache of its core. Other
 * threads take the part when they have none of their own left.
 *
 * Sleeping follows Dekker's algorithm. The sleeper counts itself and then reads the ticket; the
 * publisher writes the ticket and then reads the count. Both are sequentially consistent, so one of
 * them sees the other. */
#include "base/threads.h"

#include "base/cpu.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/resource.h>
#endif

enum {
    MAX_THREADS = 1024,
    SPINS = 1600,  /* pause takes about 140 cycles on Skylake and later: some 80 us at 2.5 GHz.
                    * Longer than a node that runs on one thread, whose time waking a virtual
                    * processor would double; shorter than a scheduling quantum. */
    PATIENCE = 20, /* pauses, a microsecond, before a worker without a part of its own takes
                      another's part */
    MASKED = 32    /* up to this number, parts of a job have a bit each */
};

/* The engine's only variable that no handle leads to. A watched thread runs sessions of every
 * network that any family, detector or rescorer has, many of them shared by threads; each would
 * have to be told whose run this is, for a sign of life alone. */
static _Thread_local _Atomic uint64_t *steno_thread_beats;

struct worker {
    steno_team *team;
    int number; /* 1 to size - 1 */
    pthread_t thread;
};

struct steno_team {
    int size, started;
    struct worker *workers;
    _Atomic uint64_t ticket; /* epoch << 32 | parts left, as bits or as their number */
    atomic_int n_parts, done;
    _Atomic(void (*)(void *, int)) fn;
    _Atomic(void *) arg;
    atomic_bool stop;
    atomic_int sleepers;      /* workers that wait for a ticket */
    atomic_bool caller_waits; /* the caller waits for `done` */
    pthread_mutex_t lock;     /* guards only the two conditions */
    pthread_cond_t work, idle;
};

struct start {
    void *(*fn)(void *);
    void *arg;
    char name[16];
};

static void *start_named(void *p)
{
    struct start s = *(struct start *)p;
    free(p);
#if defined(__linux__)
    prctl(PR_SET_NAME, s.name);
#endif
    return s.fn(s.arg);
}

void steno_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool steno_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until)
{
    const struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    return !pthread_cond_timedwait(c, lock, &at);
}

steno_status steno_thread_start(pthread_t *out, const char *name, void *(*fn)(void *), void *arg,
                                steno_err *err)
{
    struct start *s = malloc(sizeof *s);
    sigset_t all, old;
    int rc;
    if (!s)
        return steno_fail(err, STENO_ERR_NOMEM, "thread %s: out of memory", name);
    s->fn = fn;
    s->arg = arg;
    snprintf(s->name, sizeof s->name, "%s", name);
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* base/map.h: taken where it is raised */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(out, NULL, start_named, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        free(s);
        return steno_fail(err, STENO_ERR_NOMEM, "thread %s: %s", name, strerror(rc));
    }
    return STENO_OK;
}

void steno_thread_count_beats(_Atomic uint64_t *counter)
{
    steno_thread_beats = counter;
}

void steno_thread_beat(void)
{
    _Atomic uint64_t *n = steno_thread_beats;
    if (n) /* the only writer; readers order nothing by it */
        atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

void steno_thread_give_way(void)
{
#if defined(__linux__) /* on other systems it would affect the whole process */
    (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 10);
#endif
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static unsigned epoch_of(uint64_t ticket)
{
    return (unsigned)(ticket >> 32);
}

/* The part that thread `self` takes of those left. *then: the parts left without it. Of parts with
 * a bit it takes its own, or the next one that is left. */
static int part_of(uint32_t left, int n, int self, uint32_t *then)
{
    uint32_t from;
    int part;
    if (n > MASKED) {
        *then = left - 1;
        return n - (int)left;
    }
    from = left & ~(((uint32_t)1 << self % n) - 1);
    part = __builtin_ctz(from ? from : left);
    *then = left & ~((uint32_t)1 << part);
    return part;
}

/* Take and run parts of job `epoch` until none are left. */
static void work_on(steno_team *t, unsigned epoch, int self)
{
    uint64_t now = atomic_load_explicit(&t->ticket, memory_order_acquire);
    int patience = PATIENCE;
    while (epoch_of(now) == epoch) {
        void (*fn)(void *, int) = atomic_load_explicit(&t->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&t->arg, memory_order_relaxed);
        int n = atomic_load_explicit(&t->n_parts, memory_order_relaxed);
        uint32_t left = (uint32_t)now, then;
        int part;
        if (!left)
            return;
        if (self >= n && n <= MASKED && patience-- > 0) {
            pause_cpu();
            now = atomic_load_explicit(&t->ticket, memory_order_acquire);
            continue;
        }
        part = part_of(left, n, self, &then);
        if (!atomic_compare_exchange_weak_explicit(&t->ticket, &now, (uint64_t)epoch << 32 | then,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        fn(arg, part);
        /* seq_cst: pairs with the caller, which sets caller_waits and then reads done */
        if (atomic_fetch_add(&t->done, 1) + 1 == n && atomic_load(&t->caller_waits)) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->idle);
            pthread_mutex_unlock(&t->lock);
        }
        now = atomic_load_explicit(&t->ticket, memory_order_acquire);
    }
}

static void wait_for_job(steno_team *t, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (epoch_of(atomic_load_explicit(&t->ticket, memory_order_acquire)) != seen)
            return;
        pause_cpu();
    }
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleepers, 1);
    while (epoch_of(atomic_load(&t->ticket)) == seen)
        pthread_cond_wait(&t->work, &t->lock);
    atomic_fetch_sub(&t->sleepers, 1);
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *p)
{
    const struct worker *w = p;
    steno_team *t = w->team;
    unsigned seen = 0;
    steno_cpu_flush_denormals();
    for (;;) {
        wait_for_job(t, seen);
        seen = epoch_of(atomic_load_explicit(&t->ticket, memory_order_acquire));
        if (atomic_load_explicit(&t->stop, memory_order_acquire))
            return NULL;
        work_on(t, seen, w->number);
    }
}

/* Publish a new epoch, after the job fields are stored, and wake the sleeping workers. */
static void publish(steno_team *t, int n_parts)
{
    unsigned epoch = epoch_of(atomic_load_explicit(&t->ticket, memory_order_relaxed)) + 1;
    uint32_t parts = n_parts < MASKED ? ((uint32_t)1 << n_parts) - 1 : UINT32_MAX;
    atomic_store(&t->ticket,
                 (uint64_t)epoch << 32 | (n_parts > MASKED ? (uint32_t)n_parts : parts));
    if (atomic_load(&t->sleepers) > 0) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->work);
        pthread_mutex_unlock(&t->lock);
    }
}

static void wait_done(steno_team *t, int n)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&t->done, memory_order_acquire) == n)
            return;
        pause_cpu();
    }
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->caller_waits, true);
    while (atomic_load(&t->done) != n)
        pthread_cond_wait(&t->idle, &t->lock);
    atomic_store(&t->caller_waits, false);
    pthread_mutex_unlock(&t->lock);
}

void steno_team_run(steno_team *t, int n_parts, void (*fn)(void *arg, int part), void *arg)
{
    if (n_parts <= 1 || steno_team_size(t) == 1) {
        for (int i = 0; i < n_parts; i++)
            fn(arg, i);
        return;
    }
    atomic_store_explicit(&t->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&t->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&t->n_parts, n_parts, memory_order_relaxed);
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    publish(t, n_parts);
    work_on(t, epoch_of(atomic_load_explicit(&t->ticket, memory_order_relaxed)), 0);
    wait_done(t, n_parts);
}

steno_status steno_team_new(steno_team **out, int threads, steno_err *err)
{
    steno_team *t;
    steno_status st = STENO_OK;
    if (threads < 1 || threads > MAX_THREADS)
        return steno_fail(err, STENO_ERR_INVAL, "worker team of %d threads (1..%d)", threads,
                          MAX_THREADS);
    t = calloc(1, sizeof *t);
    if (!t)
        return steno_fail(err, STENO_ERR_NOMEM, "worker team: out of memory");
    t->size = threads;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->idle, NULL);
    t->workers = calloc((size_t)threads, sizeof *t->workers);
    if (!t->workers)
        st = steno_fail(err, STENO_ERR_NOMEM, "worker team: out of memory");
    while (!st && t->started < threads - 1) {
        char name[24];
        struct worker *w = &t->workers[t->started];
        w->team = t;
        w->number = t->started + 1;
        snprintf(name, sizeof name, "steno-op-%d", w->number);
        st = steno_thread_start(&w->thread, name, work, w, err);
        t->started += !st;
    }
    if (st) {
        steno_team_free(t);
        return st;
    }
    *out = t;
    return STENO_OK;
}

void steno_team_free(steno_team *t)
{
    if (!t)
        return;
    atomic_store_explicit(&t->stop, true, memory_order_release);
    publish(t, 0);
    for (int i = 0; i < t->started; i++)
        pthread_join(t->workers[i].thread, NULL);
    pthread_cond_destroy(&t->idle);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    free(t->workers);
    free(t);
}

int steno_team_size(const steno_team *t)
{
    return t ? t->size : 1;
}
