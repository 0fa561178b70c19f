/* Text to the rows that the CNN-BiLSTM reads: pieces of words. Pure. */
#ifndef STENO_PUNCTUATION_ROWS_H
#define STENO_PUNCTUATION_ROWS_H

#include "speech/punctuation/tokens.h"
#include "speech/text/bpe_vocab.h"

#define STENO_PUNCTUATION_ROW 200 /* numbers of the longest row */

/* Some words of a text, between two marks. */
struct steno_punctuation_row {
    int32_t piece[STENO_PUNCTUATION_ROW];
    int32_t valid[STENO_PUNCTUATION_ROW]; /* 1: a mark, or the first piece of a word */
    size_t n;                             /* zeros follow */
    size_t words;
};

/* Add each word of a text. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_punctuation_words(struct steno_punctuation_tokens *t,
                                                const char *text);
/* Make a row of the tokens from `first` on, as many as fit and at least one, of n > first. text:
 * in small letters. STENO_ERR_NOMEM. */
STENO_MUST steno_status steno_punctuation_fill_row(struct steno_punctuation_row *row,
                                                   const steno_bpe_vocab *v, const char *text,
                                                   const struct steno_punctuation_tokens *t,
                                                   size_t first);

#endif
