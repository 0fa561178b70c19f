/* A text that a decoder writes token by token, always the likeliest one. Confined. */
#ifndef STENO_FAMILIES_COMMON_GREEDY_TEXT_H
#define STENO_FAMILIES_COMMON_GREEDY_TEXT_H

#include "speech/families/common/offline.h"

struct steno_greedy_text {
    struct steno_span *spans; /* [n, cap]; their frames are the caller's */
    size_t n, cap;
    double score; /* sum of the tokens' log-probabilities */
    float *row;   /* [vocab] log-probabilities beside the last token */
    int vocab;
};

/* Close also after a failure. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_greedy_text_open(struct steno_greedy_text *t, int vocab,
                                               steno_err *err);
void steno_greedy_text_close(struct steno_greedy_text *t);
/* Begin a text of at most `most` tokens. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_greedy_text_begin(struct steno_greedy_text *t, size_t most,
                                                steno_err *err);
/* Append the likeliest token of scores [vocab], which is returned; `end` is not appended. */
int32_t steno_greedy_text_add(struct steno_greedy_text *t, const float *scores, int32_t end);
/* Give the tokens equal shares of [0, frames): the model says no times. */
void steno_greedy_text_share(struct steno_greedy_text *t, size_t frames);
/* The text as the hypothesis of p. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_greedy_text_list(const struct steno_greedy_text *t,
                                               const struct steno_offline_piece *p);

#endif
