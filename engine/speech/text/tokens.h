/* Vocabulary of a model: token numbers to text pieces.
 *
 * tokens.txt has one "piece id" per line (the form that icefall, WeNet and NeMo exports share). The
 * id follows the last blank or tab, and the piece is the text before it. A line with only an id
 * names the piece " ". Ids are 0..n-1, each once, in any order.
 * U+2581 (▁, SentencePiece's mark) or a space at the beginning of a piece begins a word. A piece
 * that begins with a CJK ideograph or kana is a word by itself, without a space before it. Marks
 * that follow a word ("?", "。") belong to it. <0x00>..<0xFF> represent single bytes (SentencePiece
 * byte fallback).
 * Pieces may be of bytes (icefall's byte-level BPE, "bbpe"): each letter, of 256 between U+0020 and
 * U+01A6, then represents one byte of the text. The vocabulary is known by them. Frozen. */
#ifndef STENO_TEXT_TOKENS_H
#define STENO_TEXT_TOKENS_H

#include "base/status.h"

typedef struct steno_tokens steno_tokens;

#define STENO_TOKENS_MAX (1 << 20) /* entries */
#define STENO_TOKENS_MAX_PIECE 512 /* bytes */
#define STENO_TOKENS_MAX_FILE (64 << 20)

enum {
    STENO_TOKEN_WORD = 1u << 0,   /* begins a word, with a space before it */
    STENO_TOKEN_ALONE = 1u << 1,  /* a word by itself, without a space before it */
    STENO_TOKEN_DROP = 1u << 2,   /* recognized, but not written (<unk>, <blk>, ...) */
    STENO_TOKEN_BYTE = 1u << 3,   /* bytes of characters, perhaps not of whole ones */
    STENO_TOKEN_JOINS = 1u << 4,  /* the word goes on in the next token, unless that is ALONE */
    STENO_TOKEN_FOLLOWS = 1u << 5 /* belongs to the word before it: a mark, rest of a character */
};

/* Read a file, or its bytes (name is used in messages). STENO_ERR_FORMAT with the number of the
 * wrong line. */
STENO_MUST steno_status steno_tokens_open(steno_tokens **out, const char *path, steno_err *err);
STENO_MUST steno_status steno_tokens_parse(steno_tokens **out, const char *bytes, size_t n,
                                           const char *name, steno_err *err);
struct steno_bpe_piece;
/* Make a vocabulary of n pieces of any bytes, copied (byte-level BPE): a blank in front begins a
 * word, a piece of control characters and blanks alone separates words, an empty one is hidden.
 * steno_tokens_piece of a piece with a NUL ends there. STENO_ERR_LIMIT: a piece is too long;
 * STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_tokens_of_bytes(steno_tokens **out,
                                              const struct steno_bpe_piece *pieces, size_t n,
                                              const char *name, steno_err *err);
void steno_tokens_close(steno_tokens *t);

/* Hide every piece named in list (separated by blanks). Call it before the vocabulary is shared.
 * STENO_ERR_FORMAT: a name is not in the vocabulary. */
STENO_MUST steno_status steno_tokens_drop(steno_tokens *t, const char *list, steno_err *err);

/* The same by their numbers, which are in range. */
void steno_tokens_hide(steno_tokens *t, const int32_t *ids, size_t n);

/* The pieces are subword-nmt's, as in FunASR's Paraformer: "@@" at the end of a piece means that
 * the word goes on in the next one. Every other piece that begins with an ASCII character is the
 * end of a word, and any piece that begins otherwise is a word by itself, with a space between it
 * and an ASCII word. Call it before the vocabulary is shared. */
void steno_tokens_set_joining(steno_tokens *t);

/* Token id separates words: it has no text and begins a word. Call it before the vocabulary is
 * shared. */
void steno_tokens_set_delimiter(steno_tokens *t, int32_t id);
/* That token; -1: there is none. */
int32_t steno_tokens_delimiter(const steno_tokens *t);

int32_t steno_tokens_count(const steno_tokens *t);
/* Number of the piece with exactly this spelling in the file; -1 if there is none. */
int32_t steno_tokens_find(const steno_tokens *t, const char *piece);
/* The text that token id adds to a word, without the word mark; *len bytes, not terminated. id in
 * range. */
const char *steno_tokens_text(const steno_tokens *t, int32_t id, size_t *len);
/* The piece as spelled in the file, terminated. */
const char *steno_tokens_piece(const steno_tokens *t, int32_t id);
unsigned steno_tokens_flags(const steno_tokens *t, int32_t id); /* STENO_TOKEN_* */
/* steno_tokens_set_joining was called. */
bool steno_tokens_joining(const steno_tokens *t);
/* The pieces are of bytes; steno_tokens_text gives these. Training put spaces around each
 * Chinese, Japanese or Korean character, so a space behind one is not written. */
bool steno_tokens_byte_level(const steno_tokens *t);
/* Pieces may end inside a character, so the rest of one that is incomplete is not written. */
bool steno_tokens_cut_characters(const steno_tokens *t);
/* An ideograph or kana: their scripts have no spaces between words. */
bool steno_tokens_is_cjk(int32_t c);
/* A character that training put spaces around (icefall/utils.py, tokenize_by_CJK_char). */
bool steno_tokens_apart(int32_t c);
/* The letter that represents a byte in such pieces. Returns its length, 1 or 2. */
size_t steno_tokens_byte_letter(unsigned char byte, char out[2]);
/* True if every written token is a whole word: then nothing can be added to a word later. */
bool steno_tokens_whole_words(const steno_tokens *t);

#endif
