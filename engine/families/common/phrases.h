/* Hot words of a request: phrases in a text, as tokens of a vocabulary. */
#ifndef STENO_FAMILIES_COMMON_PHRASES_H
#define STENO_FAMILIES_COMMON_PHRASES_H

#include "search/hotwords.h"
#include "text/bpe_vocab.h"

#define STENO_PHRASES_BEAM 4 /* where hot words are given and no beam, as in sherpa-onnx */

/* What spells phrases. Frozen after open. */
struct steno_phrases {
    const steno_tokens *tokens; /* borrowed */
    steno_bpe_vocab *bpe;       /* NULL: only whole words that are tokens, and characters;
                                 * letters where the tokens have a delimiter */
    bool upper;                 /* no token has a small letter */
};

/* tokens: borrowed. bpe_vocab: path of bpe.vocab, or NULL. Errors of steno_bpe_vocab_open. */
STENO_MUST steno_status steno_phrases_open(struct steno_phrases *p, const steno_tokens *tokens,
                                           const char *bpe_vocab, steno_err *err);
/* The same with the bpe.vocab of a directory, if it has one. */
STENO_MUST steno_status steno_phrases_open_in(struct steno_phrases *p, const steno_tokens *tokens,
                                              const char *dir, steno_err *err);
void steno_phrases_close(struct steno_phrases *p);

/* Build the automaton of the phrases in `text`: separated by lines, commas or slashes, each with
 * " :2.5" behind it if its tokens add another score. A phrase that the vocabulary cannot spell is
 * left out; *out is NULL if none is left. STENO_ERR_LIMIT, STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_phrases_build(steno_hotwords **out, const struct steno_phrases *p,
                                            const char *text, float score, steno_err *err);

#endif
