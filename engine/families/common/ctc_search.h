/* The CTC search of one stream: best path, or prefix beam search with a beam above 1
 * (search/ctc.h), and the scores of a step until the search has read them. Confined. */
#ifndef STENO_FAMILIES_COMMON_CTC_SEARCH_H
#define STENO_FAMILIES_COMMON_CTC_SEARCH_H

#include "families/family.h"
#include "search/ctc.h"

struct steno_ctc_search {
    steno_ctc_greedy *greedy; /* one of greedy and beam is NULL */
    steno_ctc_beam *beam;
    struct steno_hyp *hyps; /* [n_best] */
    size_t n_best, vocab;
    const float *scores; /* [left, vocab] that the search has not read; borrowed */
    size_t left;
    bool silent;  /* the frames left are all `quiet` */
    float *quiet; /* [vocab] scores of a frame without speech; NULL before the first one */
    int32_t blank;
};

/* Resolve the beam and n_best of o: 0 = greedy, or as many hypotheses as are asked for.
 * STENO_ERR_INVAL: n_best above the beam. */
STENO_MUST steno_status steno_beam_choose(struct steno_family_stream *o, steno_err *err);

/* Open a search for o, whose beam and n_best are chosen. Close also after a failure. */
STENO_MUST steno_status steno_ctc_search_open(struct steno_ctc_search *s, int32_t vocab,
                                              int32_t blank, double blank_penalty,
                                              const struct steno_family_stream *o, steno_err *err);
void steno_ctc_search_close(struct steno_ctc_search *s);
/* An utterance begins; the frames go on. */
void steno_ctc_search_reset(struct steno_ctc_search *s);
/* A recording begins: frame 0. */
void steno_ctc_search_restart(struct steno_ctc_search *s);
/* Read frames of scores [n, vocab] now. */
STENO_MUST steno_status steno_ctc_search_push(struct steno_ctc_search *s, const float *scores,
                                              size_t n);
/* Hand over the scores [n, vocab] of a step, borrowed until they are consumed; scores NULL: n
 * frames without speech. */
void steno_ctc_search_give(struct steno_ctc_search *s, const float *scores, size_t n);
/* struct steno_family's functions of the same names. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_ctc_search_consume(struct steno_ctc_search *s, bool *left);
STENO_MUST steno_status steno_ctc_search_list(struct steno_ctc_search *s,
                                              struct steno_hypothesis *out, size_t max, size_t *n,
                                              size_t *stable);
int64_t steno_ctc_search_frames(const struct steno_ctc_search *s);
int64_t steno_ctc_search_last_sound(const struct steno_ctc_search *s);
size_t steno_ctc_search_n_tokens(const struct steno_ctc_search *s);

#endif
