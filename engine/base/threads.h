/* Threads with names, and a worker team of fixed size for one session.
 *
 * A team of n has the calling thread and n - 1 threads of its own. They spin for some tens of
 * microseconds after a job and then sleep. Part i of a job goes to thread i, with the caller as
 * number 0, so that what part i of one job wrote is in the cache of the core that runs part i of
 * the next job. A thread without a part takes parts of threads that are late. The result of a part
 * may depend only on its number and on n_parts, so the same thread count gives the same bits. */
#ifndef STENO_BASE_THREADS_H
#define STENO_BASE_THREADS_H

#include "base/status.h"

#include <pthread.h>
#include <stdint.h>

typedef struct steno_team steno_team; /* its size is frozen; one thread at a time may call run */

/* Start a thread by pthread_create, with every signal blocked (signals belong to the main thread)
 * and a name of at most 15 characters, which ps -L shows. STENO_ERR_NOMEM names the thread that
 * could not be created. */
STENO_MUST steno_status steno_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
                                           void *arg, steno_err *err);

/* A condition for steno_cond_wait_until; pthread_cond_destroy frees it. */
void steno_cond_init(pthread_cond_t *c);
/* Wait, at most until the time `until` of steno_now_ns, whose clock does not jump. False: it is
 * over. As with pthread_cond_wait the lock is held, and a wait may end without a signal. */
bool steno_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until);

/* Lower the priority of the calling thread and of those it starts from now on (10 nicer; on Linux a
 * thread has its own value). No effect in a sandbox that forbids it. */
void steno_thread_give_way(void);

/* Signs of life of a thread that works long, for a watchdog: from now on each steno_thread_beat of
 * the calling thread adds 1 to *beats, which no other thread writes. NULL: none are counted. A
 * session beats before each node that it runs. */
void steno_thread_count_beats(_Atomic uint64_t *beats);
void steno_thread_beat(void);

/* Start a team. threads >= 1, including the caller; more than 1024 is STENO_ERR_INVAL. */
STENO_MUST steno_status steno_team_new(steno_team **out, int threads, steno_err *err);
void steno_team_free(steno_team *t);      /* joins the threads; accepts NULL */
int steno_team_size(const steno_team *t); /* NULL is a team of one */
/* Run fn(arg, part) for every part in [0, n_parts) and return when all are done. The caller then
 * sees everything that the parts wrote. A team of one (or NULL), or n_parts == 1, runs inline
 * without any synchronisation. fn must not call steno_team_run on the same team. */
void steno_team_run(steno_team *t, int n_parts, void (*fn)(void *arg, int part), void *arg);

#endif
