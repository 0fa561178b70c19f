/* Times of tokens: the likeliest CTC alignment of given tokens to given scores (Viterbi over blank,
 * t1, blank, t2, ... blank: Graves et al. 2006; the forced alignment of Kürzinger et al.,
 * "CTC-Segmentation of Large Corpora", 2020, without its free ends). Confined. */
#ifndef STENO_SEARCH_ALIGN_H
#define STENO_SEARCH_ALIGN_H

#include "speech/search/ctc.h"

struct steno_align { /* memory, kept between calls; zero-initialised */
    uint8_t *back;
    double *now, *next;
    size_t cap_back, cap_states;
    struct steno_span *spans;
    size_t cap_spans;
};

/* Align tokens [n], without blanks, to x [frames, vocab], log-probabilities. *spans: [n], valid
 * until the next call; peak is the token's highest log-probability in its frames. If the tokens do
 * not fit into the frames (each needs one, a repeated one two), they are spread evenly.
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_align_run(struct steno_align *a, const float *x, size_t frames,
                                        int32_t vocab, int32_t blank, const int32_t *tokens,
                                        size_t n, const struct steno_span **spans);
void steno_align_free(struct steno_align *a);

#endif
