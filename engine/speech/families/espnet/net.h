/* Runs the networks of an espnet_onnx directory: audio -> features -> encoder -> CTC scores ->
 * joint search. struct steno_espnet has the frozen parts. A runner has the sessions and buffers for
 * one utterance at a time. A worker acquires a runner from the model for a step, so memory grows
 * with the number of workers and not with the number of streams. */
#ifndef STENO_FAMILIES_ESPNET_NET_H
#define STENO_FAMILIES_ESPNET_NET_H

#include <pthread.h>

#include "speech/search/aed_beam.h"
#include "speech/search/lm/ngram.h"
#include "nn/network/network.h"
#include "speech/features/cmvn.h"
#include "speech/features/fbank.h"
#include "speech/families/espnet/conf.h"

struct steno_espnet_options {
    const char *cpu;
    int threads;
    bool quantized; /* use the networks in quantize/ */
    bool plain;     /* no graph passes */
    enum steno_precision precision;
    /* Give the results of espnet_onnx 0.2.1, including its faults (docs/espnet.md lists them). */
    bool as_espnet_onnx;
    bool without_lm;
    const struct steno_observer *observer; /* of steno_model_options */
};

typedef struct steno_espnet_runner steno_espnet_runner;
struct steno_espnet_blocks; /* block.h */

/* Frozen, except the list of idle runners (locked: `lock` guards idle). */
struct steno_espnet {
    struct steno_espnet_conf conf;
    struct steno_espnet_options opt;
    /* decoder, lm: the step of a decoder with cache if the graph allows one (decoder_cached,
     * lm_cached); `once` is the part that runs before the steps, or NULL. Else whole prefixes. */
    steno_network *encoder, *ctc, *decoder, *decoder_once, *lm, *lm_once;
    bool decoder_cached, lm_cached;
    steno_network *predecoder, *joint; /* of an RNN decoder; of a transducer */
    steno_ngram *ngram;                /* n-gram model; NULL: none */
    steno_ngram_map *ngram_map;
    struct steno_fbank_options fbank;
    steno_fbank *front; /* its tables are shared by streams and runners */
    float log_scale;    /* factor from natural logarithms to those of the model */
    steno_cmvn *cmvn;
    struct steno_espnet_blocks *blocks; /* of a streaming encoder; else NULL */
    bool batches;                       /* it takes blocks of several streams in one run */
    int64_t dim;                        /* of an encoder frame */
    bool shares_rows;                   /* all hypotheses share one copy of the encoder frames */
    size_t max_rows;                    /* encoder frames that have positions; 0: any number */
    size_t max_tokens;    /* tokens for which decoder and LM have positions; 0: any number */
    size_t frame_samples; /* samples per encoder frame, at the model's rate */
    size_t runner_bytes;  /* approximate memory of one runner, measured by the trial at load */
    pthread_mutex_t lock;
    bool has_lock;
    steno_espnet_runner *idle; /* linked list */
};

/* Whose rules the searches follow. */
static inline enum steno_search_rules steno_espnet_rules(const struct steno_espnet *e)
{
    return e->opt.as_espnet_onnx ? STENO_RULES_ESPNET_ONNX : STENO_RULES_ESPNET;
}

/* Load and check everything, and run all networks once on silence. opt: its strings are borrowed.
 * Close *e in any case. STENO_ERR_IO, STENO_ERR_FORMAT, STENO_ERR_UNSUPPORTED, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_espnet_open(struct steno_espnet *e, const char *dir,
                                          const struct steno_espnet_options *opt, steno_err *err);
void steno_espnet_close(struct steno_espnet *e);
size_t steno_espnet_weight_bytes(const struct steno_espnet *e);

/* Settings of one search; docs/espnet.md explains them. */
struct steno_espnet_search {
    size_t beam, n_best;
    double ctc_weight, lm_weight, length_bonus, max_len_ratio, min_len_ratio, pre_beam_ratio;
};
/* The settings of the model. */
struct steno_espnet_search steno_espnet_defaults(const struct steno_espnet *e);
/* Check the ranges of *s. STENO_ERR_INVAL names the option. */
STENO_MUST steno_status steno_espnet_check_search(const struct steno_espnet *e,
                                                  const struct steno_espnet_search *s,
                                                  steno_err *err);

/* Get a runner for exclusive use until it is released. Errors of steno_session_open,
 * STENO_ERR_NOMEM.
 */
STENO_MUST steno_status steno_espnet_acquire(struct steno_espnet *e, steno_espnet_runner **out,
                                             steno_err *err);
void steno_espnet_release(struct steno_espnet *e, steno_espnet_runner *r);

