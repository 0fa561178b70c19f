/* NVIDIA's streaming Sortformer, an end-to-end network of diarization, as the community exports it
 * to ONNX: it reads log-mel frames of a chunk with the embeddings of earlier frames (arrival.h),
 * and says of each speaker, in the order in which they arrived, whether he talks in each frame.
 * Exports differ in whether lengths are fixed, in their metadata, and in whether an output with
 * finer frames is there (docs/speakers.md). Frozen; one session runs it at a time. */
#ifndef STENO_SPEAKERS_SORTFORMER_H
#define STENO_SPEAKERS_SORTFORMER_H

#include "formats/json.h"
#include "formats/onnx_head.h"
#include "nn/network/network.h"
#include "speech/speakers/arrival.h"

#define STENO_SORTFORMER_RATE 16000
#define STENO_SORTFORMER_MELS 8       /* mel frames of a frame */
#define STENO_SORTFORMER_SAMPLES 1280 /* of a frame: 80 ms */

/* How a stream is divided, in frames. */
struct steno_sortformer_steps {
    size_t chunk;       /* new frames of a step */
    size_t left, right; /* frames before and after them that the step reads too */
    size_t queue, cache, period;
};

struct steno_sortformer {
    steno_network *net; /* NULL: not open */
    int chunk, cache, queue;
    int chunk_length, cache_length, queue_length; /* inputs; the last two -1: there is none */
    int probs, embeddings, fine;                  /* outputs; fine -1: there is none */
    size_t fixed_chunk, fixed_cache, fixed_queue; /* frames of the inputs; 0: any number */
    size_t bins, dim, speakers;
    size_t parts;   /* rows of a frame in what is told: 1, or those of the fine output */
    size_t rests;   /* steno_arrival_rules */
    float *silence; /* the same; [dim] or NULL */
    struct steno_sortformer_steps recording, live;
};

/* Whether a file is such a network, by the names of its inputs and outputs. */
bool steno_sortformer_is(const steno_onnx_head *h);
/* Open one; silence is run through it. Numbers that its metadata lacks are taken from config.json
 * beside it. STENO_ERR_FORMAT, STENO_ERR_UNSUPPORTED name what is wrong. s must be zeros, and is
 * closed after a failure too. */
STENO_MUST steno_status steno_sortformer_open(struct steno_sortformer *s, const char *path,
                                              steno_err *err);
void steno_sortformer_close(struct steno_sortformer *s);
/* Let live streams have the latency of a setting that NVIDIA documents: 0.32, 1.04, 10 or 30.4 s.
 * STENO_ERR_INVAL; STENO_ERR_UNSUPPORTED: the network's lengths are fixed. */
STENO_MUST steno_status steno_sortformer_set_latency(struct steno_sortformer *s, double seconds,
                                                     steno_err *err);
/* Frames of the longest chunk that a step reads. */
size_t steno_sortformer_most(const struct steno_sortformer *s,
                             const struct steno_sortformer_steps *steps);

/* What a run said, valid until the next one of the session. */
struct steno_sortformer_answer {
    const float *memory;     /* [n_cache + n_queue, speakers] */
    const float *probs;      /* [frames, speakers] of the chunk */
    const float *embeddings; /* [frames, dim] */
    const float *told;       /* [frames * parts, speakers] of the chunk: what is reported */
    size_t frames;
};

/* Run it. mel: [steno_sortformer_most * STENO_SORTFORMER_MELS, bins], of which the first `mels`
 * rows are of the chunk and the others are overwritten. a: what is remembered; unused rows are
 * overwritten. STENO_ERR_FORMAT: shapes or numbers that cannot be. */
STENO_MUST steno_status steno_sortformer_run(const struct steno_sortformer *s,
                                             steno_session *session, float *mel, size_t mels,
                                             struct steno_arrival *a,
                                             struct steno_sortformer_answer *out, steno_err *err);

#endif
