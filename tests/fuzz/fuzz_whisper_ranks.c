/* Ranks of the package openai-whisper: any text becomes a vocabulary that is read again, or is
 * refused with a message. */
/* covers: engine/tools/convert/whisper_ranks.c */
#include <stdlib.h>
#include <string.h>

#include "tools/convert/whisper_ranks.h"
#include "speech/text/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct steno_buf b;
    steno_bpe *bpe = NULL;
    steno_err err = {0};
    steno_buf_init(&b, (size_t)1 << 20);
    if (steno_whisper_ranks(&b, data, n, "fuzz", &err)) {
        if (!err.msg[0])
            abort();
    } else if (steno_bpe_parse(&bpe, b.data, b.len, "vocab.json", &err)) {
        /* a piece is longer than they may be, or there is none beside the end of the text */
        if (!err.msg[0])
            abort();
    } else if (steno_bpe_regular(bpe) >= steno_bpe_count(bpe)) {
        abort(); /* without the end of the text */
    }
    steno_bpe_close(bpe);
    steno_buf_free(&b);
    return 0;
}