/* stats.c: open e->cmvn. */
STENO_MUST steno_status steno_espnet_open_stats(struct steno_espnet *e, steno_err *err);
/* The file of a network, full or quantized as the options say; NULL: there is none. */
const char *steno_espnet_path(const struct steno_espnet *e, const struct steno_espnet_file *f);
/* For recurrent.c: open this file for a role; the recurrent parts of a runner. */
STENO_MUST steno_status steno_espnet_load(struct steno_espnet *e, const struct steno_espnet_file *f,
                                          const char *role, steno_network **net, steno_err *err);
struct steno_espnet_rnns;
struct steno_espnet_rnns *steno_espnet_recurrent(steno_espnet_runner *r);

/* For block.c: the parts of a runner, and n floats of its memory, valid until the next call. */
struct steno_espnet *steno_espnet_runner_model(steno_espnet_runner *r);
steno_session *steno_espnet_encoder(steno_espnet_runner *r);
STENO_MUST steno_status steno_espnet_scratch(steno_espnet_runner *r, size_t n, float **out,
                                             steno_err *err);

/* The following functions work on one utterance after the other. Each result is valid until the
 * next call of the same function with the same runner. */

/* Normalize features x [frames, bins] in place by global mean and variance. normalize takes natural
 * logarithms and converts them to the model's base; normalize_logs takes logarithms of that base.
 */
void steno_espnet_normalize(const struct steno_espnet *e, float *x, size_t frames);
void steno_espnet_normalize_logs(const struct steno_espnet *e, float *x, size_t frames);
/* Normalized features [frames, bins] of a whole utterance, pcm [n] at the model's rate. */
STENO_MUST steno_status steno_espnet_features(steno_espnet_runner *r, const float *pcm, size_t n,
                                              const float **feats, size_t *frames, steno_err *err);
/* Encode feats [frames, bins]: *rows [*n_rows, dim] are encoder frames. *n_rows is 0 if there are
 * too few feature frames. STENO_ERR_LIMIT: the encoder lacks positions for so many. */
STENO_MUST steno_status steno_espnet_encode(steno_espnet_runner *r, const float *feats,
                                            size_t frames, const float **rows, size_t *n_rows,
                                            steno_err *err);
/* CTC log-probabilities [n_rows, vocab] of encoder frames; NULL for a transducer, which has no CTC.
 */
STENO_MUST steno_status steno_espnet_ctc(steno_espnet_runner *r, const float *rows, size_t n_rows,
                                         const float **scores, steno_err *err);
/* Joint search over encoder frames; not for a transducer. ctc: from steno_espnet_ctc for these
 * frames. *result belongs to the runner and is valid until its next search: steno_joint_count,
 * steno_joint_get. */
STENO_MUST steno_status steno_espnet_decode(steno_espnet_runner *r,
                                            const struct steno_espnet_search *s, const float *rows,
                                            size_t n_rows, const float *ctc,
                                            const steno_joint **result, steno_err *err);

/* The joint search of one stream block by block (steno_joint_blocks). It owns its hypotheses and
 * caches; the networks are those of a runner, which may be another one for each block. Confined. */
typedef struct steno_espnet_block_search steno_espnet_block_search;

/* Whether the search can go block by block: the encoder streams, and decoder and LM work one token
 * per step (or have weight 0). */
bool steno_espnet_block_search_possible(const struct steno_espnet *e,
                                        const struct steno_espnet_search *s);
STENO_MUST steno_status steno_espnet_block_search_open(steno_espnet_block_search **out,
                                                       const struct steno_espnet *e,
                                                       const struct steno_espnet_search *s,
                                                       steno_err *err);
void steno_espnet_block_search_close(steno_espnet_block_search *x);
/* Begin another utterance. */
void steno_espnet_block_search_restart(steno_espnet_block_search *x);
/* One block. rows, ctc: encoder frames [n_rows, dim] and CTC scores [n_rows, vocab] from the
 * beginning of the utterance, n_rows >= 1. last: like that of struct steno_joint_block. */
struct steno_espnet_block_search_block {
    steno_espnet_block_search *search;
    const float *rows, *ctc;
    size_t n_rows, last;
    steno_status st; /* the result */
    steno_err *err;  /* or NULL */
};
/* Search blocks of n streams of one model, n <= STENO_BATCH_MAX. Decoder and LM take a step for all
 * of them in one run. */
void steno_espnet_block_search_blocks(struct steno_espnet_block_search_block *blocks, size_t n,
                                      steno_espnet_runner *r);
/* For steno_joint_running; after the last block for steno_joint_count and steno_joint_get. */
const steno_joint *steno_espnet_block_search_joint(const steno_espnet_block_search *x);

#endif
