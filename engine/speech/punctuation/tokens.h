/* A list of tokens that grows. Confined. */
#ifndef STENO_PUNCTUATION_TOKENS_H
#define STENO_PUNCTUATION_TOKENS_H

#include "speech/punctuation/punctuation.h"

struct steno_punctuation_tokens {
    struct steno_punctuation_token *v;
    size_t n, cap;
};

/* Add bytes [begin, end) of a text, without a mark. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_punctuation_add(struct steno_punctuation_tokens *t, size_t begin,
                                              size_t end);

#endif
