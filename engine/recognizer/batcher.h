/* Steps of many streams of one model as batches: in which sizes, and what they cost. */
#ifndef STENO_RECOGNIZER_BATCHER_H
#define STENO_RECOGNIZER_BATCHER_H

#include "families/family.h"
#include "steno.h"

/* Runs networks for up to `max` streams of one model as one batch. Confined: one per thread. */
typedef struct steno_batcher steno_batcher;

/* A batch has one of these sizes, 1, 2, 4 ... STENO_BATCH_MAX. A number of streams in between takes
 * the cheapest way: several batches, or one with places left over. */
#define STENO_BATCH_SIZES 6

/* Seconds of one run of the network, by size: [i] for 1 << i streams; INFINITY: not to be used. */
struct steno_step_costs {
    double seconds[STENO_BATCH_SIZES];
    bool more; /* measured: streams run other networks beside, which may take long to time (a
                  search) */
};

/* max: 1 to STENO_BATCH_MAX; it becomes 1 when the model's network does not take batches. */
STENO_MUST steno_status steno_batcher_open(steno_batcher **out, const steno_model *m, int max,
                                           steno_err *err);
void steno_batcher_close(steno_batcher *b);
int steno_batcher_max(const steno_batcher *b);
/* Time the network on noise, size by size, each the smallest of a few runs, until one takes more
 * than `longest` seconds (that and larger ones become INFINITY; size 1 never does). */
STENO_MUST steno_status steno_batcher_measure(steno_batcher *b, double longest,
                                              struct steno_step_costs *c, steno_err *err);
int64_t steno_batcher_network_ns(const steno_batcher *b); /* in runs of the network so far */
/* The same in processor time of the calling thread, counted from the first call on. */
int64_t steno_batcher_network_cpu(steno_batcher *b);
/* Choose sizes by these costs. Without it, each size is taken to cost as much as one stream. */
void steno_batcher_set_costs(steno_batcher *b, const struct steno_step_costs *c);
/* What n streams cost by them, in seconds. */
double steno_step_cost(const struct steno_step_costs *c, size_t n);

/* A step of each of n ready streams of the batcher's model; st[i] and err[i] (err may be NULL) tell
 * how it went. n may be larger than the batcher's max. What a stream says does not depend on the
 * other streams of its batch (docs/pool.md has the exception, level blas). */
void steno_streams_step(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *st,
                        steno_err *err);

#endif
