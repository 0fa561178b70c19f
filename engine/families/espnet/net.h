/* The networks of an espnet_onnx directory, run: audio -> features -> encoder -> CTC scores ->
 * joint search. What is frozen is in struct steno_espnet; sessions and buffers of one utterance at
 * a time are a runner, lent out by the model, so that memory goes with workers and not with
 * streams. */
#ifndef STENO_FAMILIES_ESPNET_NET_H
#define STENO_FAMILIES_ESPNET_NET_H

#include <pthread.h>

#include "search/aed_beam.h"
#include "search/lm/ngram.h"
#include "nn/network/network.h"
#include "features/cmvn.h"
#include "features/fbank.h"
#include "families/espnet/conf.h"

struct steno_espnet_options {
    const char *cpu;
    int threads;
    bool quantized; /* take the quantize/ networks */
    bool plain;     /* no graph passes */
    enum steno_precision precision;
    /* Results of espnet_onnx 0.2.1, its faults included (docs/espnet.md lists them). */
    bool as_espnet_onnx;
    bool without_lm;
    const struct steno_observer *observer; /* of steno_model_options */
};

typedef struct steno_espnet_runner steno_espnet_runner;
struct steno_espnet_blocks; /* espnet_block.h */

/* Frozen, but for the list of idle runners (locked: `lock` guards idle, n_idle). */
struct steno_espnet {
    struct steno_espnet_conf conf;
    struct steno_espnet_options opt;
    /* decoder, lm: one token at a time where the graph allows, with what goes before (or NULL);
     * else whole prefixes */
    steno_network *encoder, *ctc, *decoder, *decoder_once, *lm, *lm_once;
    bool decoder_cached, lm_cached;
    steno_network *predecoder,
        *joint;         /* RNN decoder: its predecoder; transducer: its joint network */
    steno_ngram *ngram; /* n-gram model, NULL: none */
    steno_ngram_map *ngram_map;
    struct steno_fbank_options fbank;
    steno_fbank *front; /* of them; streams and runners share its tables */
    float log_scale;    /* of the natural logarithm, for another base */
    steno_cmvn *cmvn;
    struct steno_espnet_blocks *blocks; /* streaming encoder, else NULL */
    bool batches;                       /* it takes blocks of several streams at once */
    int64_t dim;                        /* of the encoder's rows */
    bool shares_rows;     /* the decoder takes one copy of the rows for all hypotheses */
    size_t max_rows;      /* the encoder has positions for; 0 = any number */
    size_t max_tokens;    /* ... decoder and LM; 0 = any number */
    size_t frame_samples; /* per row of the encoder, at the model's rate */
    size_t runner_bytes;  /* activations of one runner, about, after the trial at load */
    pthread_mutex_t lock;
    bool has_lock;
    steno_espnet_runner *idle; /* linked */
};

/* Load and check everything, with a trial run on silence. *e is to be closed in any case. */
STENO_MUST steno_status steno_espnet_open(struct steno_espnet *e, const char *dir,
                                          const struct steno_espnet_options *opt, steno_err *err);
void steno_espnet_close(struct steno_espnet *e);
size_t steno_espnet_weight_bytes(const struct steno_espnet *e);

/* How one search differs from the model's own settings. */
struct steno_espnet_search {
    size_t beam, n_best;
    double ctc_weight, lm_weight, length_bonus, max_len_ratio, min_len_ratio, pre_beam_ratio;
};
/* The model's own. */
struct steno_espnet_search steno_espnet_defaults(const struct steno_espnet *e);
/* STENO_ERR_INVAL names the option. */
STENO_MUST steno_status steno_espnet_check_search(const struct steno_espnet *e,
                                                  const struct steno_espnet_search *s,
                                                  steno_err *err);

/* A runner of one's own until given back. */
STENO_MUST steno_status steno_espnet_acquire(struct steno_espnet *e, steno_espnet_runner **out,
                                             steno_err *err);
void steno_espnet_release(struct steno_espnet *e, steno_espnet_runner *r);

