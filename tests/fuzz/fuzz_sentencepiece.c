/* SentencePiece model files: any bytes are parsed or refused; an accepted model decodes to
 * UTF-8. */
/* covers: engine/speech/text/sentencepiece.c */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "speech/text/sentencepiece.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *pieces[64];
    size_t k = 0;
    steno_sentencepiece *s = NULL;
    struct steno_buf b;
    if (steno_sentencepiece_parse(&s, data, n, "fuzz", NULL))
        return 0;
    for (int32_t i = 0; i < steno_sentencepiece_count(s) && k < 64; i++) {
        pieces[k++] = steno_sentencepiece_piece(s, i);
        if (steno_sentencepiece_find(s, pieces[k - 1]) != i)
            abort();
    }
    steno_buf_init(&b, 1 << 20);
    if (steno_sentencepiece_decode(s, pieces, k, &b))
        abort();
    for (size_t at = 0; at < b.len;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t step =
            utf8proc_iterate((utf8proc_uint8_t *)b.data + at, (utf8proc_ssize_t)(b.len - at), &c);
        if (step <= 0)
            abort();
        at += (size_t)step;
    }
    steno_buf_free(&b);
    steno_sentencepiece_close(s);
    return 0;
}
