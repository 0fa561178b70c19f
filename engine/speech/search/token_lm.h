/* A language model over the tokens of a vocabulary, for searches that add its scores ("shallow
 * fusion"). */
#ifndef STENO_SEARCH_TOKEN_LM_H
#define STENO_SEARCH_TOKEN_LM_H

#include <stddef.h>
#include <stdint.h>

struct steno_token_lm {
    const void *self;
    /* Natural logarithms of probabilities after n tokens, which the beginning of the sentence
     * precedes. all: of each token, out [vocab]; one: of `token`. NULL: there is no model. */
    void (*all)(const void *self, const int32_t *tokens, size_t n, float *out);
    double (*one)(const void *self, const int32_t *tokens, size_t n, int32_t token);
    size_t history; /* tokens that it looks at, at most STENO_TOKEN_LM_HISTORY */
    double weight;  /* of the scores */
};

#define STENO_TOKEN_LM_HISTORY 15

#endif
