/* The CTC search of one stream: best path, or prefix beam search with a beam above 1
 * (search/ctc.h), and the scores of a step until the search has read them. Confined. */
#ifndef STENO_FAMILIES_COMMON_CTC_SEARCH_H
#define STENO_FAMILIES_COMMON_CTC_SEARCH_H

#include "families/family.h"
#include "search/ctc.h"

struct steno_ctc_search {
    steno_ctc_greedy *greedy; /* one of greedy and beam is NULL */
    steno_ctc_beam *beam;
    steno_hotwords
        *hotwords; /* of the caller's options if it put them here; closed with the search */
    struct steno_hyp *hyps; /* [n_best] */
    size_t n_best, vocab;
    const float *scores; /* [left, vocab] that the search has not read; borrowed */
    size_t left;
};

/* Resolve the beam and n_best of o: 0 = greedy, or as many hypotheses as are asked for.
 * STENO_ERR_INVAL: n_best above the beam. */
STENO_MUST steno_status steno_beam_choose(struct steno_family_stream *o, steno_err *err);
/* The same for a search that needs a beam for hot words: STENO_PHRASES_BEAM unless one is given.
 * STENO_ERR_INVAL also for a beam of 1. */
STENO_MUST steno_status steno_beam_choose_hotwords(struct steno_family_stream *o, steno_err *err);
/* The scores [frames, vocab] of a window without speech: the blank in every frame. The caller frees
 * them. NULL: out of memory. */
float *steno_ctc_quiet(int64_t frames, int32_t vocab, int32_t blank);

/* Tokens of a frame that may extend a hypothesis, and a margin that drops hypotheses with odds
 * below 1 to 22,000. */
#define STENO_CTC_TOP_K 16
#define STENO_CTC_MARGIN 10.0

/* Open a search: the best path for a beam of 1. Close also after a failure. */
STENO_MUST steno_status steno_ctc_search_open(struct steno_ctc_search *s,
                                              const struct steno_ctc_options *o, int n_best,
                                              steno_err *err);
void steno_ctc_search_close(struct steno_ctc_search *s);
/* An utterance begins; the frames go on. */
void steno_ctc_search_reset(struct steno_ctc_search *s);
/* Discard everything: the next frame has number `frame`. */
void steno_ctc_search_restart(struct steno_ctc_search *s, int64_t frame);
/* Read frames of scores [n, vocab] now. */
STENO_MUST steno_status steno_ctc_search_push(struct steno_ctc_search *s, const float *scores,
                                              size_t n);
/* Hand over the scores [n, vocab] of a step, borrowed until they are consumed. */
void steno_ctc_search_give(struct steno_ctc_search *s, const float *scores, size_t n);
/* struct steno_family's functions of the same names. */
STENO_MUST steno_status steno_ctc_search_consume(struct steno_ctc_search *s, bool *left);
STENO_MUST steno_status steno_ctc_search_list(struct steno_ctc_search *s,
                                              struct steno_hypothesis *out, size_t max, size_t *n,
                                              size_t *stable);
int64_t steno_ctc_search_frames(const struct steno_ctc_search *s);
int64_t steno_ctc_search_last_sound(const struct steno_ctc_search *s);
size_t steno_ctc_search_n_tokens(const struct steno_ctc_search *s);

#endif
