/* tokens.txt: any bytes are parsed or refused; tokens of an accepted file can be read and
 * joined. */
/* covers: engine/speech/text/tokens.c engine/speech/text/words.c */
#include <stdlib.h>

#include "speech/text/words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_tokens *t = NULL;
    struct steno_words w;
    struct steno_span s[64];
    size_t k = 0;
    if (steno_tokens_parse(&t, (const char *)data, n, "fuzz", NULL))
        return 0;
    steno_words_init(&w);
    for (int32_t i = 0; i < steno_tokens_count(t) && k < 64; i++)
        s[k++] = (struct steno_span){.token = i, .first = i, .last = i, .peak = -1};
    if (steno_words_build(&w, t, s, k, k / 2) || w.stable_bytes > w.line.len ||
        steno_tokens_find(t, steno_tokens_piece(t, 0)) != 0)
        abort();
    steno_tokens_set_joining(t);
    if (steno_words_build(&w, t, s, k, k / 2) || w.stable_bytes > w.line.len)
        abort();
    steno_words_free(&w);
    steno_tokens_close(t);
    return 0;
}
