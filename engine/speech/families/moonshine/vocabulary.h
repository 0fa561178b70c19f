/* Moonshine's vocabularies. tokens.txt: "piece id" or "piece<TAB>id", with the piece as it is or in
 * base64. tokenizer.bin: for each token its length and its bytes; the length is a byte below 128,
 * or two, a and b, for b * 128 + a - 128. */
#ifndef STENO_FAMILIES_MOONSHINE_VOCABULARY_H
#define STENO_FAMILIES_MOONSHINE_VOCABULARY_H

#include "speech/text/tokens.h"

/* Read a file, or its bytes (name is used in messages). The pieces are in base64 if all of them can
 * be. Errors of steno_tokens_parse, and STENO_ERR_IO. */
STENO_MUST steno_status steno_moonshine_tokens_open(steno_tokens **out, const char *path,
                                                    steno_err *err);
STENO_MUST steno_status steno_moonshine_tokens_parse(steno_tokens **out, const char *bytes,
                                                     size_t n, const char *name, steno_err *err);
/* The bytes of tokenizer.bin. Tokens that can be no line, such as empty ones, and those in angle
 * brackets are not written. STENO_ERR_FORMAT: the file ends in a token; errors of
 * steno_tokens_parse. */
STENO_MUST steno_status steno_moonshine_tokenizer_parse(steno_tokens **out, const char *bytes,
                                                        size_t n, const char *name, steno_err *err);

#endif
