/* Words to pieces of a SentencePiece vocabulary, for hot words and for networks that read text.
 * Three things can give the pieces' scores:
 *
 * - "bpe.vocab": a piece, a tab or space, and its score per line. A word is cut so that the sum of
 *   its pieces' scores is highest, of equal sums the longer first piece, as in
 *   simple-sentencepiece (ssentencepiece.cc), which sherpa-onnx uses.
 * - a SentencePiece model: so for its type "unigram"; for "bpe" the neighbours whose concatenation
 *   has the highest score are joined, until no two make a piece (Sennrich et al., 2016).
 * - tokens.txt alone: SentencePiece numbers pieces as they were learnt. If nearly all are a
 *   concatenation of two earlier ones or characters, they are of "bpe", and the earliest is joined
 *   first. Otherwise they are of "unigram", by falling probability, which Zipf's law estimates.
 *
 * Frozen. */
#ifndef STENO_TEXT_BPE_VOCAB_H
#define STENO_TEXT_BPE_VOCAB_H

#include "speech/text/sentencepiece.h"
#include "speech/text/tokens.h"

typedef struct steno_bpe_vocab steno_bpe_vocab;

#define STENO_BPE_VOCAB_MAX_FILE ((size_t)64 << 20)

/* Read a file, or its bytes (name is used in messages). tokens: whose numbers the pieces get by
 * their spelling; borrowed for the call. NULL: pieces have the numbers of their lines, from 0.
 * STENO_ERR_IO, STENO_ERR_FORMAT with the number of the wrong line, STENO_ERR_LIMIT (more than
 * STENO_TOKENS_MAX pieces), STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_bpe_vocab_open(steno_bpe_vocab **out, const char *path,
                                             const steno_tokens *tokens, steno_err *err);
STENO_MUST steno_status steno_bpe_vocab_parse(steno_bpe_vocab **out, const char *bytes, size_t n,
                                              const char *name, const steno_tokens *tokens,
                                              steno_err *err);
/* The pieces of a SentencePiece model. s: borrowed for the call. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_bpe_vocab_of_model(steno_bpe_vocab **out,
                                                 const steno_sentencepiece *s,
                                                 const steno_tokens *tokens, steno_err *err);
/* The tokens themselves, in their order, without marks such as <blk>. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_bpe_vocab_of_tokens(steno_bpe_vocab **out, const steno_tokens *tokens,
                                                  steno_err *err);
void steno_bpe_vocab_close(steno_bpe_vocab *v);

/* Cut a word [n] bytes, with its word mark. ids: [n] tokens; *count of them are written.
 * STENO_ERR_FORMAT: no pieces, or not all of them are tokens; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_bpe_vocab_encode(const steno_bpe_vocab *v, const char *word, size_t n,
                                               int32_t *ids, size_t *count);
/* The same for any bytes, by the sum of scores: a run of bytes with which no piece begins becomes
 * token `unknown`, or the pieces <0x00>..<0xFF> where the vocabulary has them. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_bpe_vocab_encode_any(const steno_bpe_vocab *v, const char *word,
                                                   size_t n, int32_t unknown, int32_t *ids,
                                                   size_t *count);

#endif
