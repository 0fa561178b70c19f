/* Tokens to words: text, frames and confidence of each word, and how many words are stable.
 *
 * The confidence of a word is the geometric mean over its tokens of the token's highest posterior
 * in its frames, as the model's map has it. Confined; buffers are kept between calls. */
#ifndef STENO_TEXT_WORDS_H
#define STENO_TEXT_WORDS_H

#include "base/buf.h"
#include "base/span.h"
#include "speech/text/confidence_map.h"
#include "speech/text/tokens.h"

struct steno_word_span {
    size_t text;         /* offset in the text of `words`, terminated */
    size_t end;          /* end of the word in `line` */
    size_t token;        /* the first one of the word: its number in the hypothesis */
    int64_t first, last; /* frames, both inclusive */
    float confidence;    /* 0..1 */
};

struct steno_words {
    struct steno_buf line;  /* the words joined as written; data NULL when empty */
    struct steno_buf words; /* the words one after the other, each terminated */
    struct steno_buf scratch;
    struct steno_word_span *w;
    size_t n, cap;
    size_t stable_words,
        stable_bytes; /* whole words at the beginning that cannot change any more */
    float confidence; /* geometric mean over the words; 0 if there are none */
    const struct steno_confidence_map *map; /* of words; NULL: they stay */
};

void steno_words_init(struct steno_words *w);
void steno_words_free(struct steno_words *w);
/* Allocate now, so that hypotheses up to this size allocate nothing. */
STENO_MUST steno_status steno_words_reserve(struct steno_words *w, size_t words, size_t bytes);
/* The whole line; "" if there is none yet. */
const char *steno_words_line(const struct steno_words *w);
/* Build words from n tokens. stable: the number of tokens at the beginning that cannot change any
 * more; above n: no token can be added to the last word either. Span tokens must be in range.
 * STENO_ERR_NOMEM, STENO_ERR_LIMIT (64 MiB of text). */
STENO_MUST steno_status steno_words_build(struct steno_words *w, const steno_tokens *t,
                                          const struct steno_span *spans, size_t n, size_t stable);

#endif
