/* Moonshine's tokens.txt, plain or in base64: any bytes are parsed or refused with a message. */
/* covers: engine/speech/families/moonshine/vocabulary.c */
#include <stdlib.h>

#include "speech/families/moonshine/vocabulary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_tokens *t = NULL;
    steno_err err = {0};
    if (steno_moonshine_tokens_parse(&t, (const char *)data, n, "fuzz", &err)) {
        if (!err.msg[0])
            abort();
        return 0;
    }
    for (int32_t i = 0; i < steno_tokens_count(t); i++) {
        size_t len;
        if (!steno_tokens_piece(t, i) || !steno_tokens_text(t, i, &len))
            abort();
    }
    steno_tokens_close(t);
    return 0;
}
