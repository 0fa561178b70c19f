/* Connectionist temporal classification: from frames of scores to token sequences (Graves et al.,
 * "Connectionist Temporal Classification", ICML 2006: equal neighbours merge, then blanks are
 * removed).
 *
 * Both decoders take scores as plain arrays [frames, vocab] f32, log-probabilities, row-major, in
 * calls of any size: n calls with one frame each give the same as one call with n frames. Frames
 * are numbered from 0 without end; a reset starts a new utterance, not a new count. NaN counts as
 * -inf. Confined. docs/decoder.md has the definitions. */
#ifndef STENO_SEARCH_CTC_H
#define STENO_SEARCH_CTC_H

#include "base/span.h"
#include "base/status.h"
#include "speech/search/hotwords.h"
#include "speech/search/token_lm.h"

struct steno_hyp {
    const struct steno_span *spans;
    size_t n;
    double score; /* log-probability: greedy: of the best path; beam: of the token sequence */
};

struct steno_ctc_options {
    int32_t vocab, blank;
    float blank_penalty; /* subtracted from the blank's score before all comparisons */
    int beam;            /* beam search: maximum of hypotheses, 1..64 */
    int top_k;           /* beam search: tokens of a frame that may extend a hypothesis; 0 = all */
    double margin; /* beam search: hypotheses this far (log) below the best are dropped; 0 = none.
                    * Without it the stable prefix grows late. */
    int64_t commit_delay; /* beam search: tokens of the best hypothesis that ended this many frames
                           * ago are committed, and hypotheses that differ from them are dropped; 0
                           * = never */
    /* beam search: both add to the scores by which hypotheses are compared, not to struct
     * steno_hyp's. hotwords: NULL or borrowed; must outlive the search. */
    const steno_hotwords *hotwords;
    struct steno_token_lm lm;
};

typedef struct steno_ctc_greedy steno_ctc_greedy;

/* Best path: the likeliest token of each frame. */
STENO_MUST steno_status steno_ctc_greedy_open(steno_ctc_greedy **out,
                                              const struct steno_ctc_options *opt, steno_err *err);
void steno_ctc_greedy_close(steno_ctc_greedy *g);
STENO_MUST steno_status steno_ctc_greedy_push(steno_ctc_greedy *g, const float *scores,
                                              size_t frames);
/* Discard the tokens. A token that continues in the next frame is not recognized again. */
void steno_ctc_greedy_reset(steno_ctc_greedy *g);
/* Discard everything: the next frame has number `frame` and no past. */
void steno_ctc_greedy_restart(steno_ctc_greedy *g, int64_t frame);
/* Valid until the next push or reset. Its tokens never change; more may follow. */
struct steno_hyp steno_ctc_greedy_best(const steno_ctc_greedy *g);
/* The last frame whose likeliest token was not the blank; -1: none since the start. */
int64_t steno_ctc_greedy_last_sound(const steno_ctc_greedy *g);
int64_t steno_ctc_greedy_frames(const steno_ctc_greedy *g); /* number of the next frame */

typedef struct steno_ctc_beam steno_ctc_beam;

/* Prefix beam search (Hannun et al., "First-Pass Large Vocabulary Continuous Speech Recognition
 * using Bi-Directional Recurrent DNNs", 2014, algorithm 1). The scores of token sequences are sums
 * over their alignments. A language model and hotwords rank them. */
STENO_MUST steno_status steno_ctc_beam_open(steno_ctc_beam **out,
                                            const struct steno_ctc_options *opt, steno_err *err);
void steno_ctc_beam_close(steno_ctc_beam *b);
STENO_MUST steno_status steno_ctc_beam_push(steno_ctc_beam *b, const float *scores, size_t frames);
void steno_ctc_beam_reset(steno_ctc_beam *b);
void steno_ctc_beam_restart(steno_ctc_beam *b, int64_t frame);
/* The best n hypotheses (at most the beam), best first; returns their number. Frames are those of
 * the likeliest alignment. Valid until the next push, reset or nbest. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ctc_beam_nbest(steno_ctc_beam *b, struct steno_hyp *out, size_t n,
                                             size_t *count);
/* Number of tokens at the beginning that all live hypotheses share: these do not change any
 * more. */
size_t steno_ctc_beam_stable(const steno_ctc_beam *b);
/* As for greedy; a frame of a token of the best hypothesis counts too. */
int64_t steno_ctc_beam_last_sound(const steno_ctc_beam *b);
int64_t steno_ctc_beam_frames(const steno_ctc_beam *b);

#endif
