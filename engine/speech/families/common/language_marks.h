/* Marks of languages in a vocabulary: "<|en|>". Pure. */
#ifndef STENO_FAMILIES_COMMON_LANGUAGE_MARKS_H
#define STENO_FAMILIES_COMMON_LANGUAGE_MARKS_H

#include <stddef.h>

#include "speech/text/tokens.h"

/* The token of a language's mark; -1: there is none. */
int32_t steno_language_mark(const steno_tokens *tokens, const char *code);
/* The codes of two letters of all languages that have a mark, with blanks between: out [size]. */
void steno_language_marks(const steno_tokens *tokens, char *out, size_t size);

#endif
