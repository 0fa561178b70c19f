/* Search over a transducer whose prediction network is stateless: it sees only the last tokens
 * (Ghodsi et al., "RNN-Transducer with Stateless Prediction Network", 2020). A frame emits at most
 * one token (Kang et al., "Fast and Parallel Decoding for Transducer", 2023: "modified beam
 * search"). With one hypothesis this is the greedy search.
 *
 * The caller runs the networks: for each frame it asks for the context of every live hypothesis,
 * computes the joiner's logits, and pushes them. So streams can share a run of the networks.
 *
 * Of each frame the `beam` best pairs of a hypothesis and a token survive. Hypotheses with equal
 * tokens merge: their probabilities add up, and the better one keeps its times. The best hypothesis
 * is the one with the highest score per token, where the context that it began with counts as
 * tokens. Confined. docs/decoder.md has the definitions. */
#ifndef STENO_SEARCH_STATELESS_H
#define STENO_SEARCH_STATELESS_H

#include "speech/search/ctc.h"
#include "speech/search/hotwords.h"
#include "speech/search/token_lm.h"

typedef struct steno_stateless steno_stateless;

#define STENO_STATELESS_BEAM 64
#define STENO_STATELESS_CONTEXT 8

struct steno_stateless_options {
    int32_t vocab, blank;
    int32_t unknown;     /* a token that is never emitted, as the blank; -1: none */
    int context;         /* tokens that the prediction network sees, 1..STENO_STATELESS_CONTEXT */
    int beam;            /* 1..STENO_STATELESS_BEAM */
    float blank_penalty; /* subtracted from the blank's logit */
    const steno_hotwords *hotwords; /* NULL: none; must outlive the search */
    struct steno_token_lm lm;
};

/* STENO_ERR_INVAL, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_stateless_open(steno_stateless **out,
                                             const struct steno_stateless_options *opt,
                                             steno_err *err);
void steno_stateless_close(steno_stateless *s);

/* Live hypotheses: the next frame needs the logits of each. */
size_t steno_stateless_width(const steno_stateless *s);
/* The last tokens [context] of hypothesis i < width. -1: before the first token of all. Valid until
 * the next push or reset. */
const int32_t *steno_stateless_context(const steno_stateless *s, size_t i);
/* Take one frame. logits: [width, vocab] f32, one row for each live hypothesis; they change.
 * STENO_ERR_FORMAT: a row has no number or has NaN; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_stateless_push(steno_stateless *s, float *logits);
/* Take n frames of silence: only their number counts. */
void steno_stateless_skip(steno_stateless *s, int64_t n);

/* An utterance ends, and the audio goes on: discard the tokens. If there were any, hypotheses keep
 * their scores, and their last tokens as context. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_stateless_reset(steno_stateless *s);
/* Discard everything: the next frame has number `frame` and no past. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_stateless_restart(steno_stateless *s, int64_t frame);
/* The recording ends: take back what incomplete phrases of hotwords have added. */
void steno_stateless_finish(steno_stateless *s);

/* The best n hypotheses, best first; returns their number. Valid until the next call of a function
 * other than these. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_stateless_nbest(steno_stateless *s, struct steno_hyp *out, size_t n,
                                              size_t *count);
/* Number of tokens at the beginning that all live hypotheses share: they do not change any more. */
size_t steno_stateless_stable(const steno_stateless *s);
size_t steno_stateless_n_tokens(const steno_stateless *s); /* of the best hypothesis */
/* Frame of the last token of the best hypothesis; without tokens the frame before the utterance. */
int64_t steno_stateless_last_sound(const steno_stateless *s);
int64_t steno_stateless_frames(const steno_stateless *s); /* number of the next frame */

#endif
