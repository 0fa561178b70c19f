/* A language model that is at a loss writes the same words again and again until it may write no
 * more. Pure. */
#ifndef STENO_FAMILIES_LLM_REPETITION_H
#define STENO_FAMILIES_LLM_REPETITION_H

#include <stddef.h>

#include "base/span.h"

#define STENO_LLM_PERIOD 20 /* tokens of what is repeated, at most */
#define STENO_LLM_REPEATS 5 /* times in a row, at least */

/* How many tokens at the end of n only repeat those before them: the same STENO_LLM_PERIOD tokens
 * or fewer, STENO_LLM_REPEATS times or more; 0: it does not end so. */
size_t steno_llm_repeated(const struct steno_span *tokens, size_t n);

#endif