/* e->cmvn (espnet_stats.c). */
STENO_MUST steno_status steno_espnet_open_stats(struct steno_espnet *e, steno_err *err);
/* For espnet_recurrent.c: open network `role`, in the form asked for; a runner's parts. */
STENO_MUST steno_status steno_espnet_load(struct steno_espnet *e, const struct steno_espnet_file *f,
                                          const char *role, steno_network **net, steno_err *err);
struct steno_espnet_rnns;
struct steno_espnet_rnns *steno_espnet_recurrent(steno_espnet_runner *r);

/* For espnet_block.c: a runner's parts, and n floats of its memory (until the next call). */
struct steno_espnet *steno_espnet_runner_model(steno_espnet_runner *r);
steno_session *steno_espnet_encoder(steno_espnet_runner *r);
STENO_MUST steno_status steno_espnet_scratch(steno_espnet_runner *r, size_t n, float **out,
                                             steno_err *err);

/* What follows works on one utterance after the other; each result is valid until the same call
 * comes again. */

/* In place: natural logarithms [frames, bins] to the network's base and global mean and variance;
 * or logarithms of that base already. */
void steno_espnet_normalize(const struct steno_espnet *e, float *x, size_t frames);
void steno_espnet_normalize_logs(const struct steno_espnet *e, float *x, size_t frames);
/* Normalised features of a whole utterance: pcm [n] at the model's rate -> [frames, bins]. */
STENO_MUST steno_status steno_espnet_features(steno_espnet_runner *r, const float *pcm, size_t n,
                                              const float **feats, size_t *frames, steno_err *err);
/* feats [frames, bins] -> rows [rows, dim]; rows 0 when there are too few frames. */
STENO_MUST steno_status steno_espnet_encode(steno_espnet_runner *r, const float *feats,
                                            size_t frames, const float **rows, size_t *n_rows,
                                            steno_err *err);
/* rows -> log-probabilities [rows, vocab]; NULL for a transducer, which has no CTC. */
STENO_MUST steno_status steno_espnet_ctc(steno_espnet_runner *r, const float *rows, size_t n_rows,
                                         const float **scores, steno_err *err);
/* Joint search, of models that are no transducer; ctc as steno_espnet_ctc gave it for these rows.
 * The result is the runner's, until the next search: steno_joint_count, steno_joint_get. */
STENO_MUST steno_status steno_espnet_decode(steno_espnet_runner *r,
                                            const struct steno_espnet_search *s, const float *rows,
                                            size_t n_rows, const float *ctc,
                                            const steno_joint **result, steno_err *err);

/* The joint search block by block (steno_joint_blocks), of one stream: what it keeps is its own,
 * the networks are a runner's for each block. Confined. */
typedef struct steno_espnet_block_search steno_espnet_block_search;

/* Streaming encoder, and a decoder and LM that go one token at a time (or no say in it). */
bool steno_espnet_block_search_possible(const struct steno_espnet *e,
                                        const struct steno_espnet_search *s);
STENO_MUST steno_status steno_espnet_block_search_open(steno_espnet_block_search **out,
                                                       const struct steno_espnet *e,
                                                       const struct steno_espnet_search *s,
                                                       steno_err *err);
void steno_espnet_block_search_close(steno_espnet_block_search *x);
/* Before another utterance. */
void steno_espnet_block_search_restart(steno_espnet_block_search *x);
/* The utterance's rows [n_rows, dim] and scores [n_rows, vocab] so far, n_rows >= 1; last as of
 * struct steno_joint_block. */
struct steno_espnet_block_search_block {
    steno_espnet_block_search *search;
    const float *rows, *ctc;
    size_t n_rows, last;
    steno_status st; /* the result */
    steno_err *err;  /* or NULL */
};
/* Of n streams of one model, at most STENO_BATCH_MAX: decoder and LM take a step for all of them at
 * once. */
void steno_espnet_block_search_blocks(struct steno_espnet_block_search_block *blocks, size_t n,
                                      steno_espnet_runner *r);
/* steno_joint_running, and after the last block steno_joint_count, steno_joint_get. */
const steno_joint *steno_espnet_block_search_joint(const steno_espnet_block_search *x);
size_t steno_espnet_block_search_bytes(const steno_espnet_block_search *x);

#endif
