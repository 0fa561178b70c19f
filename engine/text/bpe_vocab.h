/* Words to pieces of a SentencePiece vocabulary given as text ("bpe.vocab": a piece, a tab or
 * space, and its score per line). A word is cut so that the sum of its pieces' scores is highest,
 * as in simple-sentencepiece (ssentencepiece.cc), which sherpa-onnx uses for hotwords. Frozen. */
#ifndef STENO_TEXT_BPE_VOCAB_H
#define STENO_TEXT_BPE_VOCAB_H

#include "text/tokens.h"

typedef struct steno_bpe_vocab steno_bpe_vocab;

#define STENO_BPE_VOCAB_MAX_FILE ((size_t)64 << 20)

/* Read a file, or its bytes (name is used in messages). tokens: whose numbers the pieces get by
 * their spelling; borrowed for the call. STENO_ERR_IO, STENO_ERR_FORMAT with the number of the
 * wrong line, STENO_ERR_LIMIT (more than STENO_TOKENS_MAX pieces), STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_bpe_vocab_open(steno_bpe_vocab **out, const char *path,
                                             const steno_tokens *tokens, steno_err *err);
STENO_MUST steno_status steno_bpe_vocab_parse(steno_bpe_vocab **out, const char *bytes, size_t n,
                                              const char *name, const steno_tokens *tokens,
                                              steno_err *err);
void steno_bpe_vocab_close(steno_bpe_vocab *v);

size_t steno_bpe_vocab_count(const steno_bpe_vocab *v);
/* Cut a word [n] bytes, with its word mark. ids: [n] tokens; *count of them are written.
 * STENO_ERR_FORMAT: no pieces, or not all of them are tokens; STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_bpe_vocab_encode(const steno_bpe_vocab *v, const char *word, size_t n,
                                               int32_t *ids, size_t *count);

#endif
