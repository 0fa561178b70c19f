/* Joint beam search over an attention decoder, CTC prefix scores, language models and a length
 * bonus: ESPnet's BatchBeamSearch (espnet/nets/batch_beam_search.py), one step for all hypotheses
 * at once.
 *
 * Scorers are reached through a function pointer and name hypotheses by their index in the call
 * before, so that caches are reordered, never looked up. In steady state nothing is allocated:
 * memory grows with the longest utterance so far and is kept. Confined. */
#ifndef STENO_DECODER_JOINT_H
#define STENO_DECODER_JOINT_H

#include "base/status.h"

typedef struct steno_joint steno_joint;

/* A model that scores every token of the vocabulary. */
struct steno_joint_scorer {
    void *self;
    double weight;
    /* out [n, vocab]: log-probabilities of the token after each prefix. prefix[i]: [length] tokens,
     * sos first; hypothesis i is number parent[i] of the call before with one token more. length 1:
     * a new utterance. */
    steno_status (*score)(void *self, const int32_t *const *prefix, size_t length,
                          const int32_t *parent, size_t n, float *out, steno_err *err);
    /* It has no say in which tokens CTC looks at, only in what those score (ESPnet's partial
     * scorers); without CTC the same as any other. At most one. */
    bool partial;
};

struct steno_joint_options {
    int32_t vocab, sos, eos, blank;
    size_t beam;      /* 1..vocab */
    size_t pre_beam;  /* tokens of each hypothesis that CTC looks at; 0 = all */
    int pre_beam_key; /* scorer that chooses them (of weight > 0), -1 = the weighted sum of all */
    double ctc_weight, length_bonus; /* per token */
    /* Longest output: 0 = as many tokens as frames, and the end is detected (Watanabe et al. 2017,
     * eq. 50); > 0 this share of the frames; < 0 that many tokens. Shortest: the same, 0 = none. */
    double max_len_ratio, min_len_ratio;
    size_t max_tokens; /* what scorers have positions for; 0 = any number */
    /* What espnet_onnx 0.2.1 does: min_len_ratio has no effect, an empty result is not tried again.
     */
    bool as_espnet_onnx;
};

struct steno_joint_hyp {
    const int32_t *tokens; /* sos ... eos */
    size_t n;
    double score;
};

/* STENO_ERR_INVAL: beam out of range. */
STENO_MUST steno_status steno_joint_open(steno_joint **out, const struct steno_joint_options *opt,
                                         steno_err *err);
void steno_joint_close(steno_joint *j);
/* Search one utterance. ctc: [frames, vocab] log-probabilities, NULL allowed where ctc_weight is 0;
 * scorers of weight 0 are not called. At most `frames` steps; frames >= 1. STENO_ERR_NOMEM, errors
 * of scorers, STENO_ERR_FORMAT when nothing but NaN is left to choose from. */
STENO_MUST steno_status steno_joint_run(steno_joint *j, const struct steno_joint_scorer *scorers,
                                        size_t n_scorers, const float *ctc, size_t frames,
                                        steno_err *err);
/* Hypotheses that ended, best first; valid until the next run. */
size_t steno_joint_count(const steno_joint *j);
struct steno_joint_hyp steno_joint_get(const steno_joint *j, size_t i);

#endif
