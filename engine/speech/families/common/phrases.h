/* Hot words of a request: phrases in a text, as tokens of a vocabulary. */
#ifndef STENO_FAMILIES_COMMON_PHRASES_H
#define STENO_FAMILIES_COMMON_PHRASES_H

#include "speech/families/alignment.h"
#include "speech/search/hotwords.h"
#include "speech/text/bpe_vocab.h"

#define STENO_PHRASES_BEAM 4 /* where hot words are given and no beam, as in sherpa-onnx */

/* What spells phrases. Frozen after open. */
struct steno_phrases {
    const steno_tokens *tokens; /* borrowed */
    steno_bpe_vocab *bpe;       /* NULL: only whole words that are tokens, and characters;
                                 * letters where the tokens have a delimiter */
    bool upper, lower;          /* no token has a small letter; a capital */
    bool runs;       /* pieces have several Chinese or Japanese characters: bpe cuts these too */
    char source[64]; /* file of bpe's pieces; "": none */
};

/* tokens: borrowed. dir: of the model. The pieces' scores are those of its bpe.vocab; otherwise of
 * its SentencePiece model (*bpe.model, tokenizer.model or *unigram*.model, the first by name);
 * otherwise the order of the tokens tells (text/bpe_vocab.h). Errors of steno_bpe_vocab_open and
 * steno_sentencepiece_open. */
STENO_MUST steno_status steno_phrases_open_in(struct steno_phrases *p, const steno_tokens *tokens,
                                              const char *dir, steno_err *err);
/* The same with tokens alone. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_phrases_open(struct steno_phrases *p, const steno_tokens *tokens,
                                           steno_err *err);
/* What cuts words, for people: the file's name, "letters" or "whole words". */
const char *steno_phrases_source(const struct steno_phrases *p);
void steno_phrases_close(struct steno_phrases *p);

/* Find the next phrase of a list, which *list moves behind: lines, commas and slashes stand between
 * phrases, and " :2.5" behind one, which is no part of it, sets *score. *phrase [*n] has no blanks
 * around it. False: there are no more. */
bool steno_phrases_next(const char **list, const char **phrase, size_t *n, float *score);
/* Build the automaton of the phrases in texts [n]; NULL is a text without any. They are separated
 * by lines, commas or slashes, each with " :2.5" behind it if its tokens add another score. A
 * phrase that the tokens cannot spell is left out; *out is NULL if none is left. STENO_ERR_LIMIT,
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_phrases_build(steno_hotwords **out, const struct steno_phrases *p,
                                            const char *const *texts, size_t n, float score,
                                            steno_err *err);
/* Spell the lines of an alignment: character by character where a token separates words, else as
 * phrases. Errors of steno_alignment_spell. */
STENO_MUST steno_status steno_phrases_spell_lines(const struct steno_phrases *p, steno_alignment *a,
                                                  steno_err *err);

#endif
