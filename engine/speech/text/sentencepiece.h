/* SentencePiece model files: their pieces, and pieces to text. Only the decoding side. Format and
 * rules are those of google/sentencepiece v0.2.0 (src/sentencepiece_model.proto and Decode() in
 * src/sentencepiece_processor.cc). Frozen. */
#ifndef STENO_TEXT_SENTENCEPIECE_H
#define STENO_TEXT_SENTENCEPIECE_H

#include "base/buf.h"

typedef struct steno_sentencepiece steno_sentencepiece;

#define STENO_SENTENCEPIECE_MAX_FILE ((size_t)64 << 20)
#define STENO_SENTENCEPIECE_MAX_PIECES (1 << 20)
#define STENO_SENTENCEPIECE_MAX_PIECE 512 /* bytes */

enum steno_sentencepiece_type { /* values of the file */
                                STENO_SENTENCEPIECE_NORMAL = 1,
                                STENO_SENTENCEPIECE_UNKNOWN = 2,
                                STENO_SENTENCEPIECE_CONTROL = 3,
                                STENO_SENTENCEPIECE_USER_DEFINED = 4,
                                STENO_SENTENCEPIECE_UNUSED = 5,
                                STENO_SENTENCEPIECE_BYTE = 6
};

/* Read a file, or its bytes (name is used in messages). STENO_ERR_FORMAT names the wrong piece: not
 * UTF-8, an unknown type, a duplicate, a byte piece outside <0x00>..<0xFF>, no unknown piece or
 * two. */
STENO_MUST steno_status steno_sentencepiece_open(steno_sentencepiece **out, const char *path,
                                                 steno_err *err);
STENO_MUST steno_status steno_sentencepiece_parse(steno_sentencepiece **out, const void *bytes,
                                                  size_t n, const char *name, steno_err *err);
void steno_sentencepiece_close(steno_sentencepiece *s);

int32_t steno_sentencepiece_count(const steno_sentencepiece *s);
/* "unigram", "bpe", "word", "char". */
const char *steno_sentencepiece_model_type(const steno_sentencepiece *s);
const char *steno_sentencepiece_piece(const steno_sentencepiece *s,
                                      int32_t id); /* terminated; id in range */
enum steno_sentencepiece_type steno_sentencepiece_type(const steno_sentencepiece *s, int32_t id);
float steno_sentencepiece_score(const steno_sentencepiece *s, int32_t id); /* its log probability */
/* Number of a piece; -1 if the model has no piece of that spelling. */
int32_t steno_sentencepiece_find(const steno_sentencepiece *s, const char *piece);

/* Append the text of n pieces, as DecodePieces() does. Word marks become spaces, except for the
 * first. Runs of byte pieces become characters (U+FFFD for invalid UTF-8). Control pieces have no
 * text. The unknown piece becomes the model's sign for it. A piece that the model does not have is
 * appended as it is. STENO_ERR_NOMEM, STENO_ERR_LIMIT (of the buffer). */
STENO_MUST steno_status steno_sentencepiece_decode(const steno_sentencepiece *s,
                                                   const char *const *pieces, size_t n,
                                                   struct steno_buf *out);

#endif
