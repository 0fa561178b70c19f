/* The JSON files beside a network that takes samples and gives scores of characters, as Hugging
 * Face's optimum exports wav2vec 2.0 and its kind: config.json, vocab.json and, where they are,
 * preprocessor_config.json, tokenizer_config.json, added_tokens.json. Or tokens.txt alone, beside
 * Omnilingual's networks as sherpa-onnx has them. */
#ifndef STENO_FAMILIES_WAV2VEC2_CONF_H
#define STENO_FAMILIES_WAV2VEC2_CONF_H

#include "formats/json.h"
#include "speech/text/tokens.h"

struct steno_wav2vec2_conf {
    bool normalize;       /* samples to mean 0 and variance 1 */
    double eps;           /* added to the variance */
    int64_t rate;         /* Hz */
    size_t frame_samples; /* samples between frames of scores */
    size_t least;         /* samples that the first frame reaches over */
    int64_t vocab;        /* scores of a frame; 0: not said */
    int64_t pad;          /* config.json's blank; -1: not said */
};

/* The settings of Omnilingual's networks, which have no JSON files. */
struct steno_wav2vec2_conf steno_wav2vec2_conf_omnilingual(void);
/* The tokens of tokens.txt, of which those in angle brackets are not written, and the space
 * separates words. *blank: number 0. Errors of steno_tokens_open; STENO_ERR_FORMAT: number 0 is no
 * mark. */
STENO_MUST steno_status steno_wav2vec2_tokens_txt(steno_tokens **out, int32_t *blank,
                                                  const char *path, steno_err *err);
/* Read config.json and preprocessor_config.json (NULL: there is none); names are theirs in
 * messages. STENO_ERR_FORMAT, STENO_ERR_UNSUPPORTED: another rate than 16 kHz. */
STENO_MUST steno_status steno_wav2vec2_conf_read(struct steno_wav2vec2_conf *c,
                                                 const struct steno_json_node *config,
                                                 const struct steno_json_node *preprocessor,
                                                 steno_err *err);
/* The tokens of a vocabulary {"E": 5, ...}, or {"eng": {"E": 5, ...}, ...} with the tokenizer's
 * target_lang. tokenizer, added: tokenizer_config.json, added_tokens.json, or NULL. Ids without a
 * token, up to c->vocab, and special tokens are not written. *blank: the padding token. Errors:
 * STENO_ERR_FORMAT, STENO_ERR_LIMIT, STENO_ERR_NOMEM; STENO_ERR_UNSUPPORTED: no language is chosen.
 */
STENO_MUST steno_status steno_wav2vec2_tokens(steno_tokens **out, int32_t *blank,
                                              const struct steno_wav2vec2_conf *c,
                                              const struct steno_json_node *vocab,
                                              const struct steno_json_node *tokenizer,
                                              const struct steno_json_node *added, steno_err *err);

#endif
