/* T-one's config.json: read or refused with a message; the blank is last. */
/* covers: engine/speech/families/t_one/vocabulary.c */
#include <stdlib.h>

#include "speech/families/t_one/vocabulary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_tokens *t = NULL;
    steno_err err = {0};
    if (steno_t_one_vocabulary(&t, data, n, "fuzz", &err)) {
        if (!err.msg[0])
            abort();
        return 0;
    }
    if (steno_tokens_count(t) < 1 || steno_tokens_find(t, "<blk>") < 0)
        abort();
    steno_tokens_close(t);
    return 0;
}
