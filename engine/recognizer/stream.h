/* A stream taken apart: what the pool needs to run the networks of many streams together.
 * steno_stream_push is feed + step in a loop; finalize and end are flush + step in a loop. */
#ifndef STENO_RECOGNIZER_STREAM_H
#define STENO_RECOGNIZER_STREAM_H

#include "steno.h"

/* Take samples until a network window is full or all are taken. *used <= n. Confined. */
STENO_MUST steno_status steno_stream_feed(steno_stream *s, const float *pcm, size_t n, size_t *used,
                                          steno_err *err);
/* A window is full: step must come before more feed. */
bool steno_stream_ready(const steno_stream *s);
/* Input samples that are missing until a window is full, about: with fewer of them no step will
 * come. At least 1 while not ready, 0 when ready. */
size_t steno_stream_missing(const steno_stream *s);
/* steno_stream_finalize (or, with `end`, steno_stream_end) in pieces: go on until a window is full,
 * *done = false: step, then call again with the same `end`; or until it is over, *done = true. No
 * feed in between. */
STENO_MUST steno_status steno_stream_flush(steno_stream *s, bool end, bool *done, steno_err *err);

/* Runs networks for up to `max` streams of one model as one batch. Confined: one per thread. */
typedef struct steno_stepper steno_stepper;

/* A batch has one of these sizes; a number of streams in between takes the cheapest way: several
 * batches, or one with places left over. */
#define STENO_BATCH_SIZES 6
#define STENO_BATCH_MAX 32 /* sizes are 1, 2, 4 ... STENO_BATCH_MAX */

/* Seconds of one run of the network, by size: [i] for 1 << i streams; INFINITY: not to be used. */
struct steno_step_costs {
    double seconds[STENO_BATCH_SIZES];
    bool more; /* measured: streams run other networks beside, which may take long to time (a
                  search) */
};

/* max: 1 to STENO_BATCH_MAX; it becomes 1 when the model's network does not take batches. */
STENO_MUST steno_status steno_stepper_open(steno_stepper **out, const steno_model *m, int max,
                                           steno_err *err);
void steno_stepper_close(steno_stepper *p);
int steno_stepper_max(const steno_stepper *p);
/* Time the network on noise, size by size, each the smallest of a few runs, until one takes more
 * than `longest` seconds (that and larger ones become INFINITY; size 1 never does). */
STENO_MUST steno_status steno_stepper_measure(steno_stepper *p, double longest,
                                              struct steno_step_costs *c, steno_err *err);
int64_t steno_stepper_network_ns(const steno_stepper *p); /* in runs of the network so far */
/* The same in processor time of the calling thread, counted from the first call on. */
int64_t steno_stepper_network_cpu(steno_stepper *p);
/* Choose sizes by these costs. Without it, each size is taken to cost as much as one stream. */
void steno_stepper_set_costs(steno_stepper *p, const struct steno_step_costs *c);
/* What n streams cost by them, in seconds. */
double steno_step_cost(const struct steno_step_costs *c, size_t n);

/* Run the network once for each of n ready streams of the stepper's model; st[i] and err[i] (err
 * may be NULL) tell how it went. n may be larger than the stepper's max. What a stream says does
 * not depend on who its company was (docs/pool.md has the exception, level blas). */
void steno_streams_step(steno_stepper *p, steno_stream *const *s, size_t n, steno_status *st,
                        steno_err *err);

#endif
