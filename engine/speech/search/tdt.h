/* Search over NeMo's transducers: the blank is a token of the vocabulary, a frame may have several
 * tokens, and models with durations also say how many frames a token takes (Xu et al., "Efficient
 * Sequence Transduction by Jointly Predicting Tokens and Durations", ICML 2023). Greedy, and a beam
 * over hypotheses that are at frames of their own.
 *
 * Frames come in calls of any size: n calls with one frame each give the same as one call with n.
 * They are numbered from 0 without end; a reset starts a new utterance, not a new count. Confined.
 * docs/decoder.md has the definitions. */
#ifndef STENO_SEARCH_TDT_H
#define STENO_SEARCH_TDT_H

#include "speech/search/hotwords.h"
#include "speech/search/rnnt.h"
#include "speech/search/token_lm.h"

#define STENO_TDT_GROUP 64 /* most rows that predict and join get at once */

struct steno_tdt_options {
    int32_t vocab;  /* tokens, the blank among them */
    int32_t blank;  /* also what the prediction network reads first */
    int32_t silent; /* a token that counts as a blank in a modified beam, such as <unk>; -1: none */
    int32_t durations;   /* scores behind those of the tokens, for 0, 1, 2... frames; 0: none */
    int max_tokens;      /* of one frame; then the search goes on to the next one */
    float blank_penalty; /* subtracted from the score of the blank */
    int beam;            /* hypotheses, 1..64; 1 = greedy unless `modified` */
    bool modified;       /* the rules of the beam also for one hypothesis: it adds scores below */
    /* Beams only. NULL or borrowed; must outlive the search. Each token of a phrase adds the
     * phrase's score, and a token that goes on with a phrase also gets `boost` before the best
     * tokens of a frame are found, both as in sherpa-onnx. */
    const steno_hotwords *hotwords;
    float boost;
    struct steno_token_lm lm; /* beams only: added to tokens before the best are found */
    size_t state, width;      /* floats of the prediction network's state, and of its output */
};

typedef struct steno_tdt steno_tdt;

/* STENO_ERR_INVAL: a number out of range. */
STENO_MUST steno_status steno_tdt_open(steno_tdt **out, const struct steno_tdt_options *opt,
                                       steno_err *err);
void steno_tdt_close(steno_tdt *t);

/* Memory for the searches of one thread. outputs: vocab + durations. Confined. */
typedef struct steno_tdt_work steno_tdt_work;
STENO_MUST steno_status steno_tdt_work_open(steno_tdt_work **out, size_t outputs, steno_err *err);
void steno_tdt_work_close(steno_tdt_work *w);

/* Encoder frames [n, dim] of one search. */
struct steno_tdt_frames {
    const float *enc;
    size_t n, dim;
};

/* Search the next frames of n searches with the same options, in common runs of the networks: pairs
 * of all searches are joined together, tokens of all are read together. A search gets the same
 * results alone and among others if the networks treat each row alone. nets: predict, and join with
 * rows of vocab + durations logits; lm is not used. STENO_ERR_NOMEM, errors of the networks; after
 * an error the searches must be restarted. */
STENO_MUST steno_status steno_tdt_push(steno_tdt *const *t, const struct steno_tdt_frames *frames,
                                       size_t n, const struct steno_transducer_nets *nets,
                                       steno_tdt_work *w, steno_err *err);

/* Count n frames as silent that no network has seen. */
void steno_tdt_skip(steno_tdt *t, size_t n);
/* The recording ends: take back what incomplete phrases of hot words have added. */
void steno_tdt_finish(steno_tdt *t);
/* Discard the tokens; the next frame begins an utterance without a past. */
void steno_tdt_reset(steno_tdt *t);
/* The same, and the next frame has number `frame`. */
void steno_tdt_restart(steno_tdt *t, int64_t frame);

/* The best n hypotheses (at most the beam), best first: by the sum of the log-probabilities of
 * tokens, blanks and durations, and by what hot words and language model add. A token's frames are
 * those of its duration, at least one. Valid until the next push, reset or nbest. STENO_ERR_NOMEM.
 */
STENO_MUST steno_status steno_tdt_nbest(steno_tdt *t, struct steno_hyp *out, size_t n,
                                        size_t *count);
/* Number of tokens at the beginning that all hypotheses share: these do not change any more. */
size_t steno_tdt_stable(const steno_tdt *t);
size_t steno_tdt_n_tokens(const steno_tdt *t); /* of the best hypothesis */
/* Index in list [n] of the last token of the best hypothesis that is in it; -1: none is. */
int steno_tdt_find_last(const steno_tdt *t, const int32_t *list, size_t n);
int64_t steno_tdt_frames(const steno_tdt *t);     /* number of the next frame */
int64_t steno_tdt_last_sound(const steno_tdt *t); /* last frame of the best hypothesis' last token;
                                                   * -1: none since the start */

#endif
