/* Joint beam search over an attention decoder, CTC prefix scores, language models and a length
 * bonus: ESPnet's BatchBeamSearch (espnet/nets/batch_beam_search.py), one step for all hypotheses
 * at once.
 *
 * Scorers are called through a function pointer. They identify hypotheses by their index in the
 * previous call, so that caches are reordered and never looked up. In steady state nothing is
 * allocated: memory grows with the longest utterance so far and is kept. Confined. */
#ifndef STENO_SEARCH_AED_BEAM_H
#define STENO_SEARCH_AED_BEAM_H

#include "base/status.h"
#include "speech/search/rules.h"

typedef struct steno_joint steno_joint;

/* A request for scores of one search; a call may have several. */
struct steno_score_request {
    void *self;
    const int32_t *const *prefix; /* [n] of [length] */
    size_t length;
    const int32_t *parent; /* [n] */
    size_t n;
    float *out;      /* [n, vocab] */
    steno_status st; /* the result */
    steno_err *err;  /* or NULL */
};

/* A model that scores every token of the vocabulary. */
struct steno_joint_scorer {
    void *self;
    double weight;
    /* out [n, vocab]: log-probabilities of the token after each prefix. prefix[i]: [length] tokens,
     * sos first; hypothesis i is hypothesis parent[i] of the previous call with one token more.
     * length 1: a new utterance. */
    steno_status (*score)(void *self, const int32_t *const *prefix, size_t length,
                          const int32_t *parent, size_t n, float *out, steno_err *err);
    /* Replaces `score` for n searches at once, each with its own self; each may fail by itself.
     * NULL: `score` is called for each. */
    void (*score_each)(struct steno_score_request *requests, size_t n);
    /* The next call of score repeats the prefixes of the last call (calls 0) or of the call before
     * it (calls 1); then `parent` is not used. Needed only block by block; NULL: not supported. */
    void (*rewind)(void *self, int calls);
    /* The scorer does not influence which tokens CTC scores, only the scores of those (ESPnet's
     * partial scorers). Without CTC it is like any other. At most one. */
    bool partial;
};

struct steno_joint_options {
    int32_t vocab, sos, eos, blank;
    size_t beam;      /* 1..vocab */
    size_t pre_beam;  /* tokens per hypothesis that CTC scores; 0 = all */
    int pre_beam_key; /* scorer that selects them (of weight > 0), -1 = the weighted sum of all */
    double ctc_weight, length_bonus; /* per token */
    /* Longest output: 0 = as many tokens as frames, with end detection (Watanabe et al. 2017, eq.
     * 50); > 0 this fraction of the frames; < 0 that number of tokens. Shortest output: the same, 0
     * = no minimum. */
    double max_len_ratio, min_len_ratio;
    size_t max_tokens; /* number of positions that scorers have; 0 = unlimited */
    /* STENO_RULES_ESPNET_ONNX: min_len_ratio has no effect, an empty result is not tried again. */
    enum steno_search_rules rules;
    bool no_repetition; /* block by block: a repeated token does not stop the search */
};

struct steno_joint_hyp {
    const int32_t *tokens; /* sos ... eos */
    size_t n;
    double score;
};

/* Open a search. STENO_ERR_INVAL: beam out of range. */
STENO_MUST steno_status steno_joint_open(steno_joint **out, const struct steno_joint_options *opt,
                                         steno_err *err);
void steno_joint_close(steno_joint *j);
/* Search one utterance. ctc: [frames, vocab] log-probabilities; NULL is allowed if ctc_weight is 0.
 * Scorers of weight 0 are not called. At most `frames` steps; frames >= 1. STENO_ERR_NOMEM, errors
 * of scorers, STENO_ERR_FORMAT: all scores are NaN. */
STENO_MUST steno_status steno_joint_run(steno_joint *j, const struct steno_joint_scorer *scorers,
                                        size_t n_scorers, const float *ctc, size_t frames,
                                        steno_err *err);
/* Hypotheses that ended, best first. Valid until the next run. */
size_t steno_joint_count(const steno_joint *j);
struct steno_joint_hyp steno_joint_get(const steno_joint *j, size_t i);

/* The same block by block: ESPnet's BatchBeamSearchOnline (Tsunoo et al., "Streaming Transformer
 * ASR with Blockwise Synchronous Beam Search", 2021). The search takes steps over the frames so far
 * until a hypothesis ends, or the newest token of one already occurs in it (equation 11). Then it
 * has read past the audio: this step and the one before it are undone, and the search continues
 * when there is more audio. The last block is searched to the end. Scorers need `rewind`. Faults of
 * ESPnet's own code are not copied: ended hypotheses count once, and the length limit ends nothing
 * before the last block. */
void steno_joint_begin(steno_joint *j);
/* ctc [frames, vocab]: the utterance from its beginning; scorers know the same frames. last: 0: not
 * the last block; else the maximum of steps of the last block, with STENO_NEED_MORE if steps remain
 * (call again with the same arguments). After the last block: steno_joint_count, steno_joint_get.
 * Errors as those of steno_joint_run. */
struct steno_joint_block {
    steno_joint *j;
    const struct steno_joint_scorer *scorers;
    size_t n_scorers;
    const float *ctc;
    size_t frames, last;
    steno_status st; /* the result */
    steno_err *err;  /* or NULL */
    size_t steps;    /* private: steps left of `last` */
    bool over;       /* private: no further step in this block */
};
/* Search blocks of n searches, at most STENO_JOINT_MOST, together step by step: scorer i of all of
 * them is called at once, if it has score_each. A search that fails does not affect the others.
 * Results are the same as those of one search after the other. */
enum { STENO_JOINT_MOST = 32 };
void steno_joint_blocks(struct steno_joint_block *blocks, size_t n);
/* The best hypothesis that has not ended: sos ... without eos. n is 0 before the first block. Valid
 * until the next block. */
struct steno_joint_hyp steno_joint_running(const steno_joint *j);

#endif
