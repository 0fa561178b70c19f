/* Lists of pieces in base64, as sherpa-onnx and openai-whisper have them: any text becomes pieces
 * that can be looked at, or is refused with a message. */
/* covers: engine/speech/families/whisper/read_tokens.c engine/base/base64.c */
#include <stdlib.h>

#include "speech/families/whisper/weights_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    steno_err err = {0};
    size_t found = 0;
    steno_whisper_weights *w = steno_whisper_weights_new("fuzz", &err);
    if (!w)
        return 0;
    if (!steno_whisper_parse_tokens(w, (const char *)data, n, "fuzz", &err))
        for (int32_t i = 0; i < steno_bpe_count(w->bpe); i++) {
            const struct steno_bpe_piece piece = steno_bpe_piece(w->bpe, i);
            found += piece.n && steno_bpe_find(w->bpe, piece.p, piece.n) >= 0;
        }
    else if (!err.msg[0])
        abort();
    if (found > n)
        abort();
    steno_whisper_weights_close(w);
    return 0;
}
