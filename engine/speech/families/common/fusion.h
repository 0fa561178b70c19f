/* An n-gram model over the tokens of a vocabulary, whose scores a search adds ("shallow fusion").
 */
#ifndef STENO_FAMILIES_COMMON_FUSION_H
#define STENO_FAMILIES_COMMON_FUSION_H

#include "speech/search/lm/ngram.h"
#include "speech/search/token_lm.h"
#include "speech/text/tokens.h"

#define STENO_FUSION_WEIGHT 0.5 /* of sherpa-onnx's language models */

/* Frozen after open. All zero: there is none. */
struct steno_fusion {
    steno_ngram *ngram;
    steno_ngram_map *map;
    int32_t *words; /* [vocab] the model's word of each token */
    int32_t vocab;
};

/* path: an ARPA file or KenLM binary, or NULL. The words of the model are the first `vocab` tokens
 * as their file spells them. Close also after a failure. Errors of steno_ngram_open. */
STENO_MUST steno_status steno_fusion_open(struct steno_fusion *f, const char *path,
                                          const steno_tokens *tokens, int32_t vocab,
                                          steno_err *err);
void steno_fusion_close(struct steno_fusion *f);
/* The same with the first file .arpa or .klm of a directory, by name, if it has one. Also
 * STENO_ERR_IO. */
STENO_MUST steno_status steno_fusion_open_in(struct steno_fusion *f, const char *dir,
                                             const steno_tokens *tokens, int32_t vocab,
                                             steno_err *err);
/* For a search; f is borrowed. Empty without a model, or with a weight of 0. */
struct steno_token_lm steno_fusion_lm(const struct steno_fusion *f, double weight);

#endif
