/* A fake recognizer for tests of the pool. It takes one step per POOL_WINDOW samples and checks
 * that it gets the pushed samples in order. And a client of the pool that counts the notes. */
#ifndef STENO_TESTS_UNIT_POOL_FAKE_H
#define STENO_TESTS_UNIT_POOL_FAKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "speech/pool/internal.h"

enum { RATE = 8000, WINDOW = 1000, SPEAKER = '!' };

/* The options carry the scenario. stream.beam: microseconds per step. n_best: number of the step
 * that fails. sample_rate 1: open fails. endpoint.longest: the name in fake_log; SPEAKER: it asks
 * for a quarter of a window first, and tells of speech in it. endpoint.silence_after: steps for
 * each window, if it is above 1. endpoint.silence_alone: its part of a step; negative: the first
 * step of a window is not shared. utterance_end: the slack of the steps behind the first one;
 * negative: of all steps. With slack, samples that come between the steps drop the window, and a
 * flush takes the slack away. */
extern const struct steno_pool_ops fake_ops;
extern _Atomic int open_fakes, open_batchers, measured;
extern _Atomic int early_fakes; /* opened, that may begin finals early */

/* As the step of fake_ops, and takes FAKE_BURN of a processor. */
#define FAKE_BURN 2e-3 /* s */
void fake_step_and_burn(steno_batcher *p, steno_stream *const *s, size_t n, steno_status *st,
                        steno_err *err);

/* The steps so far: the names of their streams in order, a blank after each batch. */
void fake_log_reset(void);
const char *fake_log(void);
/* While the barrier is closed, a step begins but does not end. */
void fake_barrier(bool open);
/* Open it until the n-th batch since fake_log_reset, which does not end. Waits for that one. */
void fake_run_to(int n);
/* The step that the barrier holds has come n nodes further. Waits for that. */
void fake_beat(int n);
/* Wait until n batches have begun since fake_log_reset. */
void fake_wait_batches(int n);

struct client {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    steno_pool_stream *ps;
    int64_t sent;
    int starts, partials, finals, finalized, rooms, done;
    steno_status status;
    char msg[256], text[8][48];
    int64_t done_ns;
    double worst_latency;
    bool close_in_done, cancel_in_event;
};

void client_open(struct client *c, steno_pool *p, const struct steno_pool_stream_options *o);
void client_close(struct client *c);
/* Push n samples in pieces of `piece`. Wait for room as a server does. */
void client_push(struct client *c, int64_t n, size_t piece);
void client_wait_done(struct client *c);
/* A pool whose recognizers are fakes. */
steno_pool *fake_pool(const struct steno_pool_options *o);
steno_pool *pool_open(int workers, int streams, double buffer);

#endif
