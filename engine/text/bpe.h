/* Byte-level BPE vocabularies (GPT-2's, Whisper's): pieces of bytes by number, text to numbers and
 * back.
 *
 * Text is cut into words by GPT-2's pattern (openai/gpt-2, src/encoder.py), and within a word the
 * neighbours whose concatenation has the lowest number are joined until no two neighbours make a
 * piece: tiktoken's rule, number = rank. It needs no table of merges. Hugging Face's multilingual
 * Whisper tokenizers lack the first merge ("Ġ t") and split words that begin with " t"; this rule
 * does not.
 *
 * Numbers from that of "<|endoftext|>" on are special: they never come out of steno_bpe_encode and
 * stand for no text. Frozen. */
#ifndef STENO_TEXT_BPE_H
#define STENO_TEXT_BPE_H

#include "base/buf.h"

typedef struct steno_bpe steno_bpe;

#define STENO_BPE_MAX_PIECES (1 << 20)
#define STENO_BPE_MAX_PIECE 1024 /* bytes */

struct steno_bpe_piece {
    const char *p; /* any bytes, not terminated */
    size_t n;      /* 0: the number is not in use */
};

/* Read a vocabulary, recognised by its content:
 *     a JSON list of pieces                  vocabulary.json
 *     a JSON object piece: number            vocab.json
 *     a JSON object with model.vocab         tokenizer.json (its added_tokens as well)
 *     anything else: a piece a line          vocabulary.txt, line number = number, from 0
 * Pieces are in GPT-2's printable form; merges in the file are not read. name stands in messages.
 * STENO_ERR_FORMAT names the piece that is wrong: a character that stands for no byte, a number
 * given twice; STENO_ERR_LIMIT: over the bounds above. */
STENO_MUST steno_status steno_bpe_parse(steno_bpe **out, const void *bytes, size_t n,
                                        const char *name, steno_err *err);
STENO_MUST steno_status steno_bpe_open(steno_bpe **out, const char *path, steno_err *err);
/* From n pieces of raw bytes, copied; all are regular up to "<|endoftext|>", if that is one. */
STENO_MUST steno_status steno_bpe_new(steno_bpe **out, const struct steno_bpe_piece *pieces,
                                      size_t n, const char *name, steno_err *err);
void steno_bpe_close(steno_bpe *b);

int32_t steno_bpe_count(const steno_bpe *b);
/* Number of the first special piece; the count when there is none. */
int32_t steno_bpe_regular(const steno_bpe *b);
/* Bytes of a piece, special ones as they are spelled; id in range. Borrowed. */
struct steno_bpe_piece steno_bpe_piece(const steno_bpe *b, int32_t id);
/* Lowest number of exactly these bytes, special pieces included; -1: none. */
int32_t steno_bpe_find(const steno_bpe *b, const void *bytes, size_t n);

/* Numbers of a text, which is plain: "<|endoftext|>" in it is thirteen characters like any others.
 * text: n bytes of UTF-8; bytes that are none are encoded as they are. ids: room for `max`.
 * *count: how many there are, also when it is more than max (then the first max are there).
 * A word of more than 1,024 bytes is encoded in pieces of that length. STENO_ERR_FORMAT: the
 * vocabulary has no piece for a byte of the text. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_bpe_encode(const steno_bpe *b, const char *text, size_t n,
                                         int32_t *ids, size_t max, size_t *count, steno_err *err);

/* Append the bytes of the regular ones among n numbers: not UTF-8 where a character is not
 * complete. STENO_ERR_NOMEM, STENO_ERR_LIMIT (the buffer's). */
STENO_MUST steno_status steno_bpe_bytes(const steno_bpe *b, const int32_t *ids, size_t n,
                                        struct steno_buf *out);
/* The same as UTF-8: what is none becomes U+FFFD, one for each maximal part of a character
 * (Unicode 15, section 3.9; Python's errors="replace"). */
STENO_MUST steno_status steno_bpe_text(const steno_bpe *b, const int32_t *ids, size_t n,
                                       struct steno_buf *out);
/* Append n bytes with the same replacement. */
STENO_MUST steno_status steno_utf8_repair(const char *bytes, size_t n, struct steno_buf *out);

#endif
