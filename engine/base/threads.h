/* Threads with names, and a worker team of fixed size for one session.
 *
 * A team of n is the calling thread and n - 1 threads of its own, which spin for some tens of
 * microseconds after a job and then sleep. Part i of a job goes to thread i, the caller being
 * number 0, so that what one job's part i wrote is in the cache of the core that runs the next
 * job's; a thread without a part takes those of threads that have not come to theirs. A part's
 * result may depend on its number and on n_parts alone, so the same thread count gives the same
 * bits. */
#ifndef STENO_BASE_THREADS_H
#define STENO_BASE_THREADS_H

#include "base/status.h"

#include <pthread.h>

typedef struct steno_team steno_team; /* frozen size; run is for one thread at a time */

/* pthread_create with every signal blocked (they belong to the main thread) and a name of at most
 * 15 characters shown by ps -L. STENO_ERR_NOMEM naming the thread when it cannot be created. */
STENO_MUST steno_status steno_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
                                           void *arg, steno_err *err);

/* The calling thread, and those it starts from now on, give way to others (10 nicer; Linux: a
 * thread's own value). A sandbox that forbids it leaves things as they are. */
void steno_thread_give_way(void);

/* threads >= 1, the caller's included; more than 1024 is STENO_ERR_INVAL. */
STENO_MUST steno_status steno_team_new(steno_team **out, int threads, steno_err *err);
void steno_team_free(steno_team *t);      /* joins the threads; accepts NULL */
int steno_team_size(const steno_team *t); /* NULL is a team of one */
/* fn(arg, part) for every part in [0, n_parts), returning when all are done; what the parts wrote
 * is then visible to the caller. A team of one (or NULL), or n_parts == 1, runs inline with no
 * synchronisation at all. fn must not call steno_team_run on the same team. */
void steno_team_run(steno_team *t, int n_parts, void (*fn)(void *arg, int part), void *arg);

#endif
