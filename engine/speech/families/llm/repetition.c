#include "speech/families/llm/repetition.h"

size_t steno_llm_repeated(const struct steno_span *tokens, size_t n)
{
    for (size_t period = 1; period <= STENO_LLM_PERIOD && period < n; period++) {
        size_t same = 0;
        while (same + period < n &&
               tokens[n - 1 - same].token == tokens[n - 1 - same - period].token)
            same++;
        if (same >= period * (STENO_LLM_REPEATS - 1))
            return same;
    }
    return 0;
}
