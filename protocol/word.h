/* The text of a word of a transcript. Pure. */
#ifndef STENO_PROTOCOL_WORD_H
#define STENO_PROTOCOL_WORD_H

#include <stddef.h>

/* Find the part of a word within its punctuation, [*n] bytes; the whole word if it is punctuation
 * alone. The result points into word. */
const char *steno_word_bare(const char *word, size_t *n);

#endif
