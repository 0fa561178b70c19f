/* Steps of many streams of one model as batches: batch sizes and their costs. */
#ifndef STENO_RECOGNIZER_BATCHER_H
#define STENO_RECOGNIZER_BATCHER_H

#include "speech/families/family.h"
#include "steno.h"

/* Runs steps of streams of one model, up to `max` streams in a batch. Confined: one per thread. */
typedef struct steno_batcher steno_batcher;

/* Number of batch sizes: 1, 2, 4 ... STENO_BATCH_MAX. A number of streams in between runs in the
 * cheapest way: as several batches, or as one with unused places. */
#define STENO_BATCH_SIZES 6

/* Seconds of one run of the network by batch size: [i] for 1 << i streams; INFINITY: do not use it.
 */
struct steno_step_costs {
    double seconds[STENO_BATCH_SIZES];
    bool more; /* set by measure: steps also run networks that are not timed, such as a search's */
};

/* max: 1 to STENO_BATCH_MAX; it becomes 1 if the model takes no batches. m is borrowed. Errors of
 * the family's worker_open; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_batcher_open(steno_batcher **out, const steno_model *m, int max,
                                           steno_err *err);
void steno_batcher_close(steno_batcher *b);
int steno_batcher_max(const steno_batcher *b);
/* Whether streams say what part of a step they take (steno_stream_share). Sizes then have no costs
 * of their own. */
bool steno_batcher_shares(const steno_batcher *b);
/* Time the network on noise for each size; *c gets the shortest of a few runs. The first size that
 * takes more than `longest` seconds and all larger ones get INFINITY, but never size 1. Errors of
 * the family's trial. */
STENO_MUST steno_status steno_batcher_measure(steno_batcher *b, double longest,
                                              struct steno_step_costs *c, steno_err *err);
int64_t steno_batcher_network_ns(const steno_batcher *b); /* in runs of networks so far */
/* The same in processor time of the calling thread. The first call starts the count. */
int64_t steno_batcher_network_cpu(steno_batcher *b);
/* Choose sizes by these costs. Before this call every size has the cost of one
 * stream. */
void steno_batcher_set_costs(steno_batcher *b, const struct steno_step_costs *c);
/* Seconds that a step of n streams takes by these costs. */
double steno_step_cost(const struct steno_step_costs *c, size_t n);

/* Run a step of each of n ready streams of the batcher's model. n may be larger than the batcher's
 * max. Each stream has its status st[i] and message err[i] (err may be NULL). The results of a
 * stream do not depend on the other streams of the batch (docs/pool.md: except at level blas). */
void steno_streams_step(steno_batcher *b, steno_stream *const *s, size_t n, steno_status *st,
                        steno_err *err);

#endif
