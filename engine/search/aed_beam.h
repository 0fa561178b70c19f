/* Joint beam search over an attention decoder, CTC prefix scores, language models and a length
 * bonus: ESPnet's BatchBeamSearch (espnet/nets/batch_beam_search.py), one step for all hypotheses
 * at once.
 *
 * Scorers are reached through a function pointer and name hypotheses by their index in the call
 * before, so that caches are reordered, never looked up. In steady state nothing is allocated:
 * memory grows with the longest utterance so far and is kept. Confined. */
#ifndef STENO_SEARCH_AED_BEAM_H
#define STENO_SEARCH_AED_BEAM_H

#include "base/status.h"

typedef struct steno_joint steno_joint;

/* What `score` is asked, of one search among several. */
struct steno_score_request {
    void *self;
    const int32_t *const *prefix; /* [n] of [length] */
    size_t length;
    const int32_t *parent; /* [n] */
    size_t n;
    float *out;      /* [n, vocab] */
    steno_status st; /* the answer */
    steno_err *err;  /* or NULL */
};

/* A model that scores every token of the vocabulary. */
struct steno_joint_scorer {
    void *self;
    double weight;
    /* out [n, vocab]: log-probabilities of the token after each prefix. prefix[i]: [length] tokens,
     * sos first; hypothesis i is number parent[i] of the call before with one token more. length 1:
     * a new utterance. */
    steno_status (*score)(void *self, const int32_t *const *prefix, size_t length,
                          const int32_t *parent, size_t n, float *out, steno_err *err);
    /* Instead of `score`, of n searches at once, each with a self of its own, which fail one by
     * one; NULL: `score` is called for each. */
    void (*score_each)(struct steno_score_request *requests, size_t n);
    /* The next call of score is about the prefixes of the call before it over again (calls 0), or
     * of the one before that (calls 1); whose parents they are does not count then. Block by block
     * alone; NULL: cannot. */
    void (*rewind)(void *self, int calls);
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
    bool no_repetition; /* block by block: a token said before is no reason to wait */
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

/* The same block by block: ESPnet's BatchBeamSearchOnline (Tsunoo et al., "Streaming Transformer
 * ASR with Blockwise Synchronous Beam Search", 2021). Over the rows so far the search takes steps
 * until a hypothesis ends, or the newest token of one is in it already (equation 11): then it reads
 * past the audio, the step is undone together with the one before it, and it goes on when there is
 * more. The last block goes to the end. Scorers need `rewind`. Where ESPnet's own has faults it is
 * without them: ended hypotheses count once, and the limit of length ends nothing before the last
 * block. */
void steno_joint_begin(steno_joint *j);
/* ctc [frames, vocab]: the utterance from its beginning; scorers know the same frames. last: at
 * most so many steps of the last block, STENO_NEED_MORE when there are more (call again with the
 * same); 0: it is not the last. After the last block: steno_joint_count, steno_joint_get. Errors as
 * steno_joint_run's. */
struct steno_joint_block {
    steno_joint *j;
    const struct steno_joint_scorer *scorers;
    size_t n_scorers;
    const float *ctc;
    size_t frames, last;
    steno_status st; /* the result */
    steno_err *err;  /* or NULL */
    size_t steps;    /* the search's own: left of `last` */
    bool over;       /* ... no further step in this block */
};
/* Blocks of n searches, at most STENO_JOINT_MOST, step by step side by side: scorer i of each is
 * asked at once, where it has score_each. A search that fails does so alone. Results are those of
 * one search after the other. */
enum { STENO_JOINT_MOST = 32 };
void steno_joint_blocks(struct steno_joint_block *blocks, size_t n);
/* The best hypothesis that has not ended: sos ... without eos; n is 0 before the first block.
 * Valid until the next block. */
struct steno_joint_hyp steno_joint_running(const steno_joint *j);

#endif
