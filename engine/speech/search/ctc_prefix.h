/* CTC prefix scores (Watanabe et al., "Hybrid CTC/Attention Architecture for End-to-End Speech
 * Recognition", 2017, algorithm 2): the log-probability that a CTC output begins with given tokens.
 *
 * For a prefix g, r_n[t] and r_b[t] are the log-probabilities of all alignments of frames 0..t to g
 * that end in its last token, or in a blank. The score of g extended by token c is
 *     psi(g c) = log( [x[0,c] if g is empty] + sum over t >= max(|g|,1) of phi[t-1] p[t,c] ),
 * phi = r_n + r_b, without r_n when c repeats the last token. That sum needs only the prefix' own
 * r, so a candidate costs a dot product. The r of a candidate are computed when it is selected. All
 * of this uses probabilities with scales (ctc_prefix.c): no logarithm per frame. Confined. */
#ifndef STENO_SEARCH_CTC_PREFIX_H
#define STENO_SEARCH_CTC_PREFIX_H

#include "base/status.h"

typedef struct steno_ctc_prefix steno_ctc_prefix;

#define STENO_PREFIX_ZERO (-1e10) /* ESPnet's value for "log 0" */

/* Open. vocab, blank, eos: of the scores; states: maximum of hypotheses at a time. */
STENO_MUST steno_status steno_ctc_prefix_open(steno_ctc_prefix **out, int32_t vocab, int32_t blank,
                                              int32_t eos, size_t states, steno_err *err);
void steno_ctc_prefix_close(steno_ctc_prefix *p);
/* Start an utterance: x [frames, vocab] log-probabilities, borrowed until the next one. State 0 is
 * the empty prefix. frames >= 1. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ctc_prefix_start(steno_ctc_prefix *p, const float *x, size_t frames);
/* Add frames to the same utterance: x [frames, vocab] from its beginning; frames >= 1 and not fewer
 * than before. The n current states continue with blanks only (Tsunoo et al., "Streaming
 * Transformer ASR with Blockwise Synchronous Beam Search", 2021, eq. 14). STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ctc_prefix_extend(steno_ctc_prefix *p, size_t n, const float *x,
                                                size_t frames);
/* log-probability of state h's prefix extended by each of n tokens, less that of the prefix itself.
 * Token eos: of the prefix as the whole output. Blank: STENO_PREFIX_ZERO. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ctc_prefix_score(steno_ctc_prefix *p, size_t h, const int32_t *tokens,
                                               size_t n, float *out);
/* Compute the next states: state i is the current state from[i] extended by token[i]; n <=
 * states. */
void steno_ctc_prefix_advance(steno_ctc_prefix *p, const int32_t *from, const int32_t *token,
                              size_t n);
/* Go back to the states before the last advance; at most once per advance. */
void steno_ctc_prefix_back(steno_ctc_prefix *p);

#endif
