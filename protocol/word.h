/* The words of a transcript: their texts. Pure. */
#ifndef STENO_PROTOCOL_WORD_H
#define STENO_PROTOCOL_WORD_H

#include "base/buf.h"
#include "steno.h"

/* Find the part of a word within its punctuation, [*n] bytes; the whole word if it is punctuation
 * alone. The result points into word. */
const char *steno_word_bare(const char *word, size_t *n);
/* Append that part in lower case. STENO_ERR_LIMIT, STENO_ERR_NOMEM of the buffer. */
STENO_MUST steno_status steno_word_add_low(struct steno_buf *out, const char *word);
/* Whether a word ends a sentence: its last character, before closing quotes and brackets, is a full
 * stop, a question mark, ... */
bool steno_word_ends_sentence(const char *word);
/* Whether a character is a closing quote or bracket. */
bool steno_closes(int32_t c);
/* Whether a blank stands before a word in the text of its segment: words of scripts without blanks
 * are adjacent. *at: where in the text the word before it ended; 0 at first. */
bool steno_word_is_spaced(const char *text, size_t *at, const char *word);
/* Append [{"word", "start", "end", "probability"}]: the words of a segment as Whisper's programs
 * write them, with the blank that text has before each. times: with start and end. speaker: who
 * says them, the last member of each; "": not known. STENO_ERR_LIMIT, STENO_ERR_NOMEM of the
 * buffer. */
STENO_MUST steno_status steno_words_write(struct steno_buf *out, const char *text,
                                          const struct steno_word *w, size_t n, bool times,
                                          const char *speaker);

#endif
