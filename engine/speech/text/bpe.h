/* Byte-level BPE vocabularies (GPT-2's, Whisper's): pieces of bytes by number, text to numbers and
 * back.
 *
 * A pattern splits text into words: GPT-2's (openai/gpt-2, src/encoder.py), unless another is set.
 * Within a word, the neighbours whose concatenation has the lowest number are joined, until no two
 * neighbours make a piece. This is tiktoken's rule, number = rank; it needs no table of merges.
 * Hugging Face's multilingual Whisper tokenizers lack the first merge ("Ġ t") and split words that
 * begin with " t"; this rule does not.
 *
 * Numbers from that of "<|endoftext|>" on are special: steno_bpe_encode never returns them, and
 * they have no text. Frozen. */
#ifndef STENO_TEXT_BPE_H
#define STENO_TEXT_BPE_H

#include "base/buf.h"

typedef struct steno_bpe steno_bpe;

#define STENO_BPE_MAX_PIECES (1 << 20)
#define STENO_BPE_MAX_PIECE 1024 /* bytes */

struct steno_bpe_piece {
    const char *p; /* any bytes, not terminated */
    size_t n;      /* 0: the number is not used */
};

/* Read a vocabulary. Its content decides the format:
 *     a JSON list of pieces                  vocabulary.json
 *     a JSON object piece: number            vocab.json
 *     a JSON object with model.vocab         tokenizer.json (with its added_tokens)
 *     anything else: a piece per line        vocabulary.txt, line number = number, from 0
 * Pieces are in GPT-2's printable form; merges in the file are not read. name is used in messages.
 * STENO_ERR_FORMAT names the wrong piece: a character that represents no byte, or a duplicate
 * number. STENO_ERR_LIMIT: over the bounds above. */
STENO_MUST steno_status steno_bpe_parse(steno_bpe **out, const void *bytes, size_t n,
                                        const char *name, steno_err *err);
STENO_MUST steno_status steno_bpe_open(steno_bpe **out, const char *path, steno_err *err);
/* Make a vocabulary of n pieces of raw bytes, which are copied. If "<|endoftext|>" is one of them,
 * all pieces before it are regular, else all. */
STENO_MUST steno_status steno_bpe_new(steno_bpe **out, const struct steno_bpe_piece *pieces,
                                      size_t n, const char *name, steno_err *err);
/* The same of pieces in GPT-2's printable form. STENO_ERR_FORMAT: see steno_bpe_parse. */
STENO_MUST steno_status steno_bpe_new_printed(steno_bpe **out, const struct steno_bpe_piece *pieces,
                                              size_t n, const char *name, steno_err *err);
void steno_bpe_close(steno_bpe *b);

/* How text is split into words. Qwen's pattern (Qwen2 to Qwen3, tokenizer.json) takes the mark
 * before letters to them, each digit alone, and ends of lines to the marks before them; cl100k's
 * (tiktoken; Granite 4) is the same with up to three digits. */
enum steno_bpe_pattern { STENO_BPE_GPT2, STENO_BPE_QWEN, STENO_BPE_CL100K };
/* Call it before the vocabulary is shared. */
void steno_bpe_set_pattern(steno_bpe *b, enum steno_bpe_pattern pattern);

int32_t steno_bpe_count(const steno_bpe *b);
/* Number of the first special piece, or the count if there is none. */
int32_t steno_bpe_regular(const steno_bpe *b);
/* Bytes of a piece, for special ones their spelling; id in range. Borrowed. */
struct steno_bpe_piece steno_bpe_piece(const steno_bpe *b, int32_t id);
/* Lowest number of a piece of exactly these bytes, including special ones; -1: none. */
int32_t steno_bpe_find(const steno_bpe *b, const void *bytes, size_t n);

/* Encode a text to numbers. The text is plain: "<|endoftext|>" in it is thirteen ordinary
 * characters.
 * text: n bytes of UTF-8; invalid bytes are encoded as they are. ids: room for `max`. *count: the
 * number of ids, even if it is more than max (then ids has the first max).
 * A word of more than 1,024 bytes is encoded in parts of that length. STENO_ERR_FORMAT: the
 * vocabulary has no piece for a byte of the text. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_bpe_encode(const steno_bpe *b, const char *text, size_t n,
                                         int32_t *ids, size_t max, size_t *count, steno_err *err);

/* Append the bytes of the regular ones among n numbers. They are not UTF-8 where a character is
 * incomplete. STENO_ERR_NOMEM, STENO_ERR_LIMIT (of the buffer). */
STENO_MUST steno_status steno_bpe_bytes(const steno_bpe *b, const int32_t *ids, size_t n,
                                        struct steno_buf *out);
/* The same as UTF-8 (steno_utf8_repair). */
STENO_MUST steno_status steno_bpe_text(const steno_bpe *b, const int32_t *ids, size_t n,
                                       struct steno_buf *out);

#endif
