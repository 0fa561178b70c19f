/* A recogniser that only counts, for tests of the pool: a step every POOL_WINDOW samples, and a
 * check that the samples are the ones that were pushed, in order. And a client of the pool that
 * counts the notes. */
#ifndef STENO_TESTS_UNIT_POOL_FAKE_H
#define STENO_TESTS_UNIT_POOL_FAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "pool/internal.h"

enum { RATE = 8000, WINDOW = 1000 };

/* stream.beam: microseconds a step takes; n_best: the step that fails; sample_rate 1: does not
 * open; endpoint.longest: a name that shows in fake_log. */
extern const struct steno_pool_ops fake_ops;
extern _Atomic int open_fakes, open_steppers, measured;

/* What was stepped, in order: names, a blank after each batch. */
void fake_log_reset(void);
const char *fake_log(void);
/* While it is shut, a step begins but does not end. */
void fake_barrier(bool open);
/* Wait until so many batches have begun since fake_log_reset. */
void fake_wait_batches(int n);

struct client {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    steno_pool_stream *ps;
    int64_t sent;
    int partials, finals, finalized, rooms, done;
    steno_status status;
    char msg[256], text[8][48];
    int64_t done_ns;
    double worst_latency;
    bool close_in_done, cancel_in_event;
};

void client_open(struct client *c, steno_pool *p, const struct steno_pool_stream_options *o);
void client_close(struct client *c);
/* Push n samples, waiting for room as a server would. */
void client_push(struct client *c, int64_t n, size_t piece);
void client_wait_done(struct client *c);
/* A pool of fakes. */
steno_pool *fake_pool(const struct steno_pool_options *o);
steno_pool *pool_open(int workers, int streams, double buffer);

#endif
