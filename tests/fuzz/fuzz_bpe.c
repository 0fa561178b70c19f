/* Byte-level vocabularies in every form. Any bytes are parsed or refused; decoding an encoded
 * text gives it back. The input is also the text. */
/* covers: engine/speech/text/bpe.c engine/speech/text/bpe_read.c */
#include <stdlib.h>
#include <string.h>

#include "speech/text/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static int32_t ids[4096];
    struct steno_buf out;
    steno_bpe *b = NULL;
    size_t count, text = n < 4096 ? n : 4096;
    if (steno_bpe_parse(&b, data, n, "fuzz", NULL))
        return 0;
    steno_buf_init(&out, 1 << 20);
    if (!steno_bpe_encode(b, (const char *)data, text, ids, 4096, &count, NULL)) {
        if (count > text || steno_bpe_bytes(b, ids, count, &out) || out.len != text ||
            memcmp(out.data ? out.data : "", data, text))
            abort();
        if (steno_bpe_text(b, ids, count, &out))
            abort();
    }
    steno_buf_free(&out);
    steno_bpe_close(b);
    return 0;
}
