/* The search of one stream over scores of a step: CTC's, a transducer's with or without durations,
 * or that of one without states. */
#ifndef STENO_FAMILIES_COMMON_TOKEN_SEARCH_H
#define STENO_FAMILIES_COMMON_TOKEN_SEARCH_H

#include "speech/families/alignment.h"
#include "speech/families/common/fusion.h"
#include "speech/families/common/phrases.h"
#include "speech/families/family.h"
#include "speech/search/ctc.h"
#include "speech/search/stateless.h"
#include "speech/search/tdt.h"

/* What the rows STENO_SEARCH_OPTIONS (search_options.h) say. */
struct steno_search_settings {
    double blank_penalty, hotwords_score, lm_weight;
};

/* What a model's searches are helped by. Frozen after open. All zero: nothing. */
struct steno_search_hints {
    struct steno_phrases phrases; /* spells hot words */
    struct steno_fusion lm;
    struct steno_search_settings defaults;
};

/* Read the files for hints in o->dir, and the settings among o's options. Of `tokens`,
 * borrowed, the first `vocab` are the network's. Close also after a failure. Errors of
 * steno_phrases_open_in and steno_fusion_open_in. */
STENO_MUST steno_status steno_search_hints_open(struct steno_search_hints *h,
                                                const struct steno_family_open *o,
                                                const steno_tokens *tokens, int32_t vocab,
                                                steno_err *err);
void steno_search_hints_close(struct steno_search_hints *h);

struct steno_token_search {
    steno_alignment *alignment; /* one of these five is open; borrowed */
    steno_ctc_greedy *greedy;
    steno_ctc_beam *beam;
    steno_tdt *tdt;
    steno_stateless *stateless;
    steno_hotwords *hotwords; /* NULL: none */
    struct steno_hyp *hyps;   /* [n_best] */
    size_t n_best, vocab;
    const float *scores; /* [left, vocab] that the search has not read; borrowed */
    size_t left;
    bool read; /* the frames of a step were read at once and are not consumed */
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

/* Begin with a search, zero, after its beam is chosen: make room for s->n_best hypotheses (0: as
 * many as o wants), find the settings in o, build the hot words. Close also after a failure.
 * STENO_ERR_NOMEM, errors of steno_phrases_build. */
STENO_MUST steno_status steno_token_search_begin(struct steno_token_search *s,
                                                 const struct steno_search_hints *h,
                                                 const struct steno_family_stream *o,
                                                 struct steno_search_settings *out, steno_err *err);
/* For CTC, after that. */
struct steno_ctc_options steno_ctc_options_of(const struct steno_token_search *s,
                                              const struct steno_search_hints *h,
                                              const struct steno_search_settings *set,
                                              const struct steno_family_stream *o, int32_t vocab,
                                              int32_t blank);
/* Open a CTC search after steno_token_search_begin: the best path for a beam of 1. Transducers'
 * families put theirs into s. */
STENO_MUST steno_status steno_token_search_open(struct steno_token_search *s,
                                                const struct steno_ctc_options *o, steno_err *err);
/* All of the above for a CTC model without rules of its own. */
STENO_MUST steno_status steno_token_search_open_ctc(struct steno_token_search *s,
                                                    const struct steno_search_hints *h,
                                                    struct steno_family_stream *o, int32_t vocab,
                                                    int32_t blank, steno_err *err);
void steno_token_search_close(struct steno_token_search *s);
/* An utterance begins; the frames go on. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_token_search_reset(struct steno_token_search *s);
/* Discard everything: the next frame has number `frame`. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_token_search_restart(struct steno_token_search *s, int64_t frame);
/* CTC: read frames of scores [n, vocab] now. */
STENO_MUST steno_status steno_token_search_push(struct steno_token_search *s, const float *scores,
                                                size_t n);
/* CTC: hand over the scores [n, vocab] of a step, borrowed until they are consumed. */
void steno_token_search_give(struct steno_token_search *s, const float *scores, size_t n);
/* n frames of a transducer are silent: no network has seen them. */
void steno_token_search_skip(struct steno_token_search *s, size_t n);
/* A transducer's recording ends: unfinished hot words give back what they added. */
void steno_token_search_finish(struct steno_token_search *s);
/* struct steno_family's functions of the same names. */
STENO_MUST steno_status steno_token_search_consume(struct steno_token_search *s, bool *left);
STENO_MUST steno_status steno_token_search_list(struct steno_token_search *s,
                                                struct steno_hypothesis *out, size_t max, size_t *n,
                                                size_t *stable);
int64_t steno_token_search_frames(const struct steno_token_search *s);
int64_t steno_token_search_last_sound(const struct steno_token_search *s);
size_t steno_token_search_n_tokens(const struct steno_token_search *s);

#endif
