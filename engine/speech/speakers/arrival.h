/* What a Sortformer remembers of a stream: the embeddings of the latest frames, in a queue, and of
 * earlier ones those that tell its speakers best, in a cache, by speaker in the order in which they
 * arrived (Medennikov et al., "Streaming Sortformer: Speaker Cache-Based Online Speaker Diarization
 * with Arrival-Time Ordering", Interspeech 2025). The rules are those of NeMo's
 * SortformerModules.streaming_update
 * (github.com/NVIDIA-NeMo/NeMo, nemo/collections/asr/modules/sortformer_modules.py). Pure. */
#ifndef STENO_SPEAKERS_ARRIVAL_H
#define STENO_SPEAKERS_ARRIVAL_H

#include "base/array.h"

#define STENO_ARRIVAL_SPEAKERS 8 /* at most */

struct steno_arrival_rules {
    size_t cache, queue; /* frames that they hold */
    size_t chunk;        /* frames that come at once, at most */
    size_t period;       /* frames that leave a full queue together */
    size_t speakers, dim;
    size_t rests;         /* frames of silence that end a speaker's part of the cache */
    const float *silence; /* [dim] that stands there, borrowed; NULL: the mean of silent frames */
};

/* Confined. */
struct steno_arrival {
    struct steno_arrival_rules rules;
    size_t n_cache, n_queue;
    float *cache, *cache_probs; /* [cache + queue + chunk, dim], [the same, speakers] */
    float *queue, *queue_probs; /* [queue + chunk, dim], [the same, speakers] */
    bool compressed;            /* the cache was full once: cache_probs are its frames' */
    float *silence;             /* [dim] of a frame in which nobody talks */
    size_t n_silence;           /* frames that it is the mean of */
    void *scratch;
    struct steno_blocks memory; /* of the arrays */
};

/* STENO_ERR_INVAL names the rule that cannot be. a is closed after a failure too. STENO_ERR_NOMEM.
 */
STENO_MUST steno_status steno_arrival_init(struct steno_arrival *a,
                                           const struct steno_arrival_rules *rules, steno_err *err);
void steno_arrival_free(struct steno_arrival *a);
/* Take n frames, at most a chunk, with their embeddings [n, dim], and what the network said of the
 * cache, the queue and them: all [n_cache + n_queue, speakers] and probs [n, speakers]. Numbers
 * that are not finite count as nobody. */
void steno_arrival_take(struct steno_arrival *a, const float *all, const float *embeddings,
                        const float *probs, size_t n);

#endif
